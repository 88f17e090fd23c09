"""Files of d3rlpy: algorithms, scalers and encoders that no row of the libraries has."""

from __future__ import annotations

import io
import json
import pickle

import gymnasium
import numpy as np
import pytest

from pivec.errors import BadPolicyFile
from pivec.policies import load_policies

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from fuzzing import d3_bytes, torch_bytes  # noqa: E402

SEEN = gymnasium.spaces.Box(-9, 9, (4,))
BOX = gymnasium.spaces.Box(np.float32([-3, 0]), np.float32([3, 4]))
THREE = gymnasium.spaces.Discrete(3)
ROWS = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
SCALED = ROWS / np.float64(1 + 1e-3)  # by the standard scaler of `d3_bytes`
ACTION = {"type": "min_max", "params": {"minimum": [-3.0, 0.0], "maximum": [3.0, 4.0]}}


def weights(n_out, seed=0):
    torch.manual_seed(seed)
    module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, n_out))
    return module.state_dict()


def outputs(state, rows=SCALED):
    """Float64 outputs of `weights`."""
    w = {key: value.double().numpy() for key, value in state.items()}
    return np.tanh(rows @ w["0.weight"].T + w["0.bias"]) @ w["2.weight"].T + w["2.bias"]


def load(tmp_path, data, space):
    (tmp_path / "model_70.d3").write_bytes(data)
    (named,) = load_policies(tmp_path / "model_70.d3")
    assert named.info.step == 70
    return named.policy.bind(SEEN, space)


def actions(policy):
    return policy.respond(ROWS, None)


@pytest.mark.parametrize("kind", ["dqn", "double_dqn", "nfq", "discrete_cql"])
@pytest.mark.parametrize("quantiles", [1, 3])
def test_the_best_value_is_taken(tmp_path, kind, quantiles):
    state = weights(3 * quantiles)
    function = {"type": "qr", "params": {"n_quantiles": quantiles}}
    function = function if quantiles > 1 else {"type": "mean", "params": {}}
    policy = load(tmp_path, d3_bytes(state, kind, q_func_factory=function), THREE)
    values = outputs(state).reshape(20, 3, quantiles).mean(axis=2)
    np.testing.assert_array_equal(actions(policy), values.argmax(axis=1))
    np.testing.assert_allclose(policy.outputs(ROWS), values, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "module", "head"),
    [("discrete_bc", "imitator", "epsilon_greedy"), ("discrete_sac", "policy", "categorical")],
)
def test_discrete_actors(tmp_path, kind, module, head):
    state = weights(3)
    policy = load(tmp_path, d3_bytes(state, kind, module), THREE)
    assert policy.head == head
    np.testing.assert_array_equal(actions(policy), outputs(state).argmax(axis=1))


@pytest.mark.parametrize(
    ("kind", "module"),
    [("bc", "imitator"), *((kind, "policy") for kind in ("ddpg", "td3", "td3_plus_bc", "prdc"))],
)
def test_deterministic_actors_are_squashed_into_the_scaler(tmp_path, kind, module):
    state = weights(2)
    squashed = np.tanh(outputs(state))
    policy = load(tmp_path, d3_bytes(state, kind, module, action_scaler=ACTION), BOX)
    expected = [-3, 0] + (squashed + 1) / 2 * [6, 4]
    np.testing.assert_allclose(actions(policy), expected, atol=1e-5)
    policy = load(tmp_path, d3_bytes(state, kind, module), BOX)  # in [-1, 1] without a scaler
    np.testing.assert_allclose(actions(policy), squashed, atol=1e-5)


def renamed(data, **names):
    """A file whose tensors have other names, and with more of them."""
    saved = pickle.loads(data)
    parts = torch.load(io.BytesIO(saved["torch"]))
    parts["policy"] = {
        **{key.replace("_fc", "_mu"): value for key, value in parts["policy"].items()},
        **names,
    }
    return pickle.dumps({**saved, "torch": torch_bytes(parts)})


@pytest.mark.parametrize(("kind", "least", "most"), [("awac", -6, 0), ("iql", -5, 2)])
def test_deviations_that_do_not_depend_on_states(tmp_path, kind, least, most):
    state, raw = weights(2), torch.tensor([[0.3, -1.0]])
    data = renamed(d3_bytes(state, kind, "policy", action_scaler=ACTION), _logstd=raw)
    policy = load(tmp_path, data, BOX)
    mean, std = policy.distribution(ROWS)
    np.testing.assert_allclose(mean, np.tanh(outputs(state)), atol=1e-5)
    expected = np.exp(least + (most - least) / (1 + np.exp(-raw.double().numpy())))
    np.testing.assert_allclose(std, np.broadcast_to(expected, (20, 2)), rtol=1e-5)
    np.testing.assert_allclose(actions(policy), [-3, 0] + (mean + 1) / 2 * [6, 4], atol=1e-5)
    # Samples are clipped to [-1, 1] before they are rescaled.
    drawn = policy.respond(ROWS, np.full((20, 2), 1e4, np.float32))
    np.testing.assert_allclose(drawn, np.broadcast_to([3, 4], (20, 2)))


