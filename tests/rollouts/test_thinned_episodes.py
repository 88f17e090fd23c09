"""Thinned policies: every k-th state and the terminal one, whatever the schedule."""

from __future__ import annotations

import numpy as np
import pytest
from test_play import coin, network, same
from worlds import Countdown

import pivec
from pivec.errors import UsageError


def slow_thinning(data, limit):
    """The smallest power of two k, from all states of one policy."""
    every = 1
    while True:
        kept = [np.concatenate([states[:-1][::every], states[-1:]]) for states in data.episodes()]
        if sum(map(len, kept)) <= limit:
            return every, np.concatenate(kept)
        every *= 2


@pytest.mark.parametrize("limit", [40, 100, 250, 100_000])
def test_every_kth_state_is_kept_and_the_terminal_one(limit):
    full = pivec.collect(Countdown, {"coin": coin}, episodes=20, actions=True)
    thin = pivec.collect(
        Countdown, {"coin": coin}, episodes=20, actions=True, max_states_per_policy=limit
    )
    every, expected = slow_thinning(full, limit)
    assert np.array_equal(thin.states, expected)
    assert thin.policies[0].metadata.get("kept_every", 1) == every
    assert np.array_equal(thin.returns, full.returns)
    assert len(thin.actions) == thin.n_states - thin.n_episodes
    firsts = full.episode_starts[:-1] - np.arange(full.n_episodes)
    lasts = full.episode_starts[1:] - np.arange(1, full.n_episodes + 1)
    acted = [full.actions[a:b][::every] for a, b in zip(firsts, lasts, strict=True)]
    assert np.array_equal(thin.actions, np.concatenate(acted))


def test_the_schedule_does_not_matter(rng):
    policies = {"a": network(rng, 3, 1, "gaussian"), "b": network(rng, 3, 1, "gaussian")}
    options = {"episodes": 5, "max_states_per_policy": 123, "actions": True}
    runs = [
        pivec.collect("Pendulum-v1", policies, n_envs=n, jobs=jobs, **options)
        for n, jobs in ((1, 1), (3, 1), (64, 1), (2, 2))
    ]
    for run in runs[1:]:
        assert same(runs[0], run)
        assert np.array_equal(runs[0].actions, run.actions)
    assert np.diff(runs[0].state_starts).max() <= 123
    assert runs[0].policies[0].metadata["kept_every"] == 16


def test_too_few_states_are_refused(tmp_path):
    with pytest.raises(UsageError, match="max_states_per_policy is 9"):
        pivec.collect(Countdown, {"coin": coin}, episodes=5, max_states_per_policy=9)


def test_a_store_remembers_the_limit(tmp_path):
    pivec.collect(Countdown, {"a": coin}, episodes=5, store=tmp_path, max_states_per_policy=20)
    assert pivec.load(tmp_path).n_states <= 20
    with pytest.raises(UsageError, match="max_states_per_policy = 20"):
        pivec.collect(Countdown, {"a": coin}, episodes=5, store=tmp_path)
