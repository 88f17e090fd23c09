"""What the outputs of a network mean: what every head has, and its settings.

A head takes outputs of shape (..., n_outputs) and random numbers of shape (..., noise size). The
numbers that differ between networks of one architecture (deviations, boxes, epsilon) are its
`parameters`; a stack of networks stacks them as it stacks the weights.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Range, check_arguments
from pivec.errors import UsageError
from pivec.policies.forward import (
    Float,
    Layer,
    Normaliser,
    evaluate,
    sample_categorical,
    softmax_terms,
)
from pivec.policies.policy import BatchPolicy, check_width, flat_width, unbound

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
    """What `pivec.policies.distributions.make_head` gives; each kind fills in the rest.

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


# -----------------------------------------------------------------------------
# All heads by name: what the outputs of a network mean, for discrete and for real actions.


# ruff: noqa: ARG002 - all heads have the same signatures


MAX_LOG_STD = 80.0  # exp of more than 88 is infinite in float32


def _pick(logits: Float, uniform: Float | None) -> NDArray[np.int64]:
    """Choices (...) among logits (..., n): at random by one uniform number each, or the best."""
    if uniform is None:
        best: NDArray[np.int64] = logits.argmax(axis=-1)
        return best
    rows = logits.reshape(-1, logits.shape[-1])
    return sample_categorical(rows, uniform.reshape(-1)).reshape(logits.shape[:-1])


def probabilities(logits: Float) -> Float:
    """Probabilities (n, k) of logits (n, k)."""
    terms = softmax_terms(logits)
    # Running sums are taken in order; NumPy's sum of a single row is not.
    terms /= terms.cumsum(axis=0)[-1]
    return np.ascontiguousarray(terms.T)


class Categorical(Head):
    """Outputs are logits of discrete actions."""

    name, draws, space = "categorical", 1, "Discrete"
    does = "chooses among {head.n_outputs} actions"

    @property
    def choices(self) -> tuple[int, ...]:
        return (self.n_outputs,)

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        return _pick(outputs, noise)

    def distribution(self, outputs: Float) -> Distribution:
        return probabilities(outputs)


class EpsilonGreedy(Categorical):
    """Outputs are values of discrete actions: the best one, or now and then a random one."""

    name, draws = "epsilon_greedy", 2

    def parameters(self) -> Parameters:
        return (np.array([self.options.epsilon], np.float32),)

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        best = _pick(outputs, None)
        if noise is None:
            return best
        (epsilon,) = parameters
        any_action = (noise[..., 1] * np.float32(self.n_outputs)).astype(np.int64)
        # A number just below 1 may round up to n_outputs.
        np.minimum(any_action, self.n_outputs - 1, out=any_action)
        return np.where(noise[..., 0] < epsilon[..., 0], any_action, best)

    def distribution(self, outputs: Float) -> Distribution:
        epsilon = self.options.epsilon
        chances = np.full(outputs.shape, epsilon / self.n_outputs, np.float32)
        chances[np.arange(len(outputs)), _pick(outputs, None)] += np.float32(1 - epsilon)
        return chances


class Proportional(Categorical):
    """Outputs are values of discrete actions, each as likely as it is above the least one.

    So the worst is never taken, and of two actions the better always is. Where all are equal,
    every action is as likely.
    """

    name = "proportional"

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        if noise is None:
            return _pick(outputs, None)
        total = _shares(outputs)
        threshold = noise * total[..., -1:]
        actions: NDArray[np.int64] = (total[..., :-1] <= threshold).sum(axis=-1)
        return actions

    def distribution(self, outputs: Float) -> Distribution:
        total = _shares(outputs)
        return (np.diff(total, prepend=0.0) / total[..., -1:]).astype(np.float32)


def _shares(outputs: Float) -> NDArray[np.float64]:
    """Running sums (..., n) of what outputs are above the least; in float64, so without overflow.

    They are taken in order, which NumPy's sums are not.
    """
    above = outputs.astype(np.float64)
    above -= above.min(axis=-1, keepdims=True)
    above[~above.any(axis=-1)] = 1.0
    return above.cumsum(axis=-1)


class MultiCategorical(Head):
    """Outputs are the logits of several discrete choices, one after another."""

    name, shared, space = "multi_categorical", ("choices", "shape"), "MultiDiscrete"
    does = "chooses among {head.choices} actions at once"

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


class Bernoulli(Head):
    """Outputs are logits of switches, each on or off."""

    name, shared, space = "bernoulli", ("shape",), "MultiBinary"
    does = "sets {head.n_outputs} switches"

    @property
    def choices(self) -> tuple[int, ...]:
        return (2,) * self.n_outputs

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        on = outputs > 0 if noise is None else noise < evaluate("sigmoid", outputs)
        return self._shaped(on.astype(np.int8))

    def distribution(self, outputs: Float) -> Distribution:
        return evaluate("sigmoid", outputs)


