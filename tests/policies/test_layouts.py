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


def cell(name, kind, inputs=3, size=4):
    """A recurrent module of torch of two layers, and its tensors by name."""
    torch.manual_seed(1)
    made = getattr(torch.nn, kind)(inputs, size, 2)
    return made, {f"{name}.{key}": value for key, value in made.state_dict().items()}


def float64_steps(made, rows):
    """Hidden states of the last layer along ``rows``, by the equations of torch's documentation."""
    layers = []
    for i in range(made.num_layers):
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        layers.append([getattr(made, f"{name}_l{i}").detach().double().numpy() for name in names])
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    states = [(np.zeros(made.hidden_size), np.zeros(made.hidden_size)) for _ in layers]
    result = []
    for x in rows.astype(np.float64):
        for i, (ih, hh, bi, bh) in enumerate(layers):
            h, c = states[i]
            a, b = ih @ x + bi, hh @ h + bh
            if isinstance(made, torch.nn.GRU):
                (ar, az, an), (br, bz, bn) = np.split(a, 3), np.split(b, 3)
                share = sigmoid(az + bz)
                h = (1 - share) * np.tanh(an + sigmoid(ar + br) * bn) + share * h
            else:
                gates = np.split(a + b, 4)
                c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * np.tanh(gates[2])
                h = sigmoid(gates[3]) * np.tanh(c)
            states[i] = h, c
            x = h
        result.append(h)
    return np.array(result)


HEAD = {f"actor.{key.partition('.')[2]}": value for key, value in layer("x.0", 4, 2).items()}
MLP = {f"mlp.{key.partition('.')[2]}": value for key, value in HEAD.items()}


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize(
    ("wrapper", "memory", "head", "library"),
    [
        ("model_state_dict", "memory_a.rnn", {**HEAD, "log_std": ACTIONS}, "rsl_rl"),
        (
            "actor_state_dict",
            "rnn.rnn",
            {**MLP, "distribution.std_param": torch.ones(2)},
            "rsl_rl",
        ),
    ],
)
def test_memories_of_rsl_rl(tmp_path, kind, wrapper, memory, head, library):
    made, tensors = cell(memory, kind)
    critic = cell("memory_c.rnn", kind)[1] if memory.startswith("memory") else {}
    named = load(tmp_path, {wrapper: {**tensors, **critic, **head}}, "model_30.pt")
    policy = named.policy
    article = "a GRU" if kind == "GRU" else "an LSTM"
    assert named.info.metadata["algorithm"] == f"PPO with {article}"
    assert named.info.metadata["library"] == library
    rows = RNG.normal(size=(12, 3)).astype(np.float32)
    memory, seen = policy.initial_memory(1), []
    assert memory.shape == (1, 8 if kind == "GRU" else 16)
    for row in rows:
        outputs, memory = policy.outputs(row[None], memory)
        seen.append(outputs[0])
    weight, bias = policy.rest.layers[0]
    np.testing.assert_allclose(seen, float64_steps(made, rows) @ weight + bias, atol=1e-5)
    assert np.std(seen, axis=0).max() > 0.03, "what hardly varies would hide errors"


def test_a_gru_is_another_policy_than_an_lstm(tmp_path):
    loaded = {}
    for kind in ("GRU", "LSTM"):
        _, tensors = cell("memory_a.rnn", kind)
        saved = {"model_state_dict": {**tensors, **HEAD, "std": torch.ones(2)}}
        loaded[kind] = load(tmp_path, saved, f"{kind}.pt").policy
    assert loaded["GRU"].fingerprint != loaded["LSTM"].fingerprint
    assert loaded["GRU"].architecture != loaded["LSTM"].architecture


@pytest.mark.parametrize(
    ("tensors", "match"),
    [
        ({"memory_a.rnn.weight_ih_l0": torch.zeros(12, 3)}, "not a plain LSTM or GRU"),
        ({**cell("memory_a.rnn", "RNN")[1]}, "not a plain LSTM or GRU"),
        ({**cell("memory_a.rnn", "GRU")[1], "rnn.weight": torch.zeros(2)}, "convolutions"),
        (cell("memory_a.rnn", "GRU", 3, 5)[1], "weights of shape"),
    ],
)
def test_other_memories_are_refused(tmp_path, tensors, match):
    with pytest.raises(BadPolicyFile, match=match):
        load(tmp_path, {"model_state_dict": {**tensors, **HEAD, "std": torch.ones(2)}})


PUFFER = {**layer("policy.encoder.0", 3, 4), **layer("policy.value", 4, 1)}


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("head", ["categorical", "gaussian"])
def test_policies_of_pufferlib(tmp_path, memory, head):
    decoder = layer("policy.decoder", 4, 2)
    if head == "gaussian":
        decoder = {**layer("policy.decoder_mean", 4, 2), "policy.decoder_logstd": ACTIONS[None]}
    made, tensors = cell("lstm", "LSTM", 4) if memory else (None, {})
    named = load(tmp_path, {**PUFFER, **decoder, **tensors}, "model_000030.pt")
    assert named.info.metadata["library"] == "PufferLib"
    policy = named.policy
    rows = RNG.normal(size=(6, 3)).astype(np.float32)
    given = torch.from_numpy(rows) @ PUFFER["policy.encoder.0.weight"].T
    hidden = torch.nn.functional.gelu(given + PUFFER["policy.encoder.0.bias"]).numpy()
    if memory:
        hidden, state, seen = float64_steps(made, hidden), policy.initial_memory(1), []
        for row in rows:
            outputs, state = policy.outputs(row[None], state)
            seen.append(outputs[0])
    else:
        seen = policy.outputs(rows)
    weight, bias = (value.numpy() for value in list(decoder.values())[:2])
    np.testing.assert_allclose(seen, hidden @ weight.T + bias, atol=1e-5)
    # Of a dictionary, observations pass no activation.
    plain = {key.replace("encoder.0", "encoder"): value for key, value in PUFFER.items()}
    with pytest.raises(BadPolicyFile):
        load(tmp_path, {**plain, **decoder}, "other.pt")
