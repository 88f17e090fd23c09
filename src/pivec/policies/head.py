"""What the outputs of a network mean: what every head has, and its settings.

A head takes outputs of shape (..., n_outputs) and random numbers of shape (..., noise size). The
numbers that differ between networks of one architecture (deviations, boxes, epsilon) are its
`parameters`; a stack of networks stacks them as it stacks the weights.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Range, check_arguments
from pivec.errors import UsageError
from pivec.policies.forward import Float

if TYPE_CHECKING:
    import gymnasium

Parameters = tuple[Float, ...]
Distribution = Float | tuple[Float, Float]


@dataclass(frozen=True)
class Options:
    """Settings that only some heads have."""

    choices: tuple[int, ...] = ()  # of "multi_categorical": how many actions each part has
    epsilon: Annotated[float, Range(0, most=1)] = 0.0  # chance of a random action, "epsilon_greedy"
    # Whether real actions go through tanh and are rescaled from [-1, 1] to the box, or clipped to
    # it; "clip" clips them to [-1, 1] and rescales these to the box.
    squash: bool | Literal["clip"] = False
    # Of "state_gaussian": means are clipped to plus and minus mean_limit, and the second half x of
    # the outputs gives deviations. "clip": exp of x clipped to log_std_range; "tanh": exp of
    # tanh(x) rescaled to it; "softplus": log(1 + exp(x)) + 0.001; "plain": x itself.
    mean_limit: float = math.inf
    deviations: Literal["clip", "tanh", "softplus", "plain"] = "clip"
    log_std_range: tuple[float, float] = (-20.0, 2.0)  # of the logarithm of a deviation
    shape: tuple[int, ...] | None = None  # of an action that has several axes

    def __post_init__(self) -> None:
        check_arguments(self)


@dataclass(frozen=True, eq=False)
class Head(ABC):
    """What `pivec.policies.heads.make_head` gives; each kind fills in the rest.

    ``n_outputs`` is the width of the network's output; ``log_std`` are deviations of a Gaussian,
    ``low`` and ``high`` the box of real actions.
    """

    name: ClassVar[str] = ""
    takes: ClassVar[frozenset[str]] = frozenset()  # of log_std, low, high
    shared: ClassVar[tuple[str, ...]] = ()  # options that are equal for heads of one stack
    draws: ClassVar[int | None] = None  # random numbers of an action; None: one for each value
    space: ClassVar[str] = ""  # the kind of space that actions are of, in gymnasium.spaces
    does: ClassVar[str] = ""  # what a policy does with its actions, for messages

    n_outputs: int
    options: Options
    log_std: Float | None = None
    low: Float | None = None
    high: Float | None = None

    def check(self) -> None:  # noqa: B027 - most kinds accept everything
        """Refuse settings that make no sense."""

    @property
    def n_values(self) -> int:
        """Number of values of an action."""
        return self.n_outputs

    @property
    def noise_size(self) -> int:
        """Random numbers that one action takes."""
        return self.n_values if self.draws is None else self.draws

    @property
    def key(self) -> Hashable:
        """Equal for heads that may be stacked."""
        values = tuple(getattr(self.options, option) for option in self.shared)
        return (self.name, *values) if values else self.name

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        """Random numbers of ``n`` actions, uniform in [0, 1)."""
        return rng.random((n, self.noise_size), dtype=np.float32)

    def parameters(self) -> Parameters:
        """Arrays that differ from network to network, of one axis each."""
        return ()

    @abstractmethod
    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        """Actions for outputs, which may be overwritten; the mode if there is no noise."""

    @abstractmethod
    def distribution(self, outputs: Float) -> Distribution:
        """Probabilities, or means and deviations before clipping or squashing, of (n, ...)."""

    @property
    def choices(self) -> tuple[int, ...]:
        """How many actions there are for each value of an action; empty for real ones."""
        return ()

    def fits(self, space: gymnasium.Space[Any]) -> bool:
        """Whether actions are of the kind and size of ``space``."""
        from gymnasium import spaces

        shape = self.options.shape or (() if self.space == "Discrete" else (self.n_values,))
        kind = getattr(spaces, self.space)
        return isinstance(space, kind) and counts(space) == self.choices and space.shape == shape

    def bind(self, space: gymnasium.Space[Any]) -> Self:
        """Check that actions fit ``space``; take the box from it where that is missing."""
        if not self.fits(space):
            raise UsageError(
                f"this policy {self.does.format(head=self)}, but the environment expects {space}: "
                "was it trained in another environment?"
            )
        if np.any(np.asarray(getattr(space, "start", 0)) != 0):
            raise UsageError(
                f"this policy counts its actions from 0, but the environment expects {space}: "
                "wrap the environment so that its actions start at 0"
            )
        return self

    def _shaped(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Give the values of each action the shape of an action."""
        shape = self.options.shape
        return actions if shape is None else actions.reshape(*actions.shape[:-1], *shape)


def counts(space: gymnasium.Space[Any]) -> tuple[int, ...]:
    """How many values each number of a space of whole numbers can take; empty for other spaces."""
    from gymnasium import spaces

    match space:
        case spaces.Discrete():
            return (int(space.n),)
        case spaces.MultiDiscrete():
            return tuple(space.nvec.ravel().tolist())
        case spaces.MultiBinary():
            return (2,) * int(np.prod(space.shape))
    return ()


def frozen(value: Any) -> Float:
    """Give a read-only float32 copy; numbers too large become infinite."""
    with np.errstate(over="ignore"):
        array = np.array(value, dtype=np.float32, order="C")
    array.flags.writeable = False
    return array
