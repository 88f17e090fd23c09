"""Pairs of policies with a planted difference of known size: synthetic families and real ones.

The episodes of a synthetic family come from ``sample(size, rng, n_episodes, side)``. Side 0 is the
reference and side 1 differs; at size 0 both have the same distribution. All processes are
stationary, autocorrelated and 100 to 199 steps long. ``total_variation(size)`` is the largest
difference in probability that the two sides give to any event *in the view of the family*: the
distribution of one feature or of two, of a state s or a move (s, Δs) at a random time, of whole
episodes, or of the length of an episode. Real families change an environment or a policy; their
total variation is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import integrate, ndimage, optimize, signal, special, stats

Array = np.ndarray
Rng = np.random.Generator
SHORTEST, LONGEST = 100, 200  # steps of an episode, the longest excluded
FAR = 8.0  # how far away rare events are, in standard deviations
LADDER = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)  # planted total variation


@dataclass(frozen=True)
class Family:
    """One kind of difference: how it is sampled, and how large it is."""

    name: str
    view: str  # where the total variation is that of ``total_variation``
    planted: str  # in words
    sample: Callable[..., Any]  # (size, rng, n_episodes, side) -> episodes, or VisitedStates
    total_variation: Callable[[float], float] | None = None  # of a size; unknown for real ones
    largest: float = 1.0  # size
    ladder: tuple[float, ...] = LADDER  # total variation, or sizes where that is not known

    def size(self, total_variation: float) -> float:
        """Return the size at which the total variation is this."""
        if self.total_variation is None or total_variation == 0:
            return total_variation
        tv = self.total_variation
        if tv(self.largest) < total_variation:
            raise ValueError(f"{self.name} only reaches {tv(self.largest):.2f}")
        return float(optimize.brentq(lambda s: tv(s) - total_variation, 0.0, self.largest))

    def steps(self, wanted: tuple[float, ...] | None = None) -> tuple[float, ...]:
        """Return the planted values that this family has, of those that are wanted."""
        if self.total_variation is None:
            return self.ladder
        most = self.total_variation(self.largest) + 1e-9
        ladder = tuple(tv for tv in self.ladder if tv <= most)
        # What is rare stays rare, and tails have their limits.
        chosen = tuple(tv for tv in wanted or ladder if tv <= max(ladder))
        return chosen if any(chosen) or not any(wanted or ()) else ladder


# ---- processes: arrays of (n_episodes, LONGEST or more, n_features), cut to their lengths ----


def lengths(rng: Rng, n: int) -> Array:
    return rng.integers(SHORTEST, LONGEST, n)


def cut(paths: Array, steps: Array) -> list[Array]:
    """Cut every path after its number of steps."""
    return [path[:k].astype(np.float32) for path, k in zip(paths, steps, strict=True)]


def autoregressive(rng: Rng, n: int, d: int, rho: float = 0.95, longest: int = LONGEST) -> Array:
    """Stationary AR(1) with variance 1."""
    noise = rng.normal(size=(n, longest, d))
    noise[:, 1:] *= np.sqrt(1 - rho**2)
    return signal.lfilter([1.0], [1.0, -rho], noise, axis=1)


def circle(rng: Rng, n: int, step: Any, spread: float) -> Array:
    """Walk on a circle with steps of normal length; the start is uniform. (cos, sin)."""
    turns = step + spread * rng.normal(size=(n, LONGEST))
    angle = rng.uniform(0, 2 * np.pi, (n, 1)) + np.cumsum(turns, axis=1)
    return np.stack([np.cos(angle), np.sin(angle)], axis=2)


@cache
def _gait(d: int) -> Array:
    return np.random.default_rng(d).normal(size=(2, d))


def body(rng: Rng, n: int, d: int) -> Array:
    """Joint angles and the like: d features of one cycle, each with noise of its own."""
    return circle(rng, n, 0.15, 0.05) @ _gait(d) + 0.5 * autoregressive(rng, n, d, 0.8)


def rooms(rng: Rng, orders: list[Array], places: Array) -> list[Array]:
    """Stay at places one after the other, with five steps from each to the next."""
    episodes = []
    for order, steps in zip(orders, lengths(rng, len(orders)), strict=True):
        switches = max(len(order) - 1, 1)
        # The first and the last stay are half as long: equal time on both sides of two places.
        turn = np.floor((np.arange(steps) / steps) * switches + 0.5).astype(int)
        path = places[np.asarray(order)[np.minimum(turn, len(order) - 1)]]
        path = ndimage.uniform_filter1d(path, 5, axis=0, mode="nearest")
        noise = autoregressive(rng, 1, places.shape[1], 0.9)[0, :steps]
        episodes.append((path + 0.15 * noise).astype(np.float32))
    return episodes


SIDES = np.array([[-1.0, 0.0], [1.0, 0.0]])
CORNERS = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [0.0, 0.0]])


# ---- synthetic families ----


def location(size: float, rng: Rng, n: int, side: int, d: int = 4) -> list[Array]:
    one = autoregressive(rng, n, 1) + size * side
    return cut(np.concatenate([one, body(rng, n, d - 1)], axis=2), lengths(rng, n))


def spread(size: float, rng: Rng, n: int, side: int, d: int) -> list[Array]:
    one = autoregressive(rng, n, 1) * (1 + size * side)
    others = circle(rng, n, 0.1, 0.05) if d == 3 else body(rng, n, d - 1)
    return cut(np.concatenate([others, one], axis=2), lengths(rng, n))


def correlation(size: float, rng: Rng, n: int, side: int, d: int) -> list[Array]:
    two = autoregressive(rng, n, 2)
    r = size * side
    two[..., 1] = r * two[..., 0] + np.sqrt(1 - r**2) * two[..., 1]
    return cut(np.concatenate([two, body(rng, n, d - 2)], axis=2), lengths(rng, n))


def heavy_tails(size: float, rng: Rng, n: int, side: int) -> list[Array]:
    """Student's t with 1 / size degrees of freedom, scaled to variance 1."""
    one = autoregressive(rng, n, 1)
    if size * side > 0:
        nu = 1 / size
        one = stats.t.ppf(stats.norm.cdf(one), nu) * np.sqrt((nu - 2) / nu)
    return cut(np.concatenate([one, body(rng, n, 3)], axis=2), lengths(rng, n))


