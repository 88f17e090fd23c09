"""Names stay different when they are cut, and show what differs."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.terminal import print_table, text_columns
from pivec.text import shorten_names


def test_the_parts_that_differ_stay():
    names = [
        f"BipedalWalkerHardcore-v3_long/seed_{s}/model_{n}_steps"
        for s, n in ((1, 9000), (2, 40000))
    ]
    for shown, name in zip(shorten_names(names, 30), names, strict=True):
        assert len(shown) <= 30
        seed, number = name.split("_")[2][0], name.split("_")[-2]
        assert f"_{seed}/" in shown
        assert number in shown
        assert "…" in shown


def test_short_names_and_equal_ones_stay_as_they_are():
    assert shorten_names(["a", "b", "a"], 10) == ["a", "b", "a"]
    assert shorten_names([], 10) == []
    assert shorten_names(["x" * 30] * 2, 10) == ["xxxx…xxxxx"] * 2


@pytest.mark.parametrize("seed", range(20))
def test_different_names_stay_different(seed):
    rng = np.random.default_rng(seed)
    names = ["".join(rng.choice(list("ab_1/…"), rng.integers(0, 20))) for _ in range(12)]
    for width in (1, 3, 8):
        assert len(set(shorten_names(names, width))) == len(set(names))


@pytest.mark.parametrize("columns", [70, 80])
def test_a_table_keeps_what_distinguishes_names(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    names = [f"MountainCarContinuousHardcore-v3__final_{k}__seed_7/step_90" for k in "abc"]
    rows = [(a, b, "0.125 (0.063 to 0.25)") for a, b in zip(names, reversed(names), strict=True)]
    print_table(text_columns("policy", "other", "distance", left=(0, 1), names=(0, 1)), rows)
    printed = capsys.readouterr().out.splitlines()[1:]
    assert len(printed) == 3  # nothing wraps
    for line, a, b in zip(printed, "abc", "cba", strict=True):
        first, second, _ = line.split(maxsplit=2)
        assert f"_{a}_" in first
        assert f"_{b}_" in second
        assert line.rstrip().endswith("0.125 (0.063 to 0.25)")
    monkeypatch.setenv("COLUMNS", "200")
    print_table(text_columns("policy", names=(0,)), [(name,) for name in names])
    assert capsys.readouterr().out.split()[1:] == names
