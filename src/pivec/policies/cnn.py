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
from pivec.policies.head import Options
from pivec.policies.network import NetworkPolicy
from pivec.policies.outputs import HeadDescription, OutputPolicy
from pivec.policies.sb3_networks import Network, Tensors, to_float
from pivec.policies.sb3_settings import Settings
from pivec.policies.stacked import NetworkStack

if TYPE_CHECKING:
    import gymnasium

EXTRACTORS = (
    "pi_features_extractor",
    "features_extractor",
    "actor.features_extractor",
    "q_net.features_extractor",
    "quantile_net.features_extractor",
)
KERNELS = ((8, 4), (4, 2), (3, 1))  # size and stride of each convolution
AT_ONCE = 16  # images whose windows are laid out as rows


def find_cnn(tensors: Tensors) -> str:
    """Give the prefix of the tensors that make features of images; empty if there are none."""
    for prefix in EXTRACTORS:
        if f"{prefix}.cnn.0.weight" in tensors:
            return prefix
    return ""


@dataclass(frozen=True, eq=False)
class ImageNetwork:
    """NatureCNN and the network behind it, as a `Model`.

    Parameters
    ----------
    shape : (channels, height, width)
        Of an image.
    convolutions : tuple of (weight, bias)
        Weights of shape (channels * size * size, filters).
    linear : (weight, bias)
        From the flattened result of the convolutions to the features.
    rest : NetworkPolicy
        From the features on; without its head.
    scale : float
        Images are divided by it.
    channels_last : bool
        Whether images come as (height, width, channels).
    """

    shape: tuple[int, int, int]
    convolutions: tuple[Layer, ...]
    linear: Layer
    rest: NetworkPolicy
    scale: float
    channels_last: bool = False

    @property
    def n_inputs(self) -> int:
        """Number of values of an image."""
        return int(np.prod(self.shape))

    @property
    def fingerprint(self) -> str:
        """A digest of everything that decides the outputs."""
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
                f"This policy expects images of shape {own}, "
                f"but got a batch of shape {observations.shape}."
            )
        some = [observations[i : i + AT_ONCE] for i in range(0, max(1, len(observations)), AT_ONCE)]
        return np.concatenate([self._answer(images) for images in some])

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
        outputs: Float = NetworkStack(1, len(features), self.rest).outputs(features[None])[0]
        return outputs

    def bind(self, observation_space: gymnasium.Space[Any]) -> ImageNetwork:
        """Take images with the channels first or last."""
        channels, height, width = self.shape
        if observation_space.shape == self.shape:
            return replace(self, channels_last=False)
        if observation_space.shape == (height, width, channels):
            return replace(self, channels_last=True)
        raise UsageError(
            f"This policy expects images of shape {self.shape} (channels first), but the "
            f"environment gives {observation_space.shape}: wrap it as in training (resizing, grey "
            "levels, stacked frames)."
        )


def read_cnn(
    tensors: Tensors,
    prefix: str,
    settings: Settings,
    network: Network,
    options: Options,
    low: Float | None,
    high: Float | None,
) -> OutputPolicy:
    """Make the policy of a checkpoint whose ``prefix`` tensors are a NatureCNN."""
    name, shape = settings.name, settings.shape("observation_space")
    if shape is None or len(shape) != 3:
        raise BadPolicyFile(f"{name}: a CNN needs images of three axes, not of shape {shape}.")
    image = settings.mapping("observation_space").get("dtype") == "uint8"
    scale = 255.0 if image and settings.argument("normalize_images", True) else 1.0
    convolutions: list[Layer] = []
    channels, height, width = shape
    for i, (size, stride) in enumerate(KERNELS):
        weight, bias = (tensors.get(f"{prefix}.cnn.{2 * i}.{part}") for part in ("weight", "bias"))
        if (
            weight is None
            or bias is None
            or weight.shape != (len(bias), channels, size, size)
            or bias.ndim != 1
        ):
            raise BadPolicyFile(f"{name}: its CNN is not Stable-Baselines3's NatureCNN.")
        convolutions.append((to_float(weight.reshape(len(bias), -1).T), to_float(bias)))
        channels = len(bias)
        height, width = (height - size) // stride + 1, (width - size) // stride + 1
        if min(height, width) < 1:
            raise BadPolicyFile(f"{name}: images of shape {shape} are too small for its CNN.")
    weight, bias = (tensors.get(f"{prefix}.linear.0.{part}") for part in ("weight", "bias"))
    if weight is None or bias is None or weight.shape != (len(bias), channels * height * width):
        raise BadPolicyFile(f"{name}: its CNN is not Stable-Baselines3's NatureCNN.")
    linear = (to_float(weight.T), to_float(bias))
    if not all(np.isfinite(part).all() for layer in (*convolutions, linear) for part in layer):
        raise BadPolicyFile(f"{name} holds NaN or infinite weights: the training diverged.")
    rest = NetworkPolicy(
        network.layers,
        network.activation,
        network.head,
        network.log_std,
        low,
        high,
        options,
        network.state_std,
    )
    if rest.n_inputs != len(bias):
        raise BadPolicyFile(f"{name}: its CNN and the layers behind it do not fit together.")
    model = ImageNetwork((shape[0], shape[1], shape[2]), tuple(convolutions), linear, rest, scale)
    arrays = {"log_std": network.log_std, "low": low, "high": high}
    known = {key: value for key, value in arrays.items() if value is not None}
    return OutputPolicy(model, HeadDescription(network.head, options, known), head=rest.rule)