@pytest.mark.parametrize("kind", ["sac", "cql", "cal_ql"])
def test_deviations_that_depend_on_states(tmp_path, kind):
    state, other = weights(2), weights(2, seed=3)
    spread = {"_logstd.weight": 9 * other["2.weight"], "_logstd.bias": other["2.bias"]}
    policy = load(tmp_path, renamed(d3_bytes(state, kind, "policy"), **spread), BOX)
    mean, std = policy.distribution(ROWS)
    own = {**state, "2.weight": spread["_logstd.weight"], "2.bias": spread["_logstd.bias"]}
    np.testing.assert_allclose(mean, outputs(state), atol=1e-5)
    np.testing.assert_allclose(std, np.exp(np.clip(outputs(own), -20, 2)), rtol=1e-4)
    assert (std == std.max()).mean() > 0.05, "some are clipped"
    np.testing.assert_allclose(actions(policy), np.tanh(mean), atol=1e-5)


def test_observations_scaled_by_their_range(tmp_path):
    low, high = [-1.0, -2.0, 0.0, 3.0], [1.0, 2.0, 5.0, 4.0]
    scaler = {"type": "min_max", "params": {"minimum": low, "maximum": high}}
    state = weights(2)
    policy = load(tmp_path, d3_bytes(state, "td3", "policy", observation_scaler=scaler), BOX)
    rows = (ROWS - np.float64(low)) / (np.float64(high) - low) * 2 - 1
    np.testing.assert_allclose(actions(policy), np.tanh(outputs(state, rows)), atol=1e-5)


def test_images(tmp_path):
    torch.manual_seed(0)
    convolutions = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 4, 2), torch.nn.ReLU(), torch.nn.Conv2d(3, 2, 3, 1), torch.nn.ReLU()
    )
    hidden, last = torch.nn.Linear(2 * 3 * 3, 5), torch.nn.Linear(5, 3)
    parts = {"_encoder._cnn_layers": convolutions, "_encoder._last_layers.0": hidden, "_fc": last}
    states = {
        f"0.{part}.{key}": value
        for part, module in parts.items()
        for key, value in module.state_dict().items()
    }
    factory = {"type": "pixel", "params": {"filters": [[3, 4, 2], [2, 3, 1]]}}
    saved = pickle.loads(
        d3_bytes({}, encoder_factory=factory, observation_scaler={"type": "pixel", "params": {}},
                 q_func_factory={"type": "mean", "params": {}})
    )  # fmt: skip
    settings = {**json.loads(saved["config"]), "observation_shape": [1, 12, 12]}
    saved |= {"config": json.dumps(settings), "torch": torch_bytes({"q_funcs": states})}
    (tmp_path / "a.d3").write_bytes(pickle.dumps(saved))
    (named,) = load_policies(tmp_path / "a.d3")
    space = gymnasium.spaces.Box(0, 255, (1, 12, 12), np.uint8)
    policy = named.policy.bind(space, gymnasium.spaces.Discrete(3))
    images = np.random.default_rng(0).integers(0, 256, (9, 1, 12, 12), np.uint8)
    with torch.no_grad():
        x = torch.relu(hidden(convolutions(torch.from_numpy(images) / 255).flatten(1)))
        values = last(x).numpy()
    np.testing.assert_allclose(policy.model.outputs(images), values, atol=1e-5)
    np.testing.assert_array_equal(policy.respond(images, None), values.argmax(axis=1))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"kind": "crr"}, "'crr'"),
        ({"q_func_factory": {"type": "iqn", "params": {}}}, "'iqn'"),
        ({"q_func_factory": {"type": "qr", "params": {}}, "action_size": 2}, "action space"),
        ({"encoder_factory": {"type": "simba", "params": {}}}, "'simba'"),
        ({"encoder_factory": {"type": "vector", "params": {"use_layer_norm": True}}}, "layer_norm"),
        ({"encoder_factory": {"type": "vector", "params": {"activation": "geglu"}}}, "geglu"),
        ({"observation_scaler": {"type": "tuple", "params": {}}}, "'tuple'"),
        ({"observation_scaler": 3}, "observation_scaler"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path, changes, match):
    with pytest.raises(BadPolicyFile, match=match):
        load(tmp_path, d3_bytes(weights(9), **changes), THREE)
