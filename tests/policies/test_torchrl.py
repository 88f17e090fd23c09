"""Checkpoints of TorchRL: what the loss tells, and what is not supported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from pivec.errors import BadPolicyFile, PivecWarning
from pivec.policies import load_policies

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from fuzzing import torch_bytes, torchrl_files  # noqa: E402

from spoiling import archive  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
ROWS = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
ROW = Path(__file__).parents[1] / "data" / "libraries" / "torchrl-ppo" / "checkpoint"


def perceptron(prefix="", n_out=2):
    torch.manual_seed(0)
    parts = torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, n_out)
    module = torch.nn.Sequential(*parts)
    return {f"{prefix}{key}": value for key, value in module.state_dict().items()}, module


def load(tmp_path, files, name="run"):
    for file, content in files.items():
        (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name / file).write_bytes(content)
    (named,) = load_policies(tmp_path / name)
    return named


@pytest.mark.parametrize(
    ("losses", "algorithm", "head", "squash"),
    [
        (("actor_network_params", "critic_network_params"), "PPO", "categorical", False),
        (("actor_network_params", "qvalue_network_params", "log_alpha"),
         "SAC", "categorical", False),
        (("actor_network_params", "qvalue_network_params"), "TD3", "deterministic", True),
        (("actor_network_params", "value_network_params"), "DDPG", "deterministic", True),
        (("value_network_params",), "DQN", "epsilon_greedy", False),
    ],
)  # fmt: skip
def test_the_loss_tells_the_algorithm(tmp_path, losses, algorithm, head, squash):
    weights, module = perceptron()
    files = torchrl_files(weights, losses)
    named = load(tmp_path, files)
    assert (named.info.metadata["library"], named.info.metadata["algorithm"]) == (
        "TorchRL",
        algorithm,
    )
    assert (named.policy.head, named.policy.options.squash) == (head, squash)
    assert any("tanh" in text for text in named.info.metadata["assumed"])
    with torch.no_grad():
        expected = module(torch.from_numpy(ROWS)).numpy()
    actions = gymnasium.spaces.Box(-1, 1, (2,)) if squash else gymnasium.spaces.Discrete(2)
    np.testing.assert_allclose(named.policy.for_actions(actions).outputs(ROWS), expected, atol=1e-6)
    (tmp_path / "policy.pt").write_bytes(archive(files))  # in one file, of any name
    (packed,) = load_policies(tmp_path / "policy.pt")
    assert packed.policy.fingerprint == named.policy.fingerprint


@pytest.mark.parametrize("separate", [False, True])
def test_means_and_deviations(tmp_path, separate):
    weights, module = perceptron("0.", 2 if separate else 4)
    spread = torch.tensor([0.3, -0.2])
    more = {"1.state_independent_scale": spread} if separate else {}
    named = load(tmp_path, torchrl_files({**weights, **more}, ()))
    assert any("TanhNormal" in text for text in named.info.metadata["assumed"])
    mean, std = named.policy.for_actions(gymnasium.spaces.Box(-1, 1, (2,))).distribution(ROWS)
    with torch.no_grad():
        outputs = module(torch.from_numpy(ROWS)).double().numpy()
    np.testing.assert_allclose(mean, outputs[:, :2], atol=1e-6)
    expected = np.exp(np.broadcast_to(spread, (9, 2)))
    if not separate:  # tensordict.nn.utils.biased_softplus(1.0, min_val=0.01)
        expected = np.log1p(np.exp(outputs[:, 2:] + np.log(np.expm1(0.99)))) + 0.01
    np.testing.assert_allclose(std, expected, rtol=1e-5)
    assert named.policy.options.squash is True


def test_what_the_loss_does_not_tell_is_described(tmp_path):
    files = torchrl_files(perceptron()[0], ())
    with pytest.raises(BadPolicyFile, match="layers"):
        load(tmp_path, files)
    text = {"layers": ["module.0.module"], "activation": "relu", "head": "categorical"}
    named = load(tmp_path, {**files, "policies.json": json.dumps(text).encode()})
    assert (named.policy.head, named.policy.activation) == ("categorical", "relu")


def test_the_folder_is_one_policy_with_its_step(tmp_path):
    shutil.copytree(ROW, tmp_path / "runs" / "ppo")
    (tmp_path / "runs" / "manifest.json").write_text("{}")  # of something else
    with pytest.warns(PivecWarning, match="tanh"):
        (named,) = load_policies(tmp_path / "runs")
    assert named.info.label == "runs/ppo"
    assert named.info.step == 500


def test_weights_saved_by_torch(tmp_path):
    weights, _ = perceptron()
    files = torchrl_files(weights)
    place = json.loads(files["manifest.json"])["components"]["policy"]["path"]
    kept = {name: content for name, content in files.items() if not name.startswith(place)}
    saved = {f"module.0.module.{key}": value for key, value in weights.items()}
    named = load(tmp_path, {**kept, f"{place}/state.pt": torch_bytes(saved)})
    assert named.policy.fingerprint == load(tmp_path, files, "other").policy.fingerprint
    with pytest.raises(BadPolicyFile, match="payload_format"):
        load(tmp_path, {**kept, f"{place}/state.tdc": b"?"}, "third")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"format_version": 2}, "version"),
        ({"format": "other"}, "torchrl.checkpoint"),
        ({"components": {"optimizer": {}}}, r"\(optimizer\)"),
        ({"components": {"policy": {"path": "../x"}}}, "outside"),
    ],
)
def test_what_is_not_read_is_named(tmp_path, changes, match):
    files = torchrl_files(perceptron()[0])
    manifest = json.loads(files["manifest.json"]) | changes
    with pytest.raises(BadPolicyFile, match=match):
        load(tmp_path, {**files, "manifest.json": json.dumps(manifest).encode()})
