"""The background model: additive statistics, EM, MAP adaptation, and one kernel for each device.

source.py        `StateSource` gives rows of states, again and again
mixture.py       `Mixture`, the model itself
statistics.py    `Statistics` of states about a mixture, which add up
accumulate.py    from a block and a mixture to statistics, by the kernel of a device
start.py         a first mixture: pooled moments, k-means++, Lloyd steps
em.py            expectation maximisation on top of passes over all states
fit.py           `fit_mixture`: both of these together
adapt.py         `policy_statistics` and MAP adaptation of means, weights and variances
*_kernel.py      the kernels: NumPy, Numba (with numba_sums, numba_loops, numba_vector), torch
                 and, where it is at hand, Triton
"""

from __future__ import annotations

from pivec.mixtures.accumulate import kernel
from pivec.mixtures.adapt import (
    PolicyStatistics,
    map_offsets,
    map_variances,
    map_weights,
    policy_relevance,
    policy_statistics,
)
from pivec.mixtures.fit import EMRun, fit_mixture, maximise
from pivec.mixtures.model import FAR, Mixture, Statistics
from pivec.mixtures.source import ArraySource, StateSource

__all__ = [
    "FAR",
    "ArraySource",
    "EMRun",
    "Mixture",
    "PolicyStatistics",
    "StateSource",
    "Statistics",
    "fit_mixture",
    "kernel",
    "map_offsets",
    "map_variances",
    "map_weights",
    "maximise",
    "policy_relevance",
    "policy_statistics",
]
