"""From outputs to actions: heads made from plain values, and policies of any other function."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.forward import Float, Layer
from pivec.policies.head import Distribution, Head, Options, counts, frozen
from pivec.policies.heads import HEADS
from pivec.policies.normaliser import Normaliser
from pivec.policies.policy import BatchPolicy, check_width, flat_width, unbound

if TYPE_CHECKING:
    import gymnasium

MAX_AXES = 8
OneHot = tuple[tuple[int, int], ...]  # of whole numbers: how many, the least


def make_head(
    name: str,
    n_outputs: int,
    options: Options | None = None,
    arrays: Mapping[str, Any] | None = None,
) -> Head:
    """Make a head for outputs of this width, checked; ``arrays`` that are None count as missing."""
    if name not in HEADS:
        raise UsageError(f"the head of a policy must be one of {', '.join(HEADS)}, but is {name!r}")
    draft = HEADS[name](n_outputs, options or Options())
    given: dict[str, Any] = {
        key: frozen(value) for key, value in (arrays or {}).items() if value is not None
    }
    for key, array in given.items():
        if key not in draft.takes:
            raise UsageError(f"a {name} policy has no {key}")
        if array.shape != (draft.n_values,) or np.isnan(array).any():
            raise UsageError(
                f"{key} must have one number for each of {draft.n_values} actions, "
                f"not shape {array.shape}{' with NaN' if np.isnan(array).any() else ''}"
            )
    head = replace(draft, **given)
    head.check()
    if (head.low is None) != (head.high is None):
        raise UsageError("a box of actions needs both low and high")
    if head.low is not None and head.high is not None:
        if (head.low > head.high).any():
            raise UsageError("a box of actions needs low <= high")
        if head.options.squash and not np.isfinite([head.low, head.high]).all():
            raise UsageError("actions can only be squashed into a box with bounds")
    shape = head.options.shape
    if shape is not None and (len(shape) > MAX_AXES or math.prod(shape) != head.n_values):
        raise UsageError(f"actions of {head.n_values} values cannot have the shape {shape[:20]}")
    return head


@dataclass(frozen=True)
class HeadDescription:
    """What is known about a head before the number of outputs is."""

    name: str = ""  # empty: to be chosen by the environment's actions
    options: Options = field(default_factory=Options)
    arrays: Mapping[str, Any] = field(default_factory=dict)  # log_std, low, high
    discrete: str = "categorical"  # the head of discrete actions where the name is empty

    def make(self, sample: NDArray[Any], space: gymnasium.Space[Any]) -> Head:
        """Make the head for outputs such as ``sample`` (1, k) and actions of ``space``."""
        name, options = self.name, self.options
        if not name:
            name = self._choose(sample, space)
            if name in ("multi_categorical", "bernoulli", "deterministic"):
                options = replace(options, shape=space.shape)
            if name == "multi_categorical":
                options = replace(options, choices=counts(space))
        return make_head(name, sample.shape[1], options, self.arrays)

    def _choose(self, sample: NDArray[Any], space: gymnasium.Space[Any]) -> str:
        from gymnasium import spaces

        width, whole, choices = sample.shape[1], sample.dtype.kind in "biu", counts(space)
        if whole and choices and width == len(choices):
            return "actions"
        match space:
            case spaces.Discrete() | spaces.MultiDiscrete() if width == sum(choices):
                return self.discrete if isinstance(space, spaces.Discrete) else "multi_categorical"
            case spaces.MultiBinary() | spaces.Box() if width == np.prod(space.shape):
                return "bernoulli" if choices else "deterministic"
        raise UsageError(
            f"this policy gives {width} {'whole' if whole else 'real'} numbers, but the "
            f"environment expects {space}: say in a .json beside it which head it has"
        )


class Model(ABC):
    """A function from observations to outputs, and what is known about it."""

    @property
    def n_inputs(self) -> int | None:
        """Number of values of an observation; None if the model does not tell."""
        return None

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A digest of everything that decides the outputs."""

    @abstractmethod
    def outputs(self, observations: Float) -> NDArray[Any]:
        """Outputs (n, k) for observations (n, ...).

        A row's outputs depend on nothing but the row, to the last bit.
        """

    @property
    def n_latent(self) -> int:
        """Width of the last hidden layer; 0 if the model does not tell."""
        return 0

    def latent(self, observations: Float) -> Float:  # noqa: ARG002
        """Values (n, k) of the last hidden layer, where the model tells its width."""
        raise UsageError(f"the hidden layers of {type(self).__name__} are not known")

    def bind(self, observation_space: gymnasium.Space[Any]) -> Self:
        """Check that the model fits; maybe another one that takes these observations."""
        if self.n_inputs is not None:
            check_width(self.n_inputs, observation_space, flat=False)
        return self


