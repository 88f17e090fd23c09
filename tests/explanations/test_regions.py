"""Regions: their words, who visits them, when, and where nearest to the middle."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pivec.characterizations.visitation import Visitation
from pivec.explanations import region_words as words_of
from pivec.explanations.names import Feature
from pivec.explanations.region_words import MIDDLE, region_ranges, region_words, written
from pivec.mixtures.mixture import Mixture


def fitted(mixture):
    """Make a characterization of a mixture, as if it had been fitted."""
    method = Visitation(n_components=mixture.n_components)
    for name in ("weights", "means", "variances", "center", "scale"):
        setattr(method, f"{name}_", getattr(mixture, name))
    return method


@pytest.fixture(scope="module")
def mixture():
    rng = np.random.default_rng(1)
    return Mixture(
        rng.dirichlet(np.ones(5)), rng.normal(size=(5, 3)), rng.uniform(0.01, 1, (5, 3)),
        [1.0, -200.0, 0.0], [2.0, 50.0, 0.001],
    )  # fmt: skip


def test_ranges_hold_four_fifths_of_a_region(mixture):
    for k, region in enumerate(region_ranges(mixture)):
        for d, (low, high) in enumerate(region):
            mean = mixture.center[d] + mixture.scale[d] * mixture.means[k, d]
            normal = stats.norm(mean, mixture.scale[d] * np.sqrt(mixture.variances[k, d]))
            assert normal.cdf([low, high]) == pytest.approx([0.1, 0.9], rel=1e-9)


def test_quantiles_of_the_mixture_are_those_of_its_marginals(mixture):
    for share in (0.05, 0.5, 0.95):
        quantiles = words_of._quantiles(mixture, share)
        normal = stats.norm(mixture.means, np.sqrt(mixture.variances))
        assert mixture.weights @ normal.cdf(quantiles) == pytest.approx([share] * 3, rel=1e-9)


def test_divergences_are_integrals(mixture):
    mean, deviation = words_of._overall(mixture)
    normal = stats.norm(mixture.means, np.sqrt(mixture.variances))
    x = np.linspace(-12, 12, 60_001)[:, None, None]
    density = normal.pdf(x)
    slow = np.trapezoid(density * (normal.logpdf(x) - stats.norm(mean, deviation).logpdf(x)),
                        x[:, 0, 0], axis=0)  # fmt: skip
    fast = words_of._divergence(mixture.means, mixture.variances, mean, deviation**2)
    assert fast == pytest.approx(slow, rel=1e-6)
    shares = words_of._divergence_of_shares(np.array([0.2, 0.0, 1.0]), np.array([0.5, 0.25, 0.5]))
    slow = [0.2 * np.log(0.4) + 0.8 * np.log(1.6), np.log(1 / 0.75), np.log(2)]
    assert shares == pytest.approx(slow)


def test_a_region_is_told_by_what_sets_it_apart():
    # Three regions that differ in the second feature alone; the third is narrow in one of them.
    model = fitted(
        Mixture(
            [0.4, 0.4, 0.2],
            [[0.0, -1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]],
            [[1.0, 0.01, 1.0], [1.0, 0.01, 0.01], [1.0, 0.01, 1.0]],
            [0.0, 10.0, 0.0],
            [1.0, 5.0, 1.0],
        )
    )
    features = (Feature("a"), Feature("speed", "m/s"), Feature("c"))
    assert region_words(model, features) == (
        "speed below 5.6 m/s",
        "speed 9.4 to 10.6 m/s, c −0.13 to 0.13",
        "speed above 19.4 m/s",
    )


def test_regions_without_anything_special_still_differ():
    model = fitted(Mixture([0.5, 0.5], [[-0.1], [0.1]], [[1.0], [1.0]], [0.0], [1.0]))
    words = region_words(model, (Feature("x"),))
    assert words == ("x −1.4 to 1.2", "x −1.2 to 1.4")
    alone = fitted(Mixture([1.0], [[0.0]], [[1.0]], [0.0], [1.0]))
    assert region_words(alone, (Feature("x"),)) == (MIDDLE,)
    same = fitted(Mixture([0.5, 0.5], [[0.0], [0.0]], [[1.0], [1.0]], [0.0], [1.0]))
    assert region_words(same, (Feature("x"),)) == (f"{MIDDLE} (0)", f"{MIDDLE} (1)")


def flags(*shares):
    """Make a model of regions in which a flag is 1 so often; and a number that says nothing."""
    p = np.array(shares)[:, None]
    n = len(p)
    ones = np.ones((n, 1))
    return fitted(
        Mixture(
            np.full(n, 1 / n),
            np.hstack([p, 0 * ones]),
            np.hstack([p - p**2 + 1e-7, ones]),
            [0.0, 0.0],
            [1.0, 1.0],
        )
    )


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        (Feature("legs touch", absent="legs in the air"), ("legs touch", "legs in the air")),
        (Feature("x=3", absent=""), ("x=3", MIDDLE)),
        (Feature("x[6]"), ("x[6] = 1", "x[6] = 0")),
    ],
)
def test_flags_are_told_in_words(feature, words):
    assert region_words(flags(1.0, 0.0), (feature, Feature("y"))) == words


def test_a_flag_that_is_so_at_times_is_told_with_its_share():
    model = flags(0.6, 0.0, 0.0, 0.0, 0.0)
    words = region_words(model, (Feature("row 1", absent=""), Feature("y")))
    assert words[0] == "row 1 (60 %)"


def test_what_is_not_0_or_1_is_no_flag():
    """Whatever its name says; and small numbers are not zeros."""
    model = fitted(Mixture([0.7, 0.3], [[1.0], [3.0]], [[0.1], [0.1]], [0.0], [1.0]))
    assert region_words(model, (Feature("mode=3", absent=""),))[1] == "mode=3 above 2.6"
    small = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.1], [0.1]], [0.0], [1e-4])
    assert not words_of._flags(small).any()


def test_a_feature_that_never_changes_is_not_told():
    model = fitted(Mixture([0.5, 0.5], [[0.0, -1.0], [0.0, 1.0]], [[1e-6, 0.1], [1e-6, 0.1]],
                           [7.0, 0.0], [1.0, 1.0]))  # fmt: skip
    assert all("x" not in words for words in region_words(model, (Feature("x"), Feature("y"))))


def test_a_point_has_no_range():
    model = fitted(Mixture([0.5, 0.5], [[-1.0], [1.0]], [[1e-6], [1.0]], [0.0], [1.0]))
    assert region_words(model, (Feature("x"),))[0] == "x about −1.00"


def test_numbers_have_the_digits_that_their_spread_needs():
    assert written(1e7, 5) == "1e+07"
    assert written(-1234567.0, 5) == "−1.2e+06"
    assert written(0.1234, -2) == "0.12"
