"""Policies with environments of their own: ``POLICY@ENV`` and (policy, environment)."""

from __future__ import annotations

import shutil
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import pivec
from pivec.cli.options import env_and_policies
from pivec.errors import PivecWarning, UsageError
from pivec.explanations import CannotReplay, Replayer
from pivec.policies import (
    NetworkPolicy,
    PolicyInfo,
    group_names,
    load_policies,
    named_together,
    save_policy,
    split_environment,
)
from pivec.states import Store
from pivec.states.export import export

DEMO = Path(pivec.__file__).parent / "demo_policies" / "Pendulum-v1"
FILE = sorted(DEMO.glob("ppo-0/*.safetensors"))[-1]
GRAVITIES = {"push": 10.0, "push@g=5": 5, "push@g=20": 20}


def push(observations):
    return -observations[:, 2:3]


def pushed(**options):
    return pivec.collect(
        "Pendulum-v1", [push, (push, "g=5"), (push, "Pendulum-v1,g=20")], 2, max_steps=40, **options
    )


def states_of(data):
    return {label: np.array(data[label].states) for label in data.labels}


def assert_same_states(data, other):
    assert set(data.labels) == set(other.labels)
    for label in data.labels:
        np.testing.assert_array_equal(data[label].states, other[label].states)


def test_every_policy_acts_in_its_own_environment():
    data = pushed()
    assert data.labels == tuple(GRAVITIES)
    for label, gravity in GRAVITIES.items():
        env = gymnasium.make("Pendulum-v1", g=gravity)
        for seed, episode in zip(data[label].seeds, data[label].episodes(), strict=True):
            states = [env.reset(seed=int(seed))[0]]
            for _ in range(40):
                states.append(env.step(push(states[-1][None])[0])[0])
            np.testing.assert_array_equal(episode, np.stack(states))
    assert len(set(data.seeds)) == data.n_episodes


def test_results_depend_neither_on_the_order_nor_on_other_policies():
    data = pushed()
    ways = [(push, "Pendulum-v1,g=20"), push, (push, 'Pendulum-v1{"g": 5}')]
    assert_same_states(data, pivec.collect("Pendulum-v1", ways, 2, max_steps=40))
    alone = pivec.collect(None, [(push, "Pendulum-v1,g=5")], 2, max_steps=40)
    assert alone.labels == ("push@Pendulum-v1",)
    np.testing.assert_array_equal(alone.states, data["push@g=5"].states)
    with_arguments = pivec.collect(
        "Pendulum-v1", [(push, "g=20")], 2, max_steps=40, env_kwargs={"g": 5}
    )
    np.testing.assert_array_equal(with_arguments.states, data["push@g=20"].states)
    both = [(push, "Pendulum-v1,g=5"), (push, "Pendulum-v1,g=20")]
    one, other = (pivec.collect(None, p, 2, max_steps=40) for p in (both, both[::-1]))
    assert one.environment == other.environment
    assert_same_states(one, other)


def test_a_store_keeps_environments_apart_and_grows(tmp_path):
    first = pivec.collect("Pendulum-v1", [push], 2, max_steps=40, store=tmp_path)
    before = {path.name for path in tmp_path.glob("*.arrow")}
    data = pushed(store=tmp_path)
    assert before < {path.name for path in tmp_path.glob("*.arrow")}
    assert_same_states(data, pushed())
    np.testing.assert_array_equal(first.states, data["push"].states)
    known, store = states_of(data), Store(tmp_path)
    own = {info.label: info.own_environment.get("arguments") for info in store.policies}
    assert own == {"push": None, "push@g=5": {"g": 5}, "push@g=20": {"g": 20}}
    more = pivec.collect(
        "Pendulum-v1", [(push, "g=5"), (push, "g=20")], 3, max_steps=40, store=tmp_path
    )
    for label in more.labels:
        np.testing.assert_array_equal(more[label].states[:82], known[label])
    with pytest.raises(UsageError, match="several"):
        export(tmp_path, "minari:push/both-v0")
    # A label that stood for another environment never stands for its states.
    for gravity in (5, 20):
        named = {"mine": (push, f"g={gravity}")}
        mine = pivec.collect("Pendulum-v1", named, 2, max_steps=40, store=tmp_path)
        fresh = pivec.collect("Pendulum-v1", named, 2, max_steps=40)
        np.testing.assert_array_equal(mine["mine"].states, fresh["mine"].states)


def test_files_and_runs_are_told_apart(tmp_path):
    run = tmp_path / "run@2"
    run.mkdir()
    file = str(shutil.copy(FILE, run / "step_7.safetensors"))
    assert split_environment(file) == (file, None)
    assert split_environment(f"{run}/*.safetensors") == (f"{run}/*.safetensors", None)
    assert split_environment(f"{file}@Pendulum-v1,g=5") == (file, "Pendulum-v1,g=5")
    assert split_environment("mine:make@a:b") == ("mine:make", "a:b")
    assert split_environment(f"{run}/none.zip@Pendulum-v1") == (f"{run}/none.zip@Pendulum-v1", None)
    assert env_and_policies([f"{file}@g=5", file]) == (None, [f"{file}@g=5", file])
    data = pivec.collect("Pendulum-v1", [file, f"{run}@g=5", f"{run}/*@g=20"], 1, max_steps=5)
    assert [info.group for info in data.policies] == ["run@2", "run@2@g=5", "run@2@g=20"]
    assert data.labels == ("run@2/step_7", "run@2/step_7@g=5", "run@2/step_7@g=20")
    assert len({info.fingerprint for info in data.policies}) == 3
    assert {info.policy_fingerprint for info in data.policies} == {data.policies[0].fingerprint}


