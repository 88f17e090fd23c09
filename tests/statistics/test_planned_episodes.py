"""Planned numbers of episodes keep their promise, in simulation and at the ends of the range."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from pivec.statistics import (
    ViewResult,
    chi2_bound,
    decide,
    episode_view,
    episodes_for_precision,
    episodes_for_same,
    episodes_for_view,
    episodes_for_views,
    view_intervals,
)

PILOT, DRAWS, MARGIN = 20, 4000, 0.02


class Pair:
    """Two policies whose episodes are normal around points: deviations fall along the axes."""

    def __init__(self, distance, decay, scale=0.25):
        self.deviations = scale * decay ** np.arange(10.0)
        # The difference lies along the noisiest axis, which is the worst case.
        self.difference = np.eye(10)[0] * np.sqrt(distance)

    def parts(self, episodes):
        """Both parts of the variance, by the formula of the issue."""
        covariance = np.diag(2 * self.deviations**2 / episodes)
        first = 4 * self.difference @ covariance @ self.difference
        return float(first), float(2 * (covariance**2).sum())

    def distances(self, episodes, rng, draws=DRAWS):
        """Distances with the noise taken off, of samples of so many episodes."""
        sigma = self.deviations * np.sqrt(2 / episodes)
        points = self.difference + rng.normal(size=(draws, 10)) * sigma
        return (points**2).sum(1) - (sigma**2).sum()


@pytest.mark.parametrize("decay", [1.0, 0.5])
@pytest.mark.parametrize("distance", [0.0, 0.01, 0.3])
def test_intervals_are_as_narrow_as_planned(distance, decay, rng):
    pair = Pair(distance, decay)
    episodes = int(episodes_for_precision(*pair.parts(PILOT), PILOT, 0.02))
    half_width = t.ppf(0.975, episodes - 1) * pair.distances(episodes, rng).std()
    assert half_width == pytest.approx(0.02, rel=0.08)  # whole episodes, 4000 draws
    for number, narrow in ((episodes, True), (episodes - 1, False)):
        width = t.ppf(0.975, number - 1) * np.sqrt(sum(pair.parts(number)))
        assert (width <= 0.02 * (1 + 1e-6)) == narrow


@pytest.mark.parametrize("decay", [1.0, 0.3])
def test_equal_policies_are_within_the_margin_at_the_planned_number(decay, rng):
    pair = Pair(0.0, decay)
    noise = (2 * pair.deviations**2 / PILOT).sum()
    episodes = int(episodes_for_same(noise, pair.parts(PILOT)[1], PILOT, MARGIN))
    covariance = 2 * pair.deviations**2 / episodes
    points = rng.normal(size=(500, 10)) * np.sqrt(covariance)
    squares = (points**2).sum(1)
    slopes = 4 * (points**2 * covariance).sum(1) / squares
    second = 2 * (covariance**2).sum()
    highs = [
        chi2_bound(distance, slope, second, 0.95)
        for distance, slope in zip(squares - covariance.sum(), slopes, strict=True)
    ]
    assert 0.94 <= np.mean(np.array(highs) < MARGIN) <= 0.995


def test_lengths_are_certain_at_the_planned_number(rng):
    def drawn(n):
        return episode_view("length", *rng.integers(100, 200, (2, n)).astype(float))

    planned = [episodes_for_view(drawn(50), 0.03) for _ in range(5)]
    assert max(planned) - min(planned) < 0.05 * min(planned)
    highs = [view_intervals(drawn(int(planned[0])), 0.9).high.item() for _ in range(300)]
    assert np.mean(np.array(highs) < 0.03) >= 0.93


def test_parts_alone_follow_their_powers():
    """Half the width takes four times the first part's episodes, but twice the second's."""
    first = [episodes_for_precision(1.0, 0.0, 100, p) for p in (0.02, 0.01)]
    second = [episodes_for_precision(0.0, 1.0, 100, p) for p in (0.02, 0.01)]
    assert first[1] / first[0] == pytest.approx(4, rel=1e-3)
    assert second[1] / second[0] == pytest.approx(2, rel=1e-3)


def test_ends_of_the_range():
    assert episodes_for_precision(0.0, 0.0, 5, 0.02) == 2  # nothing varies: as few as there can be
    assert np.isinf(episodes_for_precision(np.nan, np.nan, 1, 0.02))  # one episode tells nothing
    assert np.isinf(episodes_for_same(np.nan, np.nan, 1, 0.02))
    assert episodes_for_same(0.0, 0.0, 5, 0.02) == 20  # as few as are reliable
    assert episodes_for_same([1e-3, 1e-2], 1e-4, [[20], [40]], 0.02).shape == (2, 2)


def result(distance, half, first=0.0, second=1e-4):
    low = max(distance - half, 0.0)
    return ViewResult("x", distance, low, distance + half, low, MARGIN, first, second)


def test_more_episodes_are_more_than_there_are():
    assert episodes_for_views([result(0.0, 0.0201)], 20) > 22
    assert episodes_for_views([result(0.019, 0.0015, second=1e-6)], 20) > 50
    assert episodes_for_views([result(np.nan, np.nan, np.nan, np.nan)], 1) is None
    assert episodes_for_views([result(MARGIN, 0.01)], 20) is None  # it will never be certain
    wide, far = result(0.0, 0.1), result(0.5, 0.5)
    # All views must be within, but one beyond is enough.
    assert episodes_for_views([wide, result(0.0, 0.001)], 20) == episodes_for_views([wide], 20)
    assert episodes_for_views([wide, far], 20) == episodes_for_views([far], 20)


def test_verdicts():
    within, wide, beyond = result(0.0, 0.01), result(0.01, 0.02), result(0.05, 0.01)
    assert decide([within, within], True) == "same"
    assert decide([within, wide], True) == "unclear"
    assert decide([within, wide, beyond], True) == "different"
    assert decide([within, wide, beyond], False) == "unclear"
