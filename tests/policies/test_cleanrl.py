"""CleanRL's saved models act as CleanRL's own networks do."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
from readers import read_cleanrl

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies import load_policies

torch = pytest.importorskip("torch")
nn, spaces = torch.nn, gymnasium.spaces
RNG = np.random.default_rng(0)
ROWS = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32)
BOX = spaces.Box(np.array([-2.0, 0.0], "f4"), np.array([1.0, 3.0], "f4"))


class Agent(nn.Module):
    """The parts of CleanRL's agents, by the names it gives them."""

    def __init__(self, **parts):
        super().__init__()
        torch.manual_seed(0)
        for name, part in parts.items():
            if isinstance(part, nn.Module):
                self.add_module(name, part)
            elif name.startswith("action_"):
                self.register_buffer(name, part)
            else:
                self.register_parameter(name, nn.Parameter(part))


def mlp(sizes, activation):
    layers = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), activation()]
    return nn.Sequential(*layers[:-1])


def dumped(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def tensor(rows=ROWS):
    return torch.from_numpy(rows)


def test_ppo_with_discrete_actions():
    agent = Agent(actor=mlp([4, 16, 8, 3], nn.Tanh), critic=mlp([4, 16, 1], nn.Tanh))
    policy, info = read_cleanrl(dumped(agent.state_dict()))
    assert info == {"library": "CleanRL", "algorithm": "PPO"}
    expected = torch.softmax(agent.actor(tensor()), dim=1).detach().numpy()
    np.testing.assert_allclose(policy.distribution(ROWS), expected, atol=1e-6)


def test_ppo_with_real_actions():
    log_std = torch.tensor([[-0.5, 0.3]])
    agent = Agent(actor_mean=mlp([4, 16, 2], nn.Tanh), critic=mlp([4, 1], nn.Tanh))
    agent.register_parameter("actor_logstd", nn.Parameter(log_std))
    policy, info = read_cleanrl(dumped(agent.state_dict()))
    assert "does not save" in info["normaliser"]
    mean, std = policy.distribution(ROWS)
    np.testing.assert_allclose(mean, agent.actor_mean(tensor()).detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(std, np.exp(log_std.numpy()).repeat(30, 0), rtol=1e-6)


def test_dqn_takes_the_best_action():
    agent = Agent(network=mlp([4, 12, 8, 3], nn.ReLU))
    policy, info = read_cleanrl(dumped(agent.state_dict()))
    assert info == {"library": "CleanRL", "algorithm": "DQN"}
    best = agent.network(tensor()).argmax(dim=1).numpy()
    np.testing.assert_array_equal(policy.act(ROWS, RNG), best)


def atari_layers():
    """The layers of CleanRL's networks for Atari, of fewer filters."""
    return [
        nn.Conv2d(4, 3, 8, stride=4), nn.ReLU(), nn.Conv2d(3, 5, 4, stride=2), nn.ReLU(),
        nn.Conv2d(5, 6, 3, stride=1), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 7 * 7, 16), nn.ReLU(),
    ]  # fmt: skip


def test_networks_for_atari():
    images = np.random.default_rng(0).integers(0, 256, (20, 4, 84, 84), np.uint8)
    shown = torch.from_numpy(images) / 255.0
    seen, actions = spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(3)
    ppo = Agent(network=nn.Sequential(*atari_layers()), actor=nn.Linear(16, 3))
    policy, info = read_cleanrl(dumped(ppo.state_dict()))
    assert info == {"library": "CleanRL", "algorithm": "PPO"}
    expected = torch.softmax(ppo.actor(ppo.network(shown)), dim=1).detach().numpy()
    bound = policy.bind(seen, actions)
    np.testing.assert_allclose(bound.distribution(images), expected, atol=1e-5)
    dqn = Agent(network=nn.Sequential(*atari_layers(), nn.Linear(16, 3)))
    policy, info = read_cleanrl(dumped(dqn.state_dict()))
    assert info == {"library": "CleanRL", "algorithm": "DQN"}
    best = dqn.network(shown).argmax(dim=1).numpy()
    np.testing.assert_array_equal(policy.bind(seen, actions).act(images, RNG), best)
    sac = Agent(
        conv=nn.Sequential(*atari_layers()[:-2]), fc1=nn.Linear(294, 16), fc_logits=nn.Linear(16, 3)
    )
    policy, info = read_cleanrl(dumped(sac.state_dict()))
    assert info == {"library": "CleanRL", "algorithm": "SAC"}
    logits = sac.fc_logits(torch.relu(sac.fc1(sac.conv(shown))))
    expected = torch.softmax(logits, dim=1).detach().numpy()
    np.testing.assert_allclose(policy.bind(seen, actions).distribution(images), expected, atol=1e-5)
    with pytest.raises(UsageError, match="images of shape"):
        policy.bind(spaces.Box(0, 255, (210, 160, 3), np.uint8), actions)
    other = nn.Sequential(nn.Conv2d(4, 3, 5), *atari_layers()[1:])
    with pytest.raises(BadPolicyFile, match="NatureCNN"):
        read_cleanrl(dumped(Agent(network=other, actor=nn.Linear(16, 3)).state_dict()))


def c51_weights(last=22, atoms=11):
    """What CleanRL's C51 saves, of a smaller network."""
    agent = Agent(network=mlp([4, 12, 8, last], nn.ReLU))
    agent.register_buffer("atoms", torch.linspace(-100, 100, atoms))
    return {"model_weights": agent.state_dict(), "args": {"n_atoms": atoms, "v_min": -100}}


@pytest.mark.parametrize("images", [False, True], ids=["vectors", "images"])
def test_c51_takes_the_action_of_the_best_mean(images):
    rows, seen = ROWS, spaces.Box(-9, 9, (4,))
    network = mlp([4, 12, 8, 33], nn.ReLU)
    if images:
        rows = np.random.default_rng(0).integers(0, 256, (20, 4, 84, 84), np.uint8)
        seen = spaces.Box(0, 255, (4, 84, 84), np.uint8)
        network = nn.Sequential(*atari_layers(), nn.Linear(16, 33))
    network[-1].weight.data *= 50
    agent = Agent(network=network)
    agent.register_buffer("atoms", torch.linspace(-5, 10, 11))
    saved = {"model_weights": agent.state_dict(), "args": {"n_atoms": 11, "v_min": -5.0}}
    policy, info = read_cleanrl(dumped(saved))
    assert info == {"library": "CleanRL", "algorithm": "C51"}
    logits = agent.network(torch.from_numpy(rows) / 255.0 if images else tensor())
    values = (logits.view(len(rows), 3, 11).softmax(2) * agent.atoms).sum(2).detach().numpy()
    bound = policy.bind(seen, spaces.Discrete(3))
    np.testing.assert_allclose(bound.model.outputs(rows), values, atol=1e-4)
    assert len(set(values.argmax(1))) > 1
    np.testing.assert_array_equal(bound.act(rows, RNG), values.argmax(1))


SCALE, BIAS = torch.tensor([1.5, 1.5]), torch.tensor([-0.5, 1.5])


@pytest.mark.parametrize("many", [False, True], ids=["actor", "actor and critics"])
def test_td3_squashes_its_actions(many):
    agent = Agent(
        fc1=nn.Linear(4, 12), fc2=nn.Linear(12, 8), fc_mu=nn.Linear(8, 2),
        action_scale=SCALE, action_bias=BIAS,
    )  # fmt: skip
    state = agent.state_dict()
    data = dumped((state, mlp([6, 1], nn.ReLU).state_dict()) if many else state)
    policy, info = read_cleanrl(data)
    assert info == {"library": "CleanRL", "algorithm": "DDPG or TD3"}
    hidden = torch.relu(agent.fc2(torch.relu(agent.fc1(tensor()))))
    expected = (torch.tanh(agent.fc_mu(hidden)) * SCALE + BIAS).detach().numpy()
    np.testing.assert_allclose(policy.act(ROWS, RNG), expected, atol=1e-5)


def test_sac_has_its_own_way_with_deviations():
    agent = Agent(
        fc1=nn.Linear(4, 12), fc2=nn.Linear(12, 8), fc_mean=nn.Linear(8, 2),
        fc_logstd=nn.Linear(8, 2), action_scale=SCALE, action_bias=BIAS,
    )  # fmt: skip
    policy, info = read_cleanrl(dumped(agent.state_dict()))
    assert info == {"library": "CleanRL", "algorithm": "SAC"}
    hidden = torch.relu(agent.fc2(torch.relu(agent.fc1(tensor()))))
    log_std = -5 + 0.5 * (2 + 5) * (torch.tanh(agent.fc_logstd(hidden)) + 1)
    mean, std = policy.distribution(ROWS)
    np.testing.assert_allclose(mean, agent.fc_mean(hidden).detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(std, log_std.exp().detach().numpy(), rtol=1e-5)
    noise = policy.noise(RNG, 30)
    sampled = np.tanh(mean + std * noise) * SCALE.numpy() + BIAS.numpy()
    np.testing.assert_allclose(policy.respond(ROWS, noise), sampled, atol=1e-5)
    assert policy.bind(spaces.Box(-1, 1, (4,)), BOX).act(ROWS, RNG).shape == (30, 2)


def test_a_description_may_say_otherwise(tmp_path):
    agent = Agent(network=mlp([4, 12, 3], nn.Tanh))
    (tmp_path / "dqn.cleanrl_model").write_bytes(dumped(agent.state_dict()))
    statistics = {"mean": [1, 0, 0, 0], "var": [4, 1, 1, 1], "epsilon": 0, "clip": 5}
    description = {
        "activation": "tanh",
        "epsilon": 0.2,
        "normaliser": statistics,
        "info": {"step": 3},
    }
    (tmp_path / "dqn.json").write_text(json.dumps(description))
    (named,) = load_policies(tmp_path)
    assert named.info.step == 3
    assert named.info.metadata["normaliser"] == "its description"
    seen = np.clip((ROWS - [1, 0, 0, 0]) / [2, 1, 1, 1], -5, 5).astype(np.float32)
    best = agent.network(tensor(seen)).argmax(dim=1).numpy()
    np.testing.assert_array_equal(named.policy.act(ROWS, RNG, deterministic=True), best)
    assert named.policy.distribution(ROWS).min() == pytest.approx(0.2 / 3)


def test_a_description_may_explain_any_other_network(tmp_path):
    agent = Agent(body=mlp([4, 9], nn.ReLU), pi=nn.Linear(9, 3))
    (tmp_path / "own.pth").write_bytes(dumped({"epoch": 5, "state_dict": agent.state_dict()}))
    description = {"layers": ["body.0", "pi"], "activation": "relu", "head": "categorical"}
    (tmp_path / "own.json").write_text(json.dumps(description))
    (named,) = load_policies(tmp_path / "own.pth")
    logits = agent.pi(torch.relu(agent.body(tensor())))
    expected = torch.softmax(logits, dim=1).detach().numpy()
    np.testing.assert_allclose(named.policy.distribution(ROWS), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"model_weights": {}, "args": {}}, "dictionary"),
        (c51_weights(last=21), "11 atoms"),
        (c51_weights(atoms=0), "0 atoms"),
        (
            {
                "model_weights": {
                    "network.0.weight": torch.ones(22, 4),
                    "atoms": torch.ones(11),
                    "network.0.bias": torch.ones(22),
                }
            },
            "outputs",
        ),
        ({"w": torch.zeros(2)}, "CleanRL"),
        ({"w": 5}, "named tensors"),
        ([], "dictionary"),
        (5, "dictionary"),
        ({"network.0.weight": torch.zeros(8, 3, 4, 4)}, "convolutions"),
        ({"network.0.weight": torch.zeros(8, 3)}, "network.0"),
        ({"network.1.weight": torch.zeros(8, 3)}, "network.1"),
        ({"actor.0.weight": torch.full((2, 3), np.nan), "actor.0.bias": torch.ones(2)}, "NaN"),
    ],
)
def test_other_things_are_refused(value, words):
    with pytest.raises(BadPolicyFile, match=words):
        read_cleanrl(dumped(value))


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"activatoin": "relu"}, "'activatoin'"),
        ({"activation": 5}, "activation"),
        ({"head": "beta"}, "head"),
        ({"epsilon": "small"}, "'epsilon'"),
        ({"normaliser": {"mean": [0]}}, "var"),
        ({"normaliser": {"mean": [0], "var": [1]}}, "observations of 1 values"),
        ({"normaliser": {"mean": [0] * 4, "var": [-1] * 4}}, "finite"),
        ({"info": 5}, "info"),
        ({"layers": ["x"]}, "'x.weight'"),
        ({"layers": 5}, "layers"),
        ({"layers": [["network.0.weight", None]], "head": "categorical"}, None),
    ],
)
def test_descriptions_that_make_no_sense_are_named(tmp_path, description, words):
    agent = Agent(network=mlp([4, 3], nn.ReLU))
    (tmp_path / "a.cleanrl_model").write_bytes(dumped(agent.state_dict()))
    (tmp_path / "a.json").write_text(json.dumps(description))
    if words is None:
        assert len(load_policies(tmp_path)) == 1
        return
    with pytest.raises(BadPolicyFile, match=words):
        load_policies(tmp_path)


def test_damaged_descriptions_are_named(tmp_path):
    agent = Agent(network=mlp([4, 3], nn.ReLU))
    (tmp_path / "a.cleanrl_model").write_bytes(dumped(agent.state_dict()))
    for text, words in (("[", "JSON"), ("[]", "list"), ("[" * 10**5, "JSON")):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(BadPolicyFile, match=words):
            load_policies(tmp_path)


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_code_is_refused_and_does_not_run(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a/data.pkl", pickle.dumps({"w": Payload(tmp_path / "touched")}, 2))
    for name in ("a.cleanrl_model", "a.pth", "a.pt"):
        (tmp_path / name).write_bytes(buffer.getvalue())
        with pytest.raises(BadPolicyFile, match=r"asks to run|instruction"):
            load_policies(tmp_path / name)
    assert not (tmp_path / "touched").exists()
