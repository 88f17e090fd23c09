"""Pipelines from policies or data to results; each function has a command of the same name.

collector    `collect`: run policies and keep the states they visit
comparison   `compare`: collect, describe, measure, draw, report; also until distances are precise
equivalence  `same`: test whether two policies behave the same; `plan`: how many episodes they need
watch        `watch`: a comparison that grows while training runs
evaluate     `evaluate`: which characterization to trust
encoder      `fit_encoder`: a small network that encodes images

The last four are imported from their modules.
"""

from __future__ import annotations

from pivec.workflows.collector import Collector, collect, find_store, write_store
from pivec.workflows.comparison import Comparison, compare, load_comparison

__all__ = [
    "Collector",
    "Comparison",
    "collect",
    "compare",
    "find_store",
    "load_comparison",
    "write_store",
]
