"""Policies that look at images: NatureCNN against Stable-Baselines3's own and float64."""

from __future__ import annotations

import numpy as np
import pytest
from readers import read_sb3

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies import BatchPolicy, as_policy

torch = pytest.importorskip("torch")

from sb3_models import Still, changed, model, saved, spaces  # noqa: E402

IMAGES = spaces.Box(0, 255, (40, 44, 2), np.uint8)
BOX = spaces.Box(-1, 2, (2,))
RNG = np.random.default_rng(0)
SMALL = {"features_extractor_kwargs": {"features_dim": 24}}


def make(algorithm, actions, **arguments):
    if algorithm in ("PPO", "A2C"):
        arguments |= {"n_steps": 2} | ({"batch_size": 2} if algorithm == "PPO" else {})
    policy_kwargs = {**SMALL, **arguments.pop("policy_kwargs", {})}
    env = Still(IMAGES, actions)
    return model(algorithm, env, "CnnPolicy", policy_kwargs=policy_kwargs, **arguments)


@pytest.mark.bits
@pytest.mark.parametrize(
    ("algorithm", "actions", "arguments"),
    [
        ("PPO", spaces.Discrete(3), {}),
        ("A2C", BOX, {"policy_kwargs": {"share_features_extractor": False, "net_arch": [7]}}),
        ("PPO", BOX, {"use_sde": True}),
        ("DQN", spaces.Discrete(3), {}),
        ("SAC", BOX, {"policy_kwargs": {"net_arch": [9]}}),
        ("TD3", BOX, {"policy_kwargs": {"net_arch": [9]}}),
        ("QRDQN", spaces.Discrete(3), {"policy_kwargs": {"n_quantiles": 5}}),
    ],
)
def test_they_agree_with_sb3(algorithm, actions, arguments):
    made = make(algorithm, actions, **arguments)
    policy, info = read_sb3(saved(made))
    assert isinstance(policy, BatchPolicy)
    assert info["algorithm"].replace("-", "") == algorithm
    bound = policy.bind(IMAGES, actions)
    images = np.random.default_rng(1).integers(0, 256, (20, 40, 44, 2), np.uint8)
    # SB3 turns the axes of images that come with the channels last.
    expected, _ = made.predict(np.moveaxis(images, -1, 1), deterministic=True)
    actual = bound.act(images, RNG, deterministic=True)
    # Outputs of several hundred, from sums of a thousand terms: 1.1e-4 apart were seen.
    np.testing.assert_allclose(actual, expected, atol=6e-4)
    tensors = made.policy.obs_to_tensor(np.moveaxis(images, -1, 1))[0]
    if algorithm in ("PPO", "A2C"):
        with torch.no_grad():
            theirs = made.policy.get_distribution(tensors).distribution
        ours = bound.distribution(images)
        if algorithm == "PPO" and isinstance(actions, spaces.Discrete):
            np.testing.assert_allclose(ours, theirs.probs.numpy(), atol=1e-5)
        else:
            np.testing.assert_allclose(ours[0], theirs.mean.numpy(), rtol=2e-5, atol=6e-4)
    assert actions.contains(bound.act(images, RNG)[0])


def test_outputs_agree_with_float64():
    model = read_sb3(saved(make("SAC", BOX, policy_kwargs={"net_arch": [9]})))[0].model
    eye = model.features
    images = np.random.default_rng(1).integers(0, 256, (3, 2, 40, 44)).astype(np.float32)
    x = images / np.float64(255)
    for (weight, bias), (size, stride) in zip(eye.convolutions, eye.kernels, strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))
        windows = windows[:, :, ::stride, ::stride].transpose(0, 2, 3, 1, 4, 5)
        rows = windows.reshape(*windows.shape[:3], -1)
        x = np.maximum(rows @ weight.astype(np.float64) + bias, 0).transpose(0, 3, 1, 2)
    x = x.reshape(3, -1) @ eye.linear[0].astype(np.float64) + eye.linear[1]
    for weight, bias in model.rest.layers:
        x = np.maximum(x, 0) @ weight.astype(np.float64) + bias
    # Seen: 7e-7 of the largest. Terms of a sum are far larger than what is left of them.
    np.testing.assert_allclose(model.outputs(images), x, rtol=0, atol=5e-6 * np.abs(x).max())


@pytest.mark.bits
def test_a_row_does_not_depend_on_its_company():
    policy = read_sb3(saved(make("PPO", BOX)))[0].bind(IMAGES, BOX)
    images = np.random.default_rng(1).integers(0, 256, (21, 40, 44, 2), np.uint8)
    noise = policy.noise(np.random.default_rng(2), 21)
    whole = policy.respond(images, noise)
    for n in (1, 2, 5, 17, 20):
        np.testing.assert_array_equal(policy.respond(images[-n:], noise[-n:]), whole[-n:])


def test_channels_may_come_first():
    policy, _ = read_sb3(saved(make("PPO", spaces.Discrete(3))))
    images = np.random.default_rng(1).integers(0, 256, (5, 40, 44, 2), np.uint8)
    turned = np.moveaxis(images, -1, 1)
    first = spaces.Box(0, 255, (2, 40, 44), np.uint8)
    expected = policy.bind(IMAGES, spaces.Discrete(3)).distribution(images)
    np.testing.assert_array_equal(
        policy.bind(first, spaces.Discrete(3)).distribution(turned), expected
    )
    np.testing.assert_array_equal(policy.distribution(turned), expected)


def test_spaces_that_do_not_fit_are_named():
    policy, _ = read_sb3(saved(make("PPO", spaces.Discrete(3))))
    with pytest.raises(UsageError, match="images of shape"):
        policy.bind(spaces.Box(0, 255, (40, 44, 3), np.uint8), spaces.Discrete(3))
    with pytest.raises(UsageError, match="among 3 actions"):
        policy.bind(IMAGES, spaces.Discrete(4))
    with pytest.raises(UsageError, match="shape"):
        policy.act(np.zeros((2, 5)), RNG)
    with pytest.raises(UsageError, match="random numbers"):
        policy.respond(np.zeros((2, 2, 40, 44)), np.zeros((3, 1), np.float32))


def test_fingerprints_tell_them_apart():
    first, second = (
        as_policy(model("DQN", Still(IMAGES, spaces.Discrete(2)), "CnnPolicy", seed=seed))
        for seed in (0, 1)
    )
    assert first.architecture == second.architecture
    assert first.fingerprint != second.fingerprint


def test_damage_is_named():
    data = saved(make("PPO", spaces.Discrete(3)))
    space = {":type:": "<class 'x.Box'>", "dtype": "uint8"}
    for shape, words in (
        ([40, 44], "three axes"),
        ([3, 40, 44], "NatureCNN"),
        ([2, 41, 80], "NatureCNN"),
        ([2, 8, 8], "too small"),
    ):
        with pytest.raises(BadPolicyFile, match=words):
            read_sb3(changed(data, observation_space={**space, "_shape": shape}))
