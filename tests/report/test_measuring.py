"""The page's own numerics, run by node, against what Python measured."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import files

import numpy as np
import pytest
from scipy.special import gammaincc

import pivec.report.script_data as certainty
from pivec.characterizations import Measured, Space, characterization, measure
from pivec.report import Findings
from pivec.report.script_data import page_data
from pivec.run_log import RunLog
from pivec.states import VisitedStates

ASKED = """
import { readFileSync } from "node:fs";
import { unpack } from "./data.js";
import { adopt } from "./state.js";
import { measurer, upperGamma } from "./distances.js";
import { differences, whyNoParts } from "./parts.js";
const { blob, pairs, rows, gamma } = JSON.parse(readFileSync("asked.json", "utf-8"));
adopt(await unpack(blob));
const m = await measurer();
const plain = (_, value) => (Number.isNaN(value) ? "NaN" : value);
console.log(JSON.stringify({
  between: pairs.map(([i, j]) => m.between(i, j)), pairs: pairs.map(([i, j]) => m.pair(i, j)),
  nearest: rows.map((i) => m.nearest(i, 10)), block: [...m.block(Int32Array.from(rows))],
  gamma: gamma.map(([a, x]) => upperGamma(a, x)), words: m.words, complete: m.complete,
  told: await Promise.all(pairs.map(([i, j]) => differences(i, j))), why: whyNoParts(),
}, plain));
"""
FEATURES = ("place", "speed", "angle")


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Give what the page's modules answer about a report; NaN comes as text."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: the page's modules are run by it")
    folder = tmp_path_factory.mktemp("web")
    for file in (files("pivec.report") / "web").iterdir():
        if file.name.endswith(".js"):
            (folder / file.name).write_text(file.read_text("utf-8"), "utf-8")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "ask.js").write_text(ASKED)

    def answers(report, pairs=(), rows=(), gamma=()):
        asked = {"blob": page_data(report), "pairs": pairs, "rows": list(rows), "gamma": gamma}
        (folder / "asked.json").write_text(json.dumps(asked))
        done = subprocess.run(
            [node, "ask.js"], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return answers


def space_of(name, n=12, episodes=6, **arguments):
    """Policies that walk away from two that are alike; the last has a single episode."""
    rng = np.random.default_rng(0)
    walks = [
        [
            rng.normal([place, place / 3, 0], 1.0, (int(rng.integers(20, 60)), 3))
            for _ in range(episodes)
        ]
        for place in [0.0, 0.0, *np.linspace(0.4, 3.0, n - 2)]
    ]
    walks[-1] = walks[-1][:1]
    data = VisitedStates.from_arrays(walks, feature_names=FEATURES)
    method = characterization(name, **arguments).fit(data)
    kept = {"influences": True} if method.traits.influences else {}
    space = Space(method, method.describe(data, **kept), collected={"environment": "Walk-v0"})
    return space, data


def report_of(space, data=None, measured=None):
    measured = measured or measure(space.method, space.descriptions, data)
    return Findings.of(space, measured, RunLog("nowhere", ""))


def column(answers, name):
    return np.array([float(pair[name]) for pair in answers["pairs"]])


PAIRS = [(i, j) for i in range(12) for j in range(12) if i != j]
AT = tuple(np.array(PAIRS).T)


@pytest.fixture(scope="module")
def visited():
    space, data = space_of("visitation", n_components=5, random_state=1)
    with pytest.warns(match="single episode"):
        report = report_of(space)
    return space, data, report


def test_all_pairs_are_as_python_has_them(ask, visited):
    space, _, report = visited
    sure = report.measured.intervals
    answers = ask(report, PAIRS, range(12))
    assert np.allclose(answers["between"], report.measured.estimates[AT], rtol=1e-6)
    for name in ("low", "high"):
        assert np.allclose(column(answers, name), getattr(sure, name)[AT], 1e-6, equal_nan=True)
    assert np.allclose(column(answers, "measured"), report.measured.matrix[AT], rtol=1e-3)
    assert np.allclose(
        column(answers, "overlap"), space.method.overlap(space.descriptions)[AT], atol=1e-5
    )
    alike = [pair["alike"] for pair in answers["pairs"]]
    known = ~np.isnan(sure.p_value[AT])
    assert [value is None for value in alike] == (~known).tolist()
    assert [value for value in alike if value is not None] == (
        ~report.measured.certain[AT][known]
    ).tolist()
    assert not any(pair["bound"] for pair in answers["pairs"])
    assert np.allclose(np.reshape(answers["block"], (12, 12)), report.measured.estimates, rtol=1e-6)
    assert answers["words"] == ""
    order = sure.distance + np.diag([np.inf] * 12)  # below 0 by chance, where noise is larger
    for i, found in enumerate(answers["nearest"]):
        assert [near["row"] for near in found] == np.argsort(order[i])[:10].tolist()
        assert np.allclose(
            [near["distance"] for near in found], np.maximum(np.sort(order[i])[:10], 0)
        )


def test_many_pairs_are_measured_from_points(ask, visited, monkeypatch):
    monkeypatch.setattr(certainty, "PAIRS_BYTES", 0)
    _, _, report = visited
    sure, measured = report.measured.intervals, report.measured
    answers = ask(report, PAIRS, range(12))
    scale = measured.matrix.max()
    assert np.allclose(answers["between"], measured.estimates[AT], rtol=1e-3, atol=1e-5 * scale)
    known = ~np.isnan(sure.p_value[AT])
    low, high = column(answers, "low"), column(answers, "high")
    assert (low[known] <= sure.low[AT][known] + 1e-5 * scale).all()
    assert (high[known] >= sure.high[AT][known] - 1e-5 * scale).all()
    assert np.isnan(low[~known]).all()
    widths = (high - low)[known] / (sure.high - sure.low)[AT][known]
    assert np.median(widths) < 4  # wider, but of use
    alike = [pair["alike"] for pair in answers["pairs"]]
    assert [value is None for value in alike] == (~known).tolist()
    assert [value for value in alike if value is not None] == (
        ~measured.certain[AT][known]
    ).tolist()
    assert all(pair["bound"] for pair, k in zip(answers["pairs"], known, strict=True) if k)
    order = sure.distance + np.diag([np.inf] * 12)
    assert [[n["row"] for n in found] for found in answers["nearest"]] == np.argsort(order)[
        :, :10
    ].tolist()
    assert "Intervals are wider" in answers["words"]


def test_only_the_nearest_are_known(ask, visited, monkeypatch):
    space, _, report = visited
    monkeypatch.setattr("pivec.report.script_data._ROOM", 0.0)
    matrix = report.measured.matrix + np.diag([np.inf] * 12)
    near = np.argsort(matrix)[:, :3]
    measured = Measured(None, near, np.take_along_axis(matrix, near, axis=1))
    answers = ask(report_of(space, measured=measured), PAIRS, range(12))
    assert not answers["complete"]
    assert answers["told"] == [None] * len(PAIRS)
    assert "too many policies" in answers["why"]
    trace = certainty._spread(space.descriptions)["trace"]
    noise = np.nan_to_num(trace[:, None] + trace)
    for i, found in enumerate(answers["nearest"]):
        expected = sorted((matrix[i, j] - noise[i, j], j) for j in near[i])
        assert [n["row"] for n in found] == [j for _, j in expected]
        assert np.allclose([n["distance"] for n in found], [max(d, 0.0) for d, _ in expected])
    known = {frozenset((i, j)) for i in range(12) for j in near[i].tolist()}
    told = [value is not None and value != "NaN" for value in answers["between"]]
    assert told == [frozenset(pair) in known for pair in PAIRS]


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("visitation", {"n_components": 5}),
        ("visitation", {"n_components": 3, "backgrounds": 2}),
        ("supervector", {"n_components": 5}),
        ("supervector", {"n_components": 5, "common_total": 100.0}),
        ("gaussian", {}),
    ],
)
def test_what_differs_is_as_python_has_it(ask, name, arguments):
    space, data = space_of(name, **arguments)
    method, few = space.method, [(0, 5), (11, 3), (1, 0)]
    answers = ask(report_of(space, data), few)
    for (i, j), told in zip(few, answers["told"], strict=True):
        e = method.decompose(data[i], data[j])
        sizes = [part["part"] for part in told["parts"]]
        assert sizes == sorted(sizes, reverse=True)
        assert sum(sizes) == pytest.approx(told["measured"], rel=1e-9)
        assert told["measured"] == pytest.approx(e.distance, rel=2e-3)
        for part in told["parts"]:
            k, close = part["region"], {"rel": 5e-3, "abs": 1e-5 * e.distance}
            assert part["part"] == pytest.approx(e.regions.measured[k], **close)
            for kind, of in (("often", "how often"), ("where", "where"), ("wide", "how wide")):
                expected = e.kinds[of].measured[k] if of in e.kinds else 0.0
                assert part[kind] == pytest.approx(expected, **close)
            assert [part["shareA"], part["shareB"]] == pytest.approx(
                e.share[:, k].tolist(), abs=1e-4
            )
            by_name = {feature["name"]: feature for feature in part["features"]}
            spans = np.ptp(e.ranges[k], axis=1)
            for d, feature in enumerate(FEATURES):
                parts = [
                    e.finest.measured[k, c] for c, column in enumerate(e.columns) if column[1] == d
                ]
                assert by_name[feature]["part"] == pytest.approx(sum(parts), **close)
                for side, which in (("a", 0), ("b", 1)):
                    value = float(by_name[feature][side])
                    if np.isfinite(value):
                        assert value == pytest.approx(e.means[which, k, d], abs=0.05 * spans[d])
        assert (
            np.mean([float(f["a"]) == float(f["a"]) for p in told["parts"] for f in p["features"]])
            > 0.7
        )
        assert len(told["averages"]) == 3
        for d, average in enumerate(told["averages"]):
            assert [average["a"], average["b"]] == pytest.approx(
                e.averages[:, d].tolist(), abs=1e-4
            )


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
def test_gaussians_are_measured_in_any_number(ask, monkeypatch):
    monkeypatch.setattr(certainty, "PAIRS_BYTES", 0)
    space, _ = space_of("gaussian")
    report = report_of(space)
    answers = ask(report, PAIRS, range(12))
    assert np.allclose(answers["between"], report.measured.matrix[AT], rtol=1e-4)
    assert {pair["alike"] for pair in answers["pairs"]} == {None}
    assert "noise of sampling" in answers["words"]


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
def test_a_method_that_tells_no_parts(ask):
    space, data = space_of("mmd")
    report = report_of(space, data)
    answers = ask(report, PAIRS)
    assert np.allclose(answers["between"], report.measured.estimates[AT], rtol=1e-6)
    assert answers["told"] == [None] * len(PAIRS)
    assert "cannot tell what differs" in answers["why"]


def test_the_gamma_function_of_p_values(ask, visited):
    places = [
        (a, a * x) for a in (0.01, 0.3, 0.5, 1, 2.5, 40, 900) for x in (0, 0.01, 0.7, 1, 1.1, 3)
    ]
    found = ask(visited[2], gamma=places)["gamma"]
    assert np.allclose(found, [gammaincc(a, x) for a, x in places], rtol=0, atol=1e-10)
