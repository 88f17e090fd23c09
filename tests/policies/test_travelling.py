"""Policies travel as what tells where to read them, and arrive as the same policies."""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest

from pivec.errors import BadPolicyFile, PivecError, UsageError
from pivec.parallel import files, offered
from pivec.parallel.offered import answer
from pivec.parallel.source import Source
from pivec.policies import (
    NamedPolicy,
    NetworkPolicy,
    check_module,
    load_policies,
    name_policies,
    packed,
    save_policy,
    unpacked,
)

LAYERS = ((np.eye(4, 2, dtype=np.float32), np.zeros(2, np.float32)),)


@pytest.fixture(autouse=True)
def nothing_offered(monkeypatch):
    monkeypatch.setattr(offered, "_offered", set())
    monkeypatch.setattr(offered, "followers", [lambda _: None])  # as on a cluster
    yield
    files.use(None)


@pytest.fixture
def saved(tmp_path):
    (tmp_path / "runs").mkdir()
    path = tmp_path / "runs" / "step_5.safetensors"
    save_policy(NetworkPolicy(LAYERS, "tanh", "categorical"), path)
    return path


def hide(folder):
    """Let this process work like one on a machine that does not see a folder."""
    hidden = folder.with_name("hidden")
    os.rename(folder, hidden)
    seen = str(folder)
    offered._offered = {path.replace(seen, str(hidden)) for path in offered._offered}
    files.use(Source(lambda path, *rest: answer(path.replace(seen, str(hidden)), *rest), "/", "t"))
    return hidden


def sent(named):
    """Send a policy as another process gets it."""
    return pickle.loads(pickle.dumps(packed(named)))


def test_a_file_travels_by_its_name_and_keeps_what_it_is_called(saved, monkeypatch):
    monkeypatch.chdir(saved.parent)
    [named] = load_policies(saved.name)
    renamed = replace(named, info=replace(named.info, label="mine", metadata={"a": 1}))
    travelling = sent(renamed)
    assert travelling.policy is None
    assert travelling.origin.path == os.path.realpath(saved)
    monkeypatch.chdir("/")
    arrived = unpacked(travelling)
    assert arrived.info == renamed.info
    assert arrived.policy.fingerprint == named.policy.fingerprint


def test_a_file_that_cannot_be_seen_is_asked_for(saved):
    [named] = load_policies(saved)
    travelling = sent(named)
    hidden = hide(saved.parent)
    assert unpacked(travelling).policy.fingerprint == named.policy.fingerprint
    assert not saved.exists()
    assert (hidden / saved.name).exists()


def test_what_lies_beside_is_asked_for_too(tmp_path):
    """Statistics of VecNormalize that were missed would be another policy without a word."""
    pytest.importorskip("stable_baselines3")
    import gymnasium
    from sb3_models import model
    from sb3_models import saved as saved_model
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "best.zip").write_bytes(saved_model(model(policy_kwargs={"net_arch": [4]})))
    venv = VecNormalize(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]))
    (folder / "vecnormalize.pkl").write_bytes(pickle.dumps(venv))
    [named] = load_policies(folder)
    assert named.policy.normaliser is not None
    travelling = sent(named)
    hidden = hide(folder)
    arrived = unpacked(travelling)
    assert arrived.policy.normaliser is not None
    assert arrived.policy.fingerprint == named.policy.fingerprint
    (hidden / "vecnormalize.pkl").unlink()
    with pytest.raises(BadPolicyFile, match="what lies beside it, is not the same"):
        unpacked(travelling)


def test_another_content_is_refused(saved):
    [named] = load_policies(saved)
    travelling = sent(named)
    save_policy(NetworkPolicy(LAYERS, "relu", "categorical"), saved)
    with pytest.raises(BadPolicyFile, match=r"step_5\.safetensors has other content"):
        unpacked(travelling)


def test_of_a_file_that_changed_since_the_policy_itself_travels(saved):
    [named] = load_policies(saved)
    save_policy(NetworkPolicy(LAYERS, "relu", "categorical"), saved)
    os.utime(saved, (1, 1))
    assert unpacked(sent(named)).policy.fingerprint == named.policy.fingerprint


