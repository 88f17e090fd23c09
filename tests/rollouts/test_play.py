"""Every policy plays exactly its episodes; an episode depends on (seed, policy, episode) alone."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from worlds import Broken, Composite, Countdown, coin, network, same

import pivec
from pivec.errors import BadData, EnvironmentFailure, PivecError, UsageError
from pivec.policies import RecurrentPolicy, as_policy
from pivec.rollouts import kept_lengths, kept_rows, row_times
from pivec.states import moves_of


def test_short_episodes_are_not_preferred():
    """All episodes that the seeds ask for are played, so lengths keep their distribution."""
    data = pivec.collect(Countdown, {"coin": coin}, episodes=200, n_envs=16)
    expected = []
    for seed in data.seeds:
        env = Countdown()
        env.reset(seed=int(seed))
        expected.append(env.length + 1)
    assert data.n_episodes == 200
    assert data.lengths.tolist() == expected


def test_an_episode_holds_first_later_and_terminal_states():
    data = pivec.collect(Countdown, {"coin": coin}, episodes=5, actions=True)
    for states, terminated in zip(data.episodes(), data.terminated, strict=True):
        assert states[:, 0].tolist() == list(range(int(states[0, 1]) + 1))
        assert terminated
    assert len(data.actions) == data.n_states - data.n_episodes
    assert data.returns.sum() == data.actions.sum()


@pytest.mark.bits
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "BipedalWalker-v3", Countdown])
def test_the_result_does_not_depend_on_environments_side_by_side(env, rng):
    if env == "CartPole-v1":
        policies = {"a": network(rng), "b": network(rng), "random": "random", "coin": coin}
    elif env == "Pendulum-v1":
        policies = {"a": network(rng, 3, 1, "gaussian"), "random": "random"}
    elif env == "BipedalWalker-v3":
        pytest.importorskip("Box2D")
        policies = {"a": network(rng, 24, 4, "gaussian"), "b": network(rng, 24, 4, "gaussian")}
    else:
        policies = {"a": network(rng, 2), "coin": coin}
    runs = [pivec.collect(env, policies, episodes=5, n_envs=n, max_steps=200) for n in (1, 7, 64)]
    assert same(runs[0], runs[1])
    assert same(runs[0], runs[2])


@pytest.mark.bits
def test_other_policies_and_more_episodes_change_nothing(rng):
    a, b = network(rng), network(rng)
    alone = pivec.collect("CartPole-v1", {"a": a}, episodes=3)
    crowd = pivec.collect("CartPole-v1", {"b": b, "a": a}, episodes=7)
    first = crowd["a"]
    assert np.array_equal(first.seeds[:3], alone.seeds)
    assert np.array_equal(first.states[: alone.n_states], alone.states)


def test_another_seed_gives_other_episodes(rng):
    a = network(rng)
    one, two = (pivec.collect("CartPole-v1", {"a": a}, episodes=3, seed=s) for s in (0, 1))
    assert not set(one.seeds) & set(two.seeds)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1"])
def test_states_are_those_of_the_plain_environment(env_id):
    """Replaying the kept actions from the kept seeds gives the kept states, bit for bit."""
    data = pivec.collect(env_id, "random", episodes=3, actions=True)
    env = gym.make(env_id)
    moves = iter(data.actions)
    for states, seed, total in zip(data.episodes(), data.seeds, data.returns, strict=True):
        observation, _ = env.reset(seed=int(seed))
        rows, returned = [observation], 0.0
        for _ in range(len(states) - 1):
            observation, reward, terminated, truncated, _ = env.step(next(moves))
            rows.append(observation)
            returned += reward
        assert np.array_equal(np.array(rows, dtype=np.float32), states)
        assert returned == pytest.approx(total)
        assert terminated or truncated


def test_long_episodes_cross_pages():
    """Episodes longer than the record of the loop come out whole."""
    data = pivec.collect("Pendulum-v1", {"still": lambda o: np.zeros((len(o), 1))}, episodes=2)
    assert data.lengths.tolist() == [201, 201]
    assert data.truncated.all()
    assert np.abs(np.diff(data.policy_states(0)[:201, 2])).max() < 5


def test_a_policy_may_change_what_it_is_shown():
    """States are what the environment shows, whatever a policy makes of them in place."""

    def still(observations, change=0.0):
        observations += change
        return np.zeros((len(observations), 1))

    policies = {"still": still, "changes": lambda o: still(o, 100.0)}
    data = pivec.collect("Pendulum-v1", policies, episodes=2, max_steps=5)
    assert np.abs(data.states).max() <= 8


def test_max_steps_cuts_episodes():
    data = pivec.collect("Pendulum-v1", "random", episodes=2, max_steps=150)
    assert data.lengths.tolist() == [151, 151]
    assert data.truncated.all()


def test_composite_observations_are_flattened_as_gymnasium_does():
    data = pivec.collect(Composite, "random", episodes=2)
    env = Composite()
    observation, _ = env.reset(seed=int(data.seeds[0]))
    expected = gym.spaces.flatten(env.observation_space, observation)
    assert np.allclose(data.states[0], expected)
    assert data.feature_names[:3] == ("flags[0]", "flags[1]", "mode=1")
    assert len(data.feature_names) == data.n_features == len(expected)


def test_features_replace_the_observation():
    data = pivec.collect(
        Composite,
        "random",
        episodes=2,
        features=lambda o: o["where"].reshape(len(o["where"]), -1)[:, :2],
    )
    assert data.n_features == 2
    assert data.states.min() >= 0


def test_deterministic_policies_repeat_themselves(rng):
    policy = network(rng)
    data = pivec.collect("CartPole-v1", {"a": policy}, episodes=4, deterministic=True, actions=True)
    states, moves = data.states, data.actions
    firsts = np.concatenate([np.arange(*data.episode_starts[e : e + 2])[:-1] for e in range(4)])
    assert np.array_equal(policy.respond(states[firsts], None), moves)


def test_an_environment_that_raises_is_named_with_policy_and_seed():
    with pytest.raises(EnvironmentFailure, match=r"coin, episode \d+ \(seed \d+\).*motor fell off"):
        pivec.collect(Broken, {"coin": coin}, episodes=20)


def test_nan_observations_are_named():
    with pytest.raises(BadData, match=r"coin: .*step 5 .* nan in feature 1"):
        pivec.collect(lambda: Broken("nan"), {"coin": coin}, episodes=20)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda o: np.zeros((len(o), 3)), "shape"),
        (lambda o: np.full(len(o), 7), "not one of"),
        (lambda o: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_policy_that_answers_wrongly_is_named(policy, message):
    with pytest.raises(pivec.PivecError, match=f"mine.*{message}"):
        pivec.collect("CartPole-v1", {"mine": policy}, episodes=1)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("CartPole-v9", "CartPole"),
        ("Cartpole-v1", "did you mean CartPole-v1"),
        ("no_such_module:Env-v0", "no_such_module"),
    ],
)
def test_unknown_environments_are_a_usage_mistake(env, message):
    with pytest.raises(UsageError, match=message):
        pivec.collect(env, "random")


def test_wrong_arguments_of_an_environment():
    with pytest.raises(UsageError, match=r"Pendulum-v1.*colour"):
        pivec.collect("Pendulum-v1", "random", env_kwargs={"colour": "red"})


def test_a_network_of_another_environment_is_refused(rng):
    with pytest.raises(UsageError, match="acro"):
        pivec.collect("Acrobot-v1", {"acro": network(rng)}, episodes=1)


def test_a_function_sees_composite_observations():
    def still(observations):
        return np.zeros((len(observations["mode"]), 2), np.float32)

    assert pivec.collect(Composite, {"still": still}, episodes=2).returns.tolist() == [0.0, 0.0]


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
    with pytest.raises(PivecError, match="memory"):
        pivec.collect(Countdown, {"keeps": lambda observations, memory: [0]}, episodes=1)
    with pytest.raises(UsageError, match="counts"):
        as_policy(counts).act(np.zeros((2, 2)), np.random.default_rng(0))
    with pytest.raises(UsageError, match="memory"):
        Counts().act(np.zeros((2, 2)), np.random.default_rng(0))


def test_a_state_that_comes_first_is_the_observation():
    def policy(state, rng):
        return rng.integers(2, size=len(state))

    assert as_policy(policy).memory == ""
    assert as_policy(policy).rng == "keyword"


def slow_times(n_states, every):
    """The times of the states that are kept of an episode."""
    last = n_states - 1
    if every == 1 or last == 0:
        return list(range(n_states))
    pairs = [t for t in range(0, last, 2 * every) if t + 1 < last - 1] + [last - 1]
    return [time for t in pairs for time in (t, t + 1)]


def slow_thinning(data, limit):
    """The smallest power of two k, and the times of what is kept, from all states of a policy."""
    every = 1
    while True:
        kept = [slow_times(length, every) for length in data.lengths]
        if sum(map(len, kept)) <= limit:
            return every, kept
        every *= 2


@pytest.mark.parametrize("every", [2, 4, 16])
def test_pairs_are_kept_at_regular_times(every):
    for n_states in [*range(1, 70), 200]:
        times = slow_times(n_states, every)
        assert kept_rows(n_states, every).tolist() == times
        assert kept_lengths([n_states, n_states], every).tolist() == [len(times)] * 2
        found = row_times(np.arange(len(times)), len(times), n_states - 1, every)
        assert found.tolist() == times
        half = np.array(slow_times(n_states, every // 2))
        assert half[kept_rows(len(half), 2)].tolist() == times  # in steps, or at once
        assert kept_lengths(len(half), 2) == len(times)


@pytest.mark.parametrize("limit", [80, 100, 250, 100_000])
def test_pairs_of_successive_states_are_kept_and_the_last_one(limit):
    full = pivec.collect(Countdown, {"coin": coin}, episodes=20, actions=True)
    thin = pivec.collect(
        Countdown, {"coin": coin}, episodes=20, actions=True, max_states_per_policy=limit
    )
    every, times = slow_thinning(full, limit)
    for found, states, kept in zip(thin.episodes(), full.episodes(), times, strict=True):
        assert np.array_equal(found, states[kept])
    assert thin.records[0].times.tolist() == [time for kept in times for time in kept]
    assert np.array_equal(thin.episode_steps, full.lengths - 1)
    assert thin.policies[0].metadata.get("kept_every", 1) == every
    assert np.array_equal(thin.returns, full.returns)
    assert len(thin.actions) == thin.n_states - thin.n_episodes
    firsts = full.episode_starts[:-1] - np.arange(full.n_episodes)
    acted = [
        full.actions[first + np.array(kept[:-1])] for first, kept in zip(firsts, times, strict=True)
    ]
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
    # Steps of the thinned episodes are steps of the environment.
    whole = moves_of(pivec.collect("Pendulum-v1", policies, episodes=5))
    moves = {move.tobytes() for move in whole.states}
    assert all(move.tobytes() in moves for move in moves_of(runs[0]).states)
    # The last two states of an episode are kept, but no move at a regular time.
    assert 2 * (moves_of(runs[0]).n_states + 10) == runs[0].n_states


def test_too_few_states_are_refused(tmp_path):
    with pytest.raises(UsageError, match="max_states_per_policy is 9"):
        pivec.collect(Countdown, {"coin": coin}, episodes=5, max_states_per_policy=9)


def test_a_store_remembers_the_limit(tmp_path):
    pivec.collect(Countdown, {"a": coin}, episodes=5, store=tmp_path, max_states_per_policy=20)
    assert pivec.load(tmp_path).n_states <= 20
    with pytest.raises(UsageError, match="max_states_per_policy = 20"):
        pivec.collect(Countdown, {"a": coin}, episodes=5, store=tmp_path)