def direction(size: float, rng: Rng, n: int, side: int) -> list[Array]:
    return cut(circle(rng, n, 0.25 * size * (1 - 2 * side), 0.25), lengths(rng, n))


def speed(size: float, rng: Rng, n: int, side: int) -> list[Array]:
    return cut(circle(rng, n, 0.1 + 0.2 * size * side, 0.05), lengths(rng, n))


def jitter(size: float, rng: Rng, n: int, side: int) -> list[Array]:
    return cut(autoregressive(rng, n, 3, 0.95 * (1 - size * side)), lengths(rng, n))


def _chosen(size: float, rng: Rng, n: int, side: int) -> Array:
    """Whether an episode is of the second kind: never on side 0, with probability size on 1."""
    return rng.random(n) < size * side


def left_right(size: float, rng: Rng, n: int, side: int) -> list[Array]:
    """Left first in (1 + size) / 2 of the episodes on side 0, in (1 - size) / 2 on side 1."""
    left = rng.random(n) < (1 + size * (1 - 2 * side)) / 2
    return rooms(rng, [np.array([0, 1] if one else [1, 0]) for one in left], SIDES)


def room_order(size: float, rng: Rng, n: int, side: int, hub: bool = False) -> list[Array]:
    """Four rooms in a cycle from a random one on, clockwise or the other way."""
    way = np.where(_chosen(size, rng, n, side), -1, 1)
    orders = (rng.integers(0, 4, (n, 1)) + way[:, None] * np.arange(4)) % 4
    if hub:
        orders = np.insert(orders, [1, 2, 3], 4, axis=1)
    return rooms(rng, list(orders), CORNERS)


