"""Policies whose outputs come from any function: what loaders give that know no plain network."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.forward import Float
from pivec.policies.head import Distribution, Head, counts
from pivec.policies.heads import HeadDescription
from pivec.policies.normaliser import Normaliser
from pivec.policies.policy import BatchPolicy, check_width

if TYPE_CHECKING:
    import gymnasium


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
    """A policy that reads its actions off the outputs of a model.

    Parameters
    ----------
    model : Model
    description : HeadDescription
        What the outputs mean.
    normaliser : Normaliser, optional
        Applied to flattened observations first.
    head : Head, optional
        Found by `bind` where the description leaves it open.
    """

    model: Model
    description: HeadDescription = field(default_factory=HeadDescription)
    normaliser: Normaliser | None = None
    head: Head | None = None
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
