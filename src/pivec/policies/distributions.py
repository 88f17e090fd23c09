"""Action distributions: what the outputs of a network mean.

`DISTRIBUTIONS` lists them by name. Each maps outputs (..., n_outputs) and random numbers
(..., noise_size) to actions. The values that differ between networks of one architecture
(standard deviations, bounds, epsilon) are its `parameters`, which are stacked like weights.
"""

# ruff: noqa: ARG002 - all distributions have the same signatures

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Range, check_arguments
from pivec.errors import UsageError
from pivec.policies.forward import Float, evaluate, function
from pivec.policies.policy import unbound

if TYPE_CHECKING:
    from pivec.policies.policy import Space

MAX_AXES = 8
MAX_LOG_STD = 80.0  # exp of more than 88 is infinite in float32
Parameters = tuple[Float, ...]
Distribution = Float | tuple[Float, Float]
"""Probabilities, or means and standard deviations, of shape (n, ...)."""


@dataclass(frozen=True)
class Options:
    """Settings of some action distributions."""

    choices: tuple[int, ...] = ()  # "multi_categorical": number of actions of each part
    epsilon: Annotated[float, Range(0, most=1)] = 0.0  # "epsilon_greedy": P(random action)
    # Real actions: True applies tanh and rescales [-1, 1] to the bounds, "clip" clips to [-1, 1]
    # and rescales, False clips to the bounds.
    squash: bool | Literal["clip"] = False
    # "state_gaussian": means are clipped to +-mean_limit; the second half x of the outputs gives
    # standard deviations. "clip": exp of x clipped to log_std_range; "tanh": exp of tanh(x)
    # rescaled to it; "softplus": log(1 + exp(x)) + 0.001; "biased_softplus": 1 where x is 0, and
    # above 0.01, as in TorchRL; "plain": x itself.
    mean_limit: float = math.inf
    deviations: Literal["clip", "tanh", "softplus", "biased_softplus", "plain"] = "clip"
    log_std_range: tuple[float, float] = (-20.0, 2.0)
    shape: tuple[int, ...] | None = None  # of an action with several axes

    def __post_init__(self) -> None:
        check_arguments(self)


@dataclass(frozen=True, eq=False)
class ActionDistribution(ABC):
    """An action distribution for outputs of width ``n_outputs``; made by `make_distribution`.

    ``log_std`` are the standard deviations of a Gaussian, ``low`` and ``high`` the bounds of real
    actions.
    """

    name: ClassVar[str] = ""
    arrays: ClassVar[tuple[str, ...]] = ()  # which of log_std, low and high it takes
    shared: ClassVar[tuple[str, ...]] = ()  # options that must be equal within a stack
    draws: ClassVar[int | None] = None  # random numbers per action; None: one per value
    space: ClassVar[str] = ""  # class of the action space in gymnasium.spaces
    does: ClassVar[str] = ""  # description for messages

    n_outputs: int
    options: Options
    log_std: Float | None = None
    low: Float | None = None
    high: Float | None = None

    def check(self) -> None:  # noqa: B027 - most accept everything
        """Reject invalid settings."""

    @property
    def n_values(self) -> int:
        """Number of values of an action."""
        return self.n_outputs

    @property
    def noise_size(self) -> int:
        """Number of random numbers per action."""
        return self.n_values if self.draws is None else self.draws

    @property
    def key(self) -> Hashable:
        """Equal for distributions that can be stacked."""
        values = tuple(getattr(self.options, option) for option in self.shared)
        return (self.name, *values) if values else self.name

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        """Random numbers for ``n`` actions: uniform in [0, 1), standard normal for real actions."""
        return rng.random((n, self.noise_size), dtype=np.float32)

    def parameters(self) -> Parameters:
        """Arrays that differ between networks, with one axis each."""
        return ()

    @abstractmethod
    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        """Sample actions given random numbers, or return the mode if there are none.

        The outputs may be overwritten.
        """

    @abstractmethod
    def distribution(self, outputs: Float) -> Distribution:
        """Probabilities, or means and standard deviations before clipping or squashing."""

    @property
    def choices(self) -> tuple[int, ...]:
        """Number of options for each value of an action; empty for real actions."""
        return ()

    def fits(self, space: Space) -> bool:
        """Whether actions belong to ``space``."""
        from gymnasium import spaces

        shape = self.options.shape or (() if self.space == "Discrete" else (self.n_values,))
        kind = getattr(spaces, self.space)
        return isinstance(space, kind) and counts(space) == self.choices and space.shape == shape

    def bind(self, space: Space) -> Self:
        """Check that actions fit ``space``, and take missing bounds from it."""
        if not self.fits(space):
            raise UsageError(
                f"this policy {self.does.format(self=self)}, but the environment expects {space}: "
                "was it trained in another environment?"
            )
        if np.any(np.asarray(getattr(space, "start", 0)) != 0):
            raise UsageError(
                f"this policy numbers its actions from 0, but the environment expects {space}: "
                "wrap the environment so that its actions start at 0"
            )
        return self

    def _shaped(self, actions: NDArray[Any]) -> NDArray[Any]:
        shape = self.options.shape
        return actions if shape is None else actions.reshape(*actions.shape[:-1], *shape)


