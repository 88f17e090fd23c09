"""Where in its episodes a difference shows most: what a step is worth, and the best cut."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.explanation import OFTEN, Explanation

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cut:
    """Rows ``first`` to ``last`` (inclusive) of an episode, and what they are worth together."""

    episode: int
    first: int
    last: int
    worth: float


def worth_of_regions(explanation: Explanation, side: int) -> Array:
    """Give what a step in each region shows of the difference, (R,), for policy 0 or 1.

    A step where a policy is more often than the other is worth the part of the region; where it is
    less often it counts against, but for what differs within the region, which shows either way.
    Parts that may be chance are worth nothing.
    """
    often = explanation.kinds.get(OFTEN)
    parts = np.where(explanation.regions.noise, 0.0, np.maximum(explanation.regions.measured, 0.0))
    if often is None:
        return parts
    frequency = np.where(often.noise, 0.0, often.measured)
    within = np.maximum(parts - often.measured, 0.0)
    more = np.sign(explanation.share[side] - explanation.share[1 - side])
    return np.asarray(np.nan_to_num(more) * frequency + within)


def best_cut(worth: Array, starts: NDArray[np.int64], length: int) -> Cut:
    """Find the cut of at most ``length`` rows, within an episode, that is worth most.

    ``worth`` has a row a state; episode e has the rows starts[e] to starts[e + 1].

    Examples
    --------
    >>> best_cut(np.array([0.0, 1, 0, 0, 1, 1, 0]), np.array([0, 3, 7]), 2)
    Cut(episode=1, first=1, last=2, worth=2.0)
    """
    best = Cut(0, 0, 0, -np.inf)
    for episode, (begin, end) in enumerate(pairwise(starts.tolist())):
        sums = np.concatenate([[0.0], np.cumsum(worth[begin:end])])
        n = min(length, end - begin)
        gains = sums[n:] - sums[:-n]
        first = int(gains.argmax())
        # Sums of other episodes that are equal but for rounding do not count as larger.
        if gains[first] > best.worth + 1e-9 * abs(best.worth if episode else 0.0):
            best = Cut(episode, first, first + n - 1, float(gains[first]))
    return best
