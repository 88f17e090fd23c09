"""TorchScript, exported programs and pickled modules: they run only with the user's trust."""

from __future__ import annotations

import argparse
import io
import json
import pickle
import warnings
import zipfile

import gymnasium
import numpy as np
import pytest

from pivec.errors import BadPolicyFile, PivecWarning, UsageError
from pivec.policies import load_policies

torch = pytest.importorskip("torch")
nn, spaces = torch.nn, gymnasium.spaces
torch.set_num_threads(1)
SEEN, THREE = spaces.Box(-9, 9, (4,)), spaces.Discrete(3)
RNG = np.random.default_rng(0)
ROWS = np.random.default_rng(1).normal(size=(37, 4)).astype(np.float32)


def module(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = module()

    def forward(self, x):
        return x.sum(dim=1), self.inner(x)


def script(net):
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(net, torch.zeros(2, 4)), buffer)
    return buffer.getvalue()


def exported(net, dynamic=True, rows=2):
    buffer = io.BytesIO()
    shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(net, (torch.zeros(rows, 4),), dynamic_shapes=shapes)
        torch.export.save(program, buffer)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def files():
    return {
        "script.pt": script(module()),
        "program.pt2": exported(module()),
        "fixed.pt2": exported(module(), dynamic=False, rows=5),
    }


NAMES = ["script.pt", "program.pt2", "fixed.pt2"]


@pytest.mark.parametrize("name", NAMES)
def test_they_need_trust_and_then_agree_with_torch(tmp_path, files, name):
    path = tmp_path / name
    path.write_bytes(files[name])
    with pytest.raises(BadPolicyFile, match=r"run any code.*--trust"):
        load_policies(path)
    with pytest.warns(PivecWarning, match="logits"):
        (named,) = load_policies(path, trust=True)
    policy = named.policy.bind(SEEN, THREE)
    expected = torch.softmax(module()(torch.from_numpy(ROWS)), dim=1).detach().numpy()
    np.testing.assert_allclose(policy.distribution(ROWS), expected, atol=1e-6)
    whole = policy._outputs(ROWS)
    for part in (slice(0, 1), slice(7, 9), slice(3, 31)):
        np.testing.assert_array_equal(policy._outputs(ROWS[part]), whole[part])
    again = pickle.loads(pickle.dumps(policy))
    np.testing.assert_array_equal(again.distribution(ROWS), policy.distribution(ROWS))
    assert again.fingerprint == policy.fingerprint
    with pytest.raises(UsageError, match="shape"):
        policy.act(np.zeros((2, 5)), RNG)


def test_one_of_several_outputs_is_chosen_by_number(tmp_path):
    (tmp_path / "a.pt").write_bytes(script(Two()))
    (tmp_path / "a.json").write_text(json.dumps({"output": 1, "head": "epsilon_greedy"}))
    policy = load_policies(tmp_path, trust=True)[0].policy.bind(SEEN, THREE)
    best = module()(torch.from_numpy(ROWS)).argmax(dim=1).numpy()
    np.testing.assert_array_equal(policy.act(ROWS, RNG), best)
    (tmp_path / "a.json").write_text(json.dumps({"output": "x"}))
    with pytest.raises(BadPolicyFile, match="output"):
        load_policies(tmp_path, trust=True)


@pytest.mark.parametrize("name", NAMES)
def test_damage_is_named(tmp_path, files, name):
    path = tmp_path / name
    path.write_bytes(files[name][:-100])
    for trust in (False, True):
        with pytest.raises(BadPolicyFile, match="truncated"):
            load_policies(path, trust=trust)


def test_weights_in_a_pt_file_need_no_trust(tmp_path):
    net = nn.Module()
    net.actor = module()
    torch.save(net.state_dict(), tmp_path / "a.pt")
    with pytest.warns(PivecWarning, match="activation.*tanh"):
        (named,) = load_policies(tmp_path)
    expected = torch.softmax(net.actor(torch.from_numpy(ROWS)), dim=1).detach().numpy()
    np.testing.assert_allclose(named.policy.distribution(ROWS), expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
def test_a_pickled_module_needs_trust_and_then_agrees_with_torch(tmp_path):
    torch.save(module(), tmp_path / "a.pt")
    with pytest.raises(BadPolicyFile, match=r"Sequential.*state_dict.*--trust"):
        load_policies(tmp_path)
    (named,) = load_policies(tmp_path, trust=True)
    policy = pickle.loads(pickle.dumps(named.policy.bind(SEEN, THREE)))
    expected = torch.softmax(module()(torch.from_numpy(ROWS)), dim=1).detach().numpy()
    np.testing.assert_allclose(policy.distribution(ROWS), expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
def test_weights_saved_with_other_objects_need_trust(tmp_path):
    actor = nn.Module()
    actor.actor = module()
    content = {"model": actor.state_dict(), "args": argparse.Namespace(seed=1)}
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(BadPolicyFile, match=r"argparse\.Namespace.*--trust"):
        load_policies(tmp_path)
    (trusted,) = load_policies(tmp_path, trust=True)
    torch.save({"model": actor.state_dict()}, tmp_path / "a.pth")
    (plain,) = load_policies(tmp_path)
    assert trusted.info.fingerprint == plain.info.fingerprint


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
def test_devices_and_scores_next_to_the_weights_are_ignored(tmp_path):
    actor = nn.Module()
    actor.actor = module()
    others = {"device": torch.device("cpu"), "best": np.float64(3.5), "returns": np.arange(3.0)}
    fingerprints = set()
    for more in ({}, others, {"size": torch.Size([2])}):
        torch.save({"model": actor.state_dict(), **more}, tmp_path / "a.pth")
        fingerprints.add(load_policies(tmp_path)[0].info.fingerprint)
    assert len(fingerprints) == 1
    torch.save({**actor.state_dict(), **others}, tmp_path / "a.pth")
    with pytest.raises(BadPolicyFile, match="tensors"):
        load_policies(tmp_path)


def test_a_module_whose_class_cannot_be_imported_is_named(tmp_path):
    data = io.BytesIO()
    torch.save(Two(), data)
    name = Two.__module__.encode()
    (tmp_path / "a.pt").write_bytes(repacked(data.getvalue(), name, b"x" * len(name)))
    with pytest.raises(BadPolicyFile, match=r"state_dict.*xxx"):
        load_policies(tmp_path, trust=True)


def repacked(data, old, new):
    """The same archive with other bytes in its members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as file, zipfile.ZipFile(buffer, "w") as packed:
        for member in file.namelist():
            packed.writestr(member, file.read(member).replace(old, new))
    return buffer.getvalue()