def switching(size: float, rng: Rng, n: int, side: int, counts: tuple[int, int]) -> list[Array]:
    """Two places, with so many switches per episode on side 0 and in the others."""
    many = np.where(_chosen(size, rng, n, side), counts[1], counts[0])
    starts = rng.integers(0, 2, n)
    return rooms(
        rng, [(s + np.arange(k + 1)) % 2 for s, k in zip(starts, many, strict=True)], SIDES
    )


def habits(size: float, rng: Rng, n: int, side: int) -> list[Array]:
    """Clockwise for half of every episode and back for the other, or one way per episode."""
    steps = lengths(rng, n)
    way = rng.choice([-1.0, 1.0], n)
    first = np.arange(LONGEST) < steps[:, None] / 2
    one = _chosen(size, rng, n, side)[:, None]
    ways = way[:, None] * np.where(first | one, 1.0, -1.0)
    return cut(circle(rng, n, 0.1 * ways, 0.03), steps)


def rare_time(size: float, rng: Rng, n: int, side: int) -> list[Array]:
    """Bursts of eight steps on average that take a share of the time."""
    one = autoregressive(rng, n, 1)
    away = rng.random(n) < size * side
    enter = size / (1 - size) / 8
    for t in range(LONGEST):
        one[:, t, 0] += FAR * away
        draw = rng.random(n)
        away = np.where(away, draw > 1 / 8, draw < enter * side)
    return cut(np.concatenate([one, body(rng, n, 3)], axis=2), lengths(rng, n))


def rare_episodes(size: float, rng: Rng, n: int, side: int) -> list[Array]:
    """A share of episodes in which one feature is far away in the second half."""
    one, steps = autoregressive(rng, n, 1), lengths(rng, n)
    late = np.arange(LONGEST) >= steps[:, None] / 2
    one[..., 0] += FAR * (late & _chosen(size, rng, n, side)[:, None])
    return cut(np.concatenate([one, body(rng, n, 3)], axis=2), steps)


def length(size: float, rng: Rng, n: int, side: int) -> list[Array]:
    steps = lengths(rng, n) + round((LONGEST - SHORTEST) * size) * side
    return cut(autoregressive(rng, n, 4, longest=2 * LONGEST), steps)


# ---- their total variation ----


def tv_shift(gap: float) -> float:
    """Of two normal distributions whose means are so many standard deviations apart."""
    return float(2 * stats.norm.cdf(abs(gap) / 2) - 1)


def tv_scale(size: float) -> float:
    """Of N(0, 1) and N(0, (1 + size)²), whose densities cross at ±x."""
    s = 1 + size
    if size < 1e-9:
        return 0.0
    x = s * np.sqrt(2 * np.log(s) / (s**2 - 1))
    return float(2 * (stats.norm.cdf(x) - stats.norm.cdf(x / s)))


@cache
def _nodes() -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(200)


@cache
def tv_correlation(r: float, q: float, d: int = 1) -> float:
    """Of d independent pairs of standard normal variables with correlation r, and with q.

    The likelihood ratio depends on U = Σ (x+y)²/2 and V = Σ (x−y)²/2, which are χ² with d degrees
    of freedom, scaled by 1 ± correlation: integrate over V what U gives.
    """
    if r == q:
        return 0.0
    a = 1 / (1 + q) - 1 / (1 + r)
    b = 1 / (1 - q) - 1 / (1 - r)
    c = d * np.log((1 - q**2) / (1 - r**2))
    nodes, weights = _nodes()

    def likelier(rho: float) -> float:
        """Probability, with correlation rho, that aU + bV + c > 0: that r is more likely."""
        # Quantiles of V, in two parts: where the edge of U passes through zero there is a kink.
        kink = float(special.chdtr(d, -c / b / (1 - rho)))
        total = 0.0
        for low, high in ((0.0, kink), (kink, 1.0)):
            share = low + (high - low) * (nodes + 1) / 2
            edge = -(c + b * (1 - rho) * special.chdtri(d, 1 - share)) / a / (1 + rho)
            edge = np.maximum(edge, 0.0)
            above = special.chdtrc(d, edge) if a > 0 else special.chdtr(d, edge)
            total += (high - low) / 2 * float(weights @ above)
        return total

    return abs(likelier(r) - likelier(q))


