"""Parts of distances: they add up, are what slow formulas give, and name what differs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pivec.characterizations import characterization
from pivec.errors import PivecWarning, UsageError
from pivec.states import VisitedStates

METHODS = {
    "visitation": {"n_components": 4},
    "supervector": {"n_components": 4},
    "gaussian": {},
    "discretization": {"bins": 4},
}
CENTRES = 6.0 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])


def walks(seed, places=(0.0, 0.4, 1.5), episodes=12):
    rng = np.random.default_rng(seed)
    return [
        [rng.normal(place, 1.0, (int(rng.integers(5, 30)), 3)) for _ in range(episodes)]
        for place in places
    ]


def fitted(name, data, **more):
    return characterization(name, **METHODS[name], **more).fit(data)


@pytest.mark.parametrize("name", METHODS)
def test_parts_of_every_level_add_up_to_the_distance(name):
    data = VisitedStates.from_arrays(walks(0))
    method = fitted(name, data)
    for i, j in ((0, 1), (0, 2), (2, 1)):
        parts = method.decompose(data[i], data[j])
        distance = method.distances(data[i], data[j])[0, 0]
        assert parts.distance == pytest.approx(distance, rel=1e-12)
        assert parts.regions.measured.sum() == pytest.approx(distance, rel=1e-9)
        assert parts.finest.measured.sum() == pytest.approx(distance, rel=1e-9)
        kinds = sum(kind.measured for kind in parts.kinds.values())
        np.testing.assert_allclose(kinds, parts.regions.measured, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(parts.finest.measured.sum(axis=1), kinds, rtol=1e-9, atol=1e-15)
        if name != "discretization":  # cells have no features
            rest = parts.distance - parts.features.measured.sum()
            often = parts.kinds["how often"].measured.sum() if "how often" in parts.kinds else 0.0
            assert rest == pytest.approx(often, abs=1e-12)


def test_several_backgrounds_add_up_too():
    data = VisitedStates.from_arrays(walks(1))
    method = fitted("visitation", data, backgrounds=2)
    parts = method.decompose(data[0], data[2])
    assert parts.regions.measured.shape == (8,)
    assert parts.regions.measured.sum() == pytest.approx(parts.distance, rel=1e-9)
    np.testing.assert_allclose(parts.share.reshape(2, 2, 4).sum(axis=2), 1.0)


def test_visitation_parts_are_those_of_the_formula():
    data = VisitedStates.from_arrays(walks(2))
    method = fitted("visitation", data)
    parts = method.decompose(data[0], data[2])
    a, b = (method.describe(data[i]).points.reshape(4, 1 + 6 + 6) for i in (0, 2))
    for k in range(4):
        r, s = np.linalg.norm(a[k]), np.linalg.norm(b[k])
        within = r * s * np.linalg.norm(a[k] / r - b[k] / s) ** 2
        assert parts.kinds["how often"].measured[k] == pytest.approx((r - s) ** 2, rel=1e-9)
        moved = (a[k] / r - b[k] / s)[1:] ** 2
        finest = within * moved / moved.sum()
        np.testing.assert_allclose(parts.finest.measured[k, 1:], finest)
        assert parts.kinds["where"].measured[k] == pytest.approx(finest[:6].sum(), rel=1e-9)
        assert parts.kinds["how wide"].measured[k] == pytest.approx(finest[6:].sum(), rel=1e-9)
    by_feature = parts.finest.measured[:, 1:].reshape(4, 2, 6).sum(axis=(0, 1))
    np.testing.assert_allclose(parts.features.measured, by_feature)
    assert parts.feature_names == ("x[0]", "x[1]", "x[2]", "Δx[0]", "Δx[1]", "Δx[2]")


def test_supervector_and_gaussian_parts_are_those_of_the_formula():
    data = VisitedStates.from_arrays(walks(3))
    method = fitted("supervector", data)
    parts = method.decompose(data[0], data[2])
    a, b = (method.describe(data[i]).vectors.reshape(4, 3) for i in (0, 2))
    expected = 0.5 * method.weights_[:, None] * (a - b) ** 2 / method.variances_
    np.testing.assert_allclose(parts.finest.measured, expected, rtol=1e-9, atol=1e-15)
    parts = fitted("gaussian", data).decompose(data[0], data[2])
    x, y = (data.policy_states(i).astype(np.float64) for i in (0, 2))
    v, w = x.var(axis=0) + 1e-7, y.var(axis=0) + 1e-7
    where = 0.5 * (x.mean(axis=0) - y.mean(axis=0)) ** 2 * (1 / v + 1 / w)
    np.testing.assert_allclose(parts.finest.measured[0, :3], where, rtol=1e-5)
    np.testing.assert_allclose(parts.finest.measured[0, 3:], 0.5 * (v / w + w / v) - 1, rtol=1e-4)


def test_discretization_tells_the_cells_where_they_are(monkeypatch):
    data = VisitedStates.from_arrays(walks(4))
    method = fitted("discretization", data)
    parts = method.decompose(data[0], data[2])
    x, y = (data.policy_states(i) for i in (0, 2))
    for r in parts.order[:5]:
        low, high = parts.ranges[r].T
        inside = [((s >= low) & (s < high)).all(axis=1).mean() for s in (x, y)]
        np.testing.assert_allclose(parts.share[:, r], inside)
        assert parts.regions.measured[r] == pytest.approx(abs(inside[0] - inside[1]) / 2)
    # All cells beyond the most different ones are one part.
    monkeypatch.setattr("pivec.characterizations.discretization._MAX_CELLS", 5)
    few = method.decompose(data[0], data[2])
    assert len(few.words) == 6
    assert few.regions.measured.sum() == pytest.approx(parts.distance, rel=1e-9)
    np.testing.assert_allclose(few.regions.measured[:5], parts.regions.measured[:5])
    assert few.regions.low[-1] > 0


def test_shares_shifts_and_their_intervals_are_those_of_a_slow_jackknife():
    data = VisitedStates.from_arrays(walks(5))
    method = fitted("visitation", data)
    parts = method.decompose(data[0], data[2], level=0.9)
    rows = [[moves(episode) for episode in policy] for policy in walks(5)]
    faces = [slow_faces(method, rows[i]) for i in (0, 2)]
    rests = [
        [slow_faces(method, rows[i][:e] + rows[i][e + 1 :]) for e in range(len(rows[i]))]
        for i in (0, 2)
    ]
    from scipy.stats import t

    reach = t.ppf(0.95, 11)
    variance = []
    for side in (0, 1):
        share, mean = faces[side]
        np.testing.assert_allclose(parts.share[side], share, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(parts.means[side], mean, rtol=1e-4, atol=1e-5)
        left = np.array([rest[0] for rest in rests[side]])
        spread = 11 / 12 * ((left - left.mean(axis=0)) ** 2).sum(axis=0)
        spread += (method.weights_ - share) ** 2 / (12 * 13)  # one more episode, of the background
        root = np.sqrt(share + 0.5 * method.weights_ / 13)
        error = reach * np.sqrt(spread) / (2 * root)
        low, high = np.maximum(root - error, 0.0) ** 2, (root + error) ** 2
        np.testing.assert_allclose(parts.share_low[side], low, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(parts.share_high[side], np.minimum(high, 1), rtol=1e-3)
        left = np.array([rest[1] for rest in rests[side]])
        variance.append(11 / 12 * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
    averages = [np.mean([episode.mean(axis=0) for episode in rows[i]], axis=0) for i in (0, 2)]
    np.testing.assert_allclose(parts.averages, averages, rtol=1e-4, atol=1e-5)
    assert (parts.average_shift_low < parts.average_shift).all()
    np.testing.assert_allclose(parts.average_shift, averages[1] - averages[0], rtol=1e-4)
    spreads, errors = slow_spreads(rows[0], rows[2])
    np.testing.assert_allclose(parts.spreads, spreads, rtol=1e-4)
    ratio = spreads[1] / spreads[0]
    np.testing.assert_allclose(parts.spread_ratio, ratio, rtol=1e-4)
    np.testing.assert_allclose(parts.spread_ratio_low, ratio / np.exp(reach * errors), rtol=1e-3)
    np.testing.assert_allclose(parts.spread_ratio_high, ratio * np.exp(reach * errors), rtol=1e-3)
    shift = faces[1][1] - faces[0][1]
    np.testing.assert_allclose(parts.shift, shift, rtol=1e-3, atol=1e-5)
    high = shift + reach * np.sqrt(variance[0] + variance[1])
    np.testing.assert_allclose(parts.shift_high, high, rtol=1e-3, atol=1e-4)


def moves(states):
    """All states but the last, with their steps to the next."""
    states = states.astype(np.float32).astype(np.float64)
    return np.hstack([states[:-1], np.diff(states, axis=0)])


def slow_spreads(a, b):
    """Deviations over all time, every episode counting the same, and the error of their ratio."""

    def spread(episodes):
        mean = np.mean([e.mean(axis=0) for e in episodes], axis=0)
        return np.sqrt(np.mean([((e - mean) ** 2).mean(axis=0) for e in episodes], axis=0))

    variance = 0.0
    for own in (a, b):
        n = len(own)
        left = np.array([np.log(spread(own[:e] + own[e + 1 :])) for e in range(n)])
        variance += (n - 1) / n * ((left - left.mean(axis=0)) ** 2).sum(axis=0)
    return np.array([spread(a), spread(b)]), np.sqrt(variance)


def slow_faces(method, episodes):
    """Shares of an average episode in the regions, and means there, straight from the densities."""
    counts, sums = np.zeros(4), np.zeros((4, 6))
    for states in episodes:
        z = (states - method.center_) / method.scale_
        logits = np.log(method.weights_) - 0.5 * (
            ((z[:, None] - method.means_) ** 2 / method.variances_).sum(axis=2)
            + np.log(2 * np.pi * method.variances_).sum(axis=1)
        )
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True) * len(states)
        counts += shares.sum(axis=0)
        sums += shares.T @ states
    return counts / len(episodes), sums / counts[:, None]


def test_the_only_part_has_about_the_interval_of_the_distance():
    data = VisitedStates.from_arrays(walks(6, episodes=30))
    for name in ("visitation", "supervector"):
        method = characterization(name, n_components=1).fit(data)
        parts = method.decompose(data[0], data[2])
        assert parts.regions.estimate[0] == pytest.approx(parts.estimate, rel=0.02)
        assert parts.regions.low[0] == pytest.approx(parts.low, rel=0.05)
        assert parts.regions.high[0] == pytest.approx(parts.high, rel=0.05)


def constructed(seed, shift, episodes=50):
    """Two policies that differ in one feature of one region alone."""
    rng = np.random.default_rng(seed)
    policies = []
    for moved in (0.0, shift):
        region = rng.integers(len(CENTRES), size=(episodes, 12))
        states = CENTRES[region] + 0.7 * rng.normal(size=(episodes, 12, 3))
        states[region == 2, 1] += moved
        policies.append(list(states))
    return VisitedStates.from_arrays(policies)


def names_what_differs(seed, name):
    data = constructed(seed, shift=0.7)
    places = {"of": "states"} if name == "visitation" else {}
    method = characterization(name, n_components=5, random_state=seed, **places).fit(data)
    parts = method.decompose(data[0], data[1])
    first = parts.order[0]
    kind_and_feature = parts.columns[int(parts.finest.measured[first].argmax())]
    region = ((CENTRES - parts.ranges[first].mean(axis=1)) ** 2).sum(axis=1).argmin()
    sure = not parts.regions.noise[first]
    return sure and region == 2 and kind_and_feature == ("where", 1)


@pytest.mark.parametrize(
    "name", ["visitation", pytest.param("supervector", marks=pytest.mark.slow)]
)
def test_the_first_part_names_what_was_made_to_differ_in_100_of_100_seeds(name):
    assert sum(names_what_differs(seed, name) for seed in range(100)) == 100


def test_equal_behaviour_is_marked_as_noise():
    reference = constructed(0, 0.0)
    method = characterization("visitation", n_components=5).fit(reference)
    marked = 0
    for seed in range(1, 31):
        data = constructed(seed, 0.0, episodes=15)
        parts = method.decompose(data[0], data[1])
        marked += not parts.regions.noise.all()
    assert marked <= 5  # of 30; 1.5 are to be expected


def test_descriptions_with_influences_tell_nearly_the_same():
    data = VisitedStates.from_arrays(walks(7, episodes=40))
    method = fitted("visitation", data)
    parts = method.decompose(data[0], data[2])
    rows = [method.describe(data[i], influences=True) for i in (0, 2)]
    same = method.decompose(*rows)
    np.testing.assert_allclose(same.regions.measured, parts.regions.measured, rtol=1e-6)
    np.testing.assert_allclose(same.share, parts.share, rtol=1e-6)
    for ends in ("low", "high"):
        expected = getattr(parts.regions, ends)
        np.testing.assert_allclose(getattr(same.regions, ends), expected, rtol=0.05, atol=1e-4)
    mixed = method.decompose(rows[0], data[2])
    np.testing.assert_allclose(mixed.share, parts.share, rtol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_single_episodes_and_copies_have_a_defined_answer(name):
    rows = walks(8)
    data = VisitedStates.from_arrays(rows)
    method = fitted(name, data)
    single = VisitedStates.from_arrays([[episodes[0]] for episodes in rows])
    with pytest.warns(PivecWarning, match="single episode"):
        parts = method.decompose(single[0], single[2])
    assert parts.regions.measured.sum() == pytest.approx(parts.distance, rel=1e-9)
    assert np.isnan(parts.regions.low).all()
    assert np.isnan(parts.share_low).all()
    assert parts.regions.noise.all()
    with pytest.warns(PivecWarning, match="identical episodes"):
        parts = method.decompose(data[0], data[0])
    assert parts.distance == 0.0
    assert parts.regions.noise.all()
    parts.figure()


def test_what_cannot_be_explained_says_so():
    data = VisitedStates.from_arrays(walks(9))
    method = fitted("supervector", data)
    with pytest.raises(UsageError, match="3 and 1"):
        method.decompose(data, data[0])
    with pytest.raises(UsageError, match="str"):
        method.decompose(data[0], "other")
    described = [method.describe(data[i], influences=True) for i in (0, 1)]
    with pytest.raises(UsageError, match="supervector"):
        method.decompose(*described)
    for other, words in (
        (characterization("mmd"), "visitation"),
        (characterization("transitions"), "discretization"),
        (characterization("gaussian", covariance="full"), "covariance='diagonal'"),
        (characterization("supervector", n_components=2, adapt="mw"), "adapt='m'"),
    ):
        with pytest.raises(UsageError, match=words):
            other.fit(data).decompose(data[0], data[1])


def test_the_result_is_a_table_a_figure_json_and_harmless_html():
    hostile = "<script>alert(1)</script>"
    data = VisitedStates.from_arrays(
        walks(10), labels=[hostile, "b", "c"], feature_names=["x", "<img src=x>", "$z$"]
    )
    method = fitted("visitation", data)
    parts = method.decompose(data[0], data[2])
    table = parts.table()
    assert list(table["part"]) == sorted(table["part"], reverse=True)
    assert table["share"].sum() == pytest.approx(1.0)
    shown = parts._repr_html_()
    assert "<script" not in shown
    assert "<img src=x>" not in shown
    assert "&lt;script&gt;" in shown
    content = json.loads(json.dumps(parts.to_json(), allow_nan=False))
    assert content["labels"] == [hostile, "c"]
    assert sum(content["regions"]["measured"]) == pytest.approx(parts.distance)
    named = parts.named(("a", "b", "c", "d"), ("1", "2", "3"))
    assert {row["words"] for row in named.rows()} == {"a", "b", "c", "d"}
    assert "make up" in parts.headline()


@pytest.mark.parametrize("name", ["visitation", "discretization"])
def test_many_episodes_are_left_out_in_groups(name, monkeypatch):
    data = VisitedStates.from_arrays(walks(11, episodes=60))
    method = fitted(name, data)
    whole = method.decompose(data[0], data[2])
    monkeypatch.setattr("pivec.characterizations.decomposition._GROUPS", 20)
    grouped = method.decompose(data[0], data[2])
    first = whole.order[0]
    widths = [(p.share_high - p.share_low)[0, first] for p in (whole, grouped)]
    assert widths[1] == pytest.approx(widths[0], rel=0.5)
    assert widths[1] != widths[0]


def places(rng, weights, episodes=20):
    """Walks that jump between twelve places in three clusters, so often each."""
    centres = np.array([[10 * (k // 4), k % 4] for k in range(12)])
    own = np.array(weights) / np.sum(weights)
    return [
        centres[rng.choice(12, 60, p=own)] + rng.normal(0, 0.2, (60, 2)) for _ in range(episodes)
    ]


def test_similar_regions_are_merged_and_add_up():
    rng = np.random.default_rng(0)
    often = [[4] * 4 + [1] * 4 + [2] * 4, [1] * 4 + [4] * 4 + [2] * 4]
    data = VisitedStates.from_arrays([places(rng, weights) for weights in often])
    method = characterization("visitation", n_components=12, of="states").fit(data)
    found = method.decompose(data[0], data[1], n_groups=3)
    merged = found.merged
    assert merged is not None
    assert method.decompose(data[0], data[1]).merged is None
    for k, own in enumerate(map(list, merged.members)):
        for level in ("regions", "finest"):
            for name in ("measured", "estimate"):  # noise adds up
                whole, parts = (getattr(getattr(x, level), name) for x in (merged, found))
                np.testing.assert_allclose(whole[k], parts[own].sum(axis=0), atol=1e-12)
        np.testing.assert_allclose(merged.share[:, k], found.share[:, own].sum(axis=1))
        # Parts of regions are hardly correlated: the interval is narrower than all of theirs.
        width, widths = (x.regions.high - x.regions.low for x in (merged, found))
        assert 0 < width[k] < widths[own].sum()
        # Regions in which one is more often are not merged with those in which the other is.
        certain = [r for r in own if not found.kinds["how often"].noise[r]]
        assert abs(np.sign(found.share[1] - found.share[0])[certain].sum()) == len(certain)
        # All are of one cluster.
        assert len({round(found.ranges[r, 0].mean() / 10) for r in own}) == 1
    first = merged.order[0]
    assert len(merged.members[first]) == 4
    assert sum(map(len, merged.members)) == 8  # others do not differ
    # Within twice the interval: over 150 seeds, 97 % of the intervals themselves cover the truth.
    reach = merged.share_high[:, first] - merged.share_low[:, first]
    truth = [16 / 28, 4 / 28] if merged.share[0, first] > 0.3 else [4 / 28, 16 / 28]
    assert (np.abs(merged.share[:, first] - truth) < reach).all()
    extent = np.abs(merged.ranges[first, 1] - [-0.2, 3.2]).max()
    assert extent < 0.6


def test_all_regions_together_have_the_interval_of_the_distance(monkeypatch):
    module = "pivec.characterizations.decomposition.similar_regions"
    monkeypatch.setattr(module, lambda found, _: [tuple(range(len(found.words)))])
    data = VisitedStates.from_arrays(walks(7))
    for name in ("visitation", "supervector"):
        found = fitted(name, data).decompose(data[0], data[2], n_groups=1)
        together = found.merged.regions
        assert together.measured[0] == pytest.approx(found.distance)
        assert together.estimate[0] == pytest.approx(found.estimate, rel=0.02)
        assert together.low[0] == pytest.approx(found.low, rel=0.1)
        assert together.high[0] == pytest.approx(found.high, rel=0.05)
        np.testing.assert_allclose(found.merged.share, 1.0)
