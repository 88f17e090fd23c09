"""Whether two policies behave the same, and how many episodes it takes to find out.

Two questions are asked (Tryon 2001, "Evaluating statistical difference, equivalence, and
indeterminacy"). *Equivalence*: is the distance, at the given level, below a margin? *Difference*:
is it more than chance? If neither is answered with yes, there are too few episodes. A difference
that is certain but smaller than the margin counts as the same: the margin is what does not matter.

The variance of a squared distance has two parts (see `pivec.statistics.intervals`),

    Var(d) ≈ 4 Δᵀ(C_p + C_q)Δ + 2‖C_p + C_q‖²,

and C, the covariance of a mean over M episodes, falls as 1/M: the first part as 1/M, the second as
1/M². With x = M/M' the variance at M' episodes is ``first``·x + ``second``·x², and a requirement on
it is a quadratic equation in x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import ceil, comb, inf, isfinite, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2, norm, t

from pivec.statistics.intervals import LEVEL

Array = NDArray[np.float64]
Verdict = Literal["same", "different", "unclear"]

# A distance of visitation with 64 regions: 20 % of the time in different places, if both visit the
# same ones a little more or less often; 6 %, if one visits a region where the other never is.
MARGIN = 0.02
POWER = 0.9  # how often `same` should reach the right verdict
_LEAST = 2  # episodes that an interval needs
_RELIABLE = 20  # episodes from which on the variance between them is known well enough
_ROUNDS = 5  # after which the quantile of t no longer changes


@dataclass(frozen=True)
class Plan:
    """Episodes that each policy of a pair needs, extrapolated from a pilot; (n, n) arrays."""

    labels: tuple[str, ...]
    pilot: int  # episodes of each policy in the pilot
    precision: float  # the requested half-width of intervals
    level: float
    distances: Array  # in the pilot, without sampling noise
    # Episodes after which the interval of a pair is that narrow. The diagonal is a policy against
    # another sample of itself.
    for_precision: Array
    margin: float | None = None  # that of `pivec.same`, if there is one
    # Episodes after which `pivec.same` is right in 9 of 10 cases, both for a pair that behaves the
    # same and for one whose distance is the margin.
    to_decide: Array | None = None

    def to_all(self, needed: Array) -> Array:
        """What each policy needs in the pair that needs most."""
        return np.asarray(needed.max(axis=1))

    @property
    def to_nearest(self) -> Array:
        """Episodes for the precision of each policy's distance to its nearest other."""
        others = self.distances.copy()
        np.fill_diagonal(others, np.inf)
        return np.asarray(self.for_precision[np.arange(len(others)), others.argmin(axis=1)])


def episodes_for_precision(
    first: ArrayLike,
    second: ArrayLike,
    episodes: ArrayLike,
    precision: ArrayLike,
    level: float = LEVEL,
) -> Array:
    """Episodes at which the half-width of an interval is at most ``precision``.

    ``first`` and ``second`` are the parts of the variance at ``episodes`` episodes of each policy.
    """
    width = np.asarray(precision, dtype=np.float64)
    return _converged(first, second, episodes, lambda dof: width / t.ppf((1 + level) / 2, dof))


def episodes_for_same(
    distance: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    episodes: ArrayLike,
    margin: float,
    level: float = LEVEL,
) -> Array:
    """Episodes at which the upper bound of ``distance`` is below ``margin`` with power 0.9.

    Infinitely many for a distance that is not below the margin.
    """
    room = np.maximum(margin - np.asarray(distance, dtype=np.float64), 0.0)
    return _converged(
        first, second, episodes, lambda dof: room / (t.ppf(level, dof) + norm.ppf(POWER))
    )


def episodes_for_different(
    distance: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    episodes: ArrayLike,
    level: float = LEVEL,
) -> Array:
    """Episodes at which a test finds with power 0.9 that ``distance`` is not 0.

    The critical value is that of equal policies, whose distance has no first part: a weighted sum
    of χ² minus its mean, whose 95 % point lies 1.64 (many equal weights) to 2.01 (one weight)
    deviations above 0. The latter is taken.
    """
    d, slope, curve = _not_negative(distance, first, second)
    critical = (chi2.ppf(level, 1) - 1) / np.sqrt(2)
    z = norm.ppf(POWER)
    # d = critical·√second·x + z·√(first·x + second·x²), squared; the root that does not cancel.
    a = (critical**2 - z**2) * curve
    b = 2 * d * critical * np.sqrt(curve) + z**2 * slope
    root = np.sqrt(np.maximum(b**2 - 4 * a * d**2, 0.0))
    needed = _episodes(_ratio(2 * d**2, b + root), episodes)
    # A permutation test can only reject if 2 of all divisions are few enough.
    least = _LEAST
    while (1 - level) * comb(2 * least, least) < 2:
        least += 1
    return np.maximum(needed, least)


