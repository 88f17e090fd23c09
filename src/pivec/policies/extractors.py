"""What networks see instead of observations: features of vectors, and of dictionaries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.cnn import ImageFeatures, ImageNetwork, nature_features
from pivec.policies.forward import Float, Layer, affine, padded
from pivec.policies.heads import probabilities
from pivec.policies.normaliser import Normaliser
from pivec.policies.outputs import Features
from pivec.policies.tensors import Tensors

if TYPE_CHECKING:
    import gymnasium

# Where Stable-Baselines3 has the features extractor of what acts.
EXTRACTORS = [f"{of}features_extractor" for of in ("pi_", "", "actor.", "q_net.", "quantile_net.")]
MOST, MOST_AXES = 1 << 24, 32  # values and axes of a part of an observation
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
        if not 0 < size <= MOST or (len(numbers) > MOST_AXES and not counted):
            break
        parts.append(Part(match["key"], numbers, size))
        rest = rest[match.end() :]
    if rest or not parts:
        raise BadPolicyFile(f"its observation space is not understood: {str(text)[:200]!r}")
    return parts
