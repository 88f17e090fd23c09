"""What networks see instead of observations: features of vectors, and of dictionaries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.distributions import (
    Features,
    HeadDescription,
    Model,
    OutputPolicy,
    frozen,
    probabilities,
)
from pivec.policies.forward import Float, Layer, Normaliser, affine, padded
from pivec.policies.networks import NetworkPolicy
from pivec.policies.tensors import Tensors

if TYPE_CHECKING:
    import gymnasium

# -----------------------------------------------------------------------------
# Networks that look at images, in float32: convolutions and a linear layer, then any network.
#
# The convolutions of Mnih et al. 2015 are what Stable-Baselines3 and CleanRL have for Atari.


Kernels = tuple[tuple[int, int], ...]  # size and stride of each convolution
NATURE: Kernels = ((8, 4), (4, 2), (3, 1))
AT_ONCE = 16  # images whose windows are laid out as rows
MOST = 1 << 16  # pixels of a side
Margins = tuple[int, int, int, int]  # zeros above, below, left and right of an image
NO_MARGINS: Margins = (0, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class ImageFeatures(Features):
    """Convolutions, relu behind each, and mostly a linear layer of what they give.

    Examples
    --------
    >>> import numpy as np
    >>> edges = np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.zeros(1)  # of 2 x 2 pixels
    >>> total = np.ones((4, 1)), np.zeros(1)
    >>> eye = ImageFeatures((1, 4, 4), ((2, 2),), (edges,), total)
    >>> eye.outputs(np.full((1, 1, 4, 4), 255.0)).tolist()
    [[0.0]]
    """

    shape: tuple[int, int, int]  # channels, height, width
    kernels: Kernels
    convolutions: tuple[Layer, ...]  # weights of shape (channels * size * size, filters)
    linear: Layer | None  # from the flattened result, which counts channels first, to the features
    scale: float = 255.0  # that images are divided by
    last: str = "relu"  # behind the linear layer
    margins: tuple[Margins, ...] = ()  # around what each convolution sees; empty: none

    @property
    def n_inputs(self) -> int:
        return int(np.prod(self.shape))

    @property
    def n_outputs(self) -> int:
        """Number of features of an image."""
        if self.linear is not None:
            return len(self.linear[1])
        _, height, width = self.shape
        for (size, stride), margins in self._steps:
            height, width = smaller(height, width, size, stride, margins)
        return len(self.convolutions[-1][1]) * height * width

    @property
    def _steps(self) -> list[tuple[tuple[int, int], Margins]]:
        margins = self.margins or (NO_MARGINS,) * len(self.kernels)
        return list(zip(self.kernels, margins, strict=True))

    @property
    def about(self) -> tuple[Any, ...]:
        """Shape and scale of images, and what is not as in Mnih et al. 2015."""
        usual = (self.kernels, self.last) == (NATURE, "relu")
        more = (self.margins,) if self.margins or self.linear is None else ()
        return (self.shape, self.scale) + (() if usual else (self.kernels, self.last)) + more

    @property
    def weights(self) -> tuple[Layer, ...]:
        """Convolutions and the linear layer, if there is one."""
        return (*self.convolutions, *([] if self.linear is None else [self.linear]))

    def outputs(self, images: NDArray[Any]) -> Float:
        """Features (n, k) of images (n, channels, height, width), or with the channels last."""
        if not self.sees(images.shape[1:]):
            raise UsageError(
                f"it expects images of shape {self.shape} (channels first), but got a batch of "
                f"shape {images.shape}"
            )
        if images.shape[1:] == self.shape:
            images = np.moveaxis(images, 1, -1)
        starts = range(0, max(1, len(images)), AT_ONCE)
        return np.concatenate([self._features(images[i : i + AT_ONCE]) for i in starts])

    def sees(self, shape: tuple[int, ...] | None) -> bool:
        """Whether images have this shape, with the channels first or last."""
        channels, height, width = self.shape
        return shape in (self.shape, (height, width, channels))

    def bind(self, observation_space: gymnasium.Space[Any]) -> ImageFeatures:
        """Check that images are of the shape that the network sees."""
        if self.sees(observation_space.shape):
            return self
        raise UsageError(
            f"this policy expects images of shape {self.shape} (channels first), but the "
            f"environment gives {observation_space.shape}: wrap it as in training (Atari with "
            "--atari, others with --wrappers: resizing, grey levels, stacked frames)"
        )

    @cached_property
    def _padded(self) -> tuple[Layer, ...]:
        return tuple(map(padded, self.weights))

    def _features(self, images: NDArray[Any]) -> Float:
        """Give the features of images whose channels come last."""
        x = np.asarray(images, np.float32) / np.float32(self.scale)
        for layer, (_, bias), ((size, stride), (above, below, left, right)) in zip(
            self._padded, self.convolutions, self._steps, strict=False
        ):
            if self.margins:
                x = np.pad(x, ((0, 0), (above, below), (left, right), (0, 0)))
            windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))
            windows = windows[:, ::stride, ::stride]  # n, rows, columns, channels, size, size
            flat = windows.reshape(-1, len(layer[0]))
            x = affine(flat, layer, "relu")[:, : len(bias)].reshape(*windows.shape[:3], -1)
        flat = np.moveaxis(x, -1, 1).reshape(len(x), -1)
        if self.linear is None:
            return flat
        return affine(flat, self._padded[-1], self.last)[:, : self.n_outputs]


@dataclass(frozen=True, eq=False)
class ImageNetwork(Model):
    """Features, as of images, and the network behind them, without its head, as a `Model`."""

    features: Features
    rest: NetworkPolicy

    def __post_init__(self) -> None:
        if self.rest.n_inputs != self.features.n_outputs:
            raise BadPolicyFile("its features and the layers behind them do not fit together")

    @property
    def n_inputs(self) -> int | None:
        return self.features.n_inputs

    @property
    def fingerprint(self) -> str:
        return self.features.digest(self.rest.fingerprint)

    def outputs(self, observations: Float) -> NDArray[Any]:
        """Outputs (n, k) of observations."""
        return self.rest.outputs(self.features.outputs(observations))

    @property
    def n_latent(self) -> int:
        return self.rest.n_latent or self.features.n_outputs

    def latent(self, observations: Float) -> Float:
        """Values (n, k) of the last layer before the outputs."""
        features = self.features.outputs(observations)
        return self.rest.latent(features) if self.rest.n_latent else features

    def bind(self, observation_space: gymnasium.Space[Any]) -> ImageNetwork:
        """Let the features be made of these observations."""
        return replace(self, features=self.features.bind(observation_space))

    def policy(self) -> OutputPolicy:
        """Make the policy whose head is that of the network behind."""
        rest = self.rest
        arrays = {"log_std": rest.log_std, "low": rest.low, "high": rest.high}
        known = {key: value for key, value in arrays.items() if value is not None}
        return OutputPolicy(self, HeadDescription(rest.head, rest.options, known), head=rest.rule)


def nature_features(
    tensors: Tensors, prefix: str, shape: Sequence[int] | None, scale: float
) -> ImageFeatures:
    """Find Stable-Baselines3's NatureCNN among tensors, for images of ``shape``."""
    if shape is None or len(shape) != 3:
        raise BadPolicyFile(f"a CNN needs images of three axes, not of shape {shape}")
    names = [f"{prefix}.cnn.{2 * i}" for i in range(len(NATURE))]
    return find_features(tensors, names, f"{prefix}.linear.0", shape, NATURE, scale)


