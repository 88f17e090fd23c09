"""Feature extractors before a network: convolutions, dense layers, dictionaries, C51's returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.distributions import DistributionSpec, frozen, probabilities
from pivec.policies.forward import Float, Layer, Normaliser, Perceptrons, Tensors
from pivec.policies.networks import (
    Features,
    Model,
    NetworkPolicy,
    OutputPolicy,
    RecurrentNetwork,
)

if TYPE_CHECKING:
    from pivec.policies.policy import Space

Kernels = tuple[tuple[int, int], ...]  # size and stride of each convolution
NATURE: Kernels = ((8, 4), (4, 2), (3, 1))  # Mnih et al. 2015
NOT_NATURE = "its CNN is not that of Mnih et al. 2015 (NatureCNN) with a linear layer after it"
Margins = tuple[int, int, int, int]  # zeros above, below, left and right of an image
NO_MARGINS: Margins = (0, 0, 0, 0)
IMAGES_AT_ONCE = 16  # whose windows are laid out as rows
MAX_PIXELS = 1 << 16  # of a side
MAX_VALUES, MAX_AXES = 1 << 24, 32  # of a part of an observation


@dataclass(frozen=True, eq=False)
class ImageFeatures(Features):
    """Convolutions with ReLU, and usually a linear layer after them.

    Examples
    --------
    >>> import numpy as np
    >>> edges = np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.zeros(1)  # of 2 x 2 pixels
    >>> total = np.ones((4, 1)), np.zeros(1)
    >>> features = ImageFeatures((1, 4, 4), ((2, 2),), (edges,), total)
    >>> features.outputs(np.full((1, 1, 4, 4), 255.0)).tolist()
    [[0.0]]
    """

    shape: tuple[int, int, int]  # channels, height, width
    kernels: Kernels
    convolutions: tuple[Layer, ...]  # weights of shape (channels * size * size, filters)
    linear: Layer | None  # from the flattened result, channels first, to the features
    scale: float = 255.0  # that images are divided by
    last: str = "relu"  # activation after the linear layer
    margins: tuple[Margins, ...] = ()  # padding before each convolution; empty: none

    def __post_init__(self) -> None:
        _, height, width = self.shape
        for (size, stride), margins in self._steps:
            height, width = convolved_size(height, width, size, stride, margins)
        last = () if self.linear is None else (self.linear,)
        usual = (self.kernels, self.last) == (NATURE, "relu")
        more = (self.margins,) if self.margins or self.linear is None else ()
        self.set(
            n_inputs=int(np.prod(self.shape)),
            n_outputs=len((*self.convolutions, *last)[-1][1]) * (1 if last else height * width),
            about=(self.shape, self.scale) + (() if usual else (self.kernels, self.last)) + more,
            weights=(*self.convolutions, *last),
        )

    @property
    def _steps(self) -> list[tuple[tuple[int, int], Margins]]:
        margins = self.margins or (NO_MARGINS,) * len(self.kernels)
        return list(zip(self.kernels, margins, strict=True))

    def outputs(self, images: NDArray[Any]) -> Float:
        """Features (n, k) of images (n, channels, height, width), or with channels last."""
        if not self._accepts(images.shape[1:]):
            raise UsageError(
                f"it expects images of shape {self.shape} (channels first), but got a batch of "
                f"shape {images.shape}"
            )
        if images.shape[1:] == self.shape:
            images = np.moveaxis(images, 1, -1)
        starts = range(0, max(1, len(images)), IMAGES_AT_ONCE)
        return np.concatenate([self._features(images[i : i + IMAGES_AT_ONCE]) for i in starts])

    def _accepts(self, shape: tuple[int, ...] | None) -> bool:
        channels, height, width = self.shape
        return shape in (self.shape, (height, width, channels))

    def bind(self, observation_space: Space) -> ImageFeatures:
        if self._accepts(observation_space.shape):
            return self
        raise UsageError(
            f"this policy expects images of shape {self.shape} (channels first), but the "
            f"environment gives {observation_space.shape}: wrap it as in training (--atari, "
            "--wrappers)"
        )

    @cached_property
    def _layers(self) -> list[Perceptrons]:
        last = [self.last] * (self.linear is not None)
        names = ["relu"] * len(self.convolutions) + last
        return [
            Perceptrons.of([layer], name, name)
            for layer, name in zip(self.weights, names, strict=True)
        ]

    def _features(self, images: NDArray[Any]) -> Float:
        """Features of images with channels last."""
        x = np.asarray(images, np.float32) / np.float32(self.scale)
        for layer, ((size, stride), (above, below, left, right)) in zip(
            self._layers, self._steps, strict=False
        ):
            if self.margins:
                x = np.pad(x, ((0, 0), (above, below), (left, right), (0, 0)))
            windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))
            windows = windows[:, ::stride, ::stride]  # n, rows, columns, channels, size, size
            x = layer(windows.reshape(-1, layer.sizes[0])).reshape(*windows.shape[:3], -1)
        flat = np.moveaxis(x, -1, 1).reshape(len(x), -1)
        return flat if self.linear is None else self._layers[-1](flat)


@dataclass(frozen=True, eq=False)
class FeatureNetwork(Model):
    """Features and the network after them."""

    features: Features
    rest: NetworkPolicy

    def __post_init__(self) -> None:
        features, rest = self.features, self.rest
        if rest.n_inputs != features.n_outputs:
            raise BadPolicyFile("its features do not fit the layers after them")
        n_latent = rest.n_latent or features.n_outputs
        fingerprint = features.digest(rest.fingerprint)
        self.set(n_inputs=features.n_inputs, n_latent=n_latent, fingerprint=fingerprint)

    def outputs(self, observations: Float) -> NDArray[Any]:
        return self.rest.outputs(self.features.outputs(observations))

    def latent(self, observations: Float) -> Float:
        features = self.features.outputs(observations)
        return self.rest.latent(features) if self.rest.n_latent else features

    def bind(self, observation_space: Space) -> FeatureNetwork:
        return replace(self, features=self.features.bind(observation_space))

    def policy(self) -> OutputPolicy:
        """The policy with the action distribution of the network."""
        rest = self.rest
        arrays = {"log_std": rest.log_std, "low": rest.low, "high": rest.high}
        known = {key: value for key, value in arrays.items() if value is not None}
        spec = DistributionSpec(rest.head, rest.options, known)
        return OutputPolicy(self, spec, head=rest.action_distribution)


@dataclass(frozen=True, eq=False)
class DenseFeatures(Features):
    """Linear layers, each followed by the activation; the last one by ``last`` if that is given."""

    layers: tuple[Layer, ...]
    activation: str
    last: str = ""

    def __post_init__(self) -> None:
        n_inputs, n_outputs = len(self.layers[0][0]), len(self.layers[-1][1])
        about, weights = ("dense", self.activation, *filter(None, [self.last])), self.layers
        self.set(n_inputs=n_inputs, n_outputs=n_outputs, about=about, weights=weights)

    def outputs(self, observations: Float) -> Float:
        return self._network(observations.reshape(len(observations), -1))

    @cached_property
    def _network(self) -> Perceptrons:
        return Perceptrons.of(self.layers, self.activation, self.last or self.activation)


@dataclass(frozen=True, eq=False)
class ReturnProbabilities(Features):
    """Probabilities of returns for each action (C51; Bellemare et al. 2017)."""

    logits: FeatureNetwork
    n_returns: int  # per action

    def __post_init__(self) -> None:
        features, rest = self.logits.features, self.logits.rest
        self.set(
            n_inputs=features.n_inputs,
            n_outputs=rest.n_outputs,
            about=("returns", self.n_returns, rest.activation, features.about),
            weights=(*features.weights, *rest.layers),
        )

    def outputs(self, observations: Float) -> Float:
        logits = self.logits.outputs(observations)
        return probabilities(logits.reshape(-1, self.n_returns)).reshape(logits.shape)

    def bind(self, observation_space: Space) -> ReturnProbabilities:
        return replace(self, logits=self.logits.bind(observation_space))


@dataclass(frozen=True)
class Part:
    """A part of a dictionary observation."""

    key: str
    shape: tuple[int, ...]
    size: int  # number of values when flattened
    image: ImageFeatures | None = None  # replaces its values


@dataclass(frozen=True, eq=False)
class CombinedFeatures(Features):
    """CombinedExtractor of Stable-Baselines3: images through CNNs, all other parts unchanged.

    Dictionaries are flattened as Gymnasium does.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        self.set(
            n_inputs=sum(p.size for p in self.parts),
            n_outputs=sum(p.image.n_outputs if p.image else p.size for p in self.parts),
            about=tuple((p.key, p.size, p.image.about if p.image else ()) for p in self.parts),
            weights=tuple(layer for p in self.parts if p.image for layer in p.image.weights),
        )

    def outputs(self, observations: Float) -> Float:
        ends = np.cumsum([part.size for part in self.parts])[:-1]
        pieces = np.split(observations.reshape(len(observations), -1), ends, axis=1)
        return np.concatenate(
            [
                part.image.outputs(rows.reshape(-1, *part.shape)) if part.image else rows
                for part, rows in zip(self.parts, pieces, strict=True)
            ],
            axis=1,
        )

    def bind(self, observation_space: Space) -> CombinedFeatures:
        """Accept images with channels first or last."""
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
                    f"this policy expects {part.size} values for {part.key}, but the environment "
                    f"gives {space}"
                )
            parts.append(replace(part, shape=space.shape or ()))
        return replace(self, parts=tuple(parts))

    def changes_images(self, normaliser: Normaliser) -> bool:
        """Whether statistics of flattened observations apply to images, too."""
        normaliser.check_width(self.n_inputs or 0, "the network expects")
        pixels = np.repeat(
            [part.image is not None for part in self.parts], [part.size for part in self.parts]
        )
        return bool((normaliser.mean != 0)[pixels].any() or (normaliser.scale != 1)[pixels].any())


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
    """Make image features of torch's layers with these names; ``linear`` may be empty."""
    channels, height, width = shape
    layers: list[Layer] = []
    around = margins or (NO_MARGINS,) * len(kernels)
    for name, (size, stride), margin in zip(convolutions, kernels, around, strict=True):
        layers.append(_layer(tensors, name, (channels, size, size)))
        channels = len(layers[-1][1])
        height, width = convolved_size(height, width, size, stride, margin)
        if min(height, width) < 1:
            raise BadPolicyFile(f"images of shape {tuple(shape)} are too small for its CNN")
    last_layer = _layer(tensors, linear, (channels * height * width,)) if linear else None
    own = (shape[0], shape[1], shape[2])
    return ImageFeatures(own, kernels, tuple(layers), last_layer, scale, last, margins)


