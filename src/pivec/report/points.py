"""The descriptions' points as whole numbers, so that the page measures distances itself.

All columns have one step: the error of a distance then does not depend on where policies differ,
and what deflate leaves of a column follows how much it varies. The step is as fine as there is
room for, and no finer than distances need.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.report.packed import deflated, numbers

Array = NDArray[np.float64]
TOLERANCE = 0.01  # of a distance: an error below it cannot be seen
SMALL = 1 << 20  # letters that do not matter to a page
_SIZES = range(4, 33)  # half-bits of a number: the largest column has 2^(s/2) steps
_MOST_PAIRS = 20_000  # on which errors are looked at
_SAMPLE = 4096  # policies on which sizes are looked at
_LETTERS = 4 / 3  # of base64 for a byte


@dataclass(frozen=True)
class Rounded:
    """Points as codes: ``low + step * codes`` are the columns that vary."""

    codes: NDArray[np.uint16]  # (n, C)
    kept: NDArray[np.intp]  # (C,) columns that vary
    low: Array  # (D,), of all columns: what does not vary is there
    step: float
    error: Array  # of sampled distances, in shares of them

    def blob(self) -> dict[str, Any]:
        """Give what `web/distances.js` reads; codes column by column."""
        kind = "u2" if self.codes.max(initial=0) > 255 else "u1"
        return {
            "step": self.step,
            "low": numbers(self.low, "f4"),
            "kept": numbers(self.kept, "i4"),
            "codes": numbers(self.codes.T, kind),
            "error": float(np.median(self.error)) if len(self.error) else 0.0,
        }


def rounded_points(points: Array, near: NDArray[np.intp], room: float) -> Rounded | None:
    """Round points so that they take up at most ``room`` letters of a page.

    Parameters
    ----------
    points : (n, D) array
        Their squared Euclidean distances are what counts.
    near : (n, k) array of int
        The nearest others of each, as far as they are known: there errors weigh most.
    room : float
        Letters of the page that the codes may take up.

    Returns
    -------
    Rounded or None
        None if there is no room for codes that keep half of the distances within 1 %, or if
        points are not finite.

    Examples
    --------
    >>> rounded = rounded_points(np.array([[0.0, 5.0], [1.0, 5.0]]), np.empty((2, 0), int), 1e6)
    >>> rounded.codes, rounded.kept, rounded.low
    (array([[    0], [65535]], dtype=uint16), array([0]), array([0., 5.]))
    """
    if not np.isfinite(points).all():
        return None
    low, high = points.min(axis=0), points.max(axis=0)
    kept = np.flatnonzero(high > low)
    span = float((high - low).max(initial=0.0))
    if not len(kept):
        return Rounded(np.empty((len(points), 0), np.uint16), kept, low, 1.0, np.empty(0))
    rng = np.random.default_rng(0)
    pairs = _sampled_pairs(len(points), near, rng)
    exact = _squares(points, pairs)
    exact, (rows, pairs) = exact[exact > 0.0], np.unique(pairs[exact > 0.0], return_inverse=True)
    # Parts of the largest range, far finer than any step, and half as large as they were.
    columns = ((points[:, kept] - low[kept]) / span).astype(np.float32)
    paired, sample = columns[rows], columns
    if len(points) > _SAMPLE:
        # Stretches: policies of one run stand together, are alike, and pack well.
        parts = np.array_split(columns, len(columns) // 256)
        sample = np.concatenate(parts[:: -(-len(columns) // _SAMPLE)])

    def letters(size: int) -> float:
        return len(deflated(_codes(sample, size).T, "u2")) * _LETTERS * len(points) / len(sample)

    def error(size: int) -> Array:
        squares = _squares(_codes(paired, size), pairs.reshape(-1, 2))
        return np.abs((span / _levels(size)) ** 2 * squares / exact - 1.0)

    chosen = len(_SIZES) - 1
    if letters(_SIZES[chosen]) > min(room, SMALL):
        fitting = bisect_right(_SIZES, room, key=letters) - 1
        enough = bisect_left(_SIZES, True, key=lambda size: error(size).max() <= TOLERANCE)
        chosen = min(fitting, enough, chosen)
    if chosen < 0:
        return None
    size = _SIZES[chosen]
    errors = error(size)
    if np.median(errors) > TOLERANCE:
        return None
    return Rounded(_codes(columns, size), kept, low, span / _levels(size), errors)


def _levels(size: int) -> int:
    """Count the steps of the largest column."""
    return math.isqrt(2**size) - 1


def _codes(columns: NDArray[np.float32], size: int) -> NDArray[np.uint16]:
    return np.asarray(np.rint(columns * np.float32(_levels(size))), np.uint16)


def _sampled_pairs(n: int, near: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Pairs of policies: all of them where these are few, else some, and each with its nearest."""
    if n * (n - 1) // 2 <= _MOST_PAIRS:
        return np.stack(np.triu_indices(n, 1), axis=1)
    pairs = rng.integers(n, size=(_MOST_PAIRS, 2))
    if near.shape[1]:
        own = np.arange(n) if n <= _MOST_PAIRS else rng.choice(n, _MOST_PAIRS, replace=False)
        pairs = np.concatenate([pairs, np.stack([own, near[own, 0]], axis=1)])
    return pairs


def _squares(rows: NDArray[Any], pairs: NDArray[np.intp]) -> Array:
    """Squared distances of pairs of rows, some at a time."""
    blocks = np.array_split(pairs, 1 + len(pairs) * rows.shape[1] // (1 << 20))
    differences = (rows[block[:, 0]].astype(float) - rows[block[:, 1]] for block in blocks)
    return np.concatenate([np.einsum("ij,ij->i", part, part) for part in differences])