def counts(space: Space) -> tuple[int, ...]:
    """Number of options for each value of a discrete space; empty for other spaces."""
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
    """Read-only float32 copy; numbers that are too large become infinite."""
    with np.errstate(over="ignore"):
        array = np.array(value, dtype=np.float32, order="C")
    array.flags.writeable = False
    return array


def _softmax_terms(logits: Float) -> Float:
    """exp(logit - largest) of logits (n, k), transposed so that NumPy works on long runs."""
    terms = np.ascontiguousarray(logits.T)
    terms -= terms.max(axis=0)
    function("exp")(terms.reshape(-1))
    return terms


def probabilities(logits: Float) -> Float:
    """Probabilities (n, k) of logits (n, k)."""
    terms = _softmax_terms(logits)
    # Cumulative sums are taken in order; NumPy's sum of a single row is not.
    terms /= terms.cumsum(axis=0)[-1]
    return np.ascontiguousarray(terms.T)


def _pick(logits: Float, uniform: Float | None) -> NDArray[np.int64]:
    """Actions (...) for logits (..., k): sampled by inverting the CDF, or the most likely."""
    if uniform is None:
        best: NDArray[np.int64] = logits.argmax(axis=-1)
        return best
    terms = _softmax_terms(logits.reshape(-1, logits.shape[-1]))
    np.cumsum(terms, axis=0, out=terms)
    threshold = uniform.reshape(-1) * terms[-1]
    actions = np.zeros(threshold.size, np.int64)
    for below in terms[:-1]:
        actions += below <= threshold
    return actions.reshape(logits.shape[:-1])


class _Categorical(ActionDistribution):
    """Outputs are logits of discrete actions."""

    name, draws, space = "categorical", 1, "Discrete"
    does = "chooses among {self.n_outputs} actions"

    @property
    def choices(self) -> tuple[int, ...]:
        return (self.n_outputs,)

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        return _pick(outputs, noise)

    def distribution(self, outputs: Float) -> Distribution:
        return probabilities(outputs)


class _EpsilonGreedy(_Categorical):
    """Outputs are action values: the best action, or with probability epsilon a random one."""

    name, draws = "epsilon_greedy", 2

    def parameters(self) -> Parameters:
        return (np.array([self.options.epsilon], np.float32),)

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        best = _pick(outputs, None)
        if noise is None:
            return best
        (epsilon,) = parameters
        random = (noise[..., 1] * np.float32(self.n_outputs)).astype(np.int64)
        # A number just below 1 may round up to n_outputs.
        np.minimum(random, self.n_outputs - 1, out=random)
        return np.where(noise[..., 0] < epsilon[..., 0], random, best)

    def distribution(self, outputs: Float) -> Distribution:
        epsilon = self.options.epsilon
        chances = np.full(outputs.shape, epsilon / self.n_outputs, np.float32)
        chances[np.arange(len(outputs)), _pick(outputs, None)] += np.float32(1 - epsilon)
        return chances


