"""What the page shows of runs and likely pairs is what Python computes for each, in few numbers."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import pivec.report.findings as module
import pivec.report.script_data as script_data
from packed import unpacked
from pivec.characterizations import Space, characterization, measure
from pivec.explanations import explain_pair, explain_run, feature_histograms, share_intervals
from pivec.report import Findings, decomposition_data, page_data, pair_spreads, run_story
from pivec.run_log import RunLog
from pivec.states import Store, VisitedStates

RUNS = "abc"
N = 15
FEATURES = ("place", "speed")


def walks(rng, where, episodes=8):
    return [
        np.clip(rng.normal([where, 0.0], 1.0, (int(rng.integers(20, 60)), 2)), -9, 9)
        for _ in range(episodes)
    ]


@pytest.fixture(scope="module")
def data():
    """Three runs of four checkpoints, of which the last ends as the first does, and three others.

    The order of the policies is none in particular.
    """
    rng = np.random.default_rng(0)
    ends = {"a": 2.0, "b": 4.0, "c": 2.0}
    policies, labels, groups, steps = [], [], [], []
    for run, end in ends.items():
        for step in range(4):
            policies.append(walks(rng, end * min(step, 2) / 2))
            labels.append(f"{run}/{step}")
            groups.append(run)
            steps.append(1000 * step)
    for k in range(3):
        policies.append(walks(rng, -2.0 * k))
        labels.append(f"other-{k}")
        groups.append("")
        steps.append(None)
    states = VisitedStates.from_arrays(
        policies, labels, groups, steps=steps, feature_names=FEATURES, environment="Walk-v0",
        returns=[np.arange(8.0)] * N,
    )  # fmt: skip
    return states.select(np.random.default_rng(1).permutation(N))


@pytest.fixture(scope="module")
def method(data):
    return characterization("visitation", n_components=6).fit(data)


@pytest.fixture(scope="module")
def make(data, method, tmp_path_factory):
    """Make findings of these policies, with their states unless told otherwise."""

    def findings_of(order=None, stored=True, method=method, **limits):
        folder = tmp_path_factory.mktemp("compared")
        own = data if order is None else data.select(order)
        if stored:
            store = Store(folder / "states", {"environment": "Walk-v0"}, own.feature_names)
            with store.writing():
                for record in own.records:
                    store.add(record)
        described = method.describe(own, influences=True)
        space = Space(method, described, collected={"environment": "Walk-v0"})
        return Findings.of(space, measure(method, described, **limits), RunLog(folder, ""))

    return findings_of


@pytest.fixture(scope="module")
def findings(make):
    return make()


@pytest.fixture(scope="module")
def page(findings):
    content = page_data(findings)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    return content


def matrices(ends):
    m = len(ends["rows"])
    names = "distance", "low", "high", "alike"
    return {name: unpacked(ends[name]).reshape(m, m) for name in names}


def test_ends_of_runs_are_measured_as_all_pairs_are(findings, page):
    ends, sure = page["runEnds"], findings.measured.intervals
    assert [page["groups"][g] for g in ends["groups"]] == list(RUNS)
    assert [findings.policies.labels[row] for row in ends["rows"]] == ["a/3", "b/3", "c/3"]
    at, shown = np.ix_(ends["rows"], ends["rows"]), matrices(ends)
    assert np.allclose(shown["distance"], np.maximum(sure.distance[at], 0.0), 1e-6)
    assert np.allclose(shown["low"], sure.low[at], 1e-6)
    assert np.allclose(shown["high"], sure.high[at], 1e-6)
    assert shown["alike"].tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    assert ends["words"] == ""


def test_without_all_intervals_ends_agree_with_the_pairs_that_are_listed(make, findings):
    few = make(whole_intervals=0)
    assert few.measured.intervals is None
    ends, other, pairs = few.run_ends, findings.run_ends, few.measured.pairs
    assert ends.alike.tolist() == other.alike.tolist()
    listed = {(i, j): k for k, (i, j) in enumerate(zip(pairs.i, pairs.j, strict=True))}
    for a, i in enumerate(ends.rows):
        for b, j in enumerate(ends.rows[:a]):
            k = listed[min(i, j), max(i, j)]
            known = pairs.distance[k], pairs.low[k], pairs.high[k]
            assert (ends.distance[a, b], ends.low[a, b], ends.high[a, b]) == known
            assert (ends.distance[b, a], ends.low[b, a], ends.high[b, a]) == known
    # None of them listed: the same distances and intervals, adjusted among themselves.
    alone = replace(few, measured=replace(few.measured, pairs=pairs.take([]), matrix=None))
    sure = alone.space.method.intervals(alone.space.descriptions.select(ends.rows))
    assert np.allclose(alone.run_ends.distance, np.maximum(sure.distance, 0.0))
    assert np.allclose(alone.run_ends.high, sure.high)
    assert alone.run_ends.alike.tolist() == other.alike.tolist()


def test_without_influences_it_is_not_known_which_ends_differ(findings):
    plain = findings.space.descriptions.without_influences()
    measured = replace(findings.measured, intervals=None, pairs=findings.measured.pairs.take([]))
    ends = replace(
        findings, space=replace(findings.space, descriptions=plain), measured=measured
    ).run_ends
    assert np.allclose(ends.distance, measured.matrix[np.ix_(ends.rows, ends.rows)])
    assert ends.alike.tolist() == [[1, 2, 2], [2, 1, 2], [2, 2, 1]]
    assert "noise" in ends.words


def test_ends_of_too_many_runs_are_left_out(findings, monkeypatch):
    monkeypatch.setattr(module, "MAX_ENDS", 2)
    content = page_data(replace(findings))["runEnds"]
    assert (content["groups"], content["rows"]) == ([], [])
    assert "up to 2 runs" in content["words"]
    assert not len(unpacked(content["distance"]))


def test_stories_of_runs_are_explanations_of_runs(findings, page):
    where = findings._stored
    travelled = {run.group: run.total for run in findings.measured.travels}
    order = sorted(RUNS, key=lambda run: -travelled[run])
    assert [page["groups"][story["group"]] for story in page["runStories"]] == order
    assert page["runNote"] == ""
    for story in page["runStories"]:
        run = page["groups"][story["group"]]
        found = explain_run(where, run)
        assert [findings.policies.labels[row] for row in story["rows"]] == list(found.labels)
        assert story["steps"] == [0, 1000, 2000, 3000]
        assert story["returns"] == [3.5] * 4
        for shown, track in zip(story["tracks"], found.tracks, strict=True):
            assert shown["where"] == track.where
            for name in ("share", "low", "high"):
                assert shown[name] == pytest.approx(getattr(track, name), rel=1e-4)
        assert len(story["phases"]) == len(found.phases)
        for shown, phase in zip(story["phases"], found.phases, strict=True):
            assert shown["when"] == phase.when
            assert shown["rows"] == [story["rows"][phase.first], story["rows"][phase.last]]
            assert shown["changed"] == phase.changed
            assert shown["largest"] == (phase is found.largest_phase)
            assert shown["distance"] == pytest.approx(max(phase.distance, 0.0), rel=1e-4)
            assert shown["high"] == pytest.approx(phase.high, rel=1e-4)
            own = [change.sentence() for change in phase.changes]
            assert shown["words"] == (own or [phase.unchanged])
    assert sum(len(story["tracks"]) for story in page["runStories"]) > 2


def test_only_as_many_stories_as_are_affordable(findings, monkeypatch):
    monkeypatch.setattr(module, "_RUNS_SHARE", 0.0)
    monkeypatch.setattr(module, "_RUNS_WORK", 500_000)
    few = replace(findings)
    assert list(few.run_stories) == ["b"]  # which travelled farthest
    assert "1 of 3 runs" in few.run_note
    whole = run_story(few, "a")
    assert whole["phases"] == run_story(findings, "a", findings.run_stories["a"])["phases"]


def test_small_phases_may_be_given_by_feature_alone(findings):
    whole = explain_run(findings._stored, "b")
    part = explain_run(findings._stored, "b", by_region=1)
    changed = [phase for phase in whole.phases if phase.regions]
    assert len(changed) > 1
    largest = max(changed, key=lambda phase: phase.distance)
    for one, other in zip(whole.phases, part.phases, strict=True):
        assert other.features == one.features
        kept = one.when == largest.when or not one.features
        assert other.regions == (one.regions if kept else ())
    assert "1 largest" in "".join(part.notes)


def test_without_states_stories_have_what_is_possible(make):
    bare = make(stored=False)
    content = page_data(bare)
    assert content["spreads"] is None
    assert pair_spreads(bare, 0, 1) is None
    assert bare.rules == {}
    story = content["runStories"][0]
    assert story["tracks"] == []
    assert any(phase["changed"] for phase in story["phases"])
    assert "states are not stored" in story["note"]


def test_without_regions_the_reason_is_given(data):
    method = characterization("terminal-state").fit(data)
    described = method.describe(data, influences=True)
    found = Findings.of(Space(method, described), measure(method, described), RunLog("nowhere", ""))
    content = page_data(found)
    assert content["runStories"] == []
    assert "regions" in content["runNote"]
    story = run_story(found, "a")
    assert "regions" in story["note"]
    assert (story["phases"], len(story["steps"])) == ([], 4)


def test_histograms_of_all_policies_and_of_pairs(findings, page, data, method):
    expected = feature_histograms(data, findings.features, range(2), by_state=False)
    spreads = page["spreads"]
    assert [feature["name"] for feature in spreads["features"]] == list(FEATURES)
    for f in range(2):
        edges = spreads["features"][f]["edges"]
        assert edges == expected.edges[f].tolist()
        shown = unpacked(spreads["shares"][f]).reshape(N, len(edges) - 1) / 65535
        assert np.allclose(shown, expected.shares[f], atol=1e-5)
        assert np.allclose(shown.sum(axis=1), 1.0, atol=1e-3)
    pair = pair_spreads(findings, 3, 1)
    for f, feature in enumerate(pair["features"]):
        assert feature["a"] == pytest.approx(expected.shares[f][3], rel=1e-4)
        assert feature["b"] == pytest.approx(expected.shares[f][1], rel=1e-4)
        assert feature["edges"] == expected.edges[f].tolist()


def test_histograms_of_pairs_where_there_are_too_many_policies(findings, data, monkeypatch):
    monkeypatch.setattr(module, "MAX_SHARES", 1)
    many = replace(findings)
    assert page_data(many)["spreads"] is None
    pair = pair_spreads(many, 3, 1)
    expected = feature_histograms(data.select([3, 1]), many.features, range(2), by_state=False)
    for f, feature in enumerate(pair["features"]):
        assert feature["edges"] == expected.edges[f].tolist()
        assert feature["a"] == pytest.approx(expected.shares[f][0], rel=1e-4)


def test_policies_without_states_have_empty_histograms(findings, data):
    labels = [label for label in findings.policies.labels if label != "other-1"]
    part = replace(findings)
    vars(part)["_stored"] = replace(findings._stored, data=data.select(labels))
    spreads = page_data(part)["spreads"]
    shares = unpacked(spreads["shares"][0]).reshape(N, -1)
    missing = findings.policies.labels.index("other-1")
    assert np.flatnonzero(shares.sum(axis=1) == 0).tolist() == [missing]
    assert pair_spreads(part, missing, 0) is None


def test_shares_of_regions_have_intervals(findings, page, method, monkeypatch):
    shares, low, high = share_intervals(method, findings.space.descriptions)
    for name, values in {"shares": shares, "low": low, "high": high}.items():
        shown = unpacked(page["regions"][name]).reshape(6, N) / 65535
        assert np.allclose(shown, values.T, atol=1e-5)
    monkeypatch.setattr(script_data, "MOST_VALUES", 3 * 6 * N - 1)
    few = page_data(replace(findings))["regions"]
    assert "shares" in few
    assert not {"low", "high"} & set(few)


def test_unknown_ends_of_shares_are_reversed(method, data):
    alone = VisitedStates.from_arrays(
        [[next(data[0].episodes())], list(data[1].episodes())], feature_names=FEATURES
    )
    described = method.describe(alone, influences=True)
    with pytest.warns(match="single episode"):
        measured = measure(method, described)
    found = Findings.of(Space(method, described), measured, RunLog("nowhere", ""))
    regions = page_data(found)["regions"]
    low, high = (unpacked(regions[name]).reshape(6, 2) for name in ("low", "high"))
    assert (low[:, 0] > high[:, 0]).all()
    assert (low[:, 1] <= high[:, 1]).all()


def test_likely_pairs_are_decomposed_with_rules_as_a_server_does(findings, page):
    likely = findings.likely_pairs
    assert likely[: len(findings.notable_pairs)] == list(findings.notable_pairs.values())
    assert len({frozenset(pair) for pair in likely}) == len(likely)
    shown = {tuple(known["rows"]): known for known in page["decompositions"]}
    ends = findings.run_ends
    i, j = np.unravel_index(ends.distance.argmax(), ends.distance.shape)
    assert {ends.rows[i], ends.rows[j]} in [set(rows) for rows in shown]
    assert list(shown) == likely
    largest = [story.largest for story in findings.run_stories.values()]
    labels = findings.policies.labels
    named = [{labels[i], labels[j]} for i, j in shown]
    assert all(set(pair) in named for pair in largest)
    for (i, j), known in shown.items():
        exact = explain_pair(findings._stored, labels[i], labels[j])
        expected = decomposition_data(exact.decomposition, exact.features, (), exact.rules)
        assert known["rules"] == expected["rules"]
        assert known["measured"] == pytest.approx(expected["measured"], rel=1e-4)
        assert [part["words"] for part in known["parts"]] == [
            part["words"] for part in expected["parts"]
        ]
    assert any(known["rules"] for known in shown.values())


def test_pairs_are_decomposed_as_far_as_that_is_affordable(findings, monkeypatch):
    monkeypatch.setattr(module, "_PAIRS_SHARE", 0.0)
    monkeypatch.setattr(module, "_PAIRS_WORK", 0)
    few = replace(findings)
    assert list(few.decompositions) == list(dict.fromkeys(few.notable_pairs.values()))
    assert few.rules == {}


def test_a_pair_takes_little_room_with_many_features_and_regions():
    rng = np.random.default_rng(0)
    names = [f"a long name of the feature number {j}" for j in range(60)]
    walks = [[rng.normal(k * (np.arange(60) % 7), 1.0, (40, 60)) for _ in range(6)] for k in (0, 1)]
    data = VisitedStates.from_arrays(walks, feature_names=names)
    method = characterization("visitation", n_components=40, backgrounds=2).fit(data)
    found = Findings.of(
        Space(method, method.describe(data, influences=True)),
        measure(method, method.describe(data, influences=True)),
        RunLog("nowhere", ""),
    )
    [shown] = page_data(found)["decompositions"]
    exact = method.decompose(data[0], data[1])
    assert len(json.dumps(shown, separators=(",", ":"))) < 6000
    n, rest = shown["otherParts"]
    assert n == 80 - len(shown["parts"])
    parts = sum(part["part"] for part in shown["parts"])
    assert parts + rest == pytest.approx(exact.distance, rel=1e-3)
    assert shown["otherAverages"] == 60 - len(shown["averages"]) > 0
    # Those that differ most are there.
    shift = np.abs(exact.average_shift[:60])
    kept = [names.index(average["name"]) for average in shown["averages"]]
    assert kept == sorted(kept)
    assert shift[kept].min() > np.median(shift)


def test_nearest_pairs_that_differ(findings, make_report, rows_of, measured_of):
    near, sure = findings.nearest_different, findings.measured.intervals
    i, j = np.triu_indices(N, 1)
    differ = sure.low[i, j] > 0
    slow = sorted(np.maximum(sure.distance[i, j][differ], 0))[:10]
    assert near.distance == pytest.approx(slow)
    assert not near.alike.any()
    assert len(findings.measured.alike) == (~differ).sum() > 0
    # Where it is not known what differs, just the nearest.
    bare = make_report(policies=rows_of(4), measured=measured_of(4, nearest=[(0, 1, 0.5)]))
    assert (bare.nearest_different.i.tolist(), bare.nearest_different.j.tolist()) == ([0], [1])


def test_the_order_of_the_policies_changes_nothing(findings, page, make):
    order = np.random.default_rng(2).permutation(N).tolist()
    other = make(order)
    assert np.allclose(other.run_ends.distance, findings.run_ends.distance, rtol=1e-9, atol=1e-12)
    labels = findings.policies.labels, other.policies.labels

    def named(found, names):
        return [frozenset((names[i], names[j])) for i, j in found.likely_pairs]

    assert named(other, labels[1]) == named(findings, labels[0])
    stories = page["runStories"], page_data(other)["runStories"]
    for one, two in zip(*stories, strict=True):
        assert two["phases"][0]["words"] == one["phases"][0]["words"]
        assert [labels[1][row] for row in two["rows"]] == [labels[0][row] for row in one["rows"]]
