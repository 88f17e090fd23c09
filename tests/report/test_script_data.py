"""The numbers of the page's script are Python's: packed, unpacked, and as the script reads them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import pivec.report.script_data as module
from packed import unpacked
from pivec.characterizations import Measured, Space, characterization, measure, names
from pivec.errors import UsageError
from pivec.report import Findings, page_data
from pivec.report.script_data import all_pairs, numbers, text
from pivec.run_log import RunLog
from pivec.states import VisitedStates

# Those that need nothing but states, and no network.
PLAIN = [
    name
    for name in names()
    if not (characterization(name).traits.needs or name.endswith(("encoder", "nator")))
]
FEATURES = ("place", "speed", "angle")
N = 12
ABOVE = np.triu_indices(N, 1)
PAIRS = [(i, j) for i in range(N) for j in range(N) if i != j]
AT = tuple(np.array(PAIRS).T)
ASKED = """
import { readFileSync } from "node:fs";
import { unpack } from "@web/data";
import { adopt } from "@web/state";
import { measurer } from "@web/distances";
import { differences, whyNoParts } from "@web/parts";
const { content, pairs, rows } = JSON.parse(readFileSync(0, "utf-8"));
const answer = async () => {
adopt(await unpack(content));
const m = await measurer();
const plain = (_, value) => (Number.isNaN(value) ? "NaN" : value);
console.log(JSON.stringify({
  between: pairs.map(([i, j]) => m.between(i, j)), pairs: pairs.map(([i, j]) => m.pair(i, j)),
  nearest: rows.map((i) => m.nearest(i, 10)), block: [...m.block(Int32Array.from(rows))],
  words: m.words, complete: m.complete,
  parts: await Promise.all(pairs.map(([i, j]) => differences(i, j))), why: whyNoParts(),
}, plain));
};
answer();
"""


def space_of(name, n=N, episodes=6, **arguments):
    """Policies that walk away from two that are alike; the last has a single episode."""
    rng = np.random.default_rng(0)
    walks = [
        [
            rng.normal([place, place / 3, 0], 1.0, (int(rng.integers(20, 60)), 3))
            for _ in range(episodes)
        ]
        for place in [0.0, 0.0, *np.linspace(0.4, 3.0, max(n - 2, 0))][:n]
    ]
    walks[-1] = walks[-1][:1] if n > 1 else walks[-1]
    data = VisitedStates.from_arrays(walks, feature_names=FEATURES, environment="Walk-v0")
    method = characterization(name, **arguments).fit(data)
    kept = {"influences": True} if method.traits.influences else {}
    space = Space(method, method.describe(data, **kept), collected={"environment": "Walk-v0"})
    return space, data


def findings_of(space, data=None, measured=None):
    measured = measured or measure(space.method, space.descriptions, data)
    return Findings.of(space, measured, RunLog("nowhere", ""))


def nearest_only(n, k=0):
    near = np.array([[j for j in range(n) if j != i][:k] for i in range(n)], int).reshape(n, k)
    return Measured(None, near, np.ones((n, k)))


@pytest.fixture(scope="module")
def visited():
    space, data = space_of("visitation", n_components=5, random_state=1)
    with pytest.warns(match="single episode"):
        return space, data, findings_of(space)


@pytest.fixture(scope="module")
def ask(web_program):
    """Give what the page's modules answer about findings, run by node; NaN comes as text."""
    program = web_program(ASKED)

    def answers(findings, pairs=(), rows=()):
        return program({"content": page_data(findings), "pairs": pairs, "rows": list(rows)})

    return answers


def column(answers, name):
    return np.array([float(pair[name]) for pair in answers["pairs"]])


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


def test_all_pairs_are_those_measured(visited):
    space, _, findings = visited
    sure, content = findings.measured.intervals, all_pairs(findings)
    for name, matrix in {"distance": sure.distance, "low": sure.low, "high": sure.high,
                         "p": sure.p_value}.items():  # fmt: skip
        assert np.allclose(unpacked(content[name]), matrix[ABOVE], rtol=1e-6, equal_nan=True)
    alike = unpacked(content["alike"])
    unknown = np.isnan(sure.p_value[ABOVE])
    assert unknown.sum() == N - 1
    assert np.array_equal(alike == 2, unknown)
    assert np.array_equal(alike[~unknown] == 0, findings.measured.certain[ABOVE][~unknown])
    assert set(alike) == {0, 1, 2}
    shared = unpacked(content["overlap"]) / 65534
    assert np.allclose(shared, space.method.overlap(space.descriptions)[ABOVE], atol=1e-5)
    bare = replace(findings, space=None, measured=replace(findings.measured, intervals=None))
    assert list(all_pairs(bare)) == ["distance"]
    assert np.allclose(
        unpacked(all_pairs(bare)["distance"]), findings.measured.matrix[ABOVE], rtol=1e-6
    )


