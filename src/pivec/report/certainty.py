"""What the page knows of pairs of policies: all of them if few, else what sampling does to each."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.resampling import described_spread
from pivec.characterizations.space import Space
from pivec.distances import LEVEL, Measured
from pivec.distances.discoveries import RATE, benjamini_hochberg
from pivec.engines.workers import single_threaded_blas
from pivec.report.packed import numbers

Array = NDArray[np.float64]
PAIRS_BYTES = 6_000_000  # of all pairs, before they are packed
NEAREST = 10  # of each policy, where there is room for nothing else
_UNKNOWN = 65535  # an overlap; others are parts of 65534


def pairs_blob(measured: Measured, space: Space | None) -> dict[str, Any] | None:
    """All pairs, the upper triangle row by row; None where they are too many or not known.

    ``alike`` is 1 for pairs that cannot be told apart, 0 for those that can, 2 where that is not
    known. ``distance`` may be below 0 by chance; ``measured`` has the noise of sampling in it.
    """
    if measured.matrix is None:
        return None
    sure, certain = measured.intervals, measured.certain
    n = len(measured.matrix)
    above = np.triu_indices(n, 1)
    if len(above[0]) * (4 if sure is None else 16) > PAIRS_BYTES:
        return None
    if sure is None:
        return {"distance": numbers(measured.matrix[above], "f4")} | _overlap(space, above)
    values = {"distance": sure.distance, "low": sure.low, "high": sure.high}
    blob = {name: numbers(value[above], "f4") for name, value in values.items()}
    if space is None or space.descriptions.points is None:
        blob["measured"] = numbers(measured.matrix[above], "f4")
    if certain is not None:
        unknown = np.isnan(sure.p_value[above])
        blob["alike"] = numbers(np.where(unknown, 2, ~certain[above]), "u1")
    return blob | _overlap(space, above)


def _overlap(space: Space | None, above: Any) -> dict[str, Any]:
    """Shares of time in the same places, where the method knows."""
    overlap = getattr(space.method, "overlap", None) if space is not None else None
    if space is None or overlap is None:
        return {}
    shared = overlap(space.descriptions)[above]
    codes = np.where(np.isfinite(shared), np.rint(65534.0 * np.clip(shared, 0.0, 1.0)), _UNKNOWN)
    return {"overlap": numbers(codes, "u2")}


def spread_blob(measured: Measured, space: Space | None) -> dict[str, Any] | None:
    """What sampling does to the points of each policy; None where that is not known.

    With it the page takes noise off, tests, and gives intervals that are wider than `intervals`
    for sure: Δᵀ C Δ is at most |Δ|² times the largest eigenvalue of C.
    """
    if space is None or space.descriptions.points is None:
        return None
    described, method = space.descriptions, space.method
    blob: dict[str, Any] = {"threshold": _threshold(measured)}
    if method.exact:
        nothing = np.zeros(len(described))
        columns = dict.fromkeys(("trace", "norm", "unbiased", "largest", "reach"), nothing)
    elif "influences" in described.arrays:
        columns = _spread(described)
    else:
        return None
    if getattr(method, "backgrounds", 1) > 1:  # the scatter of fits widens intervals by itself
        columns = {name: values for name, values in columns.items() if name != "largest"}
    return blob | {name: numbers(values, "f4") for name, values in columns.items()}


def _spread(described: Descriptions) -> dict[str, Array]:
    from scipy.stats import t

    influences, starts, points = described.values("influences", "influences.starts", "points")
    spread = described_spread(described, points)
    largest = np.full(len(described), np.nan)
    with single_threaded_blas():  # the products are small
        for p, (i, j) in enumerate(pairwise(starts.tolist())):
            if (m := j - i) > 1:
                rows = influences[i:j].astype(np.float64)
                gram = rows @ rows.copy().T if m <= rows.shape[1] else rows.T @ rows.copy()
                largest[p] = np.linalg.eigvalsh(gram)[-1] / (m * (m - 1))
    return {
        "trace": spread.trace,
        "norm": spread.norm,
        "unbiased": spread.unbiased_norm,
        "largest": largest,
        "reach": t.ppf((1.0 + LEVEL) / 2.0, spread.freedom),
    }


def _threshold(measured: Measured) -> float:
    """Give the largest p-value that still tells two policies apart; -1 if none does."""
    p, q = measured.pairs.p, measured.pairs.q
    if measured.intervals is not None:
        p = measured.intervals.p_value[np.triu_indices(len(measured.intervals.p_value), 1)]
        q = benjamini_hochberg(p)
    return float(p[q <= RATE].max(initial=-1.0))


def near_blob(measured: Measured) -> dict[str, Any] | None:
    """Each policy's nearest others, as they were measured."""
    k = min(NEAREST, measured.neighbours.shape[1])
    if not k:
        return None
    return {
        "k": k,
        "rows": numbers(measured.neighbours[:, :k], "i4"),
        "distances": numbers(measured.neighbour_distances[:, :k], "f4"),
    }
