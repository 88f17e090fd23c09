"""How two policies move through the same places: in which direction, and how fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import Characterization, Visitation
from pivec.explanations.differences import CLEARLY
from pivec.states import VisitedStates
from pivec.text import rounded

Array = NDArray[np.float64]
_SAME, _SHARE = 0.02, 0.25  # distance of places that are the same, and its share of all
_ALONG = 0.5  # cosine of directions that are called the same, or opposite


@dataclass(frozen=True)
class Motion:
    """The distance of the places alone, and how steps in them compare.

    ``along`` is the cosine between the mean steps of both policies in the same places, and
    ``speed`` the length of the second policy's steps (root mean square) relative to the first's:
    of all episodes, then of two halves of them.
    """

    places: float  # without sampling noise, with its interval
    low: float
    high: float
    along: tuple[float, ...]
    speed: tuple[float, ...]

    def words(self, moves: float) -> str:
        """Describe policies whose moves are at least so far apart; empty if their places differ.

        Only what holds in both halves of the episodes is said.

        Examples
        --------
        >>> Motion(0.001, 0.0, 0.004, (-0.99, -0.98, -0.99), (1.01, 1.0, 1.02)).words(0.8)
        'same places, opposite direction'
        >>> Motion(0.001, 0.0, 0.004, (0.99, 0.98, 0.99), (3.01, 2.9, 3.2)).words(0.8)
        'same places, 3 times the speed'
        >>> Motion(0.3, 0.2, 0.4, (0.99, 0.98, 0.99), (3.01, 2.9, 3.2)).words(0.8)
        ''
        """
        if not self.high <= min(_SAME, _SHARE * moves):
            return ""
        facts = []
        if max(self.along) <= -_ALONG:
            facts.append("opposite direction")
        if min(self.speed) >= CLEARLY or max(self.speed) <= 1.0 / CLEARLY:
            directed = min(map(abs, self.along)) >= _ALONG
            speed = rounded(self.speed[0], 2)
            facts.append(f"{speed} times {'the speed' if directed else 'as long steps'}")
        return f"same places, {', '.join(facts) or 'different order'}"


def compare_motion(
    method: Characterization, a: VisitedStates, b: VisitedStates, level: float = 0.95
) -> Motion | None:
    """Compare how two policies move, given the moves of a fitted visitation; None without them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> turns = np.linspace(0, 12, 100) + rng.uniform(0, 6, (20, 1))
    >>> circles = [np.column_stack([np.cos(turn), np.sin(turn)]) for turn in turns]
    >>> data = VisitedStates.from_arrays([circles[:10], [circle[::-1] for circle in circles[10:]]])
    >>> method = Visitation(n_components=16).fit(data)
    >>> compare_motion(method, data[0], data[1]).words(moves=0.5)
    'same places, opposite direction'
    """
    if not isinstance(method, Visitation) or method.of != "moves":
        return None
    places = _places(method)
    sure = places.intervals(a, b, level)
    steps = [_mean_steps(method, places, data) for data in (a, b)]
    halves = [slice(None), slice(0, None, 2), slice(1, None, 2)]
    along, speed = [], []
    for half in halves if min(a.n_episodes, b.n_episodes) > 1 else halves[:1]:
        (p, x, sizes), (q, y, others) = ([part[half].mean(axis=0) for part in own] for own in steps)
        # Mean steps x / p and y / q of each place, weighted by the time that both spend there.
        weights = np.sqrt(p * q)
        x, y = (
            np.divide(sums, time[:, None], out=np.zeros_like(sums), where=time[:, None] > 0.0)
            for sums, time in ((x, p), (y, q))
        )
        products = [weights @ np.einsum("kd,kd->k", *pair) for pair in ((x, y), (x, x), (y, y))]
        norm = np.sqrt(products[1] * products[2])
        along.append(float(products[0] / norm) if norm > 0.0 else 0.0)
        speed.append(float(np.sqrt(others / sizes)) if sizes > 0.0 else 1.0)
    places_apart, low, high = (float(x[0, 0]) for x in (sure.distance, sure.low, sure.high))
    return Motion(places_apart, low, high, tuple(along), tuple(speed))


def _places(method: Visitation) -> Visitation:
    """Return the description of the places alone, in the same regions."""
    places = Visitation(**method.get_params() | {"of": "states"})
    n, arrays = len(method.described_features), method.fitted_arrays()
    for name in ("means", "variances", "center", "scale"):
        arrays[name] = arrays[name][..., :n]
    return places.restore(method.feature_names_, arrays)


def _mean_steps(
    method: Visitation, places: Visitation, data: VisitedStates
) -> tuple[Array, Array, Array]:
    """Shares of time in the places, (m, K), sums of steps there, (m, K, D), and squared lengths.

    One row per episode; steps are in units of their deviation over all policies.
    """
    mixture, rows, n = places.mixtures_[0], method.view(data), len(method.described_features)
    m, k = rows.n_episodes, mixture.n_components
    times, sums, squares = np.zeros((m, k)), np.zeros((m, k, n)), np.zeros(m)
    for e, moves in enumerate(rows.episodes()):
        region, steps = mixture.assign(moves[:, :n])[0], moves[:, n:] / method.scale_[n:]
        times[e] = np.bincount(region, minlength=k)
        np.add.at(sums[e], region, steps)
        squares[e] = (steps**2).sum() / len(moves)
        times[e] /= len(moves)
        sums[e] /= len(moves)
    return times, sums, squares
