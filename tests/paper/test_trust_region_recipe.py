"""The recipe of trust regions: shared paths, the choice of thresholds, findings, and going on."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pivec.paper.reproduction import reproduce
from pivec.paper.trust_region import recipe as trust_region
from pivec.paper.trust_region.findings import findings, interval
from pivec.paper.trust_region.path import PathRun
from pivec.paper.trust_region.recipe import SWEEP, areas, best_thresholds, ends
from pivec.paper.workshop import Workshop


def run_of(returns):
    zeros = np.zeros(len(returns))
    return PathRun(np.asarray(returns, float), zeros, zeros)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("trust-region")
    return out, reproduce("trust-region", "smoke", out)["trust-region"]


def test_methods_share_the_paths_of_their_repetitions(made):
    lines = (made[1] / "numbers.csv").read_text().splitlines()
    header = lines[0].split(",")
    rows = [dict(zip(header, line.split(","), strict=True)) for line in lines[1:]]
    repeated = [row for row in rows if row["part"] == "repeat"]
    paths = {}
    for row in repeated:
        paths.setdefault(row["method"], []).append(row["path_seed"])
    assert set(paths) == {*SWEEP, "none", "clipped"}
    assert {tuple(each) for each in paths.values()} == {("0", "1")}


def test_every_threshold_of_the_paper_is_searched(made):
    numbers = json.loads((made[1] / "numbers.json").read_text())
    for name, (_, thresholds) in SWEEP.items():
        mine = [entry for entry in numbers["sweep"] if entry["method"] == name]
        assert [entry["threshold"] for entry in mine] == list(thresholds)
        best = max(mine, key=lambda entry: entry["area"][0])
        assert numbers["chosen"][name] == best["threshold"]
    assert all(each["holds"] is None for each in numbers["findings"]), "smoke tells nothing"


def test_a_second_call_computes_nothing_and_gives_the_same(made, monkeypatch, tmp_path):
    def refuse(*_):
        raise AssertionError("this run was there already")

    monkeypatch.setattr(trust_region, "learn_path", refuse)
    out, folder = made
    again = reproduce("trust-region", "smoke", tmp_path, cache=out / "cache")["trust-region"]
    for name in ("numbers.json", "numbers.csv", "README.md", "trust-region.png"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def test_a_run_that_is_missing_is_made_again_with_the_same_numbers(made, tmp_path):
    out, folder = made
    before = (folder / "numbers.json").read_text()
    lost = sorted((out / "cache" / "results").glob("trust-region-*.npz"))[::7]
    for file in lost:
        file.unlink()
    again = reproduce("trust-region", "smoke", tmp_path, cache=out / "cache")["trust-region"]
    assert (again / "numbers.json").read_text() == before
    assert all(file.exists() for file in lost)


def test_the_best_threshold_has_the_largest_area():
    swept = {
        ("max-tv", 0.1): [run_of([1, 2]), run_of([1, 4])],
        ("max-tv", 0.2): [run_of([5, 5]), run_of([0, 0])],
        ("gaussian", 1.0): [run_of([0, 0])],
    }
    assert best_thresholds(swept) == {"max-tv": 0.2, "gaussian": 1.0}


def test_area_is_the_mean_of_the_curve_and_the_end_its_last_tenth():
    run = run_of(np.arange(20))
    assert areas([run]) == [9.5]
    assert ends([run]) == [18.5]


def test_intervals_are_of_the_mean():
    rng = np.random.default_rng(0)
    values = rng.normal(3.0, 1.0, 400)
    mean, low, high = interval(values, rng)
    assert mean == pytest.approx(values.mean())
    assert high - low == pytest.approx(2 * 1.96 / 20, rel=0.1)


def test_findings_need_intervals_beside_zero():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.1, (5, 30))
    names = ("max-tv", "gaussian", "supervector", "none", "clipped")
    areas = {name: noise[i] + i for i, name in enumerate(names)}
    ends = dict.fromkeys(names, noise[0])
    held = [each.holds for each in findings(areas, ends, rng)]
    # Max TV is below both; Gaussian and supervector below none; no end differs; clipped is best.
    assert held == [False, False, False, None, True]


def test_the_plan_counts_the_runs(tmp_path):
    counts = trust_region.RECIPE.counts["paper"]
    needs = trust_region.needs(Workshop(tmp_path, "paper"), counts)
    amounts = {need.what.split()[2]: need.amount for need in needs}
    assert amounts["max-tv"] == 9 * 10 + 40
    assert amounts["none"] == 50
    assert needs[0].measure() > 0
