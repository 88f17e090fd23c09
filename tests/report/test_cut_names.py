"""The page's script cuts names as the terminal and figures do."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.text import shorten_names

CALL = """
import { readFileSync } from "node:fs";
import { squeezed } from "@web/names";
const { names, room } = JSON.parse(readFileSync(0, "utf-8"));
console.log(JSON.stringify(names.map((name) => squeezed(name, room, names))));
"""


@pytest.fixture(scope="module")
def squeezed(web_program):
    """Give the function of the page's script, run by node."""
    program = web_program(CALL)
    return lambda names, room: program({"names": names, "room": room})


@pytest.mark.parametrize("room", [3, 16, 22, 40])
def test_names_are_cut_as_in_python(squeezed, room):
    names = [
        f"runs/BipedalWalkerHardcore-v3_{kind}/seed_{seed}/rl_model_{1000 * step}_steps"
        for kind in ("schön", "𝔉est")
        for seed in range(3)
        for step in (4, 40)
    ]
    shown = squeezed(names, room)
    pairs = [
        (a, b) for a, b in zip(shown, shorten_names(names, room), strict=True) if len(b) <= room
    ]
    assert pairs or room < 22  # Python makes names longer that would be those of others
    assert all(a == b for a, b in pairs)
    assert {len(name) for name in shown} == {min(room, len(name)) for name in names}


def test_of_many_names_a_sample_tells_what_is_common(squeezed):
    rng = np.random.default_rng(0)
    names = [f"results/experiment/run_{i}/{rng.integers(10**6)}" for i in range(1500)]
    for name, shown in zip(names, squeezed(names, 22), strict=True):
        assert len(shown) <= 22
        assert shown.endswith(name.partition("_")[2])
