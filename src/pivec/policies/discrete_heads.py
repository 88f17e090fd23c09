"""Heads of discrete actions: categories, several at once, switches, values, and choices made."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.forward import Float, evaluate, sample_categorical, softmax_terms
from pivec.policies.head import Distribution, Head, Parameters, misfit, refuse_start, shaped

if TYPE_CHECKING:
    import gymnasium


def _probabilities(logits: Float) -> Float:
    terms = softmax_terms(logits)
    # Running sums are taken in order; NumPy's sum of a single row is not.
    terms /= terms.cumsum(axis=0)[-1]
    return np.ascontiguousarray(terms.T)


class Categorical(Head):
    """Outputs are logits of discrete actions."""

    name = "categorical"

    def choose(
        self,
        outputs: Float,
        noise: Float | None,
        parameters: Parameters,  # noqa: ARG002 - the signature of every head
    ) -> NDArray[Any]:
        if noise is None:
            best: NDArray[np.int64] = outputs.argmax(axis=-1)
            return best
        rows = outputs.reshape(-1, self.n_outputs)
        return sample_categorical(rows, noise.reshape(-1)).reshape(outputs.shape[:-1])

    def distribution(self, outputs: Float) -> Distribution:
        return _probabilities(outputs)

    def bind(self, space: gymnasium.Space[Any]) -> Self:
        from gymnasium import spaces

        if not isinstance(space, spaces.Discrete) or space.n != self.n_outputs:
            raise misfit(f"chooses among {self.n_outputs} actions", space)
        refuse_start(space)
        return self


class EpsilonGreedy(Categorical):
    """Outputs are values of discrete actions: the best one, or now and then a random one."""

    name = "epsilon_greedy"

    def check(self) -> None:
        if not 0 <= self.options.epsilon <= 1:
            raise UsageError(f"epsilon must be from 0 to 1, not {self.options.epsilon}.")

    @property
    def noise_size(self) -> int:
        return 2

    def parameters(self) -> Parameters:
        return (np.array([self.options.epsilon], np.float32),)

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        best: NDArray[np.int64] = outputs.argmax(axis=-1)
        if noise is None:
            return best
        (epsilon,) = parameters
        any_action = (noise[..., 1] * np.float32(self.n_outputs)).astype(np.int64)
        # A number just below 1 may round up to n_outputs.
        np.minimum(any_action, self.n_outputs - 1, out=any_action)
        return np.where(noise[..., 0] < epsilon[..., 0], any_action, best)

    def distribution(self, outputs: Float) -> Distribution:
        share = np.float32(self.options.epsilon / self.n_outputs)
        chances = np.full(outputs.shape, share, np.float32)
        chances[np.arange(len(outputs)), outputs.argmax(axis=-1)] += np.float32(
            1 - self.options.epsilon
        )
        return chances


class MultiCategorical(Head):
    """Outputs are the logits of several discrete choices, one after another."""

    name = "multi_categorical"

    def check(self) -> None:
        choices = self.options.choices
        if not choices or min(choices) < 1 or sum(choices) != self.n_outputs:
            raise UsageError(
                f"choices must be numbers of actions that add up to {self.n_outputs} outputs, "
                f"not {list(choices)}."
            )

    @property
    def n_values(self) -> int:
        return len(self.options.choices)

    @property
    def noise_size(self) -> int:
        return self.n_values

    @property
    def key(self) -> Hashable:
        return (self.name, self.options.choices, self.options.shape)

    def _parts(self, outputs: Float) -> list[Float]:
        return np.split(outputs, np.cumsum(self.options.choices)[:-1], axis=-1)

    def choose(
        self,
        outputs: Float,
        noise: Float | None,
        parameters: Parameters,  # noqa: ARG002 - the signature of every head
    ) -> NDArray[Any]:
        actions = np.empty((*outputs.shape[:-1], self.n_values), np.int64)
        for i, part in enumerate(self._parts(outputs)):
            if noise is None:
                actions[..., i] = part.argmax(axis=-1)
            else:
                rows = np.ascontiguousarray(part).reshape(-1, part.shape[-1])
                uniform = np.ascontiguousarray(noise[..., i]).reshape(-1)
                actions[..., i] = sample_categorical(rows, uniform).reshape(part.shape[:-1])
        return shaped(actions, self.options.shape)

    def distribution(self, outputs: Float) -> Distribution:
        parts = [_probabilities(np.ascontiguousarray(part)) for part in self._parts(outputs)]
        return np.concatenate(parts, axis=1)

    def bind(self, space: gymnasium.Space[Any]) -> Self:
        from gymnasium import spaces

        choices = self.options.choices
        if not isinstance(space, spaces.MultiDiscrete) or (
            tuple(space.nvec.ravel().tolist()) != choices
            or space.shape != (self.options.shape or (len(choices),))
        ):
            raise misfit(f"chooses among {list(choices)} actions at once", space)
        refuse_start(space)
        return self


class Bernoulli(Head):
    """Outputs are logits of switches, each on or off."""

    name = "bernoulli"

    @property
    def noise_size(self) -> int:
        return self.n_outputs

    @property
    def key(self) -> Hashable:
        return (self.name, self.options.shape)

    def choose(
        self,
        outputs: Float,
        noise: Float | None,
        parameters: Parameters,  # noqa: ARG002 - the signature of every head
    ) -> NDArray[Any]:
        on = outputs > 0 if noise is None else noise < evaluate("sigmoid", outputs)
        return shaped(on.astype(np.int8), self.options.shape)

    def distribution(self, outputs: Float) -> Distribution:
        return evaluate("sigmoid", outputs)

    def bind(self, space: gymnasium.Space[Any]) -> Self:
        from gymnasium import spaces

        shape = self.options.shape or (self.n_outputs,)
        if not isinstance(space, spaces.MultiBinary) or space.shape != shape:
            raise misfit(f"sets {self.n_outputs} switches", space)
        return self


class Chosen(Head):
    """Outputs are the numbers of the actions themselves: the network has chosen already."""

    name = "actions"

    @property
    def noise_size(self) -> int:
        return 0

    @property
    def key(self) -> Hashable:
        return (self.name, self.options.choices, self.options.shape)

    def choose(
        self,
        outputs: Float,
        noise: Float | None,  # noqa: ARG002 - nothing is left to chance
        parameters: Parameters,  # noqa: ARG002
    ) -> NDArray[Any]:
        actions = np.rint(np.nan_to_num(outputs, nan=-1.0)).astype(np.int64)
        choices = np.array(self.options.choices or [np.iinfo(np.int64).max])
        if ((actions < 0) | (actions >= choices)).any():
            wrong = actions[(actions < 0) | (actions >= choices)][0]
            raise UsageError(
                f"A policy chose action {wrong}, but the environment counts them from 0 to "
                f"{int(choices.max()) - 1}."
            )
        return shaped(actions, self.options.shape)

    def distribution(self, outputs: Float) -> Distribution:  # noqa: ARG002
        raise UsageError(
            "This policy gives actions and not their distribution: save a model whose outputs "
            "are logits."
        )

    def bind(self, space: gymnasium.Space[Any]) -> Self:
        from gymnasium import spaces

        if isinstance(space, spaces.Discrete) and self.n_outputs == 1:
            choices: tuple[int, ...] = (int(space.n),)
        elif isinstance(space, spaces.MultiDiscrete) and space.nvec.size == self.n_outputs:
            choices = tuple(space.nvec.ravel().tolist())
        elif isinstance(space, spaces.MultiBinary) and np.prod(space.shape) == self.n_outputs:
            return replace(
                self,
                options=replace(self.options, choices=(2,) * self.n_outputs, shape=space.shape),
            )
        else:
            raise misfit(f"gives {self.n_outputs} chosen actions", space)
        refuse_start(space)
        return replace(self, options=replace(self.options, choices=choices, shape=space.shape))