def find_features(
    tensors: Tensors,
    convolutions: Sequence[str],
    linear: str,
    shape: Sequence[int],
    kernels: Kernels = NATURE,
    scale: float = 255.0,
    last: str = "relu",
    margins: tuple[Margins, ...] = (),
) -> ImageFeatures:
    """Make features of images of torch's layers of these names; ``linear`` may be empty."""
    channels, height, width = shape
    layers: list[Layer] = []
    around = margins or (NO_MARGINS,) * len(kernels)
    for name, (size, stride), margin in zip(convolutions, kernels, around, strict=True):
        layers.append(_layer(tensors, name, (channels, size, size)))
        channels = len(layers[-1][1])
        height, width = smaller(height, width, size, stride, margin)
        if min(height, width) < 1:
            raise BadPolicyFile(f"images of shape {tuple(shape)} are too small for its CNN")
    last_layer = _layer(tensors, linear, (channels * height * width,)) if linear else None
    own = (shape[0], shape[1], shape[2])
    return ImageFeatures(own, kernels, tuple(layers), last_layer, scale, last, margins)


def smaller(
    height: int, width: int, size: int, stride: int, margins: Margins = NO_MARGINS
) -> tuple[int, int]:
    """Give height and width of what a convolution makes of an image with these margins."""
    above, below, left, right = margins
    return (above + height + below - size) // stride + 1, (
        left + width + right - size
    ) // stride + 1


def square_images(tensors: Tensors, first: str, last: str, linear: str) -> tuple[int, int, int]:
    """Give the shape of the least square images that fit between NatureCNN and a linear layer."""
    weights = [tensors.get(f"{name}.weight", np.zeros(())) for name in (first, last, linear)]
    if [weight.ndim for weight in weights] != [4, 4, 2]:
        raise BadPolicyFile(NOT_NATURE)
    side = round((weights[2].shape[1] / max(1, len(weights[1]))) ** 0.5)
    for size, stride in reversed(NATURE):
        side = (side - 1) * stride + size
    if not 0 < side < MOST:
        raise BadPolicyFile(NOT_NATURE)
    return weights[0].shape[1], side, side


