"""Passes over all states of a source: statistics for EM, pooled moments, a random subsample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData
from pivec.mixtures.accumulate import Kernel
from pivec.mixtures.checks import check_shape
from pivec.mixtures.mixture import Mixture
from pivec.mixtures.source import Floats, StateSource, block_rows, regroup
from pivec.mixtures.statistics import Statistics

Array = NDArray[np.float64]


def numbered_blocks(source: StateSource) -> Iterator[tuple[int, Floats]]:
    """Yield (number of the first row, block) over the whole source, in blocks of good size."""
    rows = block_rows(source.n_features)
    first = 0
    for block in regroup(source.blocks(rows), rows):
        check_shape(block, source.n_features)
        yield first, block
        first += len(block)
    if first != source.n_states:
        raise BadData(
            f"a source of {source.n_states} states must yield as many rows, but yielded {first}."
        )


class Passes:
    """Statistics of all states of a source about one mixture after another.

    Where the kernel works on a device of its own, the states stay there between passes if they
    fit into its memory.
    """

    def __init__(self, source: StateSource, kernel: Kernel) -> None:
        self.source, self.kernel = source, kernel
        self._held: list[tuple[int, Any]] | None = None
        if kernel.can_hold(source.n_states * source.n_features * 4):
            self._held = [(first, kernel.hold(block)) for first, block in numbered_blocks(source)]

    def _blocks(self) -> Iterator[tuple[int, Any]]:
        return iter(self._held) if self._held is not None else numbered_blocks(self.source)

    def __call__(self, mixture: Mixture, hard: bool = False) -> Statistics:
        """One pass: statistics of all states, or of hard assignments."""
        total = Statistics.zero(mixture.n_components, mixture.n_features)
        for first, block in self._blocks():
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


def overview(
    source: StateSource, kernel: Kernel, subsample: int, rng: np.random.Generator
) -> Overview:
    """One pass that checks every state, pools moments and draws the subsample."""
    n, D = source.n_states, source.n_features
    chosen = np.sort(rng.choice(n, size=min(subsample, n), replace=False, shuffle=False))
    drawn: list[Floats] = []
    mean, deviation = np.zeros(D), np.zeros(D)
    for first, block in numbered_blocks(source):
        block_mean, block_deviation = kernel.moments(block, first)
        # Chan, Golub and LeVeque 1983: stable merge of two sets of moments.
        seen, new = first, len(block)
        shift = block_mean - mean
        mean += shift * (new / (seen + new))
        deviation += block_deviation + shift**2 * (seen * new / (seen + new))
        inside = chosen[slice(*np.searchsorted(chosen, (first, first + new)))]
        drawn.append(np.ascontiguousarray(block[inside - first]))
    scale = np.sqrt(deviation / n)
    # A constant column has only the rounding of its own mean as deviation.
    constant = scale <= 1e-12 * np.abs(mean)
    return Overview(mean, np.where(constant, 1.0, scale), np.concatenate(drawn))
