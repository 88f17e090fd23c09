"""Passes over all states of a source: statistics for EM, pooled moments, a random subsample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.mixtures.accumulate import Kernel
from pivec.mixtures.mixture import Mixture
from pivec.mixtures.source import Floats, StateSource, numbered_blocks
from pivec.mixtures.statistics import Statistics

Array = NDArray[np.float64]


class Passes:
    """Statistics of all states of a source about one mixture after another.

    Where the kernel has a memory of its own, the states stay there between passes if they fit.
    """

    def __init__(self, source: StateSource, kernel: Kernel) -> None:
        self.source, self.kernel = source, kernel
        self._held = kernel.hold(source)

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """Yield (number of the first row, block for the kernel)."""
        return numbered_blocks(self.source) if self._held is None else iter([(0, self._held)])

    def __call__(self, mixture: Mixture, hard: bool = False) -> Statistics:
        """One pass: statistics of all states, or of hard assignments."""
        total = Statistics.zero(mixture.n_components, mixture.n_features)
        for first, block in self.blocks():
            total = total + self.kernel.accumulate(block, mixture, hard, first)
        return total


@dataclass(frozen=True, eq=False)
class Overview:
    """Pooled mean and deviation of all states, and some of them drawn at random.

    Attributes
    ----------
    center, scale : arrays of shape (D,)
        Mean and standard deviation in float64; a constant feature has scale 1.
    subsample : array of shape (m, D)
        Raw states, in the order of the source, drawn without replacement.
    """

    center: Array
    scale: Array
    subsample: Floats


def overview(passes: Passes, subsample: int, rng: np.random.Generator) -> Overview:
    """One pass that checks every state, pools moments and draws the subsample."""
    n, D = passes.source.n_states, passes.source.n_features
    chosen = np.sort(rng.choice(n, size=min(subsample, n), replace=False, shuffle=False))
    drawn: list[Floats] = []
    mean, deviation = np.zeros(D), np.zeros(D)
    for first, block in passes.blocks():
        block_mean, block_deviation = passes.kernel.moments(block, first)
        # Chan, Golub and LeVeque 1983: stable merge of two sets of moments.
        new = len(block)
        shift = block_mean - mean
        mean += shift * (new / (first + new))
        deviation += block_deviation + shift**2 * (first * new / (first + new))
        inside = chosen[slice(*np.searchsorted(chosen, (first, first + new)))]
        drawn.append(passes.kernel.take(block, inside - first))
    scale = np.sqrt(deviation / n)
    # A constant column has only the rounding of its own mean as deviation.
    constant = scale <= 1e-12 * np.abs(mean)
    return Overview(mean, np.where(constant, 1.0, scale), np.concatenate(drawn))
