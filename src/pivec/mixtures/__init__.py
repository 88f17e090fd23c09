"""The background model: additive statistics, EM, MAP adaptation, and one kernel per device.

model.py         `Mixture`, `Statistics` of states about it, which add up, and sources of states
passes.py        `accumulate`, from a block and a mixture to statistics, by the kernel of a device
fit.py           `fit_mixture`: start and EM; MAP adaptation of means, weights and variances
*_kernel.py      the kernels: NumPy, Numba (with numba_vector), torch and, if installed, Triton
"""

from __future__ import annotations

from pivec.mixtures.fit import (
    EMRun,
    fit_mixture,
    map_offsets,
    map_variances,
    map_weights,
    maximise,
    policy_relevance,
)
from pivec.mixtures.model import FAR, ArraySource, Mixture, StateSource, Statistics
from pivec.mixtures.passes import Passes, PolicyStatistics, accumulate, kernel, policy_statistics

__all__ = [
    "FAR",
    "ArraySource",
    "EMRun",
    "Mixture",
    "Passes",
    "PolicyStatistics",
    "StateSource",
    "Statistics",
    "accumulate",
    "fit_mixture",
    "kernel",
    "map_offsets",
    "map_variances",
    "map_weights",
    "maximise",
    "policy_relevance",
    "policy_statistics",
]
