"""Heads of real actions: Gaussians with fixed or state-dependent deviations, and none at all."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.forward import Float, evaluate
from pivec.policies.head import Distribution, Head, Parameters, misfit, shaped

if TYPE_CHECKING:
    import gymnasium

DEVIATIONS = ("clip", "tanh", "plain")
MAX_LOG_STD = 80.0  # exp of more than 88 is infinite in float32


class Continuous(Head):
    """Real actions: clipped to the box, or squashed and rescaled to it."""

    takes = frozenset({"low", "high"})

    @property
    def key(self) -> Hashable:
        plain = not self.options.squash and self.options.shape is None
        return self.name if plain else (self.name, self.options.squash, self.options.shape)

    @property
    def noise_size(self) -> int:
        return self.n_values

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        """Random numbers of ``n`` actions, standard normal."""
        return rng.standard_normal((n, self.noise_size), dtype=np.float32)

    def _box(self) -> Parameters:
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if self.options.squash:
            raise UsageError(
                "This policy does not know the box of its actions yet: call bind with the spaces "
                "of the environment first."
            )
        free = np.full(self.n_values, np.inf, np.float32)
        return -free, free

    def parameters(self) -> Parameters:
        return self._box()

    def _finish(self, values: Float, low: Float, high: Float) -> NDArray[Any]:
        if self.options.squash:
            values = evaluate("tanh", values)
            # As Stable-Baselines3: low + (x + 1)/2 (high - low).
            values += np.float32(1)
            values *= np.float32(0.5)
            values *= high - low
            values += low
        else:
            np.clip(values, low, high, out=values)
        return shaped(values, self.options.shape)

    def bind(self, space: gymnasium.Space[Any]) -> Self:
        from gymnasium import spaces

        shape = self.options.shape or (self.n_values,)
        if not isinstance(space, spaces.Box) or space.shape != shape:
            raise misfit(f"gives actions of {self.n_values} real values", space)
        low, high = (np.ravel(bound).astype(np.float32) for bound in (space.low, space.high))
        # The box of the training stays, but one read off rounded text becomes the exact one.
        if self.low is not None and self.high is not None:
            if not (np.allclose(self.low, low) and np.allclose(self.high, high)):
                return self
        elif self.options.squash and not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise UsageError(
                f"This policy squashes its actions into a box, but {space} has no bounds: wrap "
                "the environment with bounds."
            )
        return replace(self, low=low, high=high)


class Gaussian(Continuous):
    """Outputs are means; the deviations are the same in every state."""

    name = "gaussian"
    takes = frozenset({"log_std", "low", "high"})

    def check(self) -> None:
        if self.log_std is None:
            raise UsageError("A Gaussian policy needs log_std.")
        if (self.log_std > MAX_LOG_STD).any():
            raise UsageError(f"log_std is above {MAX_LOG_STD}: the training diverged.")

    def _std(self) -> Float:
        if self.log_std is None:
            return np.ones(1, np.float32)
        return evaluate("exp", self.log_std)

    def parameters(self) -> Parameters:
        return (self._std(), *self._box())

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        std, low, high = parameters
        if noise is not None:
            outputs += std * noise
        return self._finish(outputs, low, high)

    def distribution(self, outputs: Float) -> Distribution:
        return outputs.copy(), np.broadcast_to(self._std(), outputs.shape).copy()


class StateGaussian(Continuous):
    """Outputs are means and, in the second half, what the deviations are made of."""

    name = "state_gaussian"

    def check(self) -> None:
        options = self.options
        if self.n_outputs % 2:
            raise UsageError(
                f"Means and deviations need an even number of outputs, not {self.n_outputs}."
            )
        if options.deviations not in DEVIATIONS:
            raise UsageError(
                f"deviations must be one of {', '.join(DEVIATIONS)}, not {options.deviations!r}."
            )
        least, most = options.log_std_range
        if not -MAX_LOG_STD <= least <= most <= MAX_LOG_STD:
            raise UsageError(
                f"log_std_range must be two numbers in order, from {-MAX_LOG_STD} to "
                f"{MAX_LOG_STD}, not {least} and {most}."
            )
        if not 1e-30 < options.mean_limit < 1e30 and options.mean_limit != math.inf:
            raise UsageError(f"mean_limit must be above 0, not {options.mean_limit}.")

    @property
    def n_values(self) -> int:
        return self.n_outputs // 2

    @property
    def key(self) -> Hashable:
        options = self.options
        how = (options.mean_limit, options.deviations, options.log_std_range)
        return (self.name, options.squash, options.shape, *how)

    def _split(self, outputs: Float) -> tuple[Float, Float]:
        """Means and deviations, as new arrays."""
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
        return mean, spread

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        low, high = parameters
        mean, std = self._split(outputs)
        if noise is not None:
            mean += std * noise
        return self._finish(mean, low, high)

    def distribution(self, outputs: Float) -> Distribution:
        return self._split(outputs)


class Deterministic(Continuous):
    """Outputs are the actions."""

    name = "deterministic"

    @property
    def noise_size(self) -> int:
        return 0

    def choose(
        self,
        outputs: Float,
        noise: Float | None,  # noqa: ARG002 - nothing is left to chance
        parameters: Parameters,
    ) -> NDArray[Any]:
        low, high = parameters
        return self._finish(outputs, low, high)

    def distribution(self, outputs: Float) -> Distribution:
        return outputs.copy(), np.zeros_like(outputs)
