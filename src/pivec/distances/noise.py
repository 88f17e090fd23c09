"""How large a distance is by chance alone, were two policies the same.

Episodes, not states, are the independent samples. If two policies behave alike, it does not matter
whose an episode is: all episodes are divided anew at random, and the distances between the two
sides show what chance does with samples of these sizes (a permutation test).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from pivec.arguments import Range, checked
from pivec.distances.method import Method
from pivec.errors import UsageError
from pivec.states.derived import regrouped
from pivec.states.visited import VisitedStates


@dataclass(frozen=True)
class Noise:
    """Distances between samples of one and the same policy: the mean, and the deviation from it."""

    mean: float
    deviation: float


@checked
def chance_distance(
    method: Method,
    a: VisitedStates,
    b: VisitedStates,
    rng: np.random.Generator,
    divisions: Annotated[int, Range(2)] = 10,
) -> Noise:
    """Measure the distance that two policies would have by chance, were they the same.

    Parameters
    ----------
    method : Characterization
        Fitted.
    a, b : VisitedStates
        The episodes of one policy each.
    rng : numpy.random.Generator
    divisions : int
        Random divisions to measure.

    Examples
    --------
    >>> from pivec.characterizations.gaussian import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> one, other = (
    ...     VisitedStates.from_arrays([[rng.normal(size=(9, 1)) for _ in range(20)]])
    ...     for _ in range(2)
    ... )
    >>> method = Gaussian().fit(one)
    >>> noise = chance_distance(method, one, other, rng, divisions=20)
    >>> bool(method.distances(one, other)[0, 0] < noise.mean + 3 * noise.deviation)
    True
    """
    if len(a) != 1 or len(b) != 1:
        raise UsageError(f"expected one policy on each side, but got {len(a)} and {len(b)}")
    n = a.n_episodes
    orders = [rng.permutation(n + b.n_episodes) for _ in range(divisions)]
    divided = regrouped([a, b], [side for order in orders for side in (order[:n], order[n:])])
    described = method.describe(divided)
    distances = [
        float(method.distances(described.select([2 * i]), described.select([2 * i + 1]))[0, 0])
        for i in range(divisions)
    ]
    return Noise(float(np.mean(distances)), float(np.std(distances, ddof=1)))
