"""Paired and stratified episodes: against obvious formulas, and their error rates by simulation."""

import warnings

import numpy as np
import pytest

from pivec import Space, Visitation, VisitedStates
from pivec.errors import BadStore, PivecWarning, UsageError
from pivec.states import paired
from pivec.statistics import (
    episode_view,
    paired_spread,
    permuted_divisions,
    view_intervals,
    within_strata,
)

TRIALS, EPISODES = 120, 30


def starts_of(n, shift, rng, groups=None):
    """Two policies from common starts, or with common tasks; the second one is shifted."""
    common = (
        rng.normal(size=n) if groups is None else 2.0 * np.arange(groups)[np.arange(n) % groups]
    )
    walks = [
        [1.5 * c + 0.3 * rng.normal() + shift * k + 0.3 * rng.normal(size=(6, 1)) for c in common]
        for k in range(2)
    ]
    return VisitedStates.from_arrays(walks, outcomes={"start": [[f"{c:.9f}" for c in common]] * 2})


@pytest.fixture(scope="module")
def method():
    return Visitation(n_components=5).fit(starts_of(300, 0.3, np.random.default_rng(0)))


def test_covariance_within_strata(rng):
    rows = rng.normal(size=(11, 3))
    strata = np.array([0, 0, 0, 4, 4, 4, 4, 7, 7, 9, 9])
    rows -= rows.mean(axis=0)
    scaled, freedom = within_strata(rows, strata)
    expected = (
        sum(np.sum(strata == s) * np.cov(rows[strata == s].T) for s in np.unique(strata))
        / len(rows) ** 2
    )
    np.testing.assert_allclose(scaled.T @ scaled / (11 * 10), expected, rtol=1e-12)
    assert freedom == 11 - 4


def test_strata_of_one_pair_are_pairs(rng):
    rows = rng.normal(size=(6, 2))
    rows -= rows.mean(axis=0)
    scaled, freedom = within_strata(rows, np.arange(6))
    np.testing.assert_array_equal(scaled, rows)
    assert freedom == 5
    # A single pair among larger strata has no variance of its own, and joins one of them.
    scaled, freedom = within_strata(rows, np.array([0, 0, 1, 1, 1, 2]))
    assert np.isfinite(scaled).all()
    assert freedom == 4


def test_spread_of_differences_is_that_of_their_covariance(rng):
    moved = [rng.normal(size=(2, 8, 3)) for _ in range(2)]
    moved = [rows - rows.mean(axis=1, keepdims=True) for rows in moved]
    points = [rng.normal(size=(2, 3)) for _ in range(2)]
    i, j = np.array([0, 1]), np.array([1, 1])
    variance, spread = paired_spread(moved, points, i, j, np.arange(8))
    for k in range(2):
        covariance = np.cov((moved[0][i[k]] - moved[1][j[k]]).T) / 8
        gap = points[0][i[k]] - points[1][j[k]]
        np.testing.assert_allclose(variance[k], 4 * gap @ covariance @ gap, rtol=1e-12)
        np.testing.assert_allclose(spread.trace[k], np.trace(covariance), rtol=1e-12)
        np.testing.assert_allclose(spread.norm[k], np.linalg.norm(covariance), rtol=1e-12)


def test_noise_of_paired_policies_is_that_of_their_difference(method, rng):
    data, strata = paired(starts_of(12, 0.2, rng), "start")
    described = method.describe(data, influences=True).stratified(strata)
    found = method.intervals(described)
    a, b = described.influences
    covariance = np.cov((a.astype(float) - b).T) / 12
    squares = np.sum((described.points[0] - described.points[1]) ** 2)
    np.testing.assert_allclose(found.noise[0, 1], np.trace(covariance), rtol=1e-5)
    np.testing.assert_allclose(found.distance[0, 1], squares - np.trace(covariance), rtol=1e-5)
    two = method.intervals(described.select([0]), described.select([1]))
    for name in ("distance", "low", "high", "p_value"):
        np.testing.assert_allclose(getattr(two, name)[0, 0], getattr(found, name)[0, 1], rtol=1e-9)
    parts = method.decompose(described.select([0]), described.select([1]))
    assert parts.low == pytest.approx(found.low[0, 1])
    assert parts.high == pytest.approx(found.high[0, 1])
    alone = method.decompose(data[0], data[1])
    assert np.mean(parts.average_shift_high - parts.average_shift_low) < np.mean(
        alone.average_shift_high - alone.average_shift_low
    )


def test_divisions_exchange_only_within_strata(rng):
    strata = np.array([0, 0, 1, 2, 2, 2])
    divisions = permuted_divisions(6, 6, 500, rng, strata)
    both = np.concatenate([strata, strata])
    for s, n in ((0, 2), (1, 1), (2, 3)):
        assert (divisions[:, both == s].sum(axis=1) == n).all()
    assert divisions[0].tolist() == [True] * 6 + [False] * 6
    assert 0.4 < divisions[1:, 2].mean() < 0.6
    pairs = permuted_divisions(3, 3, 400, rng, np.arange(3))
    assert (pairs[:, :3] != pairs[:, 3:]).all()
    assert len(np.unique(pairs, axis=0)) == 8


