"""Pipelines from policies or data to results; each function has a command of the same name.

collect     run policies and keep the states they visit
compare     collect, describe, measure, draw, report; also until distances are precise
comparison  the result object of `compare`
same        test whether two policies behave the same
plan        how many episodes policies need
inputs      the single policies that `same` and `plan` take
watch       a comparison that grows while training runs
evaluate    which characterization to trust
encoder     a small network that encodes images

Functions are imported from their modules, whose names most of them have.
"""

from __future__ import annotations

from pivec.workflows.collect import Collector
from pivec.workflows.comparison import Comparison, load_comparison

__all__ = [
    "Collector",
    "Comparison",
    "load_comparison",
]