@cache
def tv_heavy(size: float) -> float:
    """Of N(0, 1) and Student's t with 1 / size degrees of freedom and variance 1."""
    if size < 1e-6:
        return 0.0
    nu = 1 / size
    t = stats.t(nu, scale=np.sqrt((nu - 2) / nu))
    x = np.linspace(0, 40, 8001)
    return float(integrate.simpson(np.abs(t.pdf(x) - stats.norm.pdf(x)), x=x))  # ½, both sides


def tv_share(size: float) -> float:
    """Of kinds of episodes that are (all but) never confused, in shares that differ by size.

    And of lengths that are uniform on 100 values, and on those shifted by 100 × size.
    """
    return size


def _far(size: float) -> float:
    return size * tv_shift(FAR)


_ONE, _PAIR = "one feature", "two features"
_RARE = (0.0, 0.01, 0.05)
_KINDS = (0.0, 0.1, 0.3, 0.5, 1.0)  # shares of episodes of another kind
_MOVES = (*LADDER, 0.9)


def _synthetic() -> list[Family]:
    bound = partial
    return [
        Family("location", _ONE, "one mean of 4 shifted", location, tv_shift, 3),
        Family(
            "location-30", _ONE, "one mean of 30 shifted", bound(location, d=30), tv_shift, 3
        ),
        *(
            Family(f"spread-{d}", _ONE, f"spread of one of {d}", bound(spread, d=d), tv_scale, 9)
            for d in (3, 12, 30)
        ),
        *(
            Family(
                f"correlation-{d}",
                _PAIR,
                f"correlation of two of {d}",
                bound(correlation, d=d),
                lambda r: tv_correlation(r, 0.0),
                0.999,
            )
            for d in (12, 30)
        ),
        Family("tails", _ONE, "heavy tails, same variance", heavy_tails, tv_heavy, 0.45),
        Family(
            "direction", "moves", "a circle the other way round", direction,
            lambda s: tv_shift(2 * s), 3, _MOVES,
        ),
        Family(
            "speed", "moves", "up to three times the speed", speed,
            lambda s: tv_shift(4 * s), 1, _MOVES,
        ),
        Family(
            "jitter", "moves", "smooth motion or noise", jitter,
            lambda s: tv_correlation(0.95, 0.95 * (1 - s), 3), 1, _MOVES,
        ),
        Family("order", "episodes", "left, then right", left_right, tv_share, 1, _KINDS),
        Family("rooms", "episodes", "four rooms in another order", room_order, tv_share, 1, _KINDS),
        Family(
            "rooms-hub", "episodes", "the same, through a hub", bound(room_order, hub=True),
            tv_share, 1, _KINDS,
        ),
        Family(
            "switching", "episodes", "one or eight switches", bound(switching, counts=(1, 8)),
            tv_share, 1, _KINDS,
        ),
        Family(
            "habits", "episodes", "two directions within or across", habits, tv_share, 1, _KINDS
        ),
        Family(
            "habits-places", "episodes", "two places within or across",
            bound(switching, counts=(1, 0)), tv_share, 1, _KINDS,
        ),
        Family("rare-time", _ONE, "far away for a share of time", rare_time, _far, 0.5, _RARE),
        Family(
            "rare-episodes", "episodes", "far away in some episodes", rare_episodes, tv_share, 1,
            _RARE,
        ),
        Family("length", "length", "longer episodes", length, tv_share),
    ]  # fmt: skip


FAMILIES: dict[str, Family] = {family.name: family for family in _synthetic()}


def families() -> dict[str, Family]:
    """All families, real ones last."""
    from planted_worlds import WORLDS

    return FAMILIES | WORLDS
