"""EnvPool: exact quotas, repeatable episodes, and states like Gymnasium's where that is said."""

from __future__ import annotations

import importlib
import json
import sys
from importlib.machinery import ModuleSpec
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import gymnasium as gym
import numpy as np
import pytest
from worlds import coin, network, same

import pivec
from pivec.errors import MissingExtra, UsageError
from pivec.rollouts import Environment, Layout, choose_backend, make_lanes


@pytest.fixture(scope="module")
def envpool():
    pytest.importorskip("Box2D")  # first: see _import_envpool
    return pytest.importorskip("envpool")


def lander(rng):
    return network(rng, 8, 4)


class FakePool:
    """Gymnasium's environments with the interface of EnvPool, in any order."""

    def __init__(self, task, num_envs, env_seed, num_threads):
        self.envs = [gym.make(task) for _ in range(num_envs)]
        self.first = [
            env.reset(seed=seed)[0] for env, seed in zip(self.envs, env_seed, strict=True)
        ]

    def reset(self, ids=None):
        return np.array(self.first if ids is None else [self.envs[i].reset()[0] for i in ids]), {}

    def send(self, actions, ids):
        self.steps = [(self.envs[i].step(a), i) for a, i in zip(actions, ids, strict=True)][::-1]

    def recv(self):
        columns = zip(*(outcome[:4] for outcome, _ in self.steps), strict=True)
        return *map(np.array, columns), {"env_id": np.array([i for _, i in self.steps])}

    def close(self):
        pass


def test_episodes_of_a_pool_are_those_of_its_environments(monkeypatch):
    module = ModuleType("envpool")
    module.__spec__ = ModuleSpec("envpool", None)
    module.make_gymnasium, module.list_all_envs = FakePool, lambda: ["CartPole-v1"]
    monkeypatch.setitem(sys.modules, "envpool", module)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    options = {"backend": "envpool", "episodes": 40, "actions": True}
    data = pivec.collect("CartPole-v1", {"coin": coin, "random": "random"}, n_envs=32, **options)
    assert same(data["coin"], pivec.collect("CartPole-v1", {"coin": coin}, **options))
    episodes, env = list(data["coin"].episodes()), gym.make("CartPole-v1")
    assert np.array_equal(env.reset(seed=int(data["coin"].seeds[3]))[0], episodes[3][0])
    starts = data["coin"].episode_starts - np.arange(41)
    for number in (3, 35):  # the first two of one lane
        moves = data["coin"].actions[starts[number] : starts[number + 1]]
        rows = [env.step(int(move))[0] for move in moves]
        assert np.array_equal(rows, episodes[number][1:])
        assert number == 35 or np.array_equal(env.reset()[0], episodes[35][0])


@pytest.mark.usefixtures("envpool")
def test_the_result_depends_on_neither_schedule_nor_company(rng):
    policies = {f"p{i}": lander(rng) for i in range(4)}
    options = {"episodes": 40, "backend": "envpool", "actions": True, "max_steps": 30}
    runs = [
        pivec.collect("LunarLander-v3", policies, n_envs=n, jobs=jobs, **options)
        for n, jobs in ((1, 1), (80, 1), (4096, 1), (64, 2))
    ]
    for run in runs[1:]:
        assert same(runs[0], run)
        assert np.array_equal(runs[0].actions, run.actions)
    alone = pivec.collect("LunarLander-v3", {"p3": policies["p3"]}, **options)
    assert same(alone, runs[0]["p3"])
    fewer = pivec.collect("LunarLander-v3", {"p3": policies["p3"]}, **(options | {"episodes": 33}))
    assert np.array_equal(fewer.states, alone.states[: fewer.n_states])


@pytest.mark.usefixtures("envpool")
def test_a_store_grows(tmp_path, rng):
    policies = {"a": lander(rng), "b": lander(rng)}
    options = {"backend": "envpool", "actions": True, "max_steps": 30}
    for episodes in (20, 40):
        data = pivec.collect("LunarLander-v3", policies, episodes, store=tmp_path, **options)
        once = pivec.collect("LunarLander-v3", policies, episodes, **options)
        assert same(data, once)
        assert np.array_equal(data.actions, once.actions)


@pytest.mark.usefixtures("envpool")
def test_quotas_are_exact_and_episodes_differ(rng):
    data = pivec.collect("LunarLander-v3", {"a": lander(rng)}, episodes=70, backend="envpool")
    assert data.n_episodes == 70
    assert len({states.tobytes() for states in data.episodes()}) == 70
    assert len(set(data.seeds.tolist())) == 32  # one for each lane
    assert (data.terminated | data.truncated).all()
    other = pivec.collect("LunarLander-v3", {"b": lander(rng)}, episodes=2, backend="envpool")
    assert not set(other.seeds) & set(data.seeds)


@pytest.mark.usefixtures("envpool")
def test_episodes_are_those_of_cartpole(rng):
    """Terminal states are there, first ones are first, and nothing of a reset is in between."""
    data = pivec.collect("CartPole-v1", {"a": network(rng)}, episodes=50, backend="envpool",
                         actions=True)  # fmt: skip
    assert np.array_equal(data.returns, data.lengths - 1)
    for states in data.episodes():
        assert np.abs(states[0]).max() <= 0.05
        assert (np.abs(states[:-1, 0]) <= 2.4).all()
        assert (np.abs(states[:-1, 2]) <= 0.2095).all()
        assert abs(states[-1, 2]) > 0.2094 or abs(states[-1, 0]) > 2.4 or len(states) == 501
    env = make_lanes(Environment("CartPole-v1"), "gymnasium", Layout(1, 1))
    states, moves = next(data.episodes()), data.actions
    env._env.state[:, 0] = states[0]
    for step, state in enumerate(states[1:]):
        env.step(np.array([0]), moves[step : step + 1])
        assert np.allclose(env.observations[0], state, atol=1e-4)


