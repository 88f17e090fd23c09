"""Training with torch: starting weights, precision and Adam; global state is left alone."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


def uniform(rng: np.random.Generator, shape: Sequence[int], fan_in: int) -> NDArray[np.float32]:
    """Starting weights as torch's layers have them: uniform within ±1/sqrt(fan_in)."""
    bound = np.float32(1.0 / np.sqrt(fan_in))
    return (2.0 * rng.random(tuple(shape), dtype=np.float32) - 1.0) * bound


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Keep cuDNN from rounding products to TF32: a graphics card gives what the processor does."""
    if device.type == "cpu":
        return nullcontext()
    flags: AbstractContextManager[Any] = torch.backends.cudnn.flags(
        enabled=True, deterministic=True, allow_tf32=False
    )
    return flags


class Adam:
    """Adam (Kingma and Ba 2015) on tensors whose first axis counts separate networks.

    It works value by value, so stacked networks are trained as by an optimiser each. A step may
    be for the first few networks only: the others have had all theirs. To the bit it is
    `torch.optim.Adam`, which knows no such step, takes three times as long for stacked networks
    and seconds to import (benchmarks/networks.py).
    """

    def __init__(self, parameters: Sequence[torch.Tensor], learning_rate: float) -> None:
        self.parameters, self.learning_rate = parameters, learning_rate
        self._firsts = [torch.zeros_like(p) for p in parameters]
        self._seconds = [torch.zeros_like(p) for p in parameters]
        self._steps = 0

    def step(self, gradients: Sequence[torch.Tensor], active: int | None = None) -> None:
        """Move the first ``active`` networks (all by default) against their gradients."""
        self._steps += 1
        size = self.learning_rate / (1.0 - _BETA1**self._steps)
        scale = (1.0 - _BETA2**self._steps) ** 0.5
        with torch.no_grad():
            for values, gradient, first, second in zip(
                self.parameters, gradients, self._firsts, self._seconds, strict=True
            ):
                m, v = first[:active], second[:active]
                m.lerp_(gradient, 1.0 - _BETA1)
                v.mul_(_BETA2).addcmul_(gradient, gradient, value=1.0 - _BETA2)
                values[:active].addcdiv_(m, v.sqrt().div_(scale).add_(_EPSILON), value=-size)