def episodes_to_decide(
    distance: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    episodes: ArrayLike,
    margin: float,
    level: float = LEVEL,
) -> Array:
    """Episodes at which `pivec.same` is right with power 0.9 if the distance is 0 or the margin.

    The first part of the variance at the margin is that of the pilot's difference scaled to this
    length, if the pilot shows one beyond the margin, and at most what no difference of this length
    exceeds (Cauchy-Schwarz): 4 Δᵀ C Δ ≤ 4 ‖Δ‖² ‖C‖ = 4 · margin · √(second/2).
    """
    d, slope, curve = (np.asarray(v, dtype=np.float64) for v in (distance, first, second))
    bound = 4 * margin * np.sqrt(curve / 2)
    scaled = _ratio(slope * margin, np.maximum(d, margin))
    at_margin = np.where(d > margin, np.minimum(bound, scaled), bound)
    same = episodes_for_same(0.0, 0.0, curve, episodes, margin, level)
    different = episodes_for_different(margin, at_margin, curve, episodes, level)
    return np.maximum(np.maximum(same, different), _RELIABLE)


def _converged(
    first: ArrayLike, second: ArrayLike, episodes: ArrayLike, deviation: Callable[[Array], Any]
) -> Array:
    """Find episodes whose degrees of freedom, one less, require the deviation that they have."""

    def needed(freedom: Array) -> Array:
        return _episodes(noise_left(first, second, deviation(freedom)), episodes)

    result = needed(np.asarray(np.inf))
    for _ in range(_ROUNDS):
        result = needed(result - 1)
    return np.maximum(result, needed(result - 1))  # if two alternate


def noise_left(first: ArrayLike, second: ArrayLike, deviation: ArrayLike) -> Array:
    """Solve first·x + second·x² = deviation² by the root that does not cancel."""
    slope, curve = _not_negative(first, second)
    variance = np.asarray(deviation, dtype=np.float64) ** 2
    return _ratio(2 * variance, slope + np.sqrt(slope**2 + 4 * curve * variance))


def _not_negative(*values: ArrayLike) -> list[Array]:
    return [np.maximum(np.asarray(v, dtype=np.float64), 0.0) for v in values]


def _episodes(factor: Array, episodes: ArrayLike) -> Array:
    """Whole episodes; infinitely many also if a variance is not known (NaN)."""
    wanted = np.nan_to_num(_ratio(episodes, factor), nan=np.inf, posinf=np.inf)
    return np.maximum(np.ceil(wanted * (1 - 1e-9)), _LEAST)  # 100.00000001 are 100


def _ratio(above: Any, below: Any) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.true_divide(above, below), dtype=np.float64)


@dataclass(frozen=True)
class EquivalenceTest:
    """The result of `pivec.same`."""

    verdict: Verdict
    labels: tuple[str, str]
    distance: float  # without sampling noise
    low: float  # bounds of the distance, each of which holds with probability ``level``
    high: float
    p_value: float  # how often chance gives such a distance to policies that behave the same
    test: str  # "permutation", or "analytic" if the episodes of one are not stored
    margin: float  # below which a distance does not matter
    level: float
    episodes: tuple[int, int]  # of each policy
    # Of each policy, in total, after which a verdict can be expected; None if there is one, or if
    # the number is not known.
    episodes_needed: int | None
    method: str  # the characterization
    overlap: float | None = None  # share of their time in the same places, if known

    @property
    def more_episodes(self) -> int | None:
        """Episodes of each policy that are still missing for a likely verdict."""
        return None if self.episodes_needed is None else self.episodes_needed - min(self.episodes)

    def as_json(self) -> dict[str, Any]:
        """Return plain values; numbers that are not finite are None."""
        plain = asdict(self) | {"labels": list(self.labels), "more_episodes": self.more_episodes}
        return {
            k: None if isinstance(v, float) and not isfinite(v) else v for k, v in plain.items()
        }


def decide(high: float, p_value: float, margin: float, level: float = LEVEL) -> Verdict:
    """Return the verdict on a distance that is below ``high``.

    Examples
    --------
    >>> decide(high=0.01, p_value=0.4, margin=0.02)
    'same'
    >>> decide(high=0.01, p_value=0.001, margin=0.02)  # certain, but too small to matter
    'same'
    >>> decide(high=0.05, p_value=0.001, margin=0.02)
    'different'
    >>> decide(high=0.05, p_value=0.4, margin=0.02)
    'unclear'
    """
    if high < margin:
        return "same"
    # In floating point 1 − 0.95 is a little more than 0.05.
    return "different" if p_value <= round(1 - level, 12) else "unclear"


def episodes_for_verdict(
    distance: float,
    first: float,
    second: float,
    p_value: float,
    episodes: int,
    margin: float,
    level: float = LEVEL,
) -> int | None:
    """Episodes of each policy after which either verdict is likely, if this is the distance.

    At least a tenth more than there are, since these were not enough. The first part of the
    variance is at most what a difference of this length allows (see `episodes_to_decide`), and a
    test finds a difference no sooner than its own p-value suggests: its statistic grows with the
    number of episodes.
    """
    away = max(distance, 0.0)
    first = min(first, 4 * away * sqrt(second / 2))
    observed = norm.isf(p_value)
    wanted = norm.ppf(level) + norm.ppf(POWER)
    by_test = episodes * wanted / observed if observed > 0 else inf
    different = float(episodes_for_different(away, first, second, episodes, level))
    needed = min(
        float(episodes_for_same(away, first, second, episodes, margin, level)),
        max(different, by_test),
    )
    if not all(map(isfinite, (first, second, needed))):
        return None
    return max(ceil(needed), episodes + ceil(episodes / 10))