def convolved_size(
    height: int, width: int, size: int, stride: int, margins: Margins = NO_MARGINS
) -> tuple[int, int]:
    """Height and width of the result of a convolution."""
    above, below, left, right = margins
    padded_height, padded_width = above + height + below, left + width + right
    return (padded_height - size) // stride + 1, (padded_width - size) // stride + 1


def square_images(tensors: Tensors, first: str, last: str, linear: str) -> tuple[int, int, int]:
    """Shape of the smallest square images that fit NatureCNN and the linear layer after it."""
    weights = [tensors.get(f"{name}.weight", np.zeros(())) for name in (first, last, linear)]
    if [weight.ndim for weight in weights] != [4, 4, 2]:
        raise BadPolicyFile(NOT_NATURE)
    side = round((weights[2].shape[1] / max(1, len(weights[1]))) ** 0.5)
    for size, stride in reversed(NATURE):
        side = (side - 1) * stride + size
    if not 0 < side < MAX_PIXELS:
        raise BadPolicyFile(NOT_NATURE)
    return weights[0].shape[1], side, side


def _layer(tensors: Tensors, prefix: str, inputs: tuple[int, ...]) -> Layer:
    """Weights (in, out) and biases of a layer whose inputs have this shape."""
    weight, bias = (tensors.get(f"{prefix}.{part}") for part in ("weight", "bias"))
    if weight is None or bias is None or bias.ndim != 1 or weight.shape != (len(bias), *inputs):
        raise BadPolicyFile(NOT_NATURE)
    layer = frozen(weight.reshape(len(bias), -1).T), frozen(bias)
    if not all(np.isfinite(part).all() for part in layer):
        raise BadPolicyFile("it holds NaN or infinite weights: the training diverged")
    return layer


def assemble(
    network: NetworkPolicy,
    normaliser: Normaliser | None = None,
    features: Features | None = None,
    cells: tuple[Layer, ...] = (),
    gru: bool = False,
) -> NetworkPolicy | OutputPolicy | RecurrentNetwork:
    """The policy that normalises, extracts features, passes an LSTM or GRU and then a network."""
    if cells:
        return RecurrentNetwork(cells, network, normaliser, features, gru=gru)
    if features is not None:
        return replace(FeatureNetwork(features, network).policy(), normaliser=normaliser)
    return replace(network, normaliser=normaliser)