class Chosen(Head):
    """Outputs are the numbers of the actions themselves: the network has chosen already."""

    name, shared, draws = "actions", ("choices", "shape"), 0
    does = "gives {head.n_outputs} chosen actions"

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        actions = np.rint(np.nan_to_num(outputs, nan=-1.0)).astype(np.int64)
        choices = np.array(self.options.choices or [np.iinfo(np.int64).max])
        wrong = actions[(actions < 0) | (actions >= choices)]
        if wrong.size:
            raise UsageError(
                f"a policy chose action {wrong[0]}, but the environment counts them from 0 to "
                f"{int(choices.max()) - 1}"
            )
        return self._shaped(actions)

    def distribution(self, outputs: Float) -> Distribution:
        raise UsageError(
            "this policy gives actions and not their distribution: save a model whose outputs "
            "are logits"
        )

    def fits(self, space: gymnasium.Space[Any]) -> bool:
        return len(counts(space)) == self.n_outputs

    def bind(self, space: gymnasium.Space[Any]) -> Self:
        bound = super().bind(space)
        options = replace(self.options, choices=counts(space), shape=space.shape)
        return replace(bound, options=options)


class Continuous(Head):
    """Real actions: clipped to the box, or squashed and rescaled to it."""

    takes, space = frozenset({"low", "high"}), "Box"
    shared: ClassVar[tuple[str, ...]] = ("squash", "shape")
    does = "gives actions of {head.n_values} real values"

    @property
    def key(self) -> Hashable:
        plain = not self.options.squash and self.options.shape is None
        return self.name if plain and self.shared == Continuous.shared else super().key

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        """Random numbers of ``n`` actions, standard normal."""
        return rng.standard_normal((n, self.noise_size), dtype=np.float32)

    def parameters(self) -> Parameters:
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if self.options.squash:
            raise unbound("this policy", "the box of its actions")
        free = np.full(self.n_values, np.inf, np.float32)
        return -free, free

    def _finish(self, values: Float, low: Float, high: Float) -> NDArray[Any]:
        if self.options.squash:
            squeezed = self.options.squash == "clip"
            values = np.clip(values, -1, 1) if squeezed else evaluate("tanh", values)
            # As Stable-Baselines3: low + (x + 1)/2 (high - low).
            values += np.float32(1)
            values *= np.float32(0.5)
            values *= high - low
            values += low
        else:
            np.clip(values, low, high, out=values)
        return self._shaped(values)

    def bind(self, space: gymnasium.Space[Any]) -> Self:
        bound, box = super().bind(space), (getattr(space, name) for name in ("low", "high"))
        low, high = (np.ravel(edge).astype(np.float32) for edge in box)
        # The box of the training stays, but one read off rounded text becomes the exact one.
        if self.low is not None and self.high is not None:
            if not (np.allclose(self.low, low) and np.allclose(self.high, high)):
                return bound
        elif self.options.squash and not np.isfinite([low, high]).all():
            raise UsageError(
                f"this policy squashes its actions into a box, but {space} has no bounds: wrap "
                "the environment with bounds"
            )
        return replace(bound, low=low, high=high)


class Gaussian(Continuous):
    """Outputs are means; the deviations are the same in every state."""

    name, takes = "gaussian", frozenset({"log_std", "low", "high"})

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
        return self._finish(outputs, low, high)

    def distribution(self, outputs: Float) -> Distribution:
        std = evaluate("exp", self.log_std)
        return outputs.copy(), np.broadcast_to(std, outputs.shape).copy()


class StateGaussian(Continuous):
    """Outputs are means and, in the second half, what the deviations are made of."""

    name = "state_gaussian"
    shared = ("squash", "shape", "mean_limit", "deviations", "log_std_range")

    def check(self) -> None:
        options = self.options
        if self.n_outputs % 2:
            raise UsageError(
                f"means and deviations need an even number of outputs, not {self.n_outputs}"
            )
        least, most = options.log_std_range
        if not -MAX_LOG_STD <= least <= most <= MAX_LOG_STD:
            raise UsageError(
                f"log_std_range must be two numbers in order, from {-MAX_LOG_STD} to "
                f"{MAX_LOG_STD}, but is {least} and {most}"
            )
        if not 1e-30 < options.mean_limit < 1e30 and options.mean_limit != math.inf:
            raise UsageError(f"mean_limit must be above 0, but is {options.mean_limit}")

    @property
    def n_values(self) -> int:
        return self.n_outputs // 2

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        low, high = parameters
        mean, std = self.distribution(outputs)
        if noise is not None:
            mean += std * noise
        return self._finish(mean, low, high)

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
        return mean, spread


class Deterministic(Continuous):
    """Outputs are the actions."""

    name, draws = "deterministic", 0

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        return self._finish(outputs, *parameters)

    def distribution(self, outputs: Float) -> Distribution:
        return outputs.copy(), np.zeros_like(outputs)


HEADS: dict[str, type[Head]] = {
    kind.name: kind
    for kind in (
        *(Categorical, MultiCategorical, Bernoulli, EpsilonGreedy, Proportional),
        *(Gaussian, StateGaussian, Deterministic, Chosen),
    )
}
"""Name -> class."""


# -----------------------------------------------------------------------------
# From outputs to actions: heads made from plain values, and policies of any other function.


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

    def latent(self, observations: Float) -> Float:
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
