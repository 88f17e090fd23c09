"""Encoders of images: one sample whoever plays, the network's own numbers, and use as features."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import pivec
from pivec.errors import BadPolicyFile, PivecWarning, UsageError
from pivec.files import read_regular
from pivec.options import EncoderOptions
from pivec.rollouts import encoder_bytes, load_features, read_encoder
from pivec.workflows.encoder import (
    FrameSample,
    Images,
    _halves,
    learned_features,
    random_features,
)


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


def images():
    rng = np.random.default_rng(0)
    env, frames = Dots(channels_first=True), []
    for seed in range(150):
        env.reset(seed=seed)
        frames.append(env.step(rng.integers(4))[0])
    return Images.of(np.stack(frames))


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


def test_the_sample_is_bounded_and_its_images_differ():
    sample = FrameSample(10, 3)
    rng = np.random.default_rng(0)
    for _ in range(20):
        sample(rng.integers(0, 30, (16, 1, 1, 1), np.uint8))
        assert len(sample.frames()) <= 10
    assert len(np.unique(sample.frames())) == 10
    for odd in (np.zeros((2, 4)), {"image": np.zeros((2, 4, 4, 1))}):
        with pytest.raises(UsageError, match="images with three axes"):
            sample(odd)


def test_random_convolutions_keep_what_varies_most():
    shown = images()
    features, kept = random_features(shown, EncoderOptions(size=8), False)
    rows = features.outputs(shown.frames).astype(float)
    assert 0.5 < kept <= 1
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-3 * rows.std())
    apart = np.cov(rows, rowvar=False)
    np.testing.assert_allclose(apart, np.diag(np.diag(apart)), atol=1e-3 * apart[0, 0])
    assert (np.diff(np.diag(apart)) < 0).all()
    with pytest.raises(UsageError, match="at most 149 numbers"):
        random_features(shown, EncoderOptions(size=1000), False)


def test_an_autoencoder_is_the_same_again_and_leaves_the_global_state_alone():
    torch = pytest.importorskip("torch")
    shown = images()
    options = EncoderOptions(size=6, epochs=60)
    before = torch.random.get_rng_state()
    first, kept = learned_features(shown, options, False)
    assert torch.equal(torch.random.get_rng_state(), before)
    second, again = learned_features(shown, options, False)
    assert kept == again > 0.05
    data = encoder_bytes(first, {})
    assert data == encoder_bytes(second, {})
    np.testing.assert_array_equal(
        read_encoder(data).outputs(shown.frames), first.outputs(shown.frames)
    )


def test_the_numbers_are_those_of_torch():
    torch = pytest.importorskip("torch")
    from pivec.policies import find_features

    shown = images()
    kernels, shapes = shown.layout
    encoder, decoder = _halves(kernels, shapes, 5)
    tensors = {name: tensor.numpy() for name, tensor in encoder.state_dict().items()}
    linear = str(2 * len(kernels) + 1)
    names = [str(2 * i) for i in range(len(kernels))]
    features = find_features(tensors, names, linear, shown.shape, kernels, 255.0, "identity")
    with torch.inference_mode():
        x = torch.from_numpy(shown.frames).float() / 255
        assert decoder(encoder(x)).shape == x.shape
        expected = encoder(x).numpy()
    np.testing.assert_allclose(features.outputs(shown.frames), expected, atol=1e-5)


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
    with pytest.warns(PivecWarning, match="keeps only"):
        pivec.fit_encoder(Dots, "random", tmp_path / "e.safetensors", method="random", size=1)
    features, _ = random_features(images(), EncoderOptions(size=2), False)
    data = encoder_bytes(features, {})
    broken = data.replace(b'\\"kernels\\": [[4, 2]', b'\\"kernels\\": [[4,-2]')
    assert broken != data
    for odd in (broken, data.replace(b"pivec-encoder", b"pivec-encodes"), data[:100]):
        with pytest.raises(BadPolicyFile):
            read_encoder(odd)