def test_on_this_machine_the_policy_itself_travels(saved, monkeypatch):
    monkeypatch.setattr(offered, "followers", [])
    [named] = load_policies(saved)
    assert sent(named).origin is None
    assert unpacked(sent(named)).policy.fingerprint == named.policy.fingerprint


def test_what_was_made_of_a_policy_is_not_taken_for_it(saved):
    [named] = load_policies(saved)
    other = replace(named.policy, activation="relu")
    assert unpacked(sent(replace(named, policy=other))).policy.fingerprint == other.fingerprint
    same = NamedPolicy(named.policy, replace(named.info, label="b"))  # under another name
    assert sent(same).policy is None


MODULE = """
import numpy as np
from pivec.policies import NetworkPolicy
network = NetworkPolicy(((np.eye(4, 2, dtype="f4"), np.zeros(2, "f4")),), "tanh", "categorical")
class Still:
    def __init__(self): self.moves = 0
    def act(self, observations): return np.full(len(observations), self.moves)
def left(observations): return np.zeros(len(observations), int)
def make():
    import gymnasium
    return gymnasium.make("CartPole-v1")
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "travelling_agents.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "travelling_agents.py"
    sys.modules.pop("travelling_agents", None)


def test_objects_of_modules_travel_by_name_if_they_are_known_again(module):
    specs = [f"travelling_agents:{name}" for name in ("network", "left", "Still")]
    network, left, still = load_policies(specs)
    assert sent(network).policy is None
    assert unpacked(sent(network)).policy.fingerprint == network.policy.fingerprint
    assert unpacked(sent(left)).policy.call is left.policy.call  # pickle sends its name
    still.policy.call.__self__.moves = 7  # which a fresh one would not know
    assert unpacked(sent(still)).policy.act(np.zeros((1, 4)), None) == [7]
    messages = [sent(named) for named in (network, left, still)]
    module.write_text(MODULE + "# another\n")
    check_module.cache_clear()
    for message in messages:
        with pytest.raises(PivecError, match="the module travelling_agents is not the same"):
            unpacked(message)


def test_what_has_no_name_travels_itself():
    policy = NetworkPolicy(LAYERS, "tanh", "categorical")
    *named, random = name_policies({"a": policy, "random": "random"})
    assert unpacked(sent(named[0])).policy.fingerprint == policy.fingerprint
    assert unpacked(sent(random)).info == random.info
    [odd] = name_policies({"odd": lambda observations: observations})
    with pytest.raises((pickle.PicklingError, AttributeError)):
        sent(odd)
    assert unpacked(packed(odd)).policy is odd.policy


def test_environments_travel_with_what_a_script_registered():
    import gymnasium

    from pivec.rollouts import Environment

    entry = "gymnasium.envs.classic_control:CartPoleEnv"
    gymnasium.register("Travelling-v0", entry_point=entry, max_episode_steps=7)
    gymnasium.register("Staying-v0", entry_point=lambda: gymnasium.make("CartPole-v1"))
    try:
        message, staying = (
            pickle.dumps(
                Environment.of(f"{name}-v0", wrappers=["gymnasium.wrappers:FlattenObservation"])
            )
            for name in ("Travelling", "Staying")
        )
    finally:
        del gymnasium.registry["Travelling-v0"], gymnasium.registry["Staying-v0"]
    arrived = pickle.loads(message)
    assert arrived == Environment.of("Travelling-v0", wrappers=arrived.wrappers)
    with arrived.make() as env:
        assert env.spec.max_episode_steps == 7
    del gymnasium.registry["Travelling-v0"]
    with pytest.raises(UsageError, match="no environment is called"):
        pickle.loads(staying).make()


def test_an_environment_of_another_module_is_refused(module):
    from travelling_agents import make

    from pivec.rollouts import Environment

    arrived = pickle.loads(pickle.dumps(Environment.of(make)))
    arrived.make().close()
    module.write_text(MODULE + "# another\n")
    check_module.cache_clear()
    with pytest.raises(PivecError, match="the module travelling_agents is not the same"):
        arrived.make()
