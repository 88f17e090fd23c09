"""Near-duplicates, order and coverage of episodes: by definition, under chance, and planted."""

import numpy as np
import pytest
from scipy.stats import f as f_distribution

from pivec.statistics import near_duplicates, order_test, reached_share, wilson_intervals


def pairs_of(points):
    rows, others, *_ = near_duplicates(points)
    return {(min(pair), max(pair)) for pair in zip(rows.tolist(), others.tolist(), strict=True)}


# ---- near-duplicates ----


def slow_p(points, row, group):
    """The p-value of the gap after the neighbours in a group, by the F distribution."""
    distances = np.sort(np.sqrt(((points - points[row]) ** 2).sum(axis=1)))[1:21]
    gaps = [j * np.log(distances[j] / distances[j - 1]) for j in range(1, len(distances))]
    after = gaps[group:]
    ratio = gaps[group - 1] / np.mean(after)
    return f_distribution.sf(ratio, 2, 2 * len(after)), distances[group - 1] / distances[group]


@pytest.mark.parametrize("gap", [0.3, 0.03, 0.003])
def test_near_duplicates_are_those_of_the_definition(gap):
    rng = np.random.default_rng(3)
    points = rng.normal(size=(60, 5))
    points[10] = points[50] + gap * rng.normal(size=5)
    p, ratio = np.array([slow_p(points, row, 1) for row in (10, 50)]).T
    found = (ratio <= 0.1) & (3 * p <= 0.05 * np.arange(2, 0, -1) / 60)
    assert ((10, 50) in pairs_of(points)) == bool(found.any())
    assert bool(found.any()) == (gap < 0.1)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_copies_are_found_at_any_scale_and_in_groups(scale):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(200, 8))
    for copy, of in ((190, 5), (191, 5), (192, 8)):
        points[copy] = points[of] + 0.01 * rng.normal(size=8)
    assert pairs_of(scale * points) == {(5, 190), (5, 191), (190, 191), (8, 192)}
    nearest, after = near_duplicates(points)[2:]
    apart = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    np.fill_diagonal(apart, np.inf)
    np.testing.assert_allclose(nearest, apart.min(axis=1))
    assert after[5] == pytest.approx(np.sort(apart[5])[2])


