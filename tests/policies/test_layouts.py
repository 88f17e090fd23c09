"""Layouts of libraries that no row has: told by names, and the settings that go with them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from pivec.errors import BadPolicyFile
from pivec.policies import load_policies

pytest.importorskip("torch")

import torch
from test_cleanrl import dumped

pytestmark = pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
RNG = np.random.default_rng(0)


def layer(name, inputs, outputs):
    weight = torch.from_numpy(RNG.normal(size=(outputs, inputs)).astype(np.float32))
    return {f"{name}.weight": weight, f"{name}.bias": torch.full((outputs,), 0.1)}


def hidden(name):
    return {**layer(f"{name}.0", 3, 5), **layer(f"{name}.2", 5, 4)}


def load(tmp_path, saved, name="policy.pth"):
    (tmp_path / name).write_bytes(dumped(saved))
    (named,) = load_policies(tmp_path / name)
    return named


TRUNK = hidden("actor.preprocess.model.model")
RL_GAMES = {**hidden("a2c_network.actor_mlp"), **layer("a2c_network.mu", 4, 2)}
ACTIONS = torch.zeros(2)


@pytest.mark.parametrize(
    ("saved", "library", "algorithm", "head", "squash"),
    [
        (
            {"model": {**RL_GAMES, **layer("a2c_network.sigma", 4, 2)}},
            *("rl_games", "PPO", "state_gaussian", "clip"),
        ),
        (
            {**TRUNK, **layer("actor.mu.model.0", 4, 2), **layer("actor.sigma.model.0", 4, 2)},
            *("Tianshou", "PPO", "state_gaussian", "clip"),
        ),
        (
            {**TRUNK, **layer("actor.last.model.0", 4, 2), **layer("actor_old.last.model.0", 4, 2)},
            *("Tianshou", "DDPG or TD3", "deterministic", True),
        ),
        (
            {**hidden("model.model.model"), **layer("model.Q.model.0", 4, 2)},
            *("Tianshou", "DQN", "epsilon_greedy", False),
        ),
        (
            {
                "policy": {
                    **hidden("net"),
                    **layer("mean_layer", 4, 2),
                    "log_std_parameter": ACTIONS,
                }
            },
            *("skrl", "PPO", "gaussian", False),
        ),
        (
            {"policy": hidden("net"), "target_policy": hidden("net")},
            *("skrl", "DDPG or TD3", "deterministic", False),
        ),
        (
            {"q_network": hidden("net"), "target_q_network": hidden("net")},
            *("skrl", "DQN", "epsilon_greedy", False),
        ),
        (
            {"actor_state_dict": {**hidden("mlp"), "distribution.log_std_param": torch.zeros(4)}},
            *("rsl_rl", "PPO", "gaussian", False),
        ),
    ],
)
def test_names_tell_the_library(tmp_path, saved, library, algorithm, head, squash):
    named = load(tmp_path, saved)
    metadata, policy = named.info.metadata, named.policy
    assert (metadata["library"], metadata["algorithm"]) == (library, algorithm)
    assert (policy.head, policy.options.squash) == (head, squash)
    assert policy.sizes[:3] == (3, 5, 4)


def test_deviations_and_statistics_of_old_rsl_rl(tmp_path):
    statistics = {"_mean": torch.ones(1, 3), "_var": torch.full((1, 3), 4.0)}
    weights = {**hidden("actor"), "std": torch.full((4,), 0.5)}
    saved = {"model_state_dict": weights, "obs_norm_state_dict": statistics, "iter": 7}
    named = load(tmp_path, saved, "best.pt")
    _, std = named.policy.distribution(np.zeros((1, 3)))
    np.testing.assert_allclose(std, 0.5, rtol=1e-6)
    np.testing.assert_allclose(named.policy.normaliser.scale, 2.01)
    assert named.info.step == 7


@pytest.mark.parametrize(
    ("saved", "match"),
    [
        (
            {"model_state_dict": {"memory_a.rnn.weight_ih_l0": torch.zeros(4, 3)}},
            "a memory or convolutions .memory_a",
        ),
        ({"model_state_dict": {**hidden("actor"), "std": torch.zeros(4)}}, "not above 0"),
        (
            {**TRUNK, **layer("actor.mu.model.0", 4, 4), **hidden("actor.sigma.model")},
            "hidden layers",
        ),
    ],
)
def test_what_is_not_read_is_named(tmp_path, saved, match):
    with pytest.raises(BadPolicyFile, match=match):
        load(tmp_path, saved)


@pytest.mark.parametrize("place", ["params/agent.yaml", "nn/params/agent.yaml", "config.yaml"])
def test_the_configuration_of_a_run_tells_the_activation(tmp_path, place):
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("params: {network: {mlp: {activation: ReLU}}}")
    (tmp_path / "nn").mkdir(exist_ok=True)
    named = load(tmp_path, {**RL_GAMES, "a2c_network.sigma": ACTIONS}, "nn/run.pth")
    assert named.policy.activation == "relu"
    assert not any("activation" in text for text in named.info.metadata["assumed"])
    (tmp_path / "nn" / "run.json").write_text('{"activation": "tanh"}')
    (named,) = load_policies(tmp_path / "nn" / "run.pth")
    assert named.policy.activation == "tanh"


@pytest.mark.parametrize(("mu", "squash"), [("tanh", None), ("None", False)])
def test_the_configuration_tells_what_becomes_of_outputs(tmp_path, mu, squash):
    space = f"space: {{continuous: {{mu_activation: {mu}}}}}"
    text = f"params: {{network: {{{space}}}, config: {{clip_actions: false}}}}"
    (tmp_path / "config.yaml").write_text(text)
    weights = {**RL_GAMES, "a2c_network.sigma": ACTIONS}
    if squash is None:
        with pytest.raises(BadPolicyFile, match="'tanh'"):
            load(tmp_path, weights)
    else:
        named = load(tmp_path, weights)
        assert named.policy.options.squash is squash
        assert [text[:10] for text in named.info.metadata["assumed"]] == ["activation"]


def test_a_configuration_that_says_nothing_is_no_mistake(tmp_path):
    (tmp_path / "config.yaml").write_text("wandb_version: 1")
    named = load(tmp_path, {**RL_GAMES, "a2c_network.sigma": ACTIONS})
    assert named.policy.activation == "elu"


def test_a_description_has_the_last_word_key_by_key(tmp_path):
    (tmp_path / "policy.json").write_text('{"squash": false, "activation": "relu"}')
    weights = {**RL_GAMES, **layer("a2c_network.sigma", 4, 2)}
    named = load(tmp_path, weights)
    assert named.policy.options.squash is False
    assert named.policy.options.log_std_range == (-80.0, 80.0)
    assert "assumed" not in named.info.metadata


@pytest.mark.parametrize("prefix", ["module.0.module.net", "_orig_mod.module.policy.mine", "plain"])
def test_the_names_in_an_error_are_those_a_description_may_list(tmp_path, prefix):
    with pytest.raises(BadPolicyFile, match=r"a \.json file") as raised:
        load(tmp_path, hidden(prefix))
    listed = re.findall(r"[\w.]+\.weight", str(raised.value))
    assert [name.removesuffix(".weight") for name in listed] == [f"{prefix}.0", f"{prefix}.2"]
    for layers in (listed, [prefix], [f"{prefix}.0", f"{prefix}.2"]):
        description = {"layers": layers, "activation": "tanh", "head": "categorical"}
        (tmp_path / "policy.json").write_text(json.dumps(description))
        assert load(tmp_path, hidden(prefix)).policy.sizes == (3, 5, 4)
