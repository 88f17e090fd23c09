"""Whether two policies behave the same, and how many episodes it takes to find out.

Policies are compared in several views, each with a margin below which a difference does not matter
(Tryon 2001, "Evaluating statistical difference, equivalence, and indeterminacy"). They are the same
if the distance is below the margin in every view, and different if it is above it in some view,
with the given confidence. Otherwise there are too few episodes. A difference that is certain but
smaller than the margin counts as the same.

The variance of a squared distance has two parts (see `pivec.statistics.intervals`),

    Var(d) ≈ 4 Δᵀ(C_p + C_q)Δ + 2‖C_p + C_q‖²,

and C, the covariance of a mean over M episodes, falls as 1/M: the first part as 1/M, the second as
1/M². With x = M/M' the variance at M' episodes is ``first``·x + ``second``·x², and a requirement on
it is a quadratic equation in x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, inf, isfinite, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2, norm, t

from pivec.statistics.intervals import LEVEL
from pivec.statistics.views import View, chi2_bound, view_intervals

Array = NDArray[np.float64]
Verdict = Literal["same", "different", "unclear"]

# A squared Hellinger distance, which a total variation of 0.02 to 0.2 can have: two policies that
# differ by less spend at most 20 % of their time in another way.
MARGIN = 0.02
# Times the margin: where an episode is one observation, shares are known less well.
MARGIN_FACTORS = {"length": 2.0, "return": 2.0, "outcomes": 2.0, "kinds": 2.5}
POWER = 0.9  # how often `same` should reach the right verdict
_EACH = 0.98  # how often in each view: about five are decisive
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
    # Episodes after which `pivec.same` says "same" in 9 of 10 cases, if a pair behaves the same.
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
    noise: ArrayLike,
    second: ArrayLike,
    episodes: ArrayLike,
    margin: float,
    level: float = LEVEL,
) -> Array:
    """Episodes at which policies that behave the same are within the margin, 98 times out of 100.

    ``noise`` is the mean squared distance of two samples of ``episodes`` episodes, and ``second``
    its variance. Bounds are those of `with_upper_bounds` at a distance that chance rarely
    exceeds (χ² of the same mean and variance, Satterthwaite 1946), and fall as the noise does.
    """
    mean, variance = _not_negative(noise, second)
    freedom = _ratio(2 * mean**2, variance)
    # In units of the χ²'s scale, bounds only depend on its degrees of freedom.
    grid = np.geomspace(0.1, 1e4, 101)
    rare = chi2.ppf(_EACH, grid) - grid
    bounds = [chi2_bound(d, 4.0, 2.0 * k, level) for d, k in zip(rare, grid, strict=True)]
    high = _ratio(variance, 2 * mean) * np.interp(np.log(freedom), np.log(grid), bounds)
    high = np.where(variance > 0, high, np.where(np.isnan(variance), np.nan, 0.0))
    return np.maximum(_episodes(_ratio(margin, high), episodes), _RELIABLE)


def episodes_for_view(view: View, margin: float, level: float = LEVEL) -> float:
    """Like `episodes_for_same`, for two samples of the first policy of a view."""
    rows = view.episodes[0]
    found = view_intervals(replace(view, episodes=(rows, rows)), level)
    return episodes_for_same(found.noise, found.second, len(rows), margin, level).item()


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
class ViewResult:
    """The distance of two policies in one view."""

    name: str  # "moves", "kinds", "order", "length", "return", a feature, or two: "x & y"
    distance: float  # without sampling noise
    low: float  # bounds of the distance, each of which holds with probability ``level``
    high: float
    beyond: float  # lower bound that holds with this probability for all views together
    margin: float  # below which a distance does not matter
    first: float  # parts of the variance, see `Intervals`
    second: float
    words: str = ""  # both policies in the environment's units
    group: str = ""  # "features" or "pairs"

    @property
    def is_within(self) -> bool:
        """Whether the distance is certainly below the margin."""
        return self.high < self.margin

    @property
    def is_beyond(self) -> bool:
        """Whether the distance is certainly above the margin, in all views together."""
        return self.beyond > self.margin


@dataclass(frozen=True)
class EquivalenceTest:
    """The result of `pivec.same`."""

    verdict: Verdict
    labels: tuple[str, str]
    views: tuple[ViewResult, ...]  # the first one is the distance of the characterization
    p_value: float  # how often chance gives such distances to policies that behave the same
    test: str  # "permutation", or "analytic" if the episodes of one are not stored
    level: float
    episodes: tuple[int, int]  # of each policy
    # Of each policy, in total, after which a verdict can be expected; None if there is one, or if
    # the number is not known.
    episodes_needed: int | None
    method: str  # the characterization
    overlap: float | None = None  # share of their time in the same regions, if known
    planned: float | None = None  # episodes of a plan of fixed size, if the verdict came early
    pair: str = ""  # what episodes were paired by: "seed" or an outcome

    @property
    def distance(self) -> float:
        """Distance of the characterization, without sampling noise."""
        return self.views[0].distance

    @property
    def low(self) -> float:
        """Lower bound of the distance."""
        return self.views[0].low

    @property
    def high(self) -> float:
        """Upper bound of the distance."""
        return self.views[0].high

    @property
    def margin(self) -> float:
        """Margin of the distance."""
        return self.views[0].margin

    @property
    def is_significant(self) -> bool:
        """Whether there is certainly a difference, of whatever size."""
        # In floating point 1 − 0.95 is a little more than 0.05.
        return self.p_value <= round(1 - self.level, 12)

    @property
    def differing(self) -> list[ViewResult]:
        """Views that are certainly beyond their margins, the largest excess first.

        Without pairs of features of which one differs by itself.
        """
        beyond = [view for view in self.views if view.is_beyond]
        single = {view.name for view in beyond}
        beyond = [v for v in beyond if v.group != "pairs" or not single & {*v.name.split(" & ")}]
        return sorted(beyond, key=lambda view: -view.beyond / view.margin)

    @property
    def more_episodes(self) -> int | None:
        """Episodes of each policy that are still missing for a likely verdict."""
        return None if self.episodes_needed is None else self.episodes_needed - min(self.episodes)

    def as_json(self) -> dict[str, Any]:
        """Return plain values; numbers that are not finite are None."""
        known = asdict(self) | {"labels": list(self.labels), "views": list(map(asdict, self.views))}
        for name in ("distance", "low", "high", "margin", "is_significant", "more_episodes"):
            known[name] = getattr(self, name)
        plain: dict[str, Any] = _finite(known)
        return plain


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def decide(views: Sequence[ViewResult], significant: bool) -> Verdict:
    """Return the verdict on two policies.

    *Same* requires that all views are within their margins: each is tested at the full level, since
    all must pass (an intersection-union test, Berger 1982). *Different* requires that some view is
    beyond its margin at a level that holds for all of them, and that the test of equal behaviour
    agrees.
    """
    if all(view.is_within for view in views):
        return "same"
    return "different" if significant and any(view.is_beyond for view in views) else "unclear"


def episodes_for_views(views: Sequence[ViewResult], episodes: int) -> int | None:
    """Episodes of each policy after which a verdict is likely, if distances are as measured.

    At least a tenth more than there are, since these were not enough.
    """
    beyond = [episodes_beyond(view, episodes) for view in views if view.distance > view.margin]
    within = [_episodes_within(view, episodes) for view in views if not view.is_within]
    needed = min(beyond) if beyond else max(within, default=inf)
    if not isfinite(needed):
        return None
    return max(ceil(needed), episodes + ceil(episodes / 10))


def _episodes_within(view: ViewResult, episodes: int) -> float:
    distance = max(view.distance, 0.0)
    return _episodes_for_room(view, view.margin - distance, view.high - distance, episodes)


def episodes_beyond(view: ViewResult, episodes: int) -> float:
    """Episodes at which a distance above the margin is found to be so."""
    away = view.distance - view.margin
    return _episodes_for_room(view, away, view.distance - view.beyond, episodes)


def _episodes_for_room(view: ViewResult, room: float, reach: float, episodes: int) -> float:
    """Episodes at which the bound, now ``reach`` away, fits into ``room`` with power 0.9."""
    # The first part is at most what a difference of this length allows (Cauchy-Schwarz).
    first = min(view.first, 4 * max(view.distance, 0.0) * sqrt(view.second / 2))
    error = sqrt(first + view.second)
    if error == 0.0:
        return float(episodes)
    deviation = room / (reach / error + norm.ppf(POWER))
    return float(_episodes(noise_left(first, view.second, deviation), episodes))
