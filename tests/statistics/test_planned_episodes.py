"""Planned numbers of episodes keep their promise, in simulation and at the ends of the range."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, t

from pivec.statistics import (
    decide,
    episodes_for_different,
    episodes_for_precision,
    episodes_for_same,
    episodes_for_verdict,
    episodes_to_decide,
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
@pytest.mark.parametrize("distance", [0.0, MARGIN, 2 * MARGIN])
def test_same_is_right_at_the_planned_number(distance, decay, rng):
    """In 90 % of cases, by the verdict itself, with bounds and critical values that are known."""
    pair = Pair(distance, decay)
    pilot = pair.distances(PILOT, rng, 1)[0]
    episodes = int(episodes_to_decide(pilot, *pair.parts(PILOT), PILOT, MARGIN))
    chance = Pair(0.0, decay).distances(episodes, rng)
    drawn = pair.distances(episodes, rng)
    bound = norm.ppf(0.95) * np.sqrt(sum(pair.parts(episodes)))
    verdicts = [decide(d + bound, (chance >= d).mean(), MARGIN) for d in drawn[:1000]]
    right = "same" if distance == 0 else "different"
    assert np.mean([verdict == right for verdict in verdicts]) >= 0.88  # 2 errors of 1000 draws


def test_a_real_difference_is_found_as_often_as_planned(rng):
    pair = Pair(0.03, 0.3)
    episodes = int(episodes_for_different(0.03, *pair.parts(PILOT), PILOT))
    critical = np.quantile(Pair(0.0, 0.3).distances(episodes, rng, 20_000), 0.95)
    # The critical value is the largest that sums of χ² have, so a little more often.
    assert 0.88 <= (pair.distances(episodes, rng) > critical).mean() <= 0.96


def test_parts_alone_follow_their_powers():
    """Half the width takes four times the first part's episodes, but twice the second's."""
    first = [episodes_for_precision(1.0, 0.0, 100, p) for p in (0.02, 0.01)]
    second = [episodes_for_precision(0.0, 1.0, 100, p) for p in (0.02, 0.01)]
    assert first[1] / first[0] == pytest.approx(4, rel=1e-3)
    assert second[1] / second[0] == pytest.approx(2, rel=1e-3)


def test_ends_of_the_range():
    assert episodes_for_precision(0.0, 0.0, 5, 0.02) == 2  # nothing varies: as few as there can be
    assert np.isinf(episodes_for_precision(np.nan, np.nan, 1, 0.02))  # one episode tells nothing
    assert np.isinf(episodes_for_same(0.02, 1e-4, 1e-4, 20, margin=0.02))
    assert np.isinf(episodes_for_different(0.0, 1e-4, 1e-4, 20))
    assert episodes_for_different(1.0, 0.0, 0.0, 20) == 4  # 2 of the 70 divisions of 4 + 4
    assert episodes_for_same([0.0, 0.01], 1e-4, 1e-4, [[20], [40]], margin=0.02).shape == (2, 2)


def test_more_episodes_are_more_than_there_are():
    assert episodes_for_verdict(0.0, 0.0, 1e-9, 0.5, 20, MARGIN) == 22
    assert episodes_for_verdict(0.005, 1e-5, 1e-4, 0.2, 20, MARGIN) > 22
    assert episodes_for_verdict(np.nan, np.nan, np.nan, 1.0, 1, MARGIN) is None
    # A test that is far from rejecting does not soon; and never, if chance is as large.
    soon, late = (episodes_for_verdict(0.5, 1e-4, 1e-4, p, 20, MARGIN) for p in (0.06, 0.4))
    assert 20 < soon < late
    assert episodes_for_verdict(0.5, 1e-4, 1e-4, 0.6, 20, MARGIN) is None
