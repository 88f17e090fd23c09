"""The recipe of trust regions: shared paths, the choice of thresholds, findings, and going on."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reproduction.pipeline import Pipeline
from reproduction.recipes import trust_region
from reproduction.recipes.trust_region import best_thresholds, findings, interval
from reproduction.runner import reproduce
from reproduction.training.trust_region import CONSTRAINTS, RANGES, PathRun, base_of, next_threshold


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
    assert set(paths) == {*CONSTRAINTS, "none", "clipped", "gaussian-ends", "none-64"}
    assert {tuple(each) for each in paths.values()} == {("0", "1")}


def test_the_best_threshold_lies_inside_of_what_was_searched(made):
    numbers = json.loads((made[1] / "numbers.json").read_text())
    for name in (*CONSTRAINTS, "gaussian-ends"):
        mine = [entry for entry in numbers["sweep"] if entry["method"] == name]
        tried, thresholds = [entry["threshold"] for entry in mine], RANGES[base_of(name)]
        assert tried == sorted(tried)
        assert set(thresholds["first"]) <= set(tried)
        best = max(mine, key=lambda entry: entry["area"][0])["threshold"]
        assert numbers["chosen"][name] == best
        ends = {(*thresholds["lower"], tried[0])[-1], thresholds["higher"][-1]}
        assert best in ends or tried[0] < best < tried[-1]
    assert "none-64" not in numbers["chosen"]
    assert all(each["holds"] is None for each in numbers["findings"]), "smoke tells nothing"


def test_a_second_call_computes_nothing_and_gives_the_same(made, monkeypatch, tmp_path):
    def refuse(*_):
        raise AssertionError("this run was there already")

    monkeypatch.setattr(trust_region.path, "learn_path", refuse)
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


def test_the_range_is_widened_until_the_best_lies_inside():
    areas = {0.2: 5.0, 0.5: 6.0, 0.3: 5.5}
    assert next_threshold(areas, RANGES["max-tv"]) == 0.6
    assert next_threshold(areas | {0.6: 5.0}, RANGES["max-tv"]) is None
    assert next_threshold(areas | {0.001: 7.0}, RANGES["max-tv"]) == 0.0005
    most = dict.fromkeys((0.6, 0.7, 0.8, 0.9), 6.0)
    assert next_threshold(areas | most | {1.0: 7.0}, RANGES["max-tv"]) is None  # it ends there


def test_the_first_thresholds_are_the_papers():
    for name, text in (
        ("max-tv", "0.001 0.005 0.01 0.05 0.1 0.2 0.3 0.4 0.5"),
        ("gaussian", "0.5 1.0 2.0 3.0 5.0 10.0 15.0 20.0"),
        ("supervector", "0.01 0.05 0.1 0.15 0.2 0.3 0.4 0.5"),
    ):
        assert RANGES[name]["first"] == list(map(float, text.split()))


def test_intervals_are_of_the_mean():
    rng = np.random.default_rng(0)
    values = rng.normal(3.0, 1.0, 400)
    mean, low, high = interval(values, rng)
    assert mean == pytest.approx(values.mean())
    assert high - low == pytest.approx(2 * 1.96 / 20, rel=0.1)


def numbers_of(tenths, **changes):
    """Numbers whose runs have these returns in each tenth, (repetitions, 10) by method."""
    runs = [
        {"part": "repeat", "method": name, "mean_return": mean, "last_tenth": last}
        for name, values in tenths.items()
        for mean, last in zip(values.mean(axis=1), values[:, -1], strict=True)
    ]
    chosen = {"max-tv": 0.4, "gaussian": 10.0, "supervector": 0.05}
    methods = {name: {"stopped": 0.5, "self_stops": 0.3} for name in tenths}
    return {"runs": runs, "tenths": tenths, "chosen": chosen, "methods": methods, **changes}


def test_findings_need_intervals_beside_zero():
    rng = np.random.default_rng(0)
    names = ("max-tv", "gaussian", "supervector", "none", "clipped")
    noise = rng.normal(0, 0.1, (5, 30, 1))
    level = {name: noise[i] + i + np.zeros((30, 10)) for i, name in enumerate(names)}
    told = findings(numbers_of(level))
    assert "in 30% of the iterations" in told[1].why
    held = {each.of: each.holds for each in told}
    assert held == {
        "trust-actions": False,
        "trust-gaussian": False,
        "trust-supervector": False,
        "trust-slow": False,
        "trust-peak": False,
        "trust-thresholds": True,
        "trust-occasionally": True,
        "trust-clipped": True,
    }
    same = dict.fromkeys(names, noise[0] + np.zeros((30, 10)))
    never = {name: {"stopped": 0.0, "self_stops": 0.0} for name in names}
    held = [each.holds for each in findings(numbers_of(same, methods=never))]
    assert held == [None, None, None, None, None, True, False, None]


def test_a_peak_is_quick_early_and_followed_by_a_drop():
    noise = np.random.default_rng(0).normal(0, 0.1, (30, 10))
    flat, curve = noise + 2.0, np.array([5, 6, 7, 6, 5, 4, 3, 3, 3, 3.0])
    for supervector, expected in ((curve, True), (curve[::-1], False), (0 * curve + 3, None)):
        mine = supervector + (noise if expected is not None else noise[:, :1])
        tenths = dict.fromkeys(("max-tv", "gaussian", "none", "clipped"), flat)
        told = findings(numbers_of(tenths | {"supervector": mine}))
        [peak] = [each for each in told if each.of == "trust-peak"]
        assert peak.holds is expected
    assert "best in tenth 1 of 10" in peak.ours


def test_the_plan_counts_the_runs(tmp_path):
    counts = trust_region.RECIPE.counts["paper"]
    needs = trust_region.needs(Pipeline(tmp_path, "paper"), counts)
    amounts = {need.what.split()[2]: need.amount for need in needs}
    assert amounts["max-tv"] == 9 * 10 + 40
    assert amounts["visitation"] == 8 * 10
    assert amounts["gaussian-64"] == 10
    assert amounts["none"] == 50
    assert needs[0].seconds > 0
