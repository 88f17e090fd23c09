"""What is before networks: dictionaries, with images or without, and layers before an LSTM."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest
from readers import read_cleanrl, read_sb3

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies import NetworkPolicy, RecurrentNetwork, as_policy, load_policies
from pivec.policies.formats.sb3 import read_spaces
from pivec.rollouts import flatten

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from sb3_models import Still, changed, model, saved, spaces  # noqa: E402

nn = torch.nn
RNG = np.random.default_rng(0)
BOX = spaces.Box(-1, 2, (2,))
PLAIN = spaces.Dict(
    {
        "where": spaces.Box(-1, 1, (2, 2)),
        "mode": spaces.Discrete(3),
        "two": spaces.MultiDiscrete([2, 3]),
        "on": spaces.MultiBinary(2),
    }
)
ROOM = spaces.Dict({**PLAIN.spaces, "camera": spaces.Box(0, 255, (36, 40, 3), np.uint8)})
FEW = {"features_extractor_kwargs": {"cnn_output_dim": 5}}
# Features are in the hundreds before tanh: in float32 both are up to 4e-5 from the result in
# float64, and 5.8e-5 from each other. This is five times that.
CLOSE = 3e-4


def batch(space, n=20):
    space.seed(1)
    rows = [space.sample() for _ in range(n)]
    return {key: np.stack([row[key] for row in rows]) for key in space}


def make(algorithm, space, actions, **more):
    if algorithm in ("PPO", "RecurrentPPO"):
        more |= {"n_steps": 2, "batch_size": 2}
    policy = "MultiInputLstmPolicy" if algorithm == "RecurrentPPO" else "MultiInputPolicy"
    return model(algorithm, Still(space, actions), policy, **more)


def shown(observations):
    """As the library sees it: images with the channels first."""
    turned = (
        {"camera": np.moveaxis(observations["camera"], -1, 1)} if "camera" in observations else {}
    )
    return {**observations, **turned}


@pytest.mark.parametrize(
    ("algorithm", "actions", "settings"),
    [
        ("PPO", spaces.Discrete(3), {}),
        ("PPO", BOX, {"share_features_extractor": False, "net_arch": [7]}),
        ("DQN", spaces.Discrete(3), {"net_arch": [9]}),
        ("SAC", BOX, {"net_arch": [9]}),
        ("TD3", BOX, {"net_arch": [9]}),
    ],
)
@pytest.mark.parametrize("space", [PLAIN, ROOM], ids=["plain", "camera"])
def test_dictionaries_agree_with_sb3(algorithm, actions, settings, space):
    settings = {**settings, **(FEW if space is ROOM else {})}
    made = make(algorithm, space, actions, policy_kwargs=settings)
    policy, info = read_sb3(saved(made))
    assert info["algorithm"] == algorithm
    assert isinstance(policy, NetworkPolicy) == (space is PLAIN)
    bound, observations = policy.bind(space, actions), batch(space)
    rows = flatten(space, observations)
    expected, _ = made.predict(shown(observations), deterministic=True)
    np.testing.assert_allclose(bound.act(rows, RNG, deterministic=True), expected, atol=CLOSE)
    if algorithm == "PPO":
        with torch.no_grad():
            tensors = made.policy.obs_to_tensor(shown(observations))[0]
            theirs = made.policy.get_distribution(tensors).distribution
        ours = bound.distribution(rows)
        discrete = hasattr(theirs, "probs")
        first, other = (ours, theirs.probs) if discrete else (ours[0], theirs.mean)
        np.testing.assert_allclose(first, other.numpy(), atol=CLOSE)
        assert np.ptp(other.numpy(), axis=0).max() > 0.1


def test_images_that_are_not_scaled():
    settings = {**FEW, "normalize_images": False}
    floats = spaces.Dict({"eye": spaces.Box(-1, 1, (2, 36, 36)), "x": spaces.Box(-1, 1, (1,))})
    made = make("PPO", floats, BOX, policy_kwargs=settings)
    observations = batch(floats)
    expected, _ = made.predict(observations, deterministic=True)
    bound = read_sb3(saved(made))[0].bind(floats, BOX)
    ours = bound.act(flatten(floats, observations), RNG, deterministic=True)
    np.testing.assert_allclose(ours, expected, atol=CLOSE)


def test_an_lstm_behind_images(monkeypatch):
    # MultiInputLstmPolicy of SB3-contrib 2.9 gives torch a size that is no int of Python.
    whole = nn.LSTM.__init__
    monkeypatch.setattr(
        nn.LSTM, "__init__", lambda self, n, size, **more: whole(self, int(n), size, **more)
    )
    settings = {**FEW, "lstm_hidden_size": 6, "net_arch": [5]}
    made = make("RecurrentPPO", ROOM, BOX, policy_kwargs=settings)
    policy, _ = read_sb3(saved(made))
    assert isinstance(policy, RecurrentNetwork)
    bound, observations = policy.bind(ROOM, BOX), batch(ROOM)
    rows = flatten(ROOM, observations)
    memory, state = bound.initial_memory(20), None
    for _ in range(3):
        ours, memory = bound.respond(rows, None, memory)
        expected, state = made.predict(shown(observations), state, deterministic=True)
        np.testing.assert_allclose(ours, expected, atol=CLOSE)


def test_statistics_of_dictionaries(tmp_path):
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    made = make("PPO", ROOM, BOX, policy_kwargs=FEW)

    def around(keys):
        own = copy.deepcopy(ROOM)  # which VecNormalize changes
        env = VecNormalize(DummyVecEnv([lambda: Still(own, BOX)]), norm_obs_keys=keys)
        for moments in env.obs_rms.values():
            moments.mean, moments.var = moments.mean + 0.4, 2.5 * moments.var
        env.save(str(tmp_path / "vecnormalize.pkl"))
        return env

    env, observations = around(["where"]), batch(ROOM)
    rows = flatten(ROOM, observations)
    (tmp_path / "a.zip").write_bytes(saved(made))
    (named,) = load_policies(tmp_path / "a.zip")
    ours = named.policy.bind(ROOM, BOX).act(rows, RNG, deterministic=True)
    seen = shown(env.normalize_obs(observations))
    expected, _ = made.predict(seen, deterministic=True)
    np.testing.assert_allclose(ours, expected, atol=CLOSE)
    made._vec_normalize_env = env
    live = as_policy(made).bind(ROOM, BOX)
    np.testing.assert_array_equal(live.act(rows, RNG, deterministic=True), ours)
    around(["where", "camera"])
    with pytest.raises(BadPolicyFile, match="images"):
        load_policies(tmp_path / "a.zip")


def test_what_does_not_fit_is_refused():
    made = make("PPO", ROOM, BOX, policy_kwargs=FEW)
    policy, _ = read_sb3(saved(made))
    others = [
        (PLAIN, "camera, mode, on, two, where"),
        (spaces.Dict({**ROOM.spaces, "mode": spaces.Discrete(4)}), "3 values.*mode"),
        (spaces.Dict({**ROOM.spaces, "camera": BOX}), r"images of shape \(3, 36, 40\)"),
    ]
    for space, words in others:
        with pytest.raises(UsageError, match=words):
            policy.bind(space, BOX)
    for text in (None, "{}", "{'x': Graph(2)}", "{'camera': Box(0, 1, (0,), float32)}"):
        with pytest.raises(BadPolicyFile, match="observation space"):
            read_sb3(changed(saved(made), observation_space={"spaces": text}))
    with pytest.raises(BadPolicyFile, match="'camera'"):
        read_sb3(changed(saved(made), observation_space={"spaces": "{'x': Discrete(2)}"}))
    own = {"features_extractor_class": "<class 'mine.Eyes'>"}
    with pytest.raises(BadPolicyFile, match="features extractor"):
        read_sb3(changed(saved(made), policy_kwargs=own))


def test_spaces_are_read_as_gymnasium_writes_them():
    space = spaces.Dict(
        {
            **ROOM.spaces,
            "start": spaces.Discrete(4, start=-1),
            "grid": spaces.MultiDiscrete([[2, 3], [4, 5]]),
            "board": spaces.MultiBinary([2, 3]),
            "number": spaces.Box(0, 1, ()),
            "long": spaces.Box(-np.arange(2000.0), np.arange(2000.0) + 1, dtype=np.float64),
        }
    )
    parts = read_spaces(str(dict(space.spaces)))
    assert [part.key for part in parts] == list(space)
    assert [part.size for part in parts] == [spaces.flatdim(space[key]) for key in space]


class Recurrent(nn.Module):
    """CleanRL's agent of ppo_atari_lstm.py, and what people make of it."""

    def __init__(self, network, inputs, **last):
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(inputs, 6)
        for name, part in {**({"network": network} if network else {}), **last}.items():
            self.add_module(name, part)

    @torch.no_grad()
    def forward(self, x, state):
        hidden = self.network(x) if hasattr(self, "network") else x
        hidden, state = self.lstm(hidden[None], state)
        return (self.actor if hasattr(self, "actor") else self.actor_mean)(hidden[0]), state


