"""Heads of real actions: Gaussians with fixed or state-dependent deviations, and none at all."""

# ruff: noqa: ARG002 - all heads have the same signatures

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.forward import Float, evaluate
from pivec.policies.head import Distribution, Head, Parameters

if TYPE_CHECKING:
    import gymnasium

DEVIATIONS = ("clip", "tanh", "plain")
MAX_LOG_STD = 80.0  # exp of more than 88 is infinite in float32


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
            raise UsageError(
                "this policy does not know the box of its actions yet: call bind with the spaces "
                "of the environment first"
            )
        free = np.full(self.n_values, np.inf, np.float32)
        return -free, free

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
        if options.deviations not in DEVIATIONS:
            raise UsageError(
                f"deviations must be one of {', '.join(DEVIATIONS)}, but is {options.deviations!r}"
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
        return mean, spread


class Deterministic(Continuous):
    """Outputs are the actions."""

    name, draws = "deterministic", 0

    def choose(self, outputs: Float, noise: Float | None, parameters: Parameters) -> NDArray[Any]:
        return self._finish(outputs, *parameters)

    def distribution(self, outputs: Float) -> Distribution:
        return outputs.copy(), np.zeros_like(outputs)