def shapes(rng, n):
    """Sets of points without duplicates: thin and thick, in clusters, far away."""
    angle = rng.uniform(0, 6, n)
    yield rng.normal(size=(n, 2))
    yield rng.normal(size=(n, 30))
    yield rng.standard_t(2, size=(n, 5))
    yield np.column_stack([np.sin(angle), np.cos(2 * angle), angle])
    yield 20 * np.eye(3)[rng.integers(3, size=n)] + rng.normal(size=(n, 3))
    yield 10 * np.repeat(rng.normal(size=(n // 5, 4)), 5, axis=0) + rng.normal(size=(n, 4))


def test_chance_rarely_looks_like_a_duplicate():
    rng = np.random.default_rng(1)
    found = np.array([[bool(pairs_of(x)) for x in shapes(rng, 100)] for _ in range(40)])
    assert (found.mean(axis=0) <= 0.15).all()
    assert found.mean() <= 0.05


def test_few_and_wide_episodes():
    assert pairs_of(np.arange(4.0)[:, None]) == set()
    wide = np.random.default_rng(0).normal(size=(80, 1000))
    wide[3] = wide[40] + 1e-4
    assert pairs_of(wide) == {(3, 40)}


# ---- order ----


def test_the_dependence_on_order_is_that_of_its_definition():
    points = np.random.default_rng(0).normal(size=(9, 2))
    squares = ((points[:, None] - points) ** 2).sum(axis=2)
    median = np.median([squares[i, j] for i in range(9) for j in range(i)])
    value = sum(
        np.exp(-squares[i, j] / median)
        * np.cos(np.pi * m * (i + 0.5) / 9)
        * np.cos(np.pi * m * (j + 0.5) / 9)
        / (9 * m) ** 2
        for i in range(9)
        for j in range(9)
        for m in range(1, 5)
    )
    assert order_test(points, 19).distance == pytest.approx(value)
    z = (points - points.mean(axis=0)) / points.std(axis=0)
    values = [
        sum(
            sum(z[i, c] * np.cos(np.pi * m * (i + 0.5) / 9) / (9 * m) for i in range(9)) ** 2
            for m in range(1, 5)
        )
        for c in range(2)
    ]
    assert order_test(points, 19, single=True).distance == pytest.approx(max(values))
    for single in (False, True):
        assert order_test(np.full((20, 3), 0.1), 99, single=single).p_value == 1.0


@pytest.mark.parametrize("single", [False, True])
def test_the_test_of_order_keeps_its_level_and_finds_drift(single):
    rng = np.random.default_rng(0)
    time = np.linspace(0, 1, 60)[:, None]
    level, power = [], []
    for seed in range(200):
        noise = rng.standard_t(3, size=(60, 3))
        level.append(order_test(noise, 99, seed, single=single).p_value <= 0.05)
        if seed < 30:
            shifts = [2.0 * time, 1.5 * (time > 0.5), 2.5 * (time > 0.8)]
            if not single:  # which are means or spreads of episodes
                shifts.append(2.5 * time * noise)
            tests = [order_test(noise + x, 99, seed, single=single) for x in shifts]
            power.append([test.p_value <= 0.05 for test in tests])
    assert 0.02 <= np.mean(level) <= 0.09
    assert (np.mean(power, axis=0) > 0.7).all()


# ---- coverage ----


def slow_distances(a, b):
    """The distance of each state of b from the nearest of each episode of a."""
    pairs = np.sqrt(((b[:, :, None, None] - a) ** 2).sum(axis=4))
    return pairs.min(axis=3)


def slow_share(from_a, from_b, k):
    """The share of states of b that some episode of a visits, as the k-th nearest of b does."""
    hits = [
        from_a[e, t].min() <= sorted(np.delete(from_b[e, t], e))[k - 1]
        for e, t in np.ndindex(from_a.shape[:2])
    ]
    return np.mean(hits)


def test_what_is_reached_is_that_of_its_definition_and_its_variance_the_jackknife():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.7, 1.0, (30, 3, 2)), rng.normal(0.0, 1.0, (75, 3, 2))
    k = 1
    while np.prod([(74 - j) / (104 - j) for j in range(k)]) > 0.01:
        k += 1
    kept = 1 - np.prod([(74 - j) / (104 - j) for j in range(k)])
    measured = reached_share(a, b)
    from_a, from_b = slow_distances(a, b), slow_distances(b, b)
    share = slow_share(from_a, from_b, k)
    assert 0.5 < share < 0.99
    assert measured.share == pytest.approx(share / kept)
    assert measured.resolution == k / 75
    variance = 0.0
    without = [
        [slow_share(np.delete(from_a, i, axis=2), from_b, k) for i in range(len(a))],
        [
            slow_share(
                np.delete(from_a, i, axis=0), np.delete(np.delete(from_b, i, 0), i, axis=2), k
            )
            for i in range(len(b))
        ],
    ]
    for values in without:
        variance += (len(values) - 1) / len(values) * ((values - np.mean(values)) ** 2).sum()
    n = measured.share * (1 - measured.share) / variance
    low, high = wilson_intervals(measured.share * n, n)
    assert measured.high == pytest.approx(high)
    assert measured.low <= low + 1e-9  # lower if few episodes are near


def modes(rng, n, numbers, within):
    """Episodes around places: one each, or all one after the other."""
    places = rng.choice(numbers, (n, 1)) if not within else rng.choice(numbers, (n, 20))
    x = rng.normal(0, 0.5, (n, 1, 4)) + rng.normal(0, 0.5, (n, 20, 4))
    x[:, :, 0] += 10.0 * places
    return x


def excursions(rng, n, share):
    """Random walks in 14 dimensions, of which some end far away: 30 % of the time in these."""
    x = rng.normal(size=(n, 1, 14)) + np.cumsum(rng.normal(0, 0.2, (n, 20, 14)), axis=1)
    x[rng.random(n) < share, -6:] += 12.0
    return x


@pytest.mark.parametrize("n", [30, 60])
def test_intervals_contain_planted_coverage(n):
    rng = np.random.default_rng(2)
    designs = {
        "a mode of five is missing": (0.8, lambda r: (modes(r, n, 4, 0), modes(r, n, 5, 0))),
        "half": (0.5, lambda r: (modes(r, n, 1, 0), modes(r, n, 2, 0))),
        "a fifth of the time": (0.8, lambda r: (modes(r, n, 4, 1), modes(r, n, 5, 1))),
        "the same": (1.0, lambda r: (modes(r, n, 5, 0), modes(r, n, 5, 0))),
        "excursions": (0.88, lambda r: (excursions(r, n, 0), excursions(r, n, 0.4))),
    }
    for name, (truth, make) in designs.items():
        measured = [reached_share(*make(rng)) for _ in range(25)]
        # As printed, in whole percent.
        there = [one.low - 0.005 <= truth <= one.high + 0.005 for one in measured]
        assert np.mean(there) >= 0.85, name
        if n == 60:
            assert np.mean([one.share for one in measured]) == pytest.approx(truth, abs=0.03), name


def test_too_few_episodes_are_not_measured():
    rng = np.random.default_rng(0)
    assert reached_share(rng.normal(size=(8, 5, 2)), rng.normal(size=(50, 5, 2))) is None
    assert reached_share(rng.normal(size=(50, 5, 2)), rng.normal(size=(2, 5, 2))) is None
    assert reached_share(rng.normal(size=(20, 5, 2)), rng.normal(size=(20, 5, 2))) is not None


def test_copies_of_a_dataset_reach_all_of_it():
    states = np.random.default_rng(0).normal(size=(30, 4, 3))
    measured = reached_share(states, states)
    assert (measured.share, measured.high) == (1.0, 1.0)
    assert 0.8 < measured.low < 1.0
    assert reached_share(states + 100.0, states).share == 0.0