class _Proportional(_Categorical):
    """Outputs are action values; probabilities are proportional to value minus the least value.

    Actions are equally likely if all values are equal.
    """

    name = "proportional"

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        if noise is None:
            return _pick(outputs, None)
        total = self._cumulative(outputs)
        actions: NDArray[np.int64] = (total[..., :-1] <= noise * total[..., -1:]).sum(axis=-1)
        return actions

    def distribution(self, outputs: Float) -> Distribution:
        total = self._cumulative(outputs)
        return (np.diff(total, prepend=0.0) / total[..., -1:]).astype(np.float32)

    def _cumulative(self, outputs: Float) -> NDArray[np.float64]:
        above = outputs.astype(np.float64)  # which cannot overflow
        above -= above.min(axis=-1, keepdims=True)
        above[~above.any(axis=-1)] = 1.0
        return above.cumsum(axis=-1)


class _MultiCategorical(ActionDistribution):
    """Outputs are the concatenated logits of several discrete choices."""

    name, shared, space = "multi_categorical", ("choices", "shape"), "MultiDiscrete"
    does = "chooses among {self.choices} actions at once"

    @property
    def choices(self) -> tuple[int, ...]:
        return self.options.choices

    def check(self) -> None:
        if not self.choices or min(self.choices) < 1 or sum(self.choices) != self.n_outputs:
            raise UsageError(
                f"choices must be numbers of actions that add up to {self.n_outputs} outputs, "
                f"but are {list(self.choices)}"
            )

    @property
    def n_values(self) -> int:
        return len(self.options.choices)

    def _parts(self, outputs: Float) -> list[Float]:
        return np.split(outputs, np.cumsum(self.options.choices)[:-1], axis=-1)

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        actions = np.empty((*outputs.shape[:-1], self.n_values), np.int64)
        for i, part in enumerate(self._parts(outputs)):
            actions[..., i] = _pick(part, None if noise is None else noise[..., i])
        return self._shaped(actions)

    def distribution(self, outputs: Float) -> Distribution:
        parts = [probabilities(np.ascontiguousarray(part)) for part in self._parts(outputs)]
        return np.concatenate(parts, axis=1)


class _Bernoulli(ActionDistribution):
    """Outputs are logits of binary values."""

    name, shared, space = "bernoulli", ("shape",), "MultiBinary"
    does = "sets {self.n_outputs} binary values"

    @property
    def choices(self) -> tuple[int, ...]:
        return (2,) * self.n_outputs

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        on = outputs > 0 if noise is None else noise < evaluate("sigmoid", outputs)
        return self._shaped(on.astype(np.int8))

    def distribution(self, outputs: Float) -> Distribution:
        return evaluate("sigmoid", outputs)


class _Actions(ActionDistribution):
    """Outputs are discrete actions already chosen by the model."""

    name, shared, draws = "actions", ("choices", "shape"), 0
    does = "gives {self.n_outputs} chosen actions"

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        actions = np.rint(np.nan_to_num(outputs, nan=-1.0)).astype(np.int64)
        choices = np.array(self.options.choices or [np.iinfo(np.int64).max])
        wrong = actions[(actions < 0) | (actions >= choices)]
        if wrong.size:
            raise UsageError(
                f"a policy chose action {wrong[0]}, but the environment's actions are 0 to "
                f"{int(choices.max()) - 1}"
            )
        return self._shaped(actions)

    def distribution(self, outputs: Float) -> Distribution:
        raise UsageError(
            "this policy gives actions, not their distribution: save a model that outputs logits"
        )

    def fits(self, space: Space) -> bool:
        return len(counts(space)) == self.n_outputs

    def bind(self, space: Space) -> Self:
        bound = super().bind(space)
        options = replace(self.options, choices=counts(space), shape=space.shape)
        return replace(bound, options=options)


