"""Names stay different when they are cut, and show what differs."""

from __future__ import annotations

import numpy as np
import pytest

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
