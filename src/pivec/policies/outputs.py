"""Policies whose outputs come from any function: what loaders give that know no plain network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.forward import Float
from pivec.policies.head import Distribution, Head, Options
from pivec.policies.heads import make_head
from pivec.policies.normaliser import Normaliser

if TYPE_CHECKING:
    import gymnasium


class Model(Protocol):
    """A function from observations to outputs, and what is known about it."""

    @property
    def n_inputs(self) -> int | None:
        """Number of values of an observation; None if the model does not tell."""
        ...

    @property
    def fingerprint(self) -> str:
        """A digest of everything that decides the outputs."""
        ...

    def outputs(self, observations: Float) -> NDArray[Any]:
        """Outputs (n, k) for observations (n, ...).

        A row's outputs depend on nothing but the row, to the last bit.
        """
        ...

    def bind(self, observation_space: gymnasium.Space[Any]) -> Model:
        """Check that the model fits; maybe another one that takes these observations."""
        ...


@dataclass(frozen=True)
class HeadDescription:
    """What is known about a head before the number of outputs is.

    Attributes
    ----------
    name : str
        Empty: to be chosen by the environment's actions.
    options : Options
    arrays : mapping
        ``log_std``, ``low``, ``high``.
    discrete : str
        The head of discrete actions where ``name`` is empty.
    """

    name: str = ""
    options: Options = field(default_factory=Options)
    arrays: Mapping[str, Any] = field(default_factory=dict)
    discrete: str = "categorical"

    def make(self, sample: NDArray[Any], space: gymnasium.Space[Any] | None) -> Head | None:
        """Make the head for outputs such as ``sample`` (1, k); None if it needs a space."""
        name, options, width = self.name, self.options, sample.shape[1]
        if not name:
            if space is None:
                return None
            name, options = self._choose(sample, space)
        return make_head(name, width, options, self.arrays)

    def _choose(self, sample: NDArray[Any], space: gymnasium.Space[Any]) -> tuple[str, Options]:
        from gymnasium import spaces

        width, whole = sample.shape[1], sample.dtype.kind in "biu"
        options = self.options
        match space:
            case spaces.Discrete() if whole and width == 1:
                return "actions", options
            case spaces.Discrete() if width == space.n:
                return self.discrete, options
            case spaces.MultiDiscrete() if whole and width == space.nvec.size:
                return "actions", options
            case spaces.MultiDiscrete() if width == space.nvec.sum():
                choices = tuple(space.nvec.ravel().tolist())
                return "multi_categorical", replace(options, choices=choices, shape=space.shape)
            case spaces.MultiBinary() if width == np.prod(space.shape):
                return "actions" if whole else "bernoulli", replace(options, shape=space.shape)
            case spaces.Box() if width == np.prod(space.shape):
                return "deterministic", replace(options, shape=space.shape)
        raise UsageError(
            f"This policy gives {width} {'whole' if whole else 'real'} numbers, but the "
            f"environment expects {space}: say in a .json beside it which head it has."
        )


@dataclass(frozen=True, eq=False)
class OutputPolicy:
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
            for double in (self.normaliser.mean, self.normaliser.scale, self.normaliser.limit):
                digest.update(double.tobytes())
        return digest.hexdigest()

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        """Random numbers of ``n`` actions."""
        return self._head().noise(rng, n)

    def respond(self, observations: Any, noise: NDArray[np.float32] | None) -> NDArray[Any]:
        """Actions for ``observations`` (n, ...) given their random numbers; the mode if None."""
        head = self._head()
        outputs = self._outputs(observations)
        n = len(outputs)
        if noise is not None and np.shape(noise) != (n, head.noise_size):
            raise UsageError(
                f"Expected random numbers of shape {(n, head.noise_size)}, "
                f"but got {np.shape(noise)}."
            )
        numbers = None if noise is None else np.asarray(noise, np.float32)
        return head.choose(outputs, numbers, head.parameters())

    def act(
        self, observations: Any, rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[Any]:
        """Sample one action for each row of ``observations``; the mode if ``deterministic``."""
        noise = None if deterministic else self.noise(rng, len(observations))
        return self.respond(observations, noise)

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
        if isinstance(observation_space, spaces.Discrete):
            one_hot, start = (int(observation_space.n),), (int(observation_space.start),)
        elif isinstance(observation_space, spaces.MultiDiscrete):
            one_hot = tuple(observation_space.nvec.ravel().tolist())
            start = tuple(observation_space.start.ravel().tolist())
        if self.model.n_inputs == len(one_hot):  # it wants the numbers as they are
            one_hot, start = (), ()
        model = self.model.bind(observation_space)
        shape = observation_space.shape
        if one_hot or shape is None:
            shape = (spaces.flatdim(observation_space),)
        if self.normaliser is not None and len(self.normaliser.mean) != np.prod(shape):
            raise UsageError(
                f"The normaliser is made for observations of {len(self.normaliser.mean)} values, "
                f"but the environment gives {int(np.prod(shape))}."
            )
        sample = np.asarray(model.outputs(np.zeros((1, *shape), np.float32)))
        head = self.description.make(sample, action_space)
        if head is None:
            raise UsageError("This policy does not tell what its outputs are.")
        bound = head.bind(action_space)
        return replace(self, model=model, head=bound, one_hot=one_hot, start=start)

    def _head(self) -> Head:
        if self.head is None:
            raise UsageError(
                "This policy does not know its actions yet: call bind with the spaces of the "
                "environment first."
            )
        return self.head

    def _outputs(self, observations: Any) -> Float:
        rows = np.asarray(observations)
        if rows.ndim == 0:
            raise UsageError("Expected a batch of observations, but got a single number.")
        if self.one_hot and rows[:1].size == len(self.one_hot):
            rows = _one_hot(rows.reshape(len(rows), -1), self.one_hot, self.start)
        rows = rows.astype(np.float32)
        if self.normaliser is not None:
            rows = self.normaliser.apply(rows.reshape(len(rows), -1)).reshape(rows.shape)
        outputs = np.asarray(self.model.outputs(rows), np.float32)
        if not np.isfinite(outputs).all():
            raise UsageError("A policy gave NaN or infinite outputs: its training diverged.")
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
    rows: NDArray[Any], counts: tuple[int, ...], start: tuple[int, ...]
) -> NDArray[np.float32]:
    """One-hot rows as Gymnasium flattens Discrete and MultiDiscrete."""
    return np.concatenate(
        [
            np.eye(count, dtype=np.float32)[rows[:, i].astype(np.intp) - first]
            for i, (count, first) in enumerate(zip(counts, start, strict=True))
        ],
        axis=1,
    )
