"""A policy's memory begins with the episode and belongs to its lane alone, in every form."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import Composite, Countdown

import pivec
from pivec.errors import PivecError, UsageError
from pivec.policies import RecurrentPolicy, as_policy


class Counts(RecurrentPolicy):
    """Acts at every third observation of an episode."""

    architecture = "counts"

    def noise(self, rng, n):
        return np.zeros((n, 0), np.float32)

    def initial_memory(self, n):
        return np.ones((n, 1), np.float32)

    def respond(self, observations, noise, memory):
        return (memory[:, 0] % 3 == 0).astype(int), memory + 1


def counts(observations, rng, memory):
    time = 1 if memory is None else memory["time"]
    return np.full(len(observations), int(time % 3 == 0)), {"time": time + 1}


class Predicts:
    """As a recurrent model of Stable-Baselines3."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        assert episode_start.tolist() == [state is None]
        time = (np.zeros(1) if state is None else state[0]) + 1
        return (time % 3 == 0).astype(int), (time,)


@pytest.mark.parametrize("policy", [Counts(), counts, Predicts()], ids=["batch", "act", "predict"])
@pytest.mark.parametrize("n_envs", [1, 4, 40])
def test_memory_begins_with_the_episode(policy, n_envs):
    data = pivec.collect(Countdown, {"counts": policy}, episodes=20, n_envs=n_envs, actions=True)
    lengths = data.lengths - 1
    expected = [float(time % 3 == 2) for n in lengths for time in range(n)]
    assert data.actions.ravel().tolist() == expected
    assert len(set(lengths.tolist())) > 5


def test_composite_observations_come_as_flat_rows_to_batches_and_whole_to_functions():
    seen = []

    class Flat(Counts):
        def respond(self, observations, noise, memory):
            seen.append(observations.shape[1:])
            return np.zeros((len(observations), 2), np.float32), memory + 1

    def whole(observations, memory=None):
        seen.append(sorted(observations))
        return np.zeros((1, 2), np.float32), 1

    pivec.collect(Composite, {"flat": Flat(), "whole": whole}, episodes=1)
    assert seen[0] == (15,)
    assert seen[-1] == ["flags", "mode", "pair", "where"]


def test_mistakes_are_told():
    class Grows(Counts):
        def respond(self, observations, noise, memory):
            return np.zeros(len(observations), int), np.zeros((len(observations), 2))

    with pytest.raises(PivecError, match=r"\(1, 2\).*\(1, 1\)"):
        pivec.collect(Countdown, {"grows": Grows()}, episodes=1)
    with pytest.raises(PivecError, match="takes a memory, but gives none: return actions, memory"):
        pivec.collect(Countdown, {"keeps": lambda observations, memory: [0]}, episodes=1)
    with pytest.raises(UsageError, match="counts has a memory"):
        as_policy(counts).act(np.zeros((2, 2)), np.random.default_rng(0))
    with pytest.raises(UsageError, match="this policy has a memory"):
        Counts().act(np.zeros((2, 2)), np.random.default_rng(0))


def test_a_state_that_comes_first_is_the_observation():
    def policy(state, rng):
        return rng.integers(2, size=len(state))

    assert as_policy(policy).memory == ""
    assert as_policy(policy).rng == "keyword"