@pytest.mark.parametrize("groups", [None, 3])
def test_level_coverage_and_power(method, groups):
    """Of 120 tests at 5 %, up to 14 reject by chance (99.9 %); 106 intervals contain the truth."""

    def rates(shift, use):
        rejected = permuted = 0
        found = []
        for trial in range(TRIALS):
            data = starts_of(EPISODES, shift, np.random.default_rng(100 + trial), groups)
            data, strata = paired(data, "start")
            described = method.describe(data, influences=True)
            found.append(method.intervals(described.stratified(strata) if use else described))
            rejected += found[-1].p_value[0, 1] <= 0.05
            permuted += (
                method.test(data[0], data[1], 99, trial, strata if use else None).p_value <= 0.05
            )
        ends = np.array([[x.distance[0, 1], x.low[0, 1], x.high[0, 1]] for x in found]).T
        return rejected, permuted, ends

    rejected, permuted, (distance, _, _) = rates(0.0, True)
    assert 1 <= rejected <= 14
    assert 1 <= permuted <= 14
    assert abs(distance.mean()) < 0.002
    truth = method.intervals(starts_of(6000, 0.3, np.random.default_rng(1), groups)).distance[0, 1]
    rejected, permuted, (distance, low, high) = rates(0.3, True)
    assert ((low <= truth) & (truth <= high)).sum() >= 106
    assert distance.mean() == pytest.approx(truth, abs=0.002)
    ignored = rates(0.3, False)
    assert rejected > ignored[0] + 9
    assert permuted > ignored[1] + 9
    assert ignored[2][0].mean() < truth - 0.005  # distances are too small if pairs are ignored


def test_views_use_differences_within_pairs(rng):
    common = rng.normal(size=200)
    a, b = (common + 0.1 * rng.normal(size=200) for _ in range(2))
    view = episode_view("score", a, b)
    free, tied = view_intervals(view, 0.9), view_intervals(view, 0.9, np.arange(200))
    assert tied.noise[0] < 0.3 * free.noise[0]
    assert tied.high[0] < free.high[0]


def test_incomplete_pairs_are_left_out_with_a_warning(rng):
    walks = [[np.full((2, 1), 10.0 * k + e) for e in range(4)] for k in range(2)]
    tasks = [["a", "b", "", "a"], ["b", "a", "a", "c"]]
    data = VisitedStates.from_arrays(walks, outcomes={"task": tasks})
    with pytest.warns(PivecWarning, match="2 of 8 episodes"):
        kept, strata = paired(data, "task")
    assert kept.n_episodes == 6
    assert sorted(np.bincount(strata).tolist()) == [1, 2]
    for k in range(2):
        shown = [tasks[k][int(states[0, 0]) - 10 * k] for states in kept[k].episodes()]
        assert shown == [kept.outcomes["task"].tolist()[e] for e in range(3)]
    with pytest.warns(PivecWarning):
        turned, again = paired(data.select([1, 0]), "task")
    np.testing.assert_array_equal(again, strata)
    np.testing.assert_array_equal(turned[1].states, kept[0].states)


@pytest.mark.parametrize(("by", "fact"), [("colour", "colour"), ("seed", "--same-seeds")])
def test_nothing_to_pair_by(rng, by, fact):
    data = VisitedStates.from_arrays([[np.zeros((2, 1))]] * 2, outcomes={"task": [["a"], ["b"]]})
    with pytest.raises(UsageError, match=fact):
        paired(data, by)


def test_strata_stay_with_a_space(method, rng, tmp_path):
    data, strata = paired(starts_of(6, 0.2, rng), "start")
    described = method.describe(data, influences=True).stratified(strata)
    Space(method, described).save(tmp_path)
    again = Space.load(tmp_path).descriptions
    np.testing.assert_array_equal(method.intervals(again).high, method.intervals(described).high)
    broken = described.stratified(strata[:-1])
    Space(method, broken).save(tmp_path)
    with pytest.raises(BadStore):
        Space.load(tmp_path)
    with pytest.raises(UsageError, match="strata"):
        method.intervals(described.select([0]), method.describe(data, influences=True).select([1]))


def test_equal_pairs_show_only_that_few_differ(method):
    """The upper end falls with the square of the number of pairs, of which all are identical."""
    ends = []
    for n in (8, 32):
        data = starts_of(n, 0.0, np.random.default_rng(2))
        walks = [list(data[0].episodes())] * 2
        outcomes = {"n": [[*range(n)]] * 2}
        twice, strata = paired(VisitedStates.from_arrays(walks, outcomes=outcomes), "n")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = method.intervals(method.describe(twice, influences=True).stratified(strata))
        assert found.p_value[0, 1] == 1.0
        assert found.low[0, 1] == 0.0
        ends.append(found.high[0, 1])
    assert 0 < 8 * ends[1] < ends[0]


def test_few_different_pairs_seldom_count_as_the_same():
    """h² is 0.028: of 400 verdicts at 5 %, at most 33 are wrong by chance (99.9 %)."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(400):
        a = (rng.random(30) < 0.9).astype(float)
        b = np.where(rng.random(30) < 0.2, 0.0, a)
        wrong += view_intervals(episode_view("success", a, b), 0.9, np.arange(30)).high[0] < 0.02
    assert wrong <= 33


def test_overlaps_are_free_of_the_noise_of_differences_within_pairs(method, rng):
    """Common starts move both policies alike, which is no noise of their difference."""
    data, strata = paired(starts_of(12, 0.4, rng), "start")
    apart = method.describe(data, influences=True)
    both = apart.stratified(strata)
    moved = list(method._moved_shares(apart))
    shares = method.region_shares(apart)[0]
    for described, rows in ((apart, np.hypot(*moved)), (both, moved[0] - moved[1])):
        deviations = np.sqrt((rows**2).sum(axis=0) / (12 * 11))
        noise = deviations.sum() / np.sqrt(2 * np.pi)
        differing = np.abs(shares[0] - shares[1]).sum() / 2
        expected = 1 - np.sqrt(max(differing**2 - noise**2, 0))
        np.testing.assert_allclose(method.overlap(described)[0, 1], expected, rtol=1e-9)
