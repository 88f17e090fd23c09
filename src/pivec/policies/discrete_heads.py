"""Heads of discrete actions: categories, several at once, switches, values, and choices made."""

# ruff: noqa: ARG002 - all heads have the same signatures

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.forward import Float, evaluate, sample_categorical, softmax_terms
from pivec.policies.head import Distribution, Head, Parameters, counts

if TYPE_CHECKING:
    import gymnasium


def _pick(logits: Float, uniform: Float | None) -> NDArray[np.int64]:
    """Choices (...) among logits (..., n): at random by uniform numbers (...), or the best."""
    if uniform is None:
        best: NDArray[np.int64] = logits.argmax(axis=-1)
        return best
    rows = np.ascontiguousarray(logits).reshape(-1, logits.shape[-1])
    chosen = sample_categorical(rows, np.ascontiguousarray(uniform).reshape(-1))
    return chosen.reshape(logits.shape[:-1])


def _probabilities(logits: Float) -> Float:
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
        return _pick(outputs, None if noise is None else noise[..., 0])

    def distribution(self, outputs: Float) -> Distribution:
        return _probabilities(outputs)


class EpsilonGreedy(Categorical):
    """Outputs are values of discrete actions: the best one, or now and then a random one."""

    name, draws = "epsilon_greedy", 2

    def check(self) -> None:
        if not 0 <= self.options.epsilon <= 1:
            raise UsageError(f"epsilon must be from 0 to 1, but is {self.options.epsilon}")

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
        chosen = [
            _pick(part, None if noise is None else noise[..., i])
            for i, part in enumerate(self._parts(outputs))
        ]
        return self._shaped(np.stack(chosen, axis=-1))

    def distribution(self, outputs: Float) -> Distribution:
        parts = [_probabilities(np.ascontiguousarray(part)) for part in self._parts(outputs)]
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