def test_too_many_pairs_are_left_out(visited, monkeypatch):
    findings = visited[2]
    monkeypatch.setattr(module, "PAIRS_BYTES", N * (N - 1) // 2 * 20 - 1)
    assert all_pairs(findings) is None
    assert all_pairs(replace(findings, measured=replace(findings.measured, intervals=None)))
    assert all_pairs(replace(findings, measured=replace(findings.measured, matrix=None))) is None


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
@pytest.mark.parametrize("name", PLAIN)
def test_every_characterization_gives_plain_json(name):
    space, data = space_of(name, 4, 3)
    content = page_data(findings_of(space, data))
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["pairs"] is not None
    assert content["words"] == ""


def test_one_policy_and_no_space(visited):
    one, _ = space_of("visitation", 1, n_components=2)
    content = page_data(findings_of(one))
    assert not len(unpacked(content["pairs"]["distance"]))
    assert content["words"] == ""
    findings = replace(findings_of(visited[0], measured=nearest_only(N)), space=None)
    content = page_data(findings)
    kinds = ("points", "pairs", "listed", "near", "regions")
    assert [content[name] for name in kinds] == [None] * 5
    assert "no distances" in content["words"]


def test_the_space_must_be_that_of_the_policies(visited):
    space, _, findings = visited
    turned = replace(space, descriptions=space.descriptions.select(range(N - 1, -1, -1)))
    with pytest.raises(UsageError, match=f"{N} policies"):
        replace(findings, space=turned)


def test_the_order_of_the_heatmap(visited):
    space, _, findings = visited
    assert sorted(unpacked(page_data(findings)["heatmapOrder"])) == list(range(N))
    bare = findings_of(space, measured=nearest_only(N))
    order = unpacked(page_data(bare)["heatmapOrder"]).tolist()
    assert order == bare.policies.order.tolist()


def test_the_script_shows_all_pairs_as_python_has_them(ask, visited):
    space, _, findings = visited
    measured, sure = findings.measured, findings.measured.intervals
    answers = ask(findings, PAIRS, range(N))
    assert np.allclose(answers["between"], measured.estimates[AT], rtol=1e-6)
    for name, matrix in {"low": sure.low, "high": sure.high, "p": sure.p_value}.items():
        assert np.allclose(column(answers, name), matrix[AT], 1e-6, equal_nan=True)
    overlap = space.method.overlap(space.descriptions)
    assert np.allclose(column(answers, "overlap"), overlap[AT], atol=1e-5)
    alike = [pair["alike"] for pair in answers["pairs"]]
    known = ~np.isnan(sure.p_value[AT])
    assert [value is None for value in alike] == (~known).tolist()
    told = [value for value in alike if value is not None]
    assert told == (~measured.certain[AT][known]).tolist()
    assert np.allclose(np.reshape(answers["block"], (N, N)), measured.estimates, rtol=1e-6)
    assert answers["words"] == ""
    order = sure.distance + np.diag([np.inf] * N)  # below 0 by chance, where noise is larger
    for i, found in enumerate(answers["nearest"]):
        assert [near["row"] for near in found] == np.argsort(order[i])[:10].tolist()
        expected = np.maximum(np.sort(order[i])[:10], 0)
        assert np.allclose([near["distance"] for near in found], expected)


def test_of_many_pairs_distances_are_those_of_points_and_listed_pairs_have_intervals(
    ask, visited, monkeypatch
):
    monkeypatch.setattr(module, "PAIRS_BYTES", 0)
    measured = visited[2].measured
    few = measured.pairs.take(range(9))
    findings = replace(visited[2], measured=replace(measured, intervals=None, pairs=few))
    answers = ask(findings, PAIRS, range(N))
    scale = measured.matrix.max()
    assert np.allclose(answers["between"], measured.matrix[AT], rtol=1e-3, atol=1e-5 * scale)
    place = {frozenset(pair): k for k, pair in enumerate(zip(few.i, few.j, strict=True))}
    for pair, found in zip(PAIRS, answers["pairs"], strict=True):
        k = place.get(frozenset(pair))
        if k is None or np.isnan(few.p[k]):
            assert found["alike"] is None
            assert found["low"] in ("NaN", None)
        else:
            assert found["alike"] == bool(few.alike[k])
            for name in ("distance", "low", "high", "p", "overlap"):
                assert found[name] == pytest.approx(getattr(few, name)[k], rel=1e-5, abs=1e-4)
    order = measured.matrix + np.diag([np.inf] * N)
    nearest = [[near["row"] for near in found] for found in answers["nearest"]]
    assert nearest == np.argsort(order)[:, :10].tolist()
    assert "sampling noise" in answers["words"]
    assert "pairs.csv" in answers["words"]


def test_only_the_nearest_are_known(ask, visited, monkeypatch):
    space, _, findings = visited
    monkeypatch.setattr(module, "_ROOM", 0.0)
    matrix = findings.measured.matrix + np.diag([np.inf] * N)
    near = np.argsort(matrix)[:, :3]
    measured = Measured(None, near, np.take_along_axis(matrix, near, axis=1))
    answers = ask(findings_of(space, measured=measured), PAIRS, range(N))
    assert not answers["complete"]
    assert answers["parts"] == [None] * len(PAIRS)
    assert "too many policies" in answers["why"]
    assert "3 nearest" in answers["words"]
    for i, found in enumerate(answers["nearest"]):
        assert [other["row"] for other in found] == near[i].tolist()
        assert np.allclose([other["distance"] for other in found], matrix[i, near[i]])
    known = {frozenset((i, j)) for i in range(N) for j in near[i].tolist()}
    told = [value is not None and value != "NaN" for value in answers["between"]]
    assert told == [frozenset(pair) in known for pair in PAIRS]


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("visitation", {"n_components": 5}),
        ("visitation", {"n_components": 3, "backgrounds": 2}),
        ("supervector", {"n_components": 5}),
    ],
)
def test_parts_of_a_distance_are_as_python_has_them(ask, name, arguments):
    space, data = space_of(name, **arguments)
    findings = findings_of(space, data)
    decomposed = {frozenset(pair) for pair in findings.decompositions}
    few = [(5, 0), (10, 3), *((b, a) for a, b in findings.decompositions)]
    answers = ask(findings, few)
    for (i, j), shown in zip(few, answers["parts"], strict=True):
        d = space.method.decompose(data[i], data[j])
        sizes = [part["part"] for part in shown["parts"]]
        assert sizes == sorted(sizes, reverse=True)
        assert shown["measured"] == pytest.approx(d.distance, rel=2e-3)
        assert shown["sure"] == (frozenset((i, j)) in decomposed and np.isfinite(d.p_value))
        for part in shown["parts"]:
            [k] = part["regions"]
            assert part["part"] == pytest.approx(
                d.regions.measured[k], rel=5e-3, abs=1e-5 * d.distance
            )
            shares = [part["shareA"], part["shareB"]]
            assert shares == pytest.approx(d.share[:, k].tolist(), abs=1e-4)
            for feature in part["features"]:
                f = FEATURES.index(feature["name"])
                means = [feature["a"], feature["b"]]
                assert means == pytest.approx(d.means[:, k, f].tolist(), rel=1e-2, abs=1e-3)
        for f, average in enumerate(shown["averages"]):
            expected = d.averages[:, f].tolist()
            assert [average["a"], average["b"]] == pytest.approx(expected, abs=1e-3)


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
@pytest.mark.parametrize("name", ["mmd", "gaussian"])
def test_a_method_without_points_of_regions_shows_distances_alone(ask, name):
    space, data = space_of(name)
    findings = findings_of(space, data)
    answers = ask(findings, PAIRS)
    assert np.allclose(answers["between"], findings.measured.estimates[AT], rtol=1e-6)
    known = {frozenset(pair) for pair in findings.decompositions}
    shown = [parts is not None for parts in answers["parts"]]
    assert shown == [frozenset(pair) in known for pair in PAIRS]
    assert "pivec explain" in answers["why"]
