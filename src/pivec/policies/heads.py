"""All heads by name: what the outputs of a network mean, for discrete and for real actions."""

# ruff: noqa: ARG002 - all heads have the same signatures

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.forward import Float, evaluate, sample_categorical, softmax_terms
from pivec.policies.head import Distribution, Head, Parameters, counts
from pivec.policies.policy import unbound

if TYPE_CHECKING:
    import gymnasium

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
