"""A comparison that grows while training runs: `watch.watch`."""

from __future__ import annotations

from pivec.workflows.collect import Collector
from pivec.workflows.compare import compare_with
from pivec.workflows.encoder import fit_encoder
from pivec.workflows.evaluate import read_outcome
from pivec.workflows.plan import plan_with
from pivec.workflows.same import same_with
from pivec.workflows.watch import watch_with

__all__ = [
    "Collector",
    "compare_with",
    "fit_encoder",
    "plan_with",
    "read_outcome",
    "same_with",
    "watch_with",
]
