"""Pairs and travels read off a matrix of distances."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.characterizations import characterization, measure
from pivec.errors import PivecWarning
from pivec.states import VisitedStates
from pivec.statistics import adjusted_intervals, benjamini_hochberg, farthest_pairs, travels


def test_pairs_are_those_of_a_full_sort(rng):
    x = rng.normal(size=(80, 2))
    d = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    i, j = np.triu_indices(80, 1)
    order = np.argsort(d[i, j], kind="stable")
    for count in (1, 7, 4000):
        far = [(int(i[o]), int(j[o]), float(d[i[o], j[o]])) for o in order[::-1][:count]]
        assert [pair[2] for pair in farthest_pairs(d, count)] == [pair[2] for pair in far]


def test_one_policy_has_no_pairs():
    assert farthest_pairs(np.zeros((1, 1))) == []


def test_travel_follows_the_steps_of_each_run(rng):
    d = rng.uniform(size=(6, 6))
    runs = travels(["a", "b", "a", "a", "b", "c"], [20, 1, 10, None, 2, 5], d)
    assert [run.group for run in runs] == ["a", "b"]
    assert runs[0].rows == (2, 0)
    assert runs[0].steps == (10, 20)
    assert runs[0].total == d[2, 0]
    assert travels(["a", "a"], [1, 2], lambda rows: np.full(len(rows) - 1, 7.0))[
        0
    ].cumulative.tolist() == [0.0, 7.0]


@pytest.mark.parametrize("name", ["supervector", "gaussian"])
def test_many_policies_by_rows_agree_with_the_whole_matrix(name, rng, monkeypatch):
    monkeypatch.setattr(
        "pivec.characterizations.measurement._ROWS_BYTES", 8 * 50 * 7
    )  # seven rows at a time
    places = rng.normal(size=(50, 3))
    data = VisitedStates.from_arrays(
        [[rng.normal(place, 1, (30, 3))] for place in places],
        groups=[f"run-{i % 5}" for i in range(50)],
        steps=list(range(50)),
    )
    method = characterization(name, **({"n_components": 2} if name == "supervector" else {}))
    described = method.fit(data).describe(data)
    with pytest.warns(PivecWarning, match="no intervals"):
        all_of_it = measure(method, described, k=4)
    with pytest.warns(PivecWarning, match="no intervals"):
        by_rows = measure(method, described, k=4, whole=10)
    assert by_rows.matrix is None
    assert np.array_equal(all_of_it.neighbours, by_rows.neighbours)
    assert np.allclose(all_of_it.neighbour_distances, by_rows.neighbour_distances)
    for which in ("nearest", "farthest"):
        pairs, same = getattr(all_of_it, which), getattr(by_rows, which)
        assert len(pairs) == 10
        assert np.array_equal(pairs.i, same.i)
        assert np.array_equal(pairs.j, same.j)
    for run, again in zip(all_of_it.travels, by_rows.travels, strict=True):
        assert run.group == again.group
        assert np.allclose(run.legs, again.legs)
    own = np.argsort(all_of_it.matrix + np.diag([np.inf] * 50), axis=1)[:, :4]
    assert np.array_equal(own, all_of_it.neighbours)


def test_one_policy_is_measured(walks):
    method = characterization("gaussian").fit(walks)
    measured = measure(method, method.describe(walks[0]))
    assert measured.neighbours.shape == (1, 0)
    assert len(measured.nearest) == len(measured.pairs) == 0


@pytest.fixture
def sampled(rng):
    """Make six policies of two kinds with ten episodes each, in two runs, and describe them."""
    data = VisitedStates.from_arrays(
        [[rng.normal(place, 1, (30, 2)) for _ in range(10)] for place in (0, 0, 0, 2, 2, 2.5)],
        groups=["a", "a", "a", "b", "b", "b"],
        steps=[1, 2, 3, 1, 2, 3],
    )
    method = characterization("visitation", n_components=4).fit(data)
    return method, method.describe(data, influences=True), data


def test_pairs_have_the_numbers_of_the_intervals_and_the_nearest_come_first(sampled):
    method, described, _ = sampled
    measured = measure(method, described)
    sure, pairs = method.intervals(described), measured.pairs
    at = pairs.i, pairs.j
    assert sorted(zip(*at, strict=True)) == [*zip(*np.triu_indices(6, 1), strict=True)]
    assert np.array_equal(pairs.distance, np.maximum(sure.distance[at], 0))
    assert (np.diff(sure.distance[at]) >= 0).all()
    for column, matrix in ((pairs.high, sure.high), (pairs.p, sure.p_value)):
        assert np.array_equal(column, matrix[at])
    q, low, _ = adjusted_intervals(sure.p_value[at], sure.low[at], sure.high[at])
    assert np.array_equal(pairs.low, low)
    assert np.array_equal(pairs.q, q)
    assert np.array_equal(pairs.overlap, method.overlap(described)[at])
    assert np.array_equal(measured.farthest.i, pairs.i[::-1][:10])
    assert measured.n_known == 15
    assert set(zip(measured.alike.i, measured.alike.j, strict=True)) <= {
        (0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5),
    }  # fmt: skip
    assert np.array_equal(measured.matrix, method.distances(described))


def test_a_run_has_travelled_its_legs_without_noise(sampled):
    method, described, _ = sampled
    measured = measure(method, described)
    sure = method.intervals(described)
    for run, rows in zip(measured.travels, ([0, 1, 2], [3, 4, 5]), strict=True):
        assert np.allclose(run.legs, sure.distance[rows[:-1], rows[1:]])
        assert run.half_widths[0] == 0 < run.half_widths[1] < 1
    moved, still = measured.travels[1], measured.travels[0]
    assert still.total - still.half_widths[-1] < 0 < moved.total - moved.half_widths[-1]


@pytest.mark.parametrize("limits", [{"whole_intervals": 3}, {"whole": 3}])
def test_intervals_of_listed_pairs_are_those_of_all(sampled, limits, monkeypatch):
    method, described, _ = sampled
    whole = measure(method, described)
    monkeypatch.setattr("pivec.characterizations.measurement.MAX_PAIRS", 6)
    part = measure(method, described, pairs=2, **limits)
    assert part.intervals is None
    assert 5 < len(part.pairs) < 15
    numbers = {pair: k for k, pair in enumerate(zip(whole.pairs.i, whole.pairs.j, strict=True))}
    same = whole.pairs.take([numbers[p] for p in zip(part.pairs.i, part.pairs.j, strict=True)])
    for column in ("distance", "high", "overlap", "p"):
        assert np.allclose(getattr(part.pairs, column), getattr(same, column), rtol=1e-5, atol=1e-9)
    both = ~(part.pairs.alike | same.alike)  # of another number of pairs
    assert both.any()
    assert np.allclose(part.pairs.low[both], same.low[both], rtol=1e-5)
    assert np.allclose(part.farthest.distance, whole.farthest.distance[:2])
    assert len(part.alike) == part.pairs.alike.sum()


@pytest.mark.parametrize("name", ["visitation", "supervector", "returns", "discretization"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore:.*single episode:pivec.errors.PivecWarning")
def test_marks_agree_with_intervals(name, seed, monkeypatch):
    """Random comparisons with small differences: q is small exactly where intervals exclude 0."""
    rng = np.random.default_rng(seed)
    places = rng.choice([0.0, 0.2, 0.4, 1.0], size=12)
    sizes = rng.choice([1, 3, 6, 25], size=12)
    walks = [
        [rng.normal(x, 1, (8, 2)) for _ in range(m)] for x, m in zip(places, sizes, strict=True)
    ]
    returns = [[float(rng.normal(x)) for _ in own] for x, own in zip(places, walks, strict=True)]
    data = VisitedStates.from_arrays(walks, returns=returns)
    parameters = {"n_components": 4} if name in ("visitation", "supervector") else {}
    method = characterization(name, **parameters).fit(data)
    described = method.describe(data, influences=method.traits.influences)
    whole = measure(method, described, data)
    monkeypatch.setattr("pivec.characterizations.measurement.MAX_PAIRS", 20)
    for measured in (whole, measure(method, described, data, whole_intervals=3)):
        pairs = measured.pairs
        known = np.isfinite(pairs.low)
        assert np.array_equal(np.isnan(pairs.q), ~known)
        assert np.array_equal((pairs.q <= 0.05)[known], (pairs.low > 0)[known])
        assert np.array_equal(pairs.alike, known & (pairs.low == 0))
        assert ((pairs.distance >= 0) & ~(pairs.distance > pairs.high)).all()
        assert not (pairs.low > pairs.distance).any()
        assert len(measured.alike) == pairs.alike.sum()
    at = whole.pairs.i, whole.pairs.j
    assert np.array_equal(whole.certain[at], whole.pairs.low > 0)
    assert np.array_equal(whole.intervals.low[at], whole.pairs.low, equal_nan=True)
    assert np.array_equal(whole.intervals.low, whole.intervals.low.T, equal_nan=True)


def test_adjusted_intervals_exclude_0_exactly_where_q_is_small(rng):
    for _ in range(200):
        n = int(rng.integers(1, 40))
        p = rng.random(n) ** rng.choice([1, 4, 12])
        low = rng.normal(size=n) * rng.choice([0, 1], size=n)
        high = low + rng.exponential(size=n)
        low[rng.random(n) < 0.1] = np.nan
        p[np.isnan(low)] = high[np.isnan(low)] = np.nan
        q, below, above = adjusted_intervals(p, low, high)
        known = ~np.isnan(p)
        assert np.array_equal((q <= 0.05)[known], ((below > 0) | (above < 0))[known])
        assert ((below <= low) & (above >= high))[known].all()
        assert (q >= p * (1 - 1e-12))[known].all()
        assert np.isnan(np.stack([q, below, above])[:, ~known]).all()
        clear = known & ((low > 0) | (high < 0))
        if np.array_equal(clear, known):
            assert np.array_equal(q, benjamini_hochberg(p), equal_nan=True)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("visitation", {"n_components": 4, "backgrounds": 2}),
        ("supervector", {"n_components": 4}),
        ("returns", {}),
    ],
)
def test_intervals_of_pairs_are_those_of_all(sampled, name, parameters):
    _, _, data = sampled
    lengths = [3, 10, 10, 2, 10, 1]
    data = VisitedStates.from_arrays(
        [[*data[p].episodes()][:m] for p, m in enumerate(lengths)],
        returns=[np.arange(m) + p for p, m in enumerate(lengths)],
    )
    method = characterization(name, **parameters).fit(data)
    described = method.describe(data, influences=True)
    i, j = np.array([0, 4, 1, 0, 2, 3]), np.array([1, 5, 2, 3, 4, 4])
    with pytest.warns(PivecWarning, match="'policy-5'"):
        every = method.intervals(described)
    with pytest.warns(PivecWarning, match="'policy-5'"):
        some = method.pair_intervals(described, i, j, method.distances(described)[i, j])
    for column in ("distance", "low", "high", "standard_error", "noise", "p_value"):
        expected = getattr(every, column)[i, j]
        assert np.allclose(getattr(some, column), expected, rtol=1e-4, atol=1e-9, equal_nan=True)


def test_copies_among_listed_pairs_are_told(sampled):
    method, _, data = sampled
    described = method.describe(data, influences=True)
    described = described.select([0, 3, 0])
    with pytest.warns(PivecWarning, match="identical episodes"):
        method.pair_intervals(described, np.array([0]), np.array([2]), np.zeros(1))


def test_a_policy_with_one_episode_has_a_distance_without_an_interval(sampled):
    method, _, data = sampled
    single = data.select([0, 1, 3]).sample_episodes(1, np.random.default_rng(0))
    described = method.describe(single, influences=True)
    with pytest.warns(PivecWarning, match="a single episode") as caught:
        measured = measure(method, described)
    assert len(caught) == 1
    assert np.isnan(measured.pairs.low).all()
    assert np.allclose(
        np.sort(measured.pairs.distance),
        np.sort(method.distances(described)[np.triu_indices(3, 1)]),
    )
    assert measured.n_known == len(measured.alike) == 0
    assert measured.travels[0].half_widths is None


def test_what_has_no_influences_draws_from_the_states_if_they_are_there(sampled):
    _, _, data = sampled
    method = characterization("gaussian").fit(data)
    described = method.describe(data)
    with pytest.warns(PivecWarning, match="gaussian"):
        assert measure(method, described).n_known == 0
    measured = measure(method, described, data)
    assert measured.n_known == 15
    assert np.isnan(measured.pairs.overlap).all()
    assert np.array_equal(measured.intervals.low, method.intervals(data).low)
    assert measured.travels[0].half_widths is None
    assert measured.travels[0].legs[0] == measured.intervals.distance[0, 1]
    slow = characterization("sliced-wasserstein", n_directions=4).fit(data)
    assert measure(slow, slow.describe(data), data).n_known == 15
    none = characterization("trajectories").fit(data)
    with pytest.warns(PivecWarning, match="trajectories"):
        assert measure(none, none.describe(data), data).n_known == 0
