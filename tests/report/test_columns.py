"""What the page's script gets: columns come back, and pairs, spreads and features are Python's."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import pivec.report.script_data as certainty
from pivec.characterizations import Measured, Space, Traits, characterization, measure, names
from pivec.errors import UsageError
from pivec.report import Findings
from pivec.report.script_data import numbers, page_data, text, unpacked
from pivec.states import VisitedStates

# Those that need nothing but states, and no network.
PLAIN = [
    n for n in names() if not (characterization(n).traits.needs or n.endswith(("encoder", "nator")))
]


def data_of(n=7, episodes=6, seed=0):
    """States of two runs; the first two policies are alike, the last has a single episode."""
    rng = np.random.default_rng(seed)
    places = [0.0, 0.0, *np.linspace(0.5, 2.0, n - 2)]
    walks = [
        [rng.normal(place, 1.0, (int(rng.integers(20, 60)), 3)) for _ in range(episodes)]
        for place in places
    ]
    walks[-1] = walks[-1][:1]
    return VisitedStates.from_arrays(
        walks, groups=["a"] * 3 + ["b"] * (n - 4) + [""], steps=[*range(n - 1), None]
    )


def space_of(data, name="visitation", **arguments):
    if name in ("visitation", "supervector"):
        arguments = {"n_components": 4, "random_state": 1} | arguments
    method = characterization(name, **arguments).fit(data)
    kept = {"influences": True} if method.traits.influences else {}
    return Space(method, method.describe(data, **kept), collected={"environment": "Walk-v0"})


def report_of(space, log_of, data=None, measured=None):
    measured = measured or measure(space.method, space.descriptions, data)
    return Findings.of(space, measured, log_of())


@pytest.fixture(scope="module")
def data():
    return data_of()


@pytest.fixture(scope="module")
def space(data):
    return space_of(data)


@pytest.fixture(scope="module")
def measured(space):
    with pytest.warns(match="single episode"):
        return measure(space.method, space.descriptions)


@pytest.mark.parametrize("kind", ["u1", "u2", "i4", "f4", "f8"])
def test_numbers_come_back(kind):
    values = np.array([0, 1, 200, 3], kind)
    if kind[0] == "f":
        values = np.append(values, [np.nan, np.inf, -np.inf, -0.1]).astype(kind)
    assert np.array_equal(unpacked(numbers(values, kind)), values, equal_nan=kind[0] == "f")
    assert not len(unpacked(numbers([], kind)))
    table = np.arange(6).reshape(2, 3)
    assert unpacked(numbers(table.T, kind)).tolist() == [0, 3, 1, 4, 2, 5]  # column by column


def test_a_text_stays_on_its_line():
    lines = ["a", "", "b\nc", "d\u2028e", "\udcff"]
    assert len(unpacked(text(lines))) == 5
    assert unpacked(text(lines))[0] == "a"


def test_pairs_are_those_measured(space, measured):
    blob = certainty.pairs_blob(measured, space)
    above = np.triu_indices(7, 1)
    for name in ("distance", "low", "high"):
        values = getattr(measured.intervals, name)
        assert np.allclose(unpacked(blob[name]), values[above], rtol=1e-6, equal_nan=True)
    alike = unpacked(blob["alike"])
    unknown = np.isnan(measured.intervals.p_value[above])
    assert unknown.sum() == 6
    assert np.array_equal(alike == 2, unknown)
    assert np.array_equal(alike[~unknown] == 0, measured.certain[above][~unknown])
    assert set(alike) == {0, 1, 2}
    shared = unpacked(blob["overlap"]) / 65534
    assert np.allclose(shared, space.method.overlap(space.descriptions)[above], atol=1e-5)
    assert "measured" not in blob  # the points tell


def test_pairs_without_points_have_the_measured_distance_too(data):
    space = space_of(data, "gaussian")
    with pytest.warns(match="single episode"):
        measured = measure(space.method, space.descriptions, data)
    blob = certainty.pairs_blob(measured, space)
    above = np.triu_indices(7, 1)
    assert np.allclose(unpacked(blob["measured"]), measured.matrix[above], rtol=1e-6)
    assert "overlap" not in blob
    bare = certainty.pairs_blob(replace(measured, intervals=None), None)
    assert list(bare) == ["distance"]
    assert np.allclose(unpacked(bare["distance"]), measured.matrix[above], rtol=1e-6)


def test_too_many_pairs_are_left_out(space, measured, monkeypatch):
    monkeypatch.setattr(certainty, "PAIRS_BYTES", 21 * 16 - 1)
    assert certainty.pairs_blob(measured, space) is None
    assert certainty.pairs_blob(replace(measured, intervals=None), space) is not None
    assert certainty.pairs_blob(replace(measured, matrix=None), space) is None


def test_spreads_are_those_of_the_influences(space, measured):
    blob = certainty.spread_blob(measured, space)
    described = space.descriptions
    for i, rows in enumerate(described.rows("influences")):
        values = {name: unpacked(blob[name])[i] for name in ("trace", "norm", "largest", "reach")}
        m = len(rows)
        if m == 1:
            assert np.isnan([values[name] for name in ("trace", "norm", "largest")]).all()
            continue
        rows = rows.astype(float)
        covariance = sum(np.outer(row, row) for row in rows) / (m * (m - 1))
        assert values["trace"] == pytest.approx(np.trace(covariance), rel=1e-5)
        assert values["norm"] == pytest.approx(np.sqrt((covariance**2).sum()), rel=1e-5)
        assert values["largest"] == pytest.approx(np.linalg.norm(covariance, 2), rel=1e-5)
        assert values["reach"] == pytest.approx(2.5706, rel=1e-4)  # Student's t, 5 degrees
    p = measured.intervals.p_value
    told = p <= blob["threshold"]
    known = ~np.isnan(p)
    assert np.array_equal(told[known], (measured.certain & ~np.eye(7, dtype=bool))[known])
    # The same from listed pairs, where not all intervals are kept.
    assert certainty.spread_blob(replace(measured, intervals=None), space)["threshold"] == (
        pytest.approx(blob["threshold"])
    )


def test_spreads_that_are_not_known(data, measured, monkeypatch):
    bare = space_of(data)
    bare = replace(bare, descriptions=bare.descriptions.without_influences())
    assert certainty.spread_blob(measured, bare) is None
    assert certainty.spread_blob(measured, None) is None
    several = space_of(data, backgrounds=2)
    assert "largest" not in certainty.spread_blob(measured, several)
    monkeypatch.setattr(type(bare.method), "traits", Traits(exact=True))
    assert unpacked(certainty.spread_blob(measured, bare)["trace"]).tolist() == [0.0] * 7
    monkeypatch.undo()
    none = Measured(None, np.empty((7, 0), int), np.empty((7, 0)))
    assert certainty.spread_blob(none, space_of(data))["threshold"] == -1.0


@pytest.mark.parametrize("name", ["visitation", "supervector", "gaussian"])
def test_features_are_means_over_the_states(data, name, log_of):
    space = space_of(data, name, **{} if name == "gaussian" else {"n_components": 12})
    [blob] = [page_data(report_of(space, log_of, measured=bare_measured(7)))]
    for d, feature in enumerate(blob["features"]):
        values = unpacked(feature["values"])
        for i in range(7):
            episodes = [states[:, d] for states in data[i].episodes()]
            slow = np.mean([np.mean(states) for states in episodes])
            if name != "visitation":  # there each episode counts the same
                slow = np.mean(np.concatenate(episodes))
            assert values[i] == pytest.approx(slow, abs=2e-4 if name == "visitation" else 1e-5)
        assert feature["name"] == data.feature_names[d]


def bare_measured(n, k=0):
    near = np.array([[j for j in range(n) if j != i][:k] for i in range(n)], int).reshape(n, k)
    return Measured(None, near, np.ones((n, k)))


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
@pytest.mark.parametrize("name", PLAIN)
def test_every_characterization_gives_plain_json(name, log_of):
    data = data_of(4, 3)
    space = space_of(data, name)
    blob = page_data(report_of(space, log_of, data))
    assert json.loads(json.dumps(blob, allow_nan=False)) == blob
    assert blob["pairs"] is not None
    assert blob["words"] == ""


def test_one_policy_and_no_space(log_of, data):
    one = space_of(data[:1])
    blob = page_data(report_of(one, log_of))
    assert not len(unpacked(blob["pairs"]["distance"]))
    assert blob["words"] == ""
    report = replace(report_of(space_of(data), log_of, measured=bare_measured(7)), space=None)
    blob = page_data(report)
    assert [blob[name] for name in ("points", "pairs", "spread", "near", "regions")] == [None] * 5
    assert "no distances" in blob["words"]


def test_the_space_must_be_that_of_the_report(space, log_of, measured):
    report = report_of(space, log_of, measured=measured)
    turned = replace(space, descriptions=space.descriptions.select(range(6, -1, -1)))
    with pytest.raises(UsageError, match="7 policies"):
        replace(report, space=turned)


def test_what_there_is_no_room_for_is_said(space, log_of, monkeypatch):
    report = report_of(space, log_of, measured=bare_measured(7, 2))
    assert "half of them to within" in page_data(report)["words"]
    monkeypatch.setattr("pivec.report.script_data._ROOM", 0.0)
    blob = page_data(report)
    assert blob["points"] is None
    assert unpacked(blob["near"]["rows"])[:4].tolist() == [1, 2, 0, 2]
    assert unpacked(blob["near"]["distances"]).tolist() == [1.0] * 14
    assert "only the 2 nearest" in blob["words"]


def test_the_order_of_the_heatmap(space, measured, log_of):
    report = report_of(space, log_of, measured=measured)
    order = unpacked(page_data(report)["heatmapOrder"]).tolist()
    assert sorted(order) == list(range(7))
    bare = report_of(space, log_of, measured=bare_measured(7))
    order = unpacked(page_data(bare)["heatmapOrder"]).tolist()
    assert order == bare.policies.order.tolist()
