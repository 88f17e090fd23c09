"""Policies of Stable-Baselines3 that look at images: its NatureCNN, in float32.

Three convolutions and a linear layer (Mnih et al. 2015), then layers and a head as any network.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.forward import Float, Layer, affine, padded
from pivec.policies.head import frozen
from pivec.policies.network import NetworkPolicy
from pivec.policies.outputs import HeadDescription, Model, OutputPolicy
from pivec.policies.sb3_networks import SB3Settings
from pivec.policies.tensors import Tensors

if TYPE_CHECKING:
    import gymnasium

EXTRACTORS = [f"{of}features_extractor" for of in ("pi_", "", "actor.", "q_net.", "quantile_net.")]
KERNELS = ((8, 4), (4, 2), (3, 1))  # size and stride of each convolution
AT_ONCE = 16  # images whose windows are laid out as rows


def find_cnn(tensors: Tensors) -> str:
    """Give the prefix of the tensors that make features of images; empty if there are none."""
    return next((prefix for prefix in EXTRACTORS if f"{prefix}.cnn.0.weight" in tensors), "")


@dataclass(frozen=True, eq=False)
class ImageNetwork(Model):
    """NatureCNN and the network behind it, without its head, as a `Model`."""

    shape: tuple[int, int, int]  # channels, height, width
    convolutions: tuple[Layer, ...]  # weights of shape (channels * size * size, filters)
    linear: Layer  # from the flattened result of the convolutions to the features
    rest: NetworkPolicy
    scale: float  # that images are divided by
    channels_last: bool = False

    @property
    def n_inputs(self) -> int:
        return int(np.prod(self.shape))

    @property
    def fingerprint(self) -> str:
        about = (self.shape, self.scale, self.rest.fingerprint)
        digest = hashlib.sha256(repr(about).encode())
        for weight, bias in (*self.convolutions, self.linear):
            digest.update(weight.tobytes() + bias.tobytes())
        return digest.hexdigest()

    def outputs(self, observations: Float) -> NDArray[Any]:
        """Outputs (n, k) of images (n, channels, height, width)."""
        channels, height, width = self.shape
        own = (height, width, channels) if self.channels_last else self.shape
        if observations.shape[1:] != own:
            raise UsageError(
                f"this policy expects images of shape {own}, "
                f"but got a batch of shape {observations.shape}"
            )
        starts = range(0, max(1, len(observations)), AT_ONCE)
        return np.concatenate([self._answer(observations[i : i + AT_ONCE]) for i in starts])

    @cached_property
    def _padded(self) -> tuple[Layer, ...]:
        return tuple(padded(layer) for layer in (*self.convolutions, self.linear))

    def _answer(self, images: Float) -> NDArray[Any]:
        x = images if self.channels_last else np.moveaxis(images, 1, -1)
        x = x / np.float32(self.scale)
        for layer, (_, bias), (size, stride) in zip(
            self._padded, self.convolutions, KERNELS, strict=False
        ):
            windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))
            windows = windows[:, ::stride, ::stride]  # n, rows, columns, channels, size, size
            flat = windows.reshape(-1, len(layer[0]))
            x = affine(flat, layer, "relu")[:, : len(bias)].reshape(*windows.shape[:3], -1)
        # The linear layer counts channels first.
        flat = np.moveaxis(x, -1, 1).reshape(len(x), -1)
        features = affine(flat, self._padded[-1], "relu")[:, : self.rest.n_inputs]
        return self.rest.outputs(features)

    def bind(self, observation_space: gymnasium.Space[Any]) -> ImageNetwork:
        """Take images with the channels first or last."""
        channels, height, width = self.shape
        if observation_space.shape == self.shape:
            return replace(self, channels_last=False)
        if observation_space.shape == (height, width, channels):
            return replace(self, channels_last=True)
        raise UsageError(
            f"this policy expects images of shape {self.shape} (channels first), but the "
            f"environment gives {observation_space.shape}: wrap it as in training (resizing, grey "
            "levels, stacked frames)"
        )


def read_cnn(
    tensors: Tensors, prefix: str, settings: SB3Settings, rest: NetworkPolicy
) -> OutputPolicy:
    """Make the policy of a checkpoint whose ``prefix`` tensors are a NatureCNN before ``rest``."""
    shape = settings.shape("observation_space")
    if shape is None or len(shape) != 3:
        raise BadPolicyFile(f"a CNN needs images of three axes, not of shape {shape}")
    image = settings.mapping("observation_space").get("dtype") == "uint8"
    scale = 255.0 if image and settings.argument("normalize_images", True) else 1.0
    layers: list[Layer] = []
    channels, height, width = shape
    for i, (size, stride) in enumerate(KERNELS):
        layers.append(_layer(tensors, f"{prefix}.cnn.{2 * i}", (channels, size, size)))
        channels = len(layers[-1][1])
        height, width = (height - size) // stride + 1, (width - size) // stride + 1
        if min(height, width) < 1:
            raise BadPolicyFile(f"images of shape {shape} are too small for its CNN")
    linear = _layer(tensors, f"{prefix}.linear.0", (channels * height * width,))
    if rest.n_inputs != len(linear[1]):
        raise BadPolicyFile("its CNN and the layers behind it do not fit together")
    model = ImageNetwork((shape[0], shape[1], shape[2]), tuple(layers), linear, rest, scale)
    arrays = {"log_std": rest.log_std, "low": rest.low, "high": rest.high}
    known = {key: value for key, value in arrays.items() if value is not None}
    return OutputPolicy(model, HeadDescription(rest.head, rest.options, known), head=rest.rule)


def _layer(tensors: Tensors, prefix: str, inputs: tuple[int, ...]) -> Layer:
    """Weights (in, out) and biases of a layer that sees values of a shape, flattened."""
    weight, bias = (tensors.get(f"{prefix}.{part}") for part in ("weight", "bias"))
    if weight is None or bias is None or bias.ndim != 1 or weight.shape != (len(bias), *inputs):
        raise BadPolicyFile("its CNN is not Stable-Baselines3's NatureCNN")
    layer = frozen(weight.reshape(len(bias), -1).T), frozen(bias)
    if not all(np.isfinite(part).all() for part in layer):
        raise BadPolicyFile("it holds NaN or infinite weights: the training diverged")
    return layer