CONVOLUTIONS = [nn.Conv2d(1, 3, 8, 4), nn.Conv2d(3, 4, 4, 2), nn.Conv2d(4, 5, 3, 1)]
ATARI = [part for layer in CONVOLUTIONS for part in (layer, nn.ReLU())]


@pytest.mark.parametrize(
    ("network", "shape", "inputs"),
    [
        (nn.Sequential(*ATARI, nn.Flatten(), nn.Linear(5, 9), nn.ReLU()), (1, 36, 36), 9),
        (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU()), (4,), 7),
        (None, (4,), 4),
    ],
    ids=["atari", "layers", "nothing"],
)
def test_cleanrl_with_an_lstm(network, shape, inputs):
    agent = Recurrent(network, inputs, actor=nn.Linear(6, 3), critic=nn.Linear(6, 1))
    buffer = io.BytesIO()
    torch.save(agent.state_dict(), buffer)
    policy, info = read_cleanrl(buffer.getvalue())
    assert info["algorithm"].startswith("PPO")
    space = spaces.Box(0, 255, shape)
    bound, state = policy.bind(space, spaces.Discrete(3)), None
    memory = bound.initial_memory(5)
    for _ in range(4):
        rows = RNG.uniform(-2, 2, (5, *shape)).astype(np.float32)
        images = 100 * np.abs(rows) if len(shape) == 3 else rows
        logits, state = agent(torch.tensor(images / 255 if len(shape) == 3 else rows), state)
        ours = bound.distribution(images, memory)
        _, memory = bound.respond(images, None, memory)
        np.testing.assert_allclose(ours, logits.softmax(1).numpy(), atol=1e-6)