class _Deterministic(ActionDistribution):
    """Outputs are real actions: clipped to their bounds, or squashed and rescaled to them."""

    name, space = "deterministic", "Box"
    draws: ClassVar[int | None] = 0
    arrays: ClassVar[tuple[str, ...]] = ("low", "high")
    shared: ClassVar[tuple[str, ...]] = ("squash", "shape")
    does = "gives actions of {self.n_values} real values"

    @property
    def key(self) -> Hashable:
        plain = not self.options.squash and self.options.shape is None
        return self.name if plain and len(self.shared) == 2 else super().key

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        return rng.standard_normal((n, self.noise_size), dtype=np.float32)

    def parameters(self) -> Parameters:
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if self.options.squash:
            raise unbound("this policy", "the action bounds")
        free = np.full(self.n_values, np.inf, np.float32)
        return -free, free

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        return self._bounded(outputs, *parameters)

    def distribution(self, outputs: Float) -> Distribution:
        return outputs.copy(), np.zeros_like(outputs)

    def _bounded(self, values: Float, low: Float, high: Float) -> NDArray[Any]:
        if self.options.squash:
            clips = self.options.squash == "clip"
            values = np.clip(values, -1, 1) if clips else evaluate("tanh", values)
            # As Stable-Baselines3: low + (x + 1)/2 (high - low).
            values += np.float32(1)
            values *= np.float32(0.5)
            values *= high - low
            values += low
        else:
            np.clip(values, low, high, out=values)
        return self._shaped(values)

    def bind(self, space: Space) -> Self:
        bound, bounds = super().bind(space), (getattr(space, name) for name in ("low", "high"))
        low, high = (np.ravel(edge).astype(np.float32) for edge in bounds)
        # The bounds of the training stay, but those read off rounded text become exact.
        if self.low is not None and self.high is not None:
            if not (np.allclose(self.low, low) and np.allclose(self.high, high)):
                return bound
        elif self.options.squash and not np.isfinite([low, high]).all():
            raise UsageError(f"this policy squashes its actions into bounds, but {space} has none")
        return replace(bound, low=low, high=high)


class _Gaussian(_Deterministic):
    """Outputs are means; standard deviations are the same in every state."""

    name, draws, arrays = "gaussian", None, ("log_std", "low", "high")

    def check(self) -> None:
        if self.log_std is None:
            raise UsageError("a Gaussian policy needs log_std")
        if (self.log_std > MAX_LOG_STD).any():
            raise UsageError(f"log_std is above {MAX_LOG_STD}: the training diverged")

    def parameters(self) -> Parameters:
        return (evaluate("exp", self.log_std), *super().parameters())

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        std, low, high = parameters
        if noise is not None:
            outputs += std * noise
        return self._bounded(outputs, low, high)

    def distribution(self, outputs: Float) -> Distribution:
        std = evaluate("exp", self.log_std)
        return outputs.copy(), np.broadcast_to(std, outputs.shape).copy()


class _StateGaussian(_Deterministic):
    """Outputs are means and, in the second half, what gives the standard deviations."""

    name, draws = "state_gaussian", None
    shared = ("squash", "shape", "mean_limit", "deviations", "log_std_range")

    def check(self) -> None:
        if self.n_outputs % 2:
            raise UsageError(f"means and deviations are an even number, not {self.n_outputs}")
        least, most = self.options.log_std_range
        if not -MAX_LOG_STD <= least <= most <= MAX_LOG_STD:
            limits = f"two numbers in order, from {-MAX_LOG_STD} to {MAX_LOG_STD}"
            raise UsageError(f"log_std_range must be {limits}, but is {least} and {most}")
        limit = self.options.mean_limit
        if not 1e-30 < limit < 1e30 and limit != math.inf:
            raise UsageError(f"mean_limit must be above 0, but is {limit}")

    @property
    def n_values(self) -> int:
        return self.n_outputs // 2

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        mean, std = self.distribution(outputs)
        if noise is not None:
            mean += std * noise
        return self._bounded(mean, *parameters)

    def distribution(self, outputs: Float) -> tuple[Float, Float]:
        options, n = self.options, self.n_values
        mean, spread = outputs[..., :n].copy(), outputs[..., n:].copy()
        if options.mean_limit != math.inf:
            limit = np.float32(options.mean_limit)
            np.clip(mean, -limit, limit, out=mean)
        least, most = (np.float32(bound) for bound in options.log_std_range)
        if options.deviations == "clip":
            spread = evaluate("exp", np.clip(spread, least, most))
        elif options.deviations == "tanh":
            middle = np.float32(0.5) * (most - least)
            spread = evaluate("exp", least + middle * (evaluate("tanh", spread) + np.float32(1)))
        elif options.deviations == "softplus":
            spread = evaluate("softplus", spread) + np.float32(0.001)
        elif options.deviations == "biased_softplus":
            bias = np.float32(math.log(math.expm1(0.99)))
            spread = evaluate("softplus", spread + bias) + np.float32(0.01)
        return mean, spread