NOT_NATURE = "its CNN is not that of Mnih et al. 2015 (NatureCNN) with a linear layer behind"


def _layer(tensors: Tensors, prefix: str, inputs: tuple[int, ...]) -> Layer:
    """Weights (in, out) and biases of a layer that sees values of a shape, flattened."""
    weight, bias = (tensors.get(f"{prefix}.{part}") for part in ("weight", "bias"))
    if weight is None or bias is None or bias.ndim != 1 or weight.shape != (len(bias), *inputs):
        raise BadPolicyFile(NOT_NATURE)
    layer = frozen(weight.reshape(len(bias), -1).T), frozen(bias)
    if not all(np.isfinite(part).all() for part in layer):
        raise BadPolicyFile("it holds NaN or infinite weights: the training diverged")
    return layer


# Where Stable-Baselines3 has the features extractor of what acts.
EXTRACTORS = [f"{of}features_extractor" for of in ("pi_", "", "actor.", "q_net.", "quantile_net.")]
MOST_EXTRACTORS, MOST_AXES = 1 << 24, 32  # values and axes of a part of an observation
# A part of a Dict space as Gymnasium writes it: a shape, or numbers of choices.
_PART = re.compile(
    r"'(?P<key>[^'\\]*)': (?:"
    r"Box\([^()]*\((?P<box>[\d, ]*)\), \w+\)"
    r"|MultiBinary\(\(?(?P<switches>[\d, ]+)\)?\)"
    r"|Discrete\((?P<choices>\d+)(?:, start=-?\d+)?\)"
    r"|MultiDiscrete\((?P<several>[\d\s\[\]]+)(?:, start=[^()]*)?\)"
    r")(?:, |$)"
)


@dataclass(frozen=True, eq=False)
class DenseFeatures(Features):
    """Linear layers with an activation behind each, the last one too."""

    layers: tuple[Layer, ...]
    activation: str

    @property
    def n_inputs(self) -> int:
        return len(self.layers[0][0])

    @property
    def n_outputs(self) -> int:
        """Number of the last layer's outputs."""
        return len(self.layers[-1][1])

    @property
    def about(self) -> tuple[Any, ...]:
        """The activation."""
        return ("dense", self.activation)

    @property
    def weights(self) -> tuple[Layer, ...]:
        """All layers."""
        return self.layers

    def outputs(self, observations: Float) -> Float:
        """Features (n, k) of observations (n, ...)."""
        x: Float = observations.reshape(len(observations), -1)
        for layer, (_, bias) in zip(self._padded, self.layers, strict=True):
            x = affine(x, layer, self.activation)[:, : len(bias)]
        return x

    @cached_property
    def _padded(self) -> tuple[Layer, ...]:
        return tuple(map(padded, self.layers))


@dataclass(frozen=True, eq=False)
class ReturnChances(Features):
    """Chances of returns, action by action, that have logits (C51; Bellemare et al. 2017)."""

    logits: ImageNetwork
    n_returns: int  # of an action

    @property
    def n_inputs(self) -> int | None:
        return self.logits.n_inputs

    @property
    def n_outputs(self) -> int:
        """Number of chances of all actions."""
        return self.logits.rest.n_outputs

    @property
    def about(self) -> tuple[Any, ...]:
        """How many returns there are, and what is seen."""
        return ("returns", self.n_returns, self.logits.rest.activation, self.logits.features.about)

    @property
    def weights(self) -> tuple[Layer, ...]:
        """All layers."""
        return (*self.logits.features.weights, *self.logits.rest.layers)

    def outputs(self, observations: Float) -> Float:
        """Chances (n, k) for observations (n, ...)."""
        logits = self.logits.outputs(observations)
        return probabilities(logits.reshape(-1, self.n_returns)).reshape(logits.shape)

    def bind(self, observation_space: gymnasium.Space[Any]) -> ReturnChances:
        """Let the logits be made of these observations."""
        return replace(self, logits=self.logits.bind(observation_space))


@dataclass(frozen=True)
class Part:
    """A part of a dictionary: its key, its shape, and how many values it has when flat."""

    key: str
    shape: tuple[int, ...]
    size: int
    image: ImageFeatures | None = None  # what is seen instead of its values


