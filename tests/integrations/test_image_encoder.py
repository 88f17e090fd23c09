"""Encoders of images: one sample whoever plays, the network's own numbers, and use as features."""

from __future__ import annotations

from itertools import product

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TransformObservation

import pivec
from pivec.errors import BadPolicyFile, PivecWarning, UsageError
from pivec.files import read_regular
from pivec.policies import read_safetensors
from pivec.rollouts import load_features, read_encoder

PARTS = gymnasium.spaces.Dict({"x": gymnasium.spaces.Box(0, 255, (12, 20, 2), np.uint8)})


class Dots(gymnasium.Env):
    """A dot that walks over an image of 12 x 20 pixels, by actions."""

    def __init__(self, channels_first=False):
        self.first = channels_first
        shape = (2, 12, 20) if channels_first else (12, 20, 2)
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = gymnasium.spaces.Discrete(4)

    def _picture(self):
        image = np.zeros((12, 20, 2), np.uint8)
        y, x = self.at
        image[y : y + 4, x : x + 4] = [200, 90]
        return np.moveaxis(image, -1, 0) if self.first else image

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.time = self.np_random.integers(0, (9, 17)), 0
        return self._picture(), {}

    def step(self, action):
        move = [(0, 1), (1, 0), (0, -1), (-1, 0)][int(action)]
        self.at = np.clip(self.at + move, 0, (8, 16))
        self.time += 1
        return self._picture(), 0.0, False, self.time >= 25, {}


def right(observations):
    return np.zeros(len(observations), int)


def frames():
    """All images of the environment, channels first."""
    env, shown = Dots(channels_first=True), []
    for env.at in product(range(9), range(17)):
        shown.append(env._picture())
    return np.stack(shown)


def fitted(path, **options):
    """Fit an encoder on the images of a random policy; return it with what is said of it."""
    options = {"episodes": 80, "method": "random"} | options
    fit = pivec.fit_encoder(Dots, "random", path / "encoder.safetensors", **options)
    return read_encoder(read_regular(fit.path)), fit


def test_the_sample_is_the_same_whoever_plays_where(tmp_path):
    files = []
    for name, options in (
        ("a", {"n_envs": 1}),
        ("b", {"n_envs": 7}),
        ("c", {"jobs": 2, "engine": "processes"}),
    ):
        files.append(tmp_path / f"{name}.safetensors")
        policies = {"right": right, "random": "random"}
        if name == "b":
            policies = dict(reversed(policies.items()))
        made = {"method": "random", "size": 12, "frames": 40, "episodes": 4} | options
        fit = pivec.fit_encoder(Dots, policies, files[-1], **made)
        assert (fit.frames, fit.policies, fit.shape) == (40, 2, (2, 12, 20))
    first, *others = map(read_regular, files)
    assert all(other == first for other in others)


def test_observations_that_are_no_images_are_refused(tmp_path):
    for env in ("CartPole-v1", lambda: TransformObservation(Dots(), lambda x: {"x": x}, PARTS)):
        with pytest.raises(UsageError, match="images with three axes"):
            pivec.fit_encoder(env, "random", tmp_path / "e.safetensors", method="random")


def test_random_convolutions_keep_what_varies_most(tmp_path):
    features, fit = fitted(tmp_path, size=8)
    assert fit.frames == len(frames())
    rows = features.outputs(frames()).astype(float)
    assert 0.5 < fit.explained <= 1
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-3 * rows.std())
    apart = np.cov(rows, rowvar=False)
    np.testing.assert_allclose(apart, np.diag(np.diag(apart)), atol=1e-3 * apart[0, 0])
    assert (np.diff(np.diag(apart)) < 0).all()
    with pytest.raises(UsageError, match="at most 39 numbers"):
        fitted(tmp_path, size=1000, frames=40)


@pytest.mark.filterwarnings("ignore:the encoder explains only")
def test_an_autoencoder_is_the_same_again_and_leaves_the_global_state_alone(tmp_path):
    torch = pytest.importorskip("torch")
    options = {"method": "autoencoder", "size": 6, "epochs": 60}
    before = torch.random.get_rng_state()
    _, fit = fitted(tmp_path, **options)
    assert torch.equal(torch.random.get_rng_state(), before)
    first = read_regular(fit.path)
    _, again = fitted(tmp_path, **options)
    assert fit.explained == again.explained > 0.05
    assert read_regular(again.path) == first


@pytest.mark.filterwarnings("ignore:the encoder explains only")
def test_the_numbers_are_those_of_torch(tmp_path):
    torch = pytest.importorskip("torch")
    features, fit = fitted(tmp_path, method="autoencoder", size=5, epochs=2)
    tensors, _ = read_safetensors(read_regular(fit.path))
    weights = {name: torch.from_numpy(tensor.copy()) for name, tensor in tensors.items()}
    x = torch.from_numpy(frames()).float() / 255
    for i in range(sum(name.startswith("convolutions") for name in weights) // 2):
        layer = weights[f"convolutions.{i}.weight"], weights[f"convolutions.{i}.bias"]
        x = torch.relu(torch.nn.functional.conv2d(x, *layer, stride=2))
    x = torch.nn.functional.linear(x.flatten(1), weights["linear.weight"], weights["linear.bias"])
    np.testing.assert_allclose(features.outputs(frames()), x.numpy(), atol=1e-5)


def test_an_encoder_in_use(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pivec.fit_encoder(Dots, ["random"], method="random", size=4, episodes=3)
    path = "encoder.safetensors"
    features = load_features(path)
    assert features.names == ("code[0]", "code[1]", "code[2]", "code[3]")
    data = pivec.collect(Dots, {"right": right}, 2, features=path, store="states")
    assert data.feature_names == features.names
    first = pivec.collect(lambda: Dots(channels_first=True), {"right": right}, 2, features=path)
    np.testing.assert_array_equal(data.states, first.states)  # channels first or last
    with pytest.raises(pivec.PivecError, match="does not take observations of shape"):
        pivec.collect("CartPole-v1", "random", 1, features=path)
    with pytest.raises(BadPolicyFile, match="image encoder, not a policy: use it with --features"):
        pivec.load_policies(path)


def test_what_cannot_be_made_or_read_is_named(tmp_path):
    with pytest.raises(UsageError, match="safetensors"):
        pivec.fit_encoder(Dots, "random", tmp_path / "encoder.onnx")
    with pytest.raises(UsageError, match="autoencoder or random"):
        pivec.fit_encoder(Dots, "random", method="best")
    with pytest.raises(UsageError, match="different images"):
        pivec.fit_encoder(Dots, "random", method="random", episodes=1, max_steps=3)
    with pytest.warns(PivecWarning, match="explains only"):
        pivec.fit_encoder(Dots, "random", tmp_path / "e.safetensors", method="random", size=1)
    with pytest.warns(PivecWarning, match="explains only"):
        data = read_regular(fitted(tmp_path, size=1)[1].path)
    broken = data.replace(b'\\"kernels\\": [[4, 2]', b'\\"kernels\\": [[4,-2]')
    assert broken != data
    for odd in (broken, data.replace(b"pivec-encoder", b"pivec-encodes"), data[:100]):
        with pytest.raises(BadPolicyFile):
            read_encoder(odd)
