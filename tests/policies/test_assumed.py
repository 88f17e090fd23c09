"""What has to be assumed of files is said once; what they hold or a description says is used."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from pivec.errors import BadPolicyFile, PivecWarning
from pivec.policies import load_policies

pytest.importorskip("torch")

import torch
from test_cleanrl import ROWS, Agent, dumped, mlp
from torch import nn

MEAN = torch.tensor([1.0, -0.5, 0.0, 2.0], dtype=torch.float64)
VARIANCE = torch.tensor([4.0, 0.01, 1.0, 0.25], dtype=torch.float64)
LAYERS = {"layers": ["pi.0", "pi.2"], "activation": "elu", "head": "categorical"}


NETWORK = Agent(pi=mlp([4, 9, 3], nn.ELU))


def rl_games(old=False):
    statistics = {"running_mean": MEAN, "running_var": VARIANCE, "count": torch.tensor(9.0)}
    named = {f"running_mean_std.{key}": value for key, value in statistics.items()}
    if old:
        return {"model": NETWORK.state_dict(), "running_mean_std": statistics, "epoch": 3}
    return {"model": {**NETWORK.state_dict(), **named}, "epoch": 3, "env_state": None}


def skrl(part="state_preprocessor"):
    scaler = {"running_mean": MEAN, "running_variance": VARIANCE, "current_count": MEAN[0]}
    critic = {"running_mean": MEAN[:1], "running_variance": VARIANCE[:1]}
    return {"policy": NETWORK.state_dict(), part: scaler, "value_preprocessor": critic}


def probabilities(scaled):
    outputs = NETWORK.pi(torch.from_numpy(scaled.astype(np.float32)))
    return torch.softmax(outputs, dim=1).detach().numpy()


def normalised(epsilon, outside=False, clip=5.0):
    mean, variance = MEAN.numpy(), VARIANCE.numpy()
    scale = np.sqrt(variance) + epsilon if outside else np.sqrt(variance + epsilon)
    return np.clip((ROWS.astype(np.float64) - mean) / scale, -clip, clip)


@pytest.mark.parametrize(
    ("saved", "library", "epsilon", "outside"),
    [
        (rl_games(), "rl_games", 1e-5, False),
        (rl_games(old=True), "rl_games", 1e-5, False),
        (skrl(), "skrl", 1e-8, True),
        (skrl("observation_preprocessor"), "skrl", 1e-8, True),
    ],
    ids=["rl_games", "old rl_games", "skrl", "skrl 2"],
)
def test_statistics_in_the_file_are_applied(tmp_path, saved, library, epsilon, outside):
    (tmp_path / "agent.pth").write_bytes(dumped(saved))
    (tmp_path / "agent.json").write_text(json.dumps(LAYERS))
    with pytest.warns(PivecWarning, match=f"epsilon {epsilon:g}.* 5 .*{library}"):
        (named,) = load_policies(tmp_path / "agent.pth")
    assert named.info.metadata["normaliser"] == "statistics in the file"
    seen = normalised(epsilon, outside)
    assert (np.abs(seen) == 5).any(), "the limit is met"
    np.testing.assert_allclose(named.policy.distribution(ROWS), probabilities(seen), atol=1e-5)


def test_a_description_may_name_the_statistics_or_have_none(tmp_path):
    (tmp_path / "agent.pth").write_bytes(dumped(skrl()))
    names = {
        "mean": "state_preprocessor.running_mean",
        "var": "state_preprocessor.running_variance",
    }
    about = {**names, "epsilon": 0.01, "clip": 3}
    (tmp_path / "agent.json").write_text(json.dumps({**LAYERS, "normaliser": about}))
    (named,) = load_policies(tmp_path / "agent.pth")
    assert named.info.metadata["normaliser"] == "its description"
    expected = probabilities(normalised(0.01, clip=3))
    np.testing.assert_allclose(named.policy.distribution(ROWS), expected, atol=1e-5)
    (tmp_path / "agent.json").write_text(json.dumps({**LAYERS, "normaliser": None}))
    (named,) = load_policies(tmp_path / "agent.pth")
    assert "normaliser" not in named.info.metadata
    np.testing.assert_allclose(named.policy.distribution(ROWS), probabilities(ROWS), atol=1e-5)
    for wrong, words in (
        ({**names, "mean": "nobody"}, "tensor 'nobody', which is missing"),
        ({**names, "mean": "value_preprocessor.running_mean"}, "same length"),
    ):
        (tmp_path / "agent.json").write_text(json.dumps({**LAYERS, "normaliser": wrong}))
        with pytest.raises(BadPolicyFile, match=words):
            load_policies(tmp_path / "agent.pth")


def test_statistics_in_the_file_that_make_no_sense_are_named(tmp_path):
    saved = skrl()
    saved["state_preprocessor"]["running_variance"] = -VARIANCE
    (tmp_path / "agent.pth").write_bytes(dumped(saved))
    (tmp_path / "agent.json").write_text(json.dumps(LAYERS))
    with pytest.raises(BadPolicyFile, match=r"running_mean.*running_var|_mean.*_var"):
        load_policies(tmp_path / "agent.pth")


def test_many_files_of_a_kind_are_one_warning(tmp_path):
    for i in range(5):
        (tmp_path / f"step_{i}.pth").write_bytes(
            dumped(Agent(actor=mlp([4, 8, 3], nn.ReLU)).state_dict())
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        policies = load_policies(tmp_path)
    (only,) = caught
    assert "5 files (first: " in str(only.message)
    assert str(only.message).count(".pth") == 1
    assert all(fact in str(only.message) for fact in ("activation", "tanh", "CleanRL's PPO"))
    (assumed,) = policies[3].info.metadata["assumed"]
    assert assumed in str(only.message)


def test_a_description_of_the_folder_speaks_for_all_its_files(tmp_path):
    agent = Agent(actor=mlp([4, 8, 3], nn.ReLU))
    for i in (1, 2):
        (tmp_path / f"step_{i}.pth").write_bytes(dumped(agent.state_dict()))
    (tmp_path / "policies.json").write_text(json.dumps({"activation": "relu"}))
    expected = torch.softmax(agent.actor(torch.from_numpy(ROWS)), dim=1).detach().numpy()
    for named in load_policies(tmp_path):
        np.testing.assert_allclose(named.policy.distribution(ROWS), expected, atol=1e-5)
    (tmp_path / "step_2.json").write_text(json.dumps({"activation": "elu"}))
    first, second = load_policies(tmp_path)
    assert (first.policy.activation, second.policy.activation) == ("relu", "elu")
    (tmp_path / "policies.json").write_text("[")
    with pytest.raises(BadPolicyFile, match=r"step_1\.pth.*policies\.json"):
        load_policies(tmp_path)


def test_arrays_of_a_described_folder_are_policies_and_pickles_are_not(tmp_path):
    np.save(tmp_path / "generation_1.npy", np.zeros(4 * 2 + 2))
    (tmp_path / "vecnormalize.pkl").write_bytes(b"something else")
    about = {"sizes": [4, 2], "head": "categorical"}
    (tmp_path / "policies.json").write_text(json.dumps(about))
    (named,) = load_policies(tmp_path)
    assert named.info.step == 1


def test_ppo_with_real_actions_says_that_statistics_were_not_saved(tmp_path):
    agent = Agent(actor_mean=mlp([4, 8, 2], nn.Tanh), actor_logstd=torch.zeros(1, 2))
    (tmp_path / "a.pth").write_bytes(dumped(agent.state_dict()))
    about = {"activation": "tanh"}
    (tmp_path / "a.json").write_text(json.dumps(about))
    with pytest.warns(PivecWarning, match="not normalised.*CleanRL's PPO"):
        load_policies(tmp_path)
    (tmp_path / "a.json").write_text(json.dumps({**about, "normaliser": None}))
    assert len(load_policies(tmp_path)) == 1, "told that there is none: no warning"