@dataclass(frozen=True, eq=False)
class CombinedFeatures(Features):
    """CombinedExtractor of Stable-Baselines3: images through CNNs, all other parts as they are.

    It sees dictionaries flattened as Gymnasium flattens them.
    """

    parts: tuple[Part, ...]

    @property
    def n_inputs(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def n_outputs(self) -> int:
        """Number of features of all parts."""
        return sum(part.image.n_outputs if part.image else part.size for part in self.parts)

    @property
    def about(self) -> tuple[Any, ...]:
        """The parts, in order."""
        return tuple((p.key, p.size, p.image.about if p.image else ()) for p in self.parts)

    @property
    def weights(self) -> tuple[Layer, ...]:
        """Those of all CNNs."""
        return tuple(layer for p in self.parts if p.image for layer in p.image.weights)

    def outputs(self, observations: Float) -> Float:
        """Features (n, k) of flat rows (n, values)."""
        ends = np.cumsum([part.size for part in self.parts])[:-1]
        pieces = np.split(observations.reshape(len(observations), self.n_inputs), ends, axis=1)
        return np.concatenate(
            [
                part.image.outputs(rows.reshape(-1, *part.shape)) if part.image else rows
                for part, rows in zip(self.parts, pieces, strict=True)
            ],
            axis=1,
        )

    def bind(self, observation_space: gymnasium.Space[Any]) -> CombinedFeatures:
        """Take images with the channels first or last, in the order of the training."""
        from gymnasium import spaces

        keys = [part.key for part in self.parts]
        if not isinstance(observation_space, spaces.Dict) or list(observation_space) != keys:
            raise UsageError(
                f"this policy expects a dictionary of {', '.join(keys)}, but the environment gives "
                f"{observation_space}: wrap it as in training"
            )
        parts = []
        for part in self.parts:
            space = observation_space[part.key]
            if part.image:
                part.image.bind(space)
            elif spaces.flatdim(space) != part.size:
                raise UsageError(
                    f"this policy expects {part.size} values as {part.key}, but the environment "
                    f"gives {space}"
                )
            parts.append(replace(part, shape=space.shape or ()))
        return replace(self, parts=tuple(parts))

    def changes_images(self, normaliser: Normaliser) -> bool:
        """Whether statistics of flat rows are meant for images, too."""
        normaliser.check_width(self.n_inputs, "the network expects")
        pixels = np.repeat(
            [part.image is not None for part in self.parts], [part.size for part in self.parts]
        )
        return bool((normaliser.mean != 0)[pixels].any() or (normaliser.scale != 1)[pixels].any())


def read_extractor(
    tensors: Tensors, space: Mapping[str, Any], shape: tuple[int, ...] | None, scaled: bool
) -> Features | None:
    """Find what Stable-Baselines3 has before a network: NatureCNN, CombinedExtractor, or nothing.

    ``space`` are the settings of the observation space and ``shape`` is its shape; ``scaled`` says
    whether images are divided by 255.
    """
    for prefix in EXTRACTORS:
        if f"{prefix}.cnn.0.weight" in tensors:
            scaled = scaled and space.get("dtype") == "uint8"
            return nature_features(tensors, prefix, shape, 255.0 if scaled else 1.0)
        if any(key.startswith(f"{prefix}.extractors.") for key in tensors):
            parts = read_spaces(space.get("spaces"))
            return _read_combined(tensors, f"{prefix}.extractors", parts, 255.0 if scaled else 1.0)
    return None


def _read_combined(
    tensors: Tensors, prefix: str, parts: Sequence[Part], scale: float
) -> CombinedFeatures:
    """Let the parts of a dictionary that have a CNN be seen through it."""
    keys = {
        key.removeprefix(f"{prefix}.").partition(".")[0]
        for key in tensors
        if key.startswith(f"{prefix}.")
    }
    seen = [
        replace(part, image=nature_features(tensors, f"{prefix}.{part.key}", part.shape, scale))
        if part.key in keys
        else part
        for part in parts
    ]
    if odd := sorted(keys - {part.key for part in parts}):
        raise BadPolicyFile(f"it has features of {odd[0][:80]!r}, which it does not observe")
    return CombinedFeatures(tuple(seen))


def read_spaces(text: Any) -> list[Part]:
    """Read the parts of a Dict space as it is printed, in order.

    Examples
    --------
    >>> [(part.key, part.size) for part in read_spaces("{'a': Discrete(3), 'b': MultiBinary(2)}")]
    [('a', 3), ('b', 2)]
    """
    parts: list[Part] = []
    rest = text[1:-1] if isinstance(text, str) and text[:1] + text[-1:] == "{}" else ""
    while match := _PART.match(rest):
        shape, counted = match["box"] or match["switches"], match["choices"] or match["several"]
        numbers = tuple(map(int, re.findall(r"\d+", shape or counted or "")))
        size = sum(numbers) if counted else prod(numbers[:MOST_AXES])
        if not 0 < size <= MOST_EXTRACTORS or (len(numbers) > MOST_AXES and not counted):
            break
        parts.append(Part(match["key"], numbers, size))
        rest = rest[match.end() :]
    if rest or not parts:
        raise BadPolicyFile(f"its observation space is not understood: {str(text)[:200]!r}")
    return parts
