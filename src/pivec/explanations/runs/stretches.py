"""Stretches of a run: which checkpoints can be told apart, and which are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stretch:
    """From one checkpoint to a later one, by their numbers in the order of training."""

    first: int
    last: int
    changed: bool  # beyond noise
    joined: bool = False  # of several that had changed


def stretches(p_value: Array, rate: float) -> list[Stretch]:
    """Cut a run where checkpoints can be told apart.

    A step is a stretch by itself if its p-value is at most ``rate``. Others are joined, until a
    checkpoint can be told from the first of them. Where p-values are not known, nothing is joined.

    Parameters
    ----------
    p_value : (n, n) array
        Of "these two checkpoints behave the same".

    Examples
    --------
    >>> x = np.array([0, 0, 5, 6, 7, 8, 8])
    >>> stretches(np.where(np.abs(x[:, None] - x) > 1, 0.0, 1.0), 0.01)
    [Stretch(first=0, last=1, changed=False, joined=False),
     Stretch(first=1, last=2, changed=True, joined=False),
     Stretch(first=2, last=4, changed=True, joined=False),
     Stretch(first=4, last=6, changed=False, joined=False)]
    """
    differ = ~(p_value > rate)
    result: list[Stretch] = []
    start, n = 0, len(p_value)
    for here in range(1, n):
        if differ[here - 1, here]:
            if start < here - 1:
                result.append(Stretch(start, here - 1, False))
            result.append(Stretch(here - 1, here, True))
            start = here
        elif differ[start, here]:
            result.append(Stretch(start, here, True))
            start = here
    if start < n - 1:
        result.append(Stretch(start, n - 1, False))
    return result


def joined(parts: Sequence[Stretch], distances: Array, most: int) -> list[Stretch]:
    """Join neighbouring stretches until there are so many at most, the shortest ways first.

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0, 9.0])
    >>> way = [Stretch(0, 1, True), Stretch(1, 2, True), Stretch(2, 3, True)]
    >>> joined(way, np.abs(x[:, None] - x), 2)
    [Stretch(first=0, last=2, changed=True, joined=True),
     Stretch(first=2, last=3, changed=True, joined=False)]
    """
    result = list(parts)
    lengths = [max(float(distances[part.first, part.last]), 0.0) for part in parts]
    while len(result) > most:
        k = int(np.argmin([a + b for a, b in pairwise(lengths)]))
        a, b = result[k : k + 2]
        both = a.joined or b.joined or (a.changed and b.changed)
        result[k : k + 2] = [Stretch(a.first, b.last, a.changed or b.changed, both)]
        lengths[k : k + 2] = [lengths[k] + lengths[k + 1]]
    return result