DISTRIBUTIONS: dict[str, type[ActionDistribution]] = {
    kind.name: kind
    for kind in (
        *(_Categorical, _MultiCategorical, _Bernoulli, _EpsilonGreedy, _Proportional),
        *(_Gaussian, _StateGaussian, _Deterministic, _Actions),
    )
}
"""Name ("head" in files and messages) -> class."""


def make_distribution(
    name: str,
    n_outputs: int,
    options: Options | None = None,
    arrays: Mapping[str, Any] | None = None,
) -> ActionDistribution:
    """Make a checked action distribution; ``arrays`` that are None count as missing.

    Examples
    --------
    >>> make_distribution("categorical", 2).distribution(np.zeros((1, 2), np.float32))
    array([[0.5, 0.5]], dtype=float32)
    """
    if name not in DISTRIBUTIONS:
        known = ", ".join(DISTRIBUTIONS)
        raise UsageError(f"the head of a policy must be one of {known}, but is {name!r}")
    draft = DISTRIBUTIONS[name](n_outputs, options or Options())
    given: dict[str, Any] = {
        key: frozen(value) for key, value in (arrays or {}).items() if value is not None
    }
    for key, array in given.items():
        if key not in draft.arrays:
            raise UsageError(f"a {name} policy has no {key}")
        if array.shape != (draft.n_values,) or np.isnan(array).any():
            raise UsageError(
                f"{key} must have one number for each of {draft.n_values} action values, "
                f"not shape {array.shape}{' with NaN' if np.isnan(array).any() else ''}"
            )
    made = replace(draft, **given)
    made.check()
    if (made.low is None) != (made.high is None):
        raise UsageError("bounds of actions need both low and high")
    if made.low is not None and made.high is not None:
        if (made.low > made.high).any():
            raise UsageError("bounds of actions need low <= high")
        if made.options.squash and not np.isfinite([made.low, made.high]).all():
            raise UsageError("actions can only be squashed into finite bounds, low and high")
    shape = made.options.shape
    if shape is not None and (len(shape) > MAX_AXES or math.prod(shape) != made.n_values):
        raise UsageError(f"actions of {made.n_values} values cannot have the shape {shape[:20]}")
    return made


@dataclass(frozen=True)
class DistributionSpec:
    """An action distribution whose number of outputs is not known yet."""

    name: str = ""  # empty: chosen by the environment's action space
    options: Options = field(default_factory=Options)
    arrays: Mapping[str, Any] = field(default_factory=dict)  # log_std, low, high
    discrete: str = "categorical"  # for discrete actions, if the name is empty

    def make(self, sample: NDArray[Any], space: Space) -> ActionDistribution:
        """Make the distribution for outputs such as ``sample`` (1, k) and actions of ``space``."""
        from gymnasium import spaces

        name, options, width = self.name, self.options, sample.shape[1]
        choices, whole = counts(space), sample.dtype.kind in "biu"
        if name:
            return make_distribution(name, width, options, self.arrays)
        if whole and choices and width == len(choices):
            return make_distribution("actions", width, options, self.arrays)
        match space:
            case spaces.Discrete() if width == sum(choices):
                name = self.discrete
            case spaces.MultiDiscrete() if width == sum(choices):
                name, options = "multi_categorical", replace(options, choices=choices)
            case spaces.MultiBinary() | spaces.Box() if width == np.prod(space.shape):
                name = "bernoulli" if choices else "deterministic"
            case _:
                raise UsageError(
                    f"this policy outputs {width} {'integers' if whole else 'real numbers'}, but "
                    f"the environment expects {space}: state the head in a .json file next to it"
                )
        if name != self.discrete:
            options = replace(options, shape=space.shape)
        return make_distribution(name, width, options, self.arrays)
