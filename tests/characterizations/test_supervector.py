"""Supervectors against a plain float64 transcription of the paper's equations (1)-(6)."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.characterizations import Supervector
from pivec.errors import PivecError, UsageError
from pivec.states import VisitedStates


def plain_supervector(states, background, center, scale, relevance=16.0):
    """Equations (1)-(5), one component and one state at a time where it is clearest."""
    x = (states.astype(np.float64) - center) / scale
    w, mu, var = background.weights, background.means, background.variances
    log_density = np.stack(
        [
            np.log(w[k])
            - 0.5 * (np.log(2 * np.pi * var[k]) + (x - mu[k]) ** 2 / var[k]).sum(axis=1)
            for k in range(len(w))
        ],
        axis=1,
    )
    top = log_density.max(axis=1, keepdims=True)
    p = np.exp(log_density - top)
    p /= p.sum(axis=1, keepdims=True)  # (1)
    n = p.sum(axis=0)  # (2)
    adapted = np.array(mu)
    for k in range(len(w)):
        if n[k] > 0:
            expected = (p[:, k : k + 1] * x).sum(axis=0) / n[k]  # (3)
            alpha = n[k] / (n[k] + relevance)  # (4)
            adapted[k] = alpha * expected + (1 - alpha) * mu[k]  # (5)
    return adapted


def plain_distance(a, b, background):
    """Equation (6)."""
    w, var = background.weights, background.variances
    return 0.5 * sum(w[k] * ((a[k] - b[k]) ** 2 / var[k]).sum() for k in range(len(w)))


@pytest.fixture
def data(rng):
    places = [0.0, 0.3, 2.0, 2.0, -1.5]
    walks = [
        [
            np.concatenate([rng.normal(p, 1, (40, 4)), rng.normal(-p, 0.3, (30, 4))])
            * [1, 1e-4, 1e4, 3]
            + [0, 1, 1e5, -2]
            for _ in range(3)
        ]
        for p in places
    ]
    walks.append([episode + 1e-5 * rng.normal(size=episode.shape) for episode in walks[2]])
    return VisitedStates.from_arrays(walks)


def test_vectors_and_distances_agree_with_the_equations(data):
    method = Supervector(n_components=8, random_state=1).fit(data)
    background, center, scale = method.background_, method.center_, method.scale_
    vectors = method.describe(data).vectors.reshape(len(data), 8, 4)
    plain = [
        plain_supervector(data.policy_states(i), background, center, scale)
        for i in range(len(data))
    ]
    assert np.allclose(vectors, plain, rtol=1e-4, atol=1e-5)
    d = method.distances(data)
    for i in range(len(data)):
        for j in range(len(data)):
            if i != j:
                assert d[i, j] == pytest.approx(
                    plain_distance(plain[i], plain[j], background), rel=1e-3 if i + j == 7 else 1e-4
                )


def test_nearly_equal_policies_keep_their_digits(rng):
    """Two policies of the same states but for one: the distance is tiny, and right."""
    base = rng.normal(size=(4000, 3))
    other = base.copy()
    other[0] += 0.01
    data = VisitedStates.from_arrays([[base], [other], [base + 1]])
    method = Supervector(n_components=4).fit(data)
    background = method.background_
    plain = [
        plain_supervector(data.policy_states(i), background, method.center_, method.scale_)
        for i in range(2)
    ]
    expected = plain_distance(plain[0], plain[1], background)
    d = method.distances(data)
    assert 0 < expected < 1e-9 * d[0, 2]
    assert d[0, 1] == pytest.approx(expected, rel=1e-4)


def test_a_component_without_data_keeps_its_mean():
    rng = np.random.default_rng(0)
    data = VisitedStates.from_arrays([[rng.normal(0, 1, (200, 2))], [rng.normal(50, 1, (200, 2))]])
    method = Supervector(n_components=2).fit(data)
    offsets = method.describe(data).vectors.reshape(2, 2, 2) - method.background_.means
    far = int(np.argmax(method.background_.means[:, 0]))
    assert np.abs(offsets[0, far]).max() < 1e-12


def test_relevance_pulls_towards_the_background(walks):
    d = {
        r: Supervector(n_components=2, relevance=r).fit(walks).distances(walks)[0, 2]
        for r in (1.0, 16.0, 1000.0)
    }
    assert d[1.0] > d[16.0] > d[1000.0] > 0


def test_a_common_total_is_a_relevance_factor_for_each_policy(data):
    method = Supervector(n_components=8, common_total=500).fit(data)
    vectors = method.describe(data).vectors.reshape(len(data), 8, 4)
    for i, vector in enumerate(vectors):
        states = data.policy_states(i)
        plain = plain_supervector(
            states, method.background_, method.center_, method.scale_, 16.0 * len(states) / 500
        )
        assert np.allclose(vector, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("adapt", ["m", "mw", "mwv"])
def test_with_a_common_total_the_same_states_twice_are_the_same_policy(rng, adapt):
    once = [rng.normal(0.5, 1, (60, 2))]
    data = VisitedStates.from_arrays([once, once * 2, [rng.normal(0, 1, (60, 2))]])
    plain = Supervector(n_components=4, adapt=adapt).fit(data).distances(data)
    common = Supervector(n_components=4, adapt=adapt, common_total=1000).fit(data).distances(data)
    assert plain[0, 1] > 1e-3 * plain[0, 2]
    assert common[0, 1] == pytest.approx(0, abs=1e-9 * common[0, 2])


@pytest.mark.parametrize(
    ("name", "value"), [("common_total", 0), ("common_total", float("nan")), ("relevance", -1)]
)
def test_amounts_that_cannot_be_are_told_before_the_fit(walks, name, value):
    with pytest.raises(UsageError, match=rf"{name} must be a number above 0.*but is {value}"):
        Supervector(n_components=2, **{name: value}).fit(walks)


def test_more_components_than_states_is_said():
    data = VisitedStates.from_arrays([[np.random.default_rng(0).normal(size=(5, 2))]])
    with pytest.raises(PivecError, match="64"):
        Supervector(n_components=64).fit(data)


def test_held_out_likelihood_is_that_of_scikit_learn(rng):
    from sklearn.mixture import GaussianMixture

    centers = rng.normal(0, 4, (12, 5))
    widths = rng.uniform(0.2, 1.0, (12, 5))

    def draw(n):
        which = rng.integers(12, size=n)
        return (centers[which] + widths[which] * rng.normal(size=(n, 5))).astype(np.float32)

    train, held_out = draw(20_000), draw(10_000)
    data = VisitedStates.from_arrays([[train]])
    ours = Supervector(n_components=12).fit(data)
    standard = (train - ours.center_) / ours.scale_
    test = (held_out - ours.center_) / ours.scale_
    theirs = max(
        GaussianMixture(12, covariance_type="diag", random_state=s).fit(standard).score(test)
        for s in range(3)
    )
    assert ours.background_.score(held_out) > theirs - 0.01


def test_caps_bound_what_is_fitted_and_not_what_is_described(walks):
    method = Supervector(n_components=2, max_states=100, max_policies=4, max_episodes=2).fit(walks)
    assert len(method.describe(walks)) == len(walks)
    full = Supervector(n_components=2).fit(walks)
    assert not np.array_equal(method.center_, full.center_)
    # The mean of 100 states of deviation 1 around places within 1 of each other.
    assert np.allclose(method.center_, full.center_, atol=0.5)


def plain_adaptation(states, method):
    """Reynolds 2000, equations 11-13, as they are printed."""
    background, r = method.background_, method.relevance
    x = (states.astype(np.float64) - method.center_) / method.scale_
    w, mu, var = background.weights, background.means, background.variances
    log_density = np.log(w) - 0.5 * (np.log(2 * np.pi * var) + (x[:, None] - mu) ** 2 / var).sum(
        axis=2
    )
    p = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    n = p.sum(axis=0)[:, None]
    first, second = p.T @ x / n, p.T @ x**2 / n
    alpha = n / (n + r)
    weights = (alpha * n / len(x) + (1 - alpha) * w[:, None])[:, 0]
    means = alpha * first + (1 - alpha) * mu
    variances = alpha * second + (1 - alpha) * (var + mu**2) - means**2
    return weights / weights.sum(), means, variances


def plain_bound(a, b):
    (w, m, v), (x, n, u) = a, b
    kl = 0.5 * (np.log(u / v) + (v + (m - n) ** 2) / u - 1).sum(axis=1)
    return (w * (np.log(w / x) + kl)).sum()


@pytest.mark.parametrize("adapt", ["mw", "mwv"])
def test_weights_and_variances_agree_with_the_equations(data, adapt):
    method = Supervector(n_components=4, adapt=adapt).fit(data)
    described = method.describe(data)
    plain = [plain_adaptation(data.policy_states(i), method) for i in range(len(data))]
    if adapt == "mw":
        plain = [(w, m, method.background_.variances) for w, m, _ in plain]
    else:
        assert np.allclose(described.arrays["variances"], [v for *_, v in plain], rtol=1e-4)
    assert np.allclose(described.arrays["weights"], [w for w, *_ in plain], rtol=1e-4)
    width = 4 + 4 * data.n_features * (1 if adapt == "mw" else 2)
    assert described.vectors.shape == (len(data), width)
    expected = np.array([[plain_bound(a, b) + plain_bound(b, a) for b in plain] for a in plain])
    d = method.distances(data)
    apart = ~np.eye(len(data), dtype=bool)
    apart[2, 5] = apart[5, 2] = False  # nearly equal: float32 sums
    assert np.allclose(d[apart], expected[apart], rtol=1e-3)


def test_only_weights_see_how_often_a_region_is_visited(rng):
    """Three regions, visited equally, or one far more often; where in a region is the same.

    With much data of every region the adapted means are those of the regions for both policies,
    and the means alone call the two equal. The third policy visits them elsewhere by a little,
    which the means see.
    """

    def visits(shares, n, shift=0.0):
        places = np.repeat([-10.0, 0.0, 10.0], (np.array(shares) * n).astype(int))
        return [rng.normal(places[:, None] + shift, 1, (len(places), 2))]

    gaps = {}
    for n in (3_000, 60_000):
        data = VisitedStates.from_arrays(
            [
                visits([1 / 3, 1 / 3, 1 / 3], n),
                visits([0.8, 0.1, 0.1], n),
                visits([1 / 3] * 3, n, 0.5),
            ]
        )
        for adapt in ("m", "mw", "mwv"):
            d = Supervector(n_components=3, adapt=adapt).fit(data).distances(data)
            gaps[adapt, n] = d[0, 1], d[0, 2]
    often, elsewhere = gaps["m", 60_000]
    assert often < 0.01 * elsewhere
    for adapt in ("mw", "mwv"):
        often, _ = gaps[adapt, 60_000]
        # Σ (w − w′) (log w − log w′) by hand
        w, x = np.array([1, 1, 1]) / 3, np.array([0.8, 0.1, 0.1])
        assert often == pytest.approx(((w - x) * np.log(w / x)).sum(), rel=0.02)


def test_only_variances_see_how_widely(rng):
    data = VisitedStates.from_arrays([[rng.normal(0, s, (5000, 2))] for s in (1.0, 2.0, 1.0)])
    for adapt, sees in (("m", False), ("mw", False), ("mwv", True)):
        d = Supervector(n_components=1, adapt=adapt).fit(data).distances(data)
        assert (d[0, 1] > 1) == sees


def test_an_unknown_adaptation_is_named(walks):
    with pytest.raises(PivecError, match="'mv'"):
        Supervector(n_components=2, adapt="mv").fit(walks)
