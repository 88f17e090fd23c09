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
from pivec.policies.forward import Float
from pivec.policies.head import Distribution, Head, Options, counts, frozen
from pivec.policies.heads import HEADS
from pivec.policies.normaliser import Normaliser
from pivec.policies.policy import BatchPolicy, check_width

if TYPE_CHECKING:
    import gymnasium

MAX_AXES = 8


def make_head(
    name: str,
    n_outputs: int,
    options: Options | None = None,
    arrays: Mapping[str, Any] | None = None,
) -> Head:
    """Make a head for outputs of this width, checked.

    ``arrays`` are ``log_std``, ``low``, ``high`` where the head has them; None counts as missing.

    Examples
    --------
    >>> import numpy as np
    >>> head = make_head("epsilon_greedy", 3, Options(epsilon=0.3))
    >>> head.distribution(np.array([[0.0, 2.0, 1.0]], np.float32)).round(2)
    array([[0.1, 0.8, 0.1]], dtype=float32)
    """
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
            case spaces.Discrete() if width == space.n:
                return self.discrete
            case spaces.MultiDiscrete() if width == sum(choices):
                return "multi_categorical"
            case spaces.MultiBinary() if width == len(choices):
                return "bernoulli"
            case spaces.Box() if width == np.prod(space.shape):
                return "deterministic"
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

    def bind(self, observation_space: gymnasium.Space[Any]) -> Self:
        """Check that the model fits; maybe another one that takes these observations."""
        if self.n_inputs is not None:
            check_width(self.n_inputs, observation_space, flat=False)
        return self


@dataclass(frozen=True, eq=False)
class OutputPolicy(BatchPolicy):
    """A policy that reads its actions off the outputs of a model."""

    model: Model
    description: HeadDescription = field(default_factory=HeadDescription)  # of the outputs
    normaliser: Normaliser | None = None  # applied to flattened observations first
    head: Head | None = None  # found by `bind` where the description leaves it open
    one_hot: tuple[int, ...] = ()  # of whole-number observations: how many values each can take
    start: tuple[int, ...] = ()  # and the smallest

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
        if noise is not None:
            noise = np.asarray(noise, np.float32)
            if noise.shape != (len(outputs), head.noise_size):
                raise UsageError(
                    f"expected random numbers of shape {(len(outputs), head.noise_size)}, "
                    f"but got {noise.shape}"
                )
        return head.choose(outputs, noise, head.parameters())

    def distribution(self, observations: Any) -> Distribution:
        """Probabilities, or means and deviations; see `NetworkPolicy.distribution`."""
        return self._head().distribution(self._outputs(observations))

    def bind(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
    ) -> OutputPolicy:
        """Make the policy for an environment with these spaces, or tell why it does not fit."""
        from gymnasium import spaces

        one_hot: tuple[int, ...] = ()
        start: tuple[int, ...] = ()
        if isinstance(observation_space, spaces.Discrete | spaces.MultiDiscrete):
            one_hot = counts(observation_space)
            start = tuple(np.ravel(observation_space.start).tolist())
        if self.model.n_inputs == len(one_hot):  # it wants the numbers as they are
            one_hot, start = (), ()
        model = self.model.bind(observation_space)
        shape = observation_space.shape
        if one_hot or shape is None:
            shape = (spaces.flatdim(observation_space),)
        if self.normaliser is not None:
            self.normaliser.check_width(int(np.prod(shape)), "the environment gives")
        sample = np.asarray(model.outputs(np.zeros((1, *shape), np.float32)))
        head = self.description.make(sample, action_space).bind(action_space)
        return replace(self, model=model, head=head, one_hot=one_hot, start=start)

    def _head(self) -> Head:
        if self.head is None:
            raise UsageError(
                "this policy does not know its actions yet: call bind with the spaces of the "
                "environment first"
            )
        return self.head

    def _outputs(self, observations: Any) -> Float:
        rows = np.asarray(observations)
        if rows.ndim == 0:
            raise UsageError("expected a batch of observations, but got a single number")
        if self.one_hot and rows[:1].size == len(self.one_hot):
            rows = _one_hot(rows.reshape(len(rows), -1), self.one_hot, self.start)
        rows = rows.astype(np.float32)
        if self.normaliser is not None:
            rows = self.normaliser.apply(rows.reshape(len(rows), -1)).reshape(rows.shape)
        outputs = np.asarray(self.model.outputs(rows), np.float32)
        if not np.isfinite(outputs).all():
            raise UsageError("a policy gave NaN or infinite outputs: its training diverged")
        return outputs


def row_by_row(call: Callable[[Float], NDArray[Any]], rows: Float, batch: int = 1) -> NDArray[Any]:
    """Call a foreign function for every row by itself, so that no row sees others beside it.

    A function that takes only batches of one size gets the row and zeros behind it.

    Examples
    --------
    >>> import numpy as np
    >>> row_by_row(lambda batch: batch.sum(axis=1, keepdims=True), np.ones((3, 2), np.float32))
    array([[2.], [2.], [2.]], dtype=float32)
    """
    given = np.zeros((batch, *rows.shape[1:]), np.float32)
    results = []
    for row in rows:
        given[0] = row
        results.append(call(given)[:1].copy())
    return np.concatenate(results) if results else call(given)[:0]


def _one_hot(
    rows: NDArray[Any], sizes: tuple[int, ...], start: tuple[int, ...]
) -> NDArray[np.float32]:
    """One-hot rows as Gymnasium flattens Discrete and MultiDiscrete."""
    parts = [
        np.eye(size, dtype=np.float32)[rows[:, i].astype(np.intp) - first]
        for i, (size, first) in enumerate(zip(sizes, start, strict=True))
    ]
    return np.concatenate(parts, axis=1)