def test_names_given_together_keep_environments_apart(tmp_path):
    file = str(shutil.copy(FILE, tmp_path / "step_7.safetensors"))
    own = {"runs_in": {"environment": "Pendulum-v1"}}
    infos = [
        PolicyInfo(f"p@{g}", "p", 7, file, own if g else {}, fingerprint=f"{g}") for g in range(3)
    ]
    assert {info.label for info in named_together(infos)} > {"p@1", "p@2"}
    with pytest.raises(UsageError, match="its own"):
        next(pivec.watch("Pendulum-v1", [f"{file}@g=5"], tmp_path / "out"))


def test_groups_of_runs_are_those_of_one_environment():
    own = {"runs_in": {"environment": "Pendulum-v1"}}
    infos = [
        PolicyInfo(f"{run}/1", run, metadata=own)
        for run in ("ppo-0@g=5", "ppo-1@g=5", "ppo-0@g=20", "ppo-1@g=20")
    ]
    names, _ = group_names([*infos, PolicyInfo("a", "ppo-0"), PolicyInfo("b", "ppo-1")])
    assert set(names.values()) == {"ppo", "ppo@g=5", "ppo@g=20"}
    assert names["ppo-1@g=20"] == "ppo@g=20"


def test_a_file_cannot_claim_an_environment_of_its_own(tmp_path):
    layers = [(np.ones((3, 1), np.float32), np.zeros(1, np.float32))]
    network = NetworkPolicy(layers, "relu", "deterministic")
    save_policy(network, tmp_path / "p.safetensors", {"runs_in": {"environment": "Nowhere-v0"}})
    [named] = load_policies(tmp_path / "p.safetensors")
    assert not named.info.own_environment


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ([push, ("random", "CartPole-v1")], "random@CartPole-v1 .*4,.* Pendulum-v1"),
        ([(push, "g")], "'g'"),
        ([(push, "")], "KEY=VALUE"),
        ([(push, "g=5"), (push, "Pendulum-v1,g=5")], "same policy"),
        (["random@g=5,nothing=1"], "nothing"),
        ([(push, "backend=envpool,g=5")], "envpool"),
    ],
)
def test_what_cannot_be_compared_is_refused(policies, words):
    with pytest.raises((UsageError, pivec.PivecError), match=words):
        pivec.collect("Pendulum-v1", policies, 1, max_steps=3)


class Bounded(gymnasium.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-99, 99, (3,), np.float32)

    def observation(self, observation):
        return observation


def make_bounded():
    return Bounded(gymnasium.make("Pendulum-v1"))


def test_other_bounds_are_a_warning_and_functions_make_environments(tmp_path):
    with pytest.warns(PivecWarning, match="99"):
        data = pivec.collect(
            "Pendulum-v1", [push, (push, make_bounded)], 1, max_steps=9, store=tmp_path
        )
    assert data.labels == ("push", "push@make_bounded")
    replayer = Replayer(Store(tmp_path))
    with pytest.raises(CannotReplay, match="push@make_bounded"):
        replayer.scene_of("push@make_bounded")
    assert replayer.scene_of("push").environment.name == "Pendulum-v1"


def test_episodes_are_replayed_where_they_were_played(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(FILE, "p.safetensors")
    policies = ["p.safetensors", "p.safetensors@g=5", "random@g=20"]
    data = pivec.collect("Pendulum-v1", policies, 2, max_steps=30, store="states")
    replayer = Replayer(Store("states"))
    for label in data.labels:
        stored = list(data[label].episodes())[1]
        assert replayer.stored(label, 1).states.tobytes() == stored.tobytes()
    gravities = [replayer.scene_of(label).environment.arguments for label in data.labels]
    assert gravities == [{}, {"g": 5}, {"g": 20}]
    seen = [replayer.on_seed(label, 7).states for label in data.labels[:2]]
    np.testing.assert_array_equal(seen[0][0], seen[1][0])
    assert not np.array_equal(*seen)


def test_the_reference_of_features_may_have_an_environment_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(FILE, "p.safetensors")
    options = {"max_steps": 9, "store": "states", "features": "policy"}
    policies = ["p.safetensors@g=5", "random"]
    with pytest.warns(PivecWarning, match="hidden layer"):
        data = pivec.collect("Pendulum-v1", policies, 1, **options)
    again = pivec.collect("Pendulum-v1", policies, 1, **options)
    np.testing.assert_array_equal(again.states, data.states)
    label = data.labels[0]
    take = Replayer(Store("states")).stored(label, 0)
    assert take.states.tobytes() == data[label].states.tobytes()


def test_same_tells_environments_apart_and_samples_of_one_too():
    options = {"episodes": 8, "components": 4, "max_steps": 60}
    a, b = f"{FILE}@Pendulum-v1,g=2", f"{FILE}@Pendulum-v1,g=60"
    answer = pivec.same(a, b, **options)
    assert answer.verdict == "different"
    assert [label.rpartition("@")[2] for label in answer.labels] == ["g=2", "g=60"]
    assert pivec.same(b, a, **options).p_value == answer.p_value
    with pytest.warns(PivecWarning, match="seed 1"):
        again = pivec.same(a, a, **options)
    assert again.verdict != "different"


def test_a_comparison_names_all_environments(tmp_path):
    policies = {"old": (push, "Pendulum-v1,g=5"), "new": (push, make_bounded)}
    with pytest.warns(PivecWarning, match="99"):
        result = pivec.compare(None, policies, tmp_path, episodes=3, components=4, max_steps=20)
    assert result.labels == ("old", "new")
    assert result.findings.environment == "Pendulum-v1, make_bounded"
