"""Intervals, tests and overlap of visitation and supervector against slow, obvious formulas."""

import numpy as np
import pytest

from pivec.characterizations import characterization, unbiased_points, without_noise
from pivec.errors import PivecWarning, UsageError
from pivec.states import VisitedStates


def walks(rng, place, n=8, length=30):
    """Episodes of different lengths about a place of their own."""
    return [
        rng.normal(place + rng.normal(0, 0.5), 1, (int(rng.integers(5, length)), 3))
        for _ in range(n)
    ]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return VisitedStates.from_arrays([walks(rng, place) for place in (0, 0, 1, 3)])


@pytest.fixture(scope="module", params=["visitation", "supervector"])
def method(request, data):
    return characterization(request.param, n_components=5).fit(data)


def points_without(method, data, policy, episode):
    """Describe one policy anew without one of its episodes."""
    rest = [e.states for i, e in enumerate(data.records[policy].as_episodes()) if i != episode]
    return method.describe(VisitedStates.from_arrays([rest])).points[0]


def slow_covariance(method, data, policy):
    m = len(data.records[policy].episodes)
    left = np.array([points_without(method, data, policy, e) for e in range(m)])
    influences = (m - 1) * (left.mean(axis=0) - left)
    return influences, influences.T @ influences / (m * (m - 1))


def slow_correction(method, data, policy):
    """Minus a quarter of the bias that leaving out episodes reveals."""
    m = len(data.records[policy].episodes)
    left = np.mean([points_without(method, data, policy, e) for e in range(m)], axis=0)
    return (m - 1) / 4 * (method.describe(data).points[policy] - left)


def test_influences_are_what_leaving_out_an_episode_does(method, data):
    described = method.describe(data, influences=True)
    for policy, rows in enumerate(described.influences):
        slow, _ = slow_covariance(method, data, policy)
        np.testing.assert_allclose(rows, slow, rtol=0, atol=2e-5 * np.abs(slow).max())
    np.testing.assert_allclose(described.points, method.describe(data).points, rtol=1e-4, atol=1e-6)


def test_intervals_are_those_of_the_formula(method, data):
    from scipy.stats import f, t

    sure = method.intervals(data, level=0.9)
    # Of supervectors, the size of C and the points are those of halves; see test_halves.py.
    points, traces = unbiased_points(method.describe(data, influences=True))
    spreads = [slow_covariance(method, data, p) for p in range(len(data))]
    sizes = [n / np.trace(c) for n, (_, c) in zip(traces, spreads, strict=True)]
    if method.name == "visitation":
        assert sizes == pytest.approx([1.0] * len(data), rel=1e-4)
    corrections = [slow_correction(method, data, p) for p in range(len(data))]
    lengths = [np.array([len(e.states) for e in r.as_episodes()], float) for r in data.records]
    # Every episode counts as much as its states do, or the same.
    effective = [n.sum() ** 2 / (n**2).sum() if method.traits.by_state else len(n) for n in lengths]
    for i in range(len(data)):
        for j in range(len(data)):
            if i == j:
                assert (sure.distance[i, j], sure.low[i, j], sure.high[i, j]) == (0, 0, 0)
                assert sure.p_value[i, j] == 1
                continue
            gap = points[i] - points[j]
            (_, c_i), (_, c_j) = spreads[i], spreads[j]
            noise = traces[i] + traces[j]
            distance = gap @ gap - noise
            second = 2 * sum(sizes[k] * unbiased_norm(spreads[k][0]) for k in (i, j)) ** 2
            variance = max(4 * gap @ (c_i + c_j) @ gap, second)
            z = t.ppf(0.95, min(effective[i], effective[j]) - 1)
            # Score bounds: (distance − d)² = z² (slope · d + second).
            slope = min(4 * gap @ (c_i + c_j) @ gap / (gap @ gap), 4 * np.sqrt(second / 2))
            away = z**2 * (slope * max(distance, 0) + z**2 * slope**2 / 4 + second)
            ends = distance + z**2 * slope / 2 + np.array([-1, 1]) * np.sqrt(away)
            biased = sum(sizes[k] * np.linalg.norm(spreads[k][1]) for k in (i, j))
            count = noise**2 / (biased * max(np.sqrt(second / 2), biased / 7))
            inverse = sum(traces[k] ** 2 / (effective[k] - 1) for k in (i, j))
            assert sure.noise[i, j] == pytest.approx(noise, rel=1e-5)
            assert sure.distance[i, j] == pytest.approx(distance, rel=1e-4, abs=1e-6)
            assert sure.standard_error[i, j] == pytest.approx(np.sqrt(variance), rel=1e-4)
            if sure.p_value[i, j] > 0.05:  # half of what the level leaves
                ends[0] = 0
            assert sure.low[i, j] == pytest.approx(max(ends[0], 0), rel=1e-3, abs=1e-5)
            if method.traits.corrected:
                corrected = gap + corrections[i] - corrections[j]
                moved = corrected @ corrected - noise
                away = z**2 * (slope * max(moved, 0) + z**2 * slope**2 / 4 + second)
                ends[1] = max(ends[1], moved + z**2 * slope / 2 + np.sqrt(away))
            assert sure.high[i, j] == pytest.approx(max(ends[1], 0), rel=1e-3, abs=1e-5)
            assert sure.first[i, j] + sure.second[i, j] == pytest.approx(variance, rel=1e-4)
            p_value = f.sf(gap @ gap / noise, count, count * noise**2 / inverse)
            assert sure.p_value[i, j] == pytest.approx(p_value, rel=1e-3, abs=1e-9)


