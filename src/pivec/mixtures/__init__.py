"""The background model: additive statistics, EM, MAP adaptation, and one kernel for each device.

The way of the data: a `StateSource` gives blocks of states; `accumulate` turns a block and a
`Mixture` into `Statistics`, which add up; `fit_mixture` is EM on top of that, and
`policy_statistics` with `map_offsets` is MAP adaptation of the means.
"""

from pivec.engines.workers import threads
from pivec.mixtures.accumulate import accumulate
from pivec.mixtures.adapt import PolicyStatistics, map_offsets, policy_statistics
from pivec.mixtures.em import EMRun
from pivec.mixtures.fit import fit_mixture
from pivec.mixtures.mixture import Mixture
from pivec.mixtures.source import ArraySource, StateSource
from pivec.mixtures.statistics import Statistics

__all__ = [
    "ArraySource",
    "EMRun",
    "Mixture",
    "PolicyStatistics",
    "StateSource",
    "Statistics",
    "accumulate",
    "fit_mixture",
    "map_offsets",
    "policy_statistics",
    "threads",
]