class Features(Model):
    """A model whose outputs are what a network sees instead of observations."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Number of features of an observation."""

    @property
    @abstractmethod
    def about(self) -> tuple[Any, ...]:
        """What decides the features beside the weights."""

    @property
    @abstractmethod
    def weights(self) -> tuple[Layer, ...]:
        """All weights and biases."""

    @property
    def fingerprint(self) -> str:
        """A digest of everything that decides the features."""
        return self.digest()

    def digest(self, *more: Any) -> str:
        """Digest these features and what else decides the outputs of what is behind them."""
        digest = hashlib.sha256(repr((*self.about, *more)).encode())
        for weight, bias in self.weights:
            digest.update(weight.tobytes() + bias.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class OutputPolicy(BatchPolicy):
    """A policy that reads its actions off the outputs of a model."""

    model: Model
    description: HeadDescription = field(default_factory=HeadDescription)  # of the outputs
    normaliser: Normaliser | None = None  # applied to flattened observations first
    head: Head | None = None  # found by `bind` where the description leaves it open
    one_hot: OneHot = ()

    @property
    def architecture(self) -> Hashable:
        """Equal for policies with the same kind of actions."""
        head = self.head
        if head is None:
            return ("outputs", None)
        return ("outputs", head.key, head.n_outputs, head.noise_size)

    @property
    def fingerprint(self) -> str:
        """A digest of everything that decides the actions."""
        described = (self.description.name, self.description.options, self.description.discrete)
        arrays = sorted((key, np.asarray(v).tolist()) for key, v in self.description.arrays.items())
        digest = hashlib.sha256(repr((self.model.fingerprint, described, arrays)).encode())
        if self.normaliser is not None:
            digest.update(self.normaliser.tobytes())
        return digest.hexdigest()

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        """Random numbers of ``n`` actions."""
        return self._head().noise(rng, n)

    def respond(self, observations: Any, noise: NDArray[np.float32] | None) -> NDArray[Any]:
        """Actions for ``observations`` (n, ...) given their random numbers; the mode if None."""
        head, outputs = self._head(), self._outputs(observations)
        return head.choose(outputs, check_noise(head, noise, len(outputs)), head.parameters())

    def distribution(self, observations: Any) -> Distribution:
        """Probabilities, or means and deviations; see `NetworkPolicy.distribution`."""
        return self._head().distribution(self._outputs(observations))

    @property
    def n_latent(self) -> int:
        """Width of the model's last hidden layer; 0 if it does not tell."""
        return self.model.n_latent

    def latent(self, observations: Any) -> Float:
        """Values (n, k) of the model's last hidden layer."""
        return self.model.latent(seen_rows(observations, self.one_hot, self.normaliser))

    def bind(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
    ) -> OutputPolicy:
        """Make the policy for an environment with these spaces, or tell why it does not fit."""
        one_hot = one_hot_of(observation_space, self.model.n_inputs)
        model = self.model.bind(observation_space)
        shape = observation_space.shape
        if one_hot or shape is None:
            shape = (flat_width(observation_space),)
        if self.normaliser is not None:
            self.normaliser.check_width(int(np.prod(shape)), "the environment gives")
        sample = np.asarray(model.outputs(np.zeros((1, *shape), np.float32)))
        head = self.description.make(sample, action_space).bind(action_space)
        return replace(self, model=model, head=head, one_hot=one_hot)

    def _head(self) -> Head:
        if self.head is None:
            raise unbound("this policy", "its actions")
        return self.head

    def _outputs(self, observations: Any) -> Float:
        rows = seen_rows(observations, self.one_hot, self.normaliser)
        outputs = np.asarray(self.model.outputs(rows), np.float32)
        if not np.isfinite(outputs).all():
            raise UsageError("a policy gave NaN or infinite outputs: its training diverged")
        return outputs


def one_hot_of(space: gymnasium.Space[Any], n_inputs: int | None) -> OneHot:
    """Tell how whole numbers are shown to a model; empty if it wants them as they are."""
    from gymnasium import spaces

    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return ()
    sizes, start = counts(space), np.ravel(space.start).tolist()
    return () if n_inputs == len(sizes) else tuple(zip(sizes, start, strict=True))


def seen_rows(observations: Any, one_hot: OneHot, normaliser: Normaliser | None) -> Float:
    """Give observations (n, ...) as a model sees them."""
    rows = np.asarray(observations)
    if rows.ndim == 0:
        raise UsageError("expected a batch of observations, but got a single number")
    if one_hot and rows[:1].size == len(one_hot):
        # As Gymnasium flattens Discrete and MultiDiscrete.
        columns = rows.reshape(len(rows), -1).astype(np.intp).T
        parts = [
            np.eye(size, dtype=np.float32)[column - first]
            for column, (size, first) in zip(columns, one_hot, strict=True)
        ]
        rows = np.concatenate(parts, axis=1)
    rows = rows.astype(np.float32)
    if normaliser is not None:
        rows = normaliser.apply(rows.reshape(len(rows), -1)).reshape(rows.shape)
    return rows


def check_noise(head: Head, noise: Any, n: int) -> Float | None:
    """Refuse random numbers of another shape than ``n`` actions take."""
    if noise is None:
        return None
    numbers = np.asarray(noise, np.float32)
    if numbers.shape != (n, head.noise_size):
        raise UsageError(
            f"expected random numbers of shape {(n, head.noise_size)}, but got {numbers.shape}"
        )
    return numbers


def row_by_row(call: Callable[[Float], NDArray[Any]], rows: Float, batch: int = 1) -> NDArray[Any]:
    """Call a foreign function for every row by itself, so that no row sees others beside it.

    A function that takes only batches of one size gets the row and zeros behind it.
    """
    given = np.zeros((batch, *rows.shape[1:]), np.float32)
    results = []
    for row in rows:
        given[0] = row
        results.append(call(given)[:1].copy())
    return np.concatenate(results) if results else call(given)[:0]