def unbiased_norm(influences):
    """Root of tr(Σ²)/M², each product of two different pairs of episodes counted once."""
    m = len(influences)
    x = influences - influences.mean(axis=0)
    total = 0.0
    # The U-statistic over quadruples of episodes (Li and Chen 2012), which has no bias.
    gram = x @ x.T
    for i in range(m):
        for j in range(m):
            for k in range(m):
                for h in range(m):
                    if len({i, j, k, h}) == 4:
                        total += (gram[i, j] - gram[i, h] - gram[k, j] + gram[k, h]) * (
                            gram[i, j] - gram[i, h] - gram[k, j] + gram[k, h]
                        )
    total /= 4 * m * (m - 1) * (m - 2) * (m - 3)
    return np.sqrt(max(total, 0.0)) / m


def test_intervals_follow_their_policies(method, data):
    sure, turned = method.intervals(data), method.intervals(data.select([2, 0, 3, 1]))
    np.testing.assert_array_equal(turned.high, sure.high[np.ix_([2, 0, 3, 1], [2, 0, 3, 1])])
    part = method.intervals(data.select([0, 1]), data.select([2, 3]))
    np.testing.assert_allclose(part.high, sure.high[:2, 2:], rtol=1e-5)
    np.testing.assert_allclose(sure.low, sure.low.T, rtol=1e-5, atol=1e-9)


def test_descriptions_with_influences_suffice(method, data):
    described = method.describe(data, influences=True)
    np.testing.assert_array_equal(method.intervals(described).high, method.intervals(data).high)
    with pytest.raises(UsageError, match="influences=True"):
        method.intervals(method.describe(data))


def test_distances_without_noise_are_those_of_the_intervals(method, data):
    described = method.describe(data, influences=True)
    alone = without_noise(method, described, method.distances(described))
    assert np.allclose(alone, method.intervals(described).distance, rtol=1e-9, atol=1e-12)


def test_a_policy_is_zero_from_itself_on_average(method):
    rng = np.random.default_rng(1)
    gaps = []
    for _ in range(60):
        pair = VisitedStates.from_arrays([walks(rng, 0, n=6), walks(rng, 0, n=6)])
        gaps.append(method.intervals(pair).distance[0, 1])
    assert abs(np.mean(gaps)) < 3 * np.std(gaps) / np.sqrt(len(gaps))


def test_the_permutation_test_divides_episodes_anew(method, data):
    from pivec.statistics import permuted_divisions

    a, b = data[0], data[1]
    joined = VisitedStates.from_arrays([[*a.episodes(), *b.episodes()]])
    [influences] = method.describe(joined, influences=True).influences
    distances = [
        ((influences[side].mean(axis=0) - influences[~side].mean(axis=0)) ** 2).sum()
        for side in permuted_divisions(a.n_episodes, b.n_episodes, 99, np.random.default_rng(3))
    ]
    expected = np.mean(np.array(distances) >= distances[0] * (1 - 1e-9))
    assert method.test(a, b, permutations=99, seed=3).p_value == expected
    if method.name == "visitation":  # the paper's distance sees places in regions alone
        assert method.test(data[0], data[3]).p_value <= 0.002


def test_overlap_is_the_time_in_the_same_regions(data):
    method = characterization("visitation", n_components=5).fit(data)
    described = method.describe(data)
    shares = described.arrays["counts"] / described.arrays["counts"].sum(axis=1, keepdims=True)
    slow = np.array([[np.minimum(p, q).sum() for q in shares] for p in shares])
    np.testing.assert_allclose(method.overlap(described), slow, atol=1e-12)
    # What chance does to the shares is taken off.
    known = method.overlap(method.describe(data, influences=True))
    assert known[0, 1] > slow[0, 1]
    assert known[0, 3] == pytest.approx(slow[0, 3], abs=0.05)


def test_one_episode_has_no_interval(method):
    rng = np.random.default_rng(2)
    data = VisitedStates.from_arrays([walks(rng, 0), walks(rng, 1, n=1)], labels=["many", "one"])
    with pytest.warns(PivecWarning, match="'one' has a single episode"):
        sure = method.intervals(data)
    assert np.isnan(sure.high[0, 1])
    assert sure.distance[0, 1] > 0


def test_equal_episodes_have_intervals_of_no_width(method):
    rng = np.random.default_rng(2)
    still = [np.zeros((9, 3))] * 4
    data = VisitedStates.from_arrays([still, [np.ones((9, 3))] * 4], labels=["still", "other"])
    with pytest.warns(PivecWarning, match="all alike"):
        sure = method.intervals(data)
    assert sure.low[0, 1] == sure.high[0, 1] == sure.distance[0, 1] > 0
    assert sure.p_value[0, 1] == 0
    moving = walks(rng, 0)
    copies = VisitedStates.from_arrays([moving, moving], labels=["a", "b"])
    with pytest.warns(PivecWarning, match="copies are not samples"):
        method.intervals(copies)


def test_a_test_needs_a_policy_on_each_side(method, data):
    with pytest.raises(UsageError, match="one policy on each side"):
        method.test(data, data[0])


def test_no_interval_is_longer_than_the_largest_distance():
    rng = np.random.default_rng(0)
    few = VisitedStates.from_arrays([walks(rng, place, n=2) for place in (0, 0, 1, 3)])
    method = characterization("visitation", n_components=4).fit(few)
    described = method.describe(few, influences=True)
    i, j = np.triu_indices(4, 1)
    sure = method.intervals(described)
    pairs = method.pair_intervals(described, i, j, method.distances(described)[i, j])
    assert sure.high.max() == pairs.high.max() == 1.0
    assert (sure.distance[i, j] <= sure.high[i, j]).all()
