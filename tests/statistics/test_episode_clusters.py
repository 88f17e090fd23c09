"""Episodes as data points: the test of two sets of them, and kinds of them."""

import numpy as np
import pytest

from pivec.statistics import cluster_episodes, mmd_test, mmd_tests, wilson_intervals


def slow_mmd(a, b):
    """The U-statistic by its definition."""
    both = np.concatenate([a, b])
    squares = ((both[:, None] - both) ** 2).sum(axis=2)
    median = np.median([squares[i, j] for i in range(len(both)) for j in range(i)])

    def mean(x, y, same):
        pairs = [(i, j) for i in range(len(x)) for j in range(len(y)) if not (same and i == j)]
        return np.mean([np.exp(-((x[i] - y[j]) ** 2).sum() / median) for i, j in pairs])

    return mean(a, a, True) + mean(b, b, True) - 2 * mean(a, b, False)


def test_the_discrepancy_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(7, 3)), rng.normal(0.5, 2.0, size=(5, 3))
    test = mmd_test(a, b, permutations=99)
    assert test.distance == pytest.approx(slow_mmd(a, b))
    # The p-value is that of all divisions of the twelve episodes, up to chance.
    both = np.concatenate([a, b])
    divisions = [rng.permutation(12) for _ in range(400)]
    values = [slow_mmd(both[order[:7]], both[order[7:]]) for order in divisions]
    assert test.p_value == pytest.approx(np.mean(np.array(values) >= test.distance), abs=0.1)


def test_equal_episodes_do_not_differ():
    same = np.ones((4, 2))
    assert mmd_test(same, same).p_value == 1.0
    with pytest.raises(ValueError, match="two episodes"):
        mmd_test(same[:1], same)


def test_many_pairs_have_q_values():
    rng = np.random.default_rng(0)
    episodes = [rng.normal(place, 0.1, (12, 2)) for place in (0, 0, 1)]
    mmd, p, q = mmd_tests(episodes, [(0, 1), (0, 2), (1, 2)])
    assert mmd[0] < 0.1 < mmd[1:].min()
    assert (q >= p).all()
    assert q[0] > 0.05 > q[1:].max()


@pytest.mark.slow
def test_the_level_of_the_test_is_that_asked_for():
    rng = np.random.default_rng(1)
    p = []
    for number in range(2000):
        # Skewed, of unequal numbers.
        rows = rng.exponential(size=(22, 3)) ** 2
        p.append(mmd_test(rows[:8], rows[8:], permutations=199, seed=number).p_value)
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.015)


def test_clusters_are_found_where_there_are_any():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 20))
    kinds = np.repeat([0, 1, 2, 3], [25, 20, 10, 5])
    points = centres[kinds] + rng.normal(0.0, 0.2, (60, 20))
    found = cluster_episodes(points)
    assert (found.assign(points)[0] == kinds).all()
    assert 0.5 < found.separation < 1.0


@pytest.mark.parametrize("n_values", [1, 3, 30])
def test_noise_is_one_kind(n_values):
    rng = np.random.default_rng(0)
    numbers = [len(cluster_episodes(rng.normal(size=(60, n_values))).centres) for _ in range(10)]
    assert numbers.count(1) >= 8
    assert len(cluster_episodes(np.zeros((30, n_values))).centres) == 1
    assert len(cluster_episodes(rng.normal(size=(1, n_values))).centres) == 1


def test_intervals_of_shares_cover_them():
    rng = np.random.default_rng(0)
    for n, share in ((10, 0.1), (20, 0.5), (100, 0.9)):
        low, high = wilson_intervals(rng.binomial(n, share, 4000), n)
        assert np.mean((low <= share) & (share <= high)) == pytest.approx(0.95, abs=0.035)