@pytest.mark.usefixtures("envpool")
def test_spaces_are_gymnasiums(rng):
    lanes = make_lanes(Environment("LunarLander-v3"), "envpool", Layout(1, 2))
    assert lanes.observation_space == Environment("LunarLander-v3").make().observation_space
    lanes.close()


@pytest.mark.usefixtures("envpool")
def test_a_store_is_never_mixed(tmp_path, rng):
    policies = {"a": network(rng)}
    pivec.collect("CartPole-v1", policies, episodes=2, store=tmp_path, backend="envpool")
    assert pivec.Store(tmp_path).settings["backend"] == "envpool"
    with pytest.raises(UsageError, match="backend = 'envpool'"):
        pivec.collect("CartPole-v1", policies, episodes=2, store=tmp_path, backend="gymnasium")
    again = pivec.collect("CartPole-v1", policies, episodes=2, store=tmp_path)
    assert same(again, pivec.load(tmp_path))


def test_only_approved_environments_are_chosen_by_themselves(monkeypatch, envpool):
    monkeypatch.setattr(
        "pivec.rollouts.lanes.approved", lambda: {"BipedalWalker-v3", "CartPole-v1"}
    )
    assert choose_backend("auto", Environment("BipedalWalker-v3")) == "envpool"
    for environment in (
        Environment("Pendulum-v1"),
        Environment("CartPole-v1"),  # has lanes of its own, which are Gymnasium's to the bit
        Environment("MountainCar-v0"),
        Environment("BipedalWalker-v3", {"hardcore": True}),
        Environment("BipedalWalker-v3", wrappers=("gymnasium.wrappers:FlattenObservation",)),
    ):
        assert choose_backend("auto", environment) == "gymnasium"
    assert choose_backend("gymnasium", Environment("BipedalWalker-v3")) == "gymnasium"


def test_without_envpool(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert choose_backend("auto", Environment("BipedalWalker-v3")) == "gymnasium"
    with pytest.raises(MissingExtra, match=r"pivec\[fast\]"):
        choose_backend("envpool", Environment("BipedalWalker-v3"))


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (Environment("CartPole-v7"), "did you mean CartPole"),
        (Environment("CartPole-v1", {"sutton_barto_reward": True}), "--backend gymnasium"),
    ],
)
@pytest.mark.usefixtures("envpool")
def test_what_envpool_cannot_make_is_named(environment, words):
    with pytest.raises(UsageError, match=words):
        choose_backend("envpool", environment)


def test_an_unknown_backend():
    with pytest.raises(UsageError, match="isaac"):
        pivec.collect("CartPole-v1", {"coin": coin}, backend="isaac")


def test_the_table_of_approved_environments_says_what_was_found():
    table = json.loads((files("pivec.rollouts") / "backends.json").read_text())["environments"]
    for name in ("Pendulum-v1", "LunarLander-v3"):
        assert not table[name]["same"]
    for entry in table.values():
        assert entry["same"] == (entry["p"] > 0.01 and not entry["differing_transitions"])
        assert entry["episodes"] * entry["policies"] >= 200


BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def compare(monkeypatch, envpool):
    if not BENCHMARKS.exists():
        pytest.skip("the benchmarks are not here")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("backends").compare
    for name in ("backends", "measure", "trained"):
        sys.modules.pop(name, None)


def pilot(observations):
    """Land: the heuristic that Gymnasium ships, on a batch."""
    x, y, vx, vy, angle, spin, left, right = observations.T
    tilt = (np.clip(0.5 * x + vx, -0.4, 0.4) - angle) * 0.5 - spin
    lift = (0.55 * np.abs(x) - y) * 0.5 - vy * 0.5
    down = (left > 0) | (right > 0)
    tilt, lift = np.where(down, 0, tilt), np.where(down, -0.5 * vy, lift)
    turn = np.where(tilt < -0.05, 3, np.where(tilt > 0.05, 1, 0))
    return np.where((lift > np.abs(tilt)) & (lift > 0.05), 2, turn)


def resting(data):
    """Heights of landers that stand still on the pad."""
    states = data.states
    still = (states[:, 6:] > 0).all(axis=1) & (np.abs(states[:, 3]) < 1e-3)
    return states[still & (np.abs(states[:, 0]) < 0.1), 1]


def both(env, policy, episodes, **options):
    return [
        pivec.collect(env, policy, episodes, backend=backend, seed=seed, **options)
        for seed, backend in enumerate(("gymnasium", "envpool"))
    ]


def test_cartpole_under_a_trained_policy(compare):
    shelf = sorted((files("pivec") / "demo_policies/CartPole-v1").rglob("*.safetensors"))
    found, p = compare(*both("CartPole-v1", [str(shelf[-1]), str(shelf[0])], 50), deals=300)
    assert p > 0.01
    assert len(found) == 4 * 3 + 2


def test_the_comparison_finds_what_is_different(compare):
    one = pivec.collect("CartPole-v1", "random", 50)
    names = one.feature_names
    other = pivec.collect(
        "CartPole-v1", "random", 50, features=lambda o: o + 0.05, feature_names=names
    )
    _, p = compare(one, other, deals=300)
    assert p < 0.01


def test_landers_rest_higher_in_envpool_and_the_comparison_finds_it(compare):
    slow, fast = both("LunarLander-v3", {"pilot": pilot}, 30)
    assert np.median(resting(fast)) - np.median(resting(slow)) == pytest.approx(0.005, abs=0.001)
    found, p = compare(slow, fast, deals=300)
    assert found["x[1] terminal"][1] < 0.01
    assert p < 0.01
