"""Evidence that holds however often one looks."""

import numpy as np
import pytest
from scipy import stats

from pivec.statistics import distance_bounds, episodes_to_see, log_evidence, view_weights
from pivec.statistics.sequential import log_density_ratio


@pytest.mark.parametrize("freedom", [0.5, 1, 2, 9, 70, 81, 82, 300])
def test_density_ratios_are_those_of_scipy(freedom):
    drawn = np.array([0.1, 1.0, 8.0, 60.0, 300.0])[:, None]
    center = np.array([1e-7, 0.01, 1.0, 20.0, 200.0])
    direct = stats.ncx2.logpdf(drawn, freedom, center) - stats.chi2.logpdf(drawn, freedom)
    found = log_density_ratio(drawn, freedom, center)
    known = np.isfinite(direct)  # scipy's densities underflow
    assert known.mean() > 0.5
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[known], direct[known], rtol=1e-6, atol=1e-6)


def test_evidence_is_a_mean_of_likelihood_ratios():
    distance, slope, second, margin = 0.03, 0.01, 4e-5, 0.02
    scale = slope / 4
    freedom = second / (2 * scale**2)
    drawn = distance / scale + freedom

    def density(d):
        return stats.ncx2.pdf(drawn, freedom, d / scale) if d else stats.chi2.pdf(drawn, freedom)

    below = 0.85 * density(0) + 0.05 * sum(density(c * margin) for c in (0.125, 0.35, 0.7))
    above = np.mean([density(c * margin) for c in (1.25, 1.5, 2, 3, 5, 10, 20)])
    found = log_evidence(distance, slope, second, margin)
    np.testing.assert_allclose(np.exp(found), np.array([below, above]) / density(margin))


def test_what_does_not_vary_is_certain_and_what_is_unknown_is_not():
    below, above = log_evidence([0.01, 0.03, np.nan], [0, 0, 1], [0, 0, 1], 0.02)
    np.testing.assert_array_equal(below, [np.inf, -np.inf, 0])
    np.testing.assert_array_equal(above, [-np.inf, np.inf, 0])
    assert distance_bounds(0.01, 0.0, 0.0, 0.05) == (0.01, 0.01)
    assert distance_bounds(np.nan, 0.0, 0.0, 0.05) == (0.0, np.inf)


def estimates(sums, n, covariance):
    """Distance without noise of mean vectors and the parts of its variance, as of views."""
    means = sums / n
    squares = (means**2).sum(axis=1)
    noise, second = covariance.sum() / n, 2 * (covariance**2).sum() / n**2
    variance = np.maximum(4 * (means**2 * covariance).sum(axis=1) / n, second)
    slope = np.minimum(variance / squares, 4 * np.sqrt(second / 2))
    return squares - noise, slope, np.full(len(sums), second)


@pytest.mark.parametrize("axes", [2, 9, 40])
def test_errors_at_the_margin_are_rare_at_any_time(axes, rng):
    repetitions, margin, most = 600, 0.02, 1000
    covariance = 1.0 / np.arange(1, axes + 1)
    covariance /= covariance.sum()
    center = np.full(axes, np.sqrt(margin / axes))
    sums, ever = np.zeros((repetitions, axes)), np.zeros((2, repetitions), dtype=bool)
    missed = np.zeros(repetitions, dtype=bool)
    for n in range(10, most + 1, 10):
        sums += 10 * center + rng.normal(size=sums.shape) * np.sqrt(10 * covariance)
        measured = estimates(sums, n, covariance)
        ever |= np.array(log_evidence(*measured, margin)) > np.log(20)
        if n % 100 == 0:
            for i in range(100):
                low, high = distance_bounds(*(float(part[i]) for part in measured), 0.05)
                missed[i] |= not low <= margin <= high
    # 5 % of 600, and 1.6 standard errors of a rate of 5 %.
    assert ever.mean(axis=1).max() < 0.05 + 1.6 * np.sqrt(0.05 * 0.95 / repetitions)
    assert missed[:100].mean() < 0.17  # either end may be wrong in 5 %


def test_evidence_grows_where_it_should(rng):
    axes, repetitions = 5, 200
    for size, side in ((0.0, 0), (0.06, 1)):
        center = np.full(axes, np.sqrt(size / axes))
        sums = 200 * center + rng.normal(size=(repetitions, axes)) * np.sqrt(200 / axes)
        found = log_evidence(*estimates(sums, 200, np.full(axes, 1 / axes)), 0.02)
        assert np.median(found[side]) > np.log(20)
        assert np.median(found[1 - side]) < 0


def test_groups_of_views_have_equal_weights():
    weights = view_weights(["moves", "pairs", "pairs", "pairs", "length"])
    np.testing.assert_allclose(weights, [1 / 3, 1 / 9, 1 / 9, 1 / 9, 1 / 3])


@pytest.mark.parametrize("margin", [0.02, 0.05, 0.2])
def test_rare_habits_are_seen_before_policies_are_the_same(margin):
    n, rare = episodes_to_see(margin, 0.05), 1 - (1 - margin) ** 2  # of a distance of the margin
    assert (1 - rare) ** n <= 0.05 < (1 - rare) ** (n - 1)
