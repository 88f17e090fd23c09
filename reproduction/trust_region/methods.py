"""What is compared: rules with the ranges of their thresholds, and the variants of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproduction.trust_region.path import PathRun, PathSettings

Array = NDArray[np.float64]


class Thresholds(NamedTuple):
    """What is searched: the paper's range, and what is tried while the best lies at its edge."""

    first: tuple[float, ...]
    lower: tuple[float, ...]  # below the first, nearest first
    higher: tuple[float, ...]  # above them, nearest first


_DECADES = tuple(digit * 10.0**power for power in range(2, 6) for digit in (1, 2, 5))
RANGES: Mapping[str, Thresholds] = {
    "max-tv": Thresholds(
        (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
        (0.0005, 0.0002, 0.0001),
        (0.6, 0.7, 0.8, 0.9, 1.0),  # 1 is never exceeded
    ),
    "gaussian": Thresholds(
        (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0), (0.2, 0.1), (50.0, *_DECADES, 1e6)
    ),
    "supervector": Thresholds(
        (0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
        (0.005, 0.002, 0.001),
        (1.0, 2.0, 5.0, 10.0, 20.0, 50.0),
    ),
    "visitation": Thresholds(
        (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4),
        (0.005, 0.002, 0.001),
        (0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    ),
}

# What the paper compares, with all repetitions: constraints, whose thresholds are searched, and PPO
# without one.
CONSTRAINTS = ("max-tv", "gaussian", "supervector")
OTHERS: Mapping[str, PathSettings] = {
    "none": PathSettings(),
    "clipped": PathSettings(clip=0.2, max_updates=640),  # ten passes over the data
}
# Variants have the repetitions of the search. Some are searched themselves, others have the
# thresholds of those that they are named after.
SEARCHED_VARIANTS = ("visitation", "gaussian-ends", "supervector-ends")
OTHER_VARIANTS = (
    *("gaussian-anew", "supervector-anew"),
    *("none-64", "max-tv-64", "gaussian-64", "supervector-64"),
)
_CHANGES: Mapping[str, Mapping[str, Any]] = {
    "ends": {"end_points": True},
    "anew": {"old_once": False},
    "64": {"width": 64},
}


def base_of(name: str) -> str:
    """Return the method that a variant is named after; its own name if it is none."""
    base, _, suffix = name.rpartition("-")
    return base if suffix in _CHANGES else name


def settings_of(name: str, threshold: float = np.inf) -> PathSettings:
    """Return the settings of a method or variant.

    Examples
    --------
    >>> settings = settings_of("gaussian-ends", 5.0)
    >>> settings.rule, settings.threshold, settings.end_points
    ('gaussian', 5.0, True)
    """
    base = base_of(name)
    made = OTHERS[base] if base in OTHERS else PathSettings(base, threshold)
    return made._replace(**_CHANGES.get(name.rpartition("-")[2], {}))


def next_threshold(areas: Mapping[float, float], thresholds: Thresholds) -> float | None:
    """What to try after these, by their mean areas: beyond the edge at which the best lies.

    None where it lies inside, or where the range ends.

    Examples
    --------
    >>> thresholds = Thresholds((1.0, 2.0), (0.5,), (3.0, 4.0))
    >>> next_threshold({1.0: 5.0, 2.0: 6.0}, thresholds)
    3.0
    >>> next_threshold({1.0: 5.0, 2.0: 7.0, 3.0: 6.0}, thresholds) is None
    True
    """
    best = max(areas, key=areas.__getitem__)
    further: Sequence[float] = ()
    if best == max(areas):
        further = thresholds.higher
    elif best == min(areas):
        further = thresholds.lower
    return next((value for value in further if value not in areas), None)


def area(runs: Sequence[PathRun]) -> float:
    """Area under the mean learning curve over its length: the mean return of all of training."""
    return float(np.mean([run.returns for run in runs]))


def tenths(run: PathRun) -> Array:
    """Mean return in each tenth of training.

    Examples
    --------
    >>> tenths(PathRun(np.arange(20.0), np.zeros(20), np.zeros(20)))[[0, 9]]
    array([ 0.5, 18.5])
    """
    edges = np.arange(11) * len(run.returns) // 10
    parts = pairwise(edges)
    return np.array([run.returns[begin : max(end, begin + 1)].mean() for begin, end in parts])


def stopped(runs: Sequence[PathRun], settings: PathSettings) -> float:
    """Share of the iterations whose updates the constraint ended."""
    return float(np.mean([run.updates < settings.max_updates for run in runs]))


def self_stops(runs: Sequence[PathRun], settings: PathSettings) -> float:
    """Share of the iterations in which a policy exceeds the threshold against itself."""
    return float(np.mean([run.own_distances > settings.threshold for run in runs]))
