"""Wrappers record what a loop sees, and the loop does not notice."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import pivec
from pivec.integrations.gymnasium import RecordStates, RecordVectorStates


def loop(env, episodes, rng):
    """Play at random; return what was seen, an array an episode."""
    seen = []
    for number in range(episodes):
        observation, _ = env.reset(seed=number)
        rows, over = [observation], False
        while not over:
            observation, _, terminated, truncated, _ = env.step(int(rng.integers(2)))
            rows.append(observation)
            over = terminated or truncated
        seen.append(np.array(rows))
    return seen


def test_what_is_recorded_is_what_the_loop_saw(tmp_path):
    env = RecordStates(
        gymnasium.make("CartPole-v1"), tmp_path, policy="a", group="g", step=3, actions=True
    )
    seen = loop(env, 4, np.random.default_rng(0))
    env.close()
    plain = loop(gymnasium.make("CartPole-v1"), 4, np.random.default_rng(0))
    assert all(np.array_equal(a, b) for a, b in zip(seen, plain, strict=True))
    data = pivec.load(tmp_path)
    assert all(np.array_equal(a, b) for a, b in zip(data.episodes(), seen, strict=True))
    assert data.returns.tolist() == [len(rows) - 1 for rows in seen]
    assert data.seeds.tolist() == [0, 1, 2, 3]
    assert data.terminated.all()
    assert len(data.actions) == data.n_states - 4
    [info] = data.policies
    assert (info.label, info.group, info.step) == ("a", "g", 3)


def test_composite_observations_are_flattened_as_collect_does(tmp_path):
    class Both(gymnasium.ObservationWrapper):
        def __init__(self, env):
            super().__init__(env)
            self.observation_space = gymnasium.spaces.Dict(
                {"place": env.observation_space, "kind": gymnasium.spaces.Discrete(3)}
            )

        def observation(self, observation):
            return {"place": observation, "kind": 2}

    env = RecordStates(Both(gymnasium.make("CartPole-v1")), tmp_path)
    env.reset(seed=0)
    env.step(0)
    env.close()
    data = pivec.load(tmp_path)
    assert data.feature_names[:3] == ("kind=0", "kind=1", "kind=2")
    assert np.array_equal(data.states[:, :3], [[0, 0, 1]] * 2)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_all_ways_to_reset_give_the_same_episodes(tmp_path, mode):
    env = gymnasium.make_vec(
        "CartPole-v1", 3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )
    diaries = [[] for _ in range(3)]  # what each environment showed by itself
    for lane, inner in enumerate(env.envs):
        _keep_diary(inner, diaries[lane])
    env = RecordVectorStates(env, tmp_path)
    rng = np.random.default_rng(0)
    env.reset(seed=5)
    for _ in range(120):
        _, _, terminated, truncated, _ = env.step(rng.integers(2, size=3))
        over = terminated | truncated
        if mode == AutoresetMode.DISABLED and over.any():
            env.reset(options={"reset_mask": over})
    env.close()
    data = pivec.load(tmp_path)
    wanted = [np.array(rows) for diary in diaries for rows, over in diary if over]
    got = list(data.episodes())
    assert len(got) == len(wanted) > 6
    key = lambda rows: rows.tobytes()  # noqa: E731
    assert sorted(map(key, got)) == sorted(map(key, wanted))
    assert sorted(data.seeds.tolist())[-3:] == [5, 6, 7]


def _keep_diary(env, diary):
    reset, step = env.reset, env.step

    def reset_and_note(**arguments):
        result = reset(**arguments)
        diary.append([[result[0]], False])
        return result

    def step_and_note(action):
        result = step(action)
        diary[-1][0].append(result[0])
        diary[-1][1] = result[2] or result[3]
        return result

    env.reset, env.step = reset_and_note, step_and_note


def test_a_policy_changes_while_environments_run(tmp_path):
    env = RecordVectorStates(gymnasium.make_vec("CartPole-v1", 4), tmp_path, policy="left")
    env.reset(seed=0)
    for _ in range(30):
        env.step(np.zeros(4, dtype=int))
    env.set_policy("right", step=1)
    for _ in range(30):
        env.step(np.ones(4, dtype=int))
    env.close()
    data = pivec.load(tmp_path)
    assert data.labels == ("left", "right")
    assert data["right"].steps == (1,)
    # Pushed to the left, the pole falls to the right.
    last = {label: data[label].states[data[label].episode_starts[1:] - 1] for label in data.labels}
    assert last["left"][:3, 2].min() > 0
    assert last["right"][:, 2].max() < 0


def test_environments_without_an_id_have_the_name_of_their_class(tmp_path):
    from gymnasium.envs.classic_control import CartPoleEnv

    env = RecordStates(CartPoleEnv(), tmp_path, cut_after=4)
    env.reset(seed=0)
    for action in (0, 1, 0, 1, 0):
        env.step(action)
    env.close()
    data = pivec.load(tmp_path)
    assert data.environment == "CartPoleEnv"
    assert data.lengths.tolist() == [5, 2]
