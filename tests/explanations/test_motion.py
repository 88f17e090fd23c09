"""Direction, speed, order and spread are named as such, where they differ and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pivec
from pivec.explanations import ComparisonFolder, explain_pair, explain_run, summarize_regions
from pivec.report import print_pair


def circles(rng, speed, episodes=15, steps=120):
    """Walks on a circle, from anywhere on it, whole turns."""
    turns = rng.uniform(0, 7, (episodes, 1)) + 2 * np.pi / 40 * speed * np.arange(steps)
    noise = rng.normal(0, 0.05, (episodes, steps, 2))
    return list(np.stack([np.cos(turns), np.sin(turns)], axis=2) + noise)


def opened(*policies, names=("x", "y"), **more):
    data = pivec.VisitedStates.from_arrays(
        list(policies), labels=list("ab"), feature_names=names, **more
    )
    method = pivec.characterization("visitation", n_components=24, n_init=1).fit(data)
    space = pivec.Space(method, method.describe(data, influences=True))
    return ComparisonFolder(Path("here"), space, data)


@pytest.mark.parametrize(
    ("speed", "words"),
    [
        (-1, "same places, opposite direction"),
        (3, "same places, 2.6 times the speed"),  # of which noise is a part
        (-3, "same places, opposite direction, 2.6 times the speed"),
        (1, ""),
    ],
)
def test_direction_and_speed_are_named(rng, speed, words):
    pair = explain_pair(opened(circles(rng, 1), circles(rng, speed)), "a", "b")
    assert pair.motion_words() == words
    assert pair.different == bool(words)
    assert words in pair.headline()
    assert pair.spread_words() == []  # of steps, which the words say already
    content = json.loads(json.dumps(pair.to_json(), allow_nan=False))
    assert content["motion_words"] == words
    assert content["motion"]["places"] == pair.motion.places < 0.01


def test_jitter_is_long_steps_and_a_new_order_is_one(rng):
    smooth, shuffled = circles(rng, 1), circles(rng, 1)
    for episode in shuffled:
        rng.shuffle(episode)
    words = explain_pair(opened(smooth, shuffled), "a", "b").motion_words()
    assert words.startswith("same places, ")
    assert words.endswith(" times as long steps")

    def rooms(*order):
        """Three rooms in a triangle, for ten steps each, again and again."""
        corners = np.array([[0, 0], [1, 0], [0.5, 0.87]])
        rows = np.tile(np.repeat(corners[list(order)], 10, axis=0), (5, 1))
        return [rows + rng.normal(0, 0.05, rows.shape) for _ in range(15)]

    pair = explain_pair(opened(rooms(0, 1, 2), rooms(0, 2, 1)), "a", "b")
    assert pair.motion_words() == "same places, different order"


def test_other_places_are_no_motion_and_a_spread_is_named(rng):
    near, far = circles(rng, 1), [walk + np.array([0.5, 0.0]) for walk in circles(rng, 1)]
    pair = explain_pair(opened(near, far), "a", "b")
    assert pair.different
    assert pair.motion_words() == ""
    assert [pair.features[shift.feature].name for shift in pair.average_shifts()] == ["x"]
    wide, narrow = (
        [np.column_stack([walk, rng.normal(0, v, len(walk))]) for walk in circles(rng, 1)]
        for v in (2, 1)
    )
    pair = explain_pair(opened(narrow, wide, names=("x", "y", "speed")), "a", "b")
    [words] = pair.spread_words()
    assert words.startswith(("twice the spread of speed", "1.9 times the spread of speed",
                             "2.1 times the spread of speed"))  # fmt: skip
    [ratio] = pair.spread_ratios()
    assert ratio.low < 2 < ratio.high


@pytest.mark.parametrize("case", ["opposite", "fast", "wide"])
def test_the_first_lines_say_it(rng, case, capsys):
    """Before any table: "opposite direction", "the speed", or "the spread" of the right feature."""
    if case == "wide":  # one of twelve features
        names = tuple(f"f{i}" for i in range(12))
        a, b = (
            [rng.normal(0, np.where(np.arange(12) == 3, v, 1), (100, 12)) for _ in range(20)]
            for v in (1, 2)
        )
    else:
        names = ("x", "y")
        a, b = circles(rng, 1), circles(rng, -1 if case == "opposite" else 3)
    print_pair(explain_pair(opened(a, b, names=names), "a", "b"))
    first = capsys.readouterr().out.split("regions  share")[0]
    assert {"opposite": "opposite direction", "fast": "times the speed", "wide": "spread of f3"}[
        case
    ] in " ".join(first.split())


def test_regions_of_opposite_directions_have_names_that_say_so(rng):
    line = np.linspace(0, 1, 60)[:, None]
    forth, back = ([walk + rng.normal(0, 0.002, walk.shape) for walk in [way] * 8]
                   for way in (line, line[::-1]))  # fmt: skip
    where = opened(forth, back, names=("height",))
    regions = summarize_regions(where)
    spent = regions.shares
    for region in regions:
        mine = "increasing" if spent[0, region.number] > 0.5 * spent[:, region.number].sum() else ""
        assert (mine or "decreasing") in region.name
        assert len(region.ranges) == len(regions.columns) == 2
    assert [column.title for column in regions.columns] == ["height", "Δheight (per step)"]
    along = where.regions_along(line.astype(np.float32))
    assert len(along) == len(line)
    assert along[-1] == along[-2]  # the last state makes no move
    assert all("increasing" in regions[k].name for k in along)


def test_a_run_that_turns_round_is_told_by_its_steps(rng):
    walks = [circles(rng, speed) for speed in (1, 1)]
    walks[1] = [walk + rng.normal(0, 0.02, walk.shape) for walk in walks[1]]
    turned = [[walk[::-1] for walk in own] for own in walks[1:]]
    # On a circle every direction is as frequent; along half of it one is.
    walks, turned = ([[walk[walk[:, 1] > 0] for walk in own] for own in some]
                     for some in (walks, turned))  # fmt: skip
    more = {"groups": ["run", "run"], "steps": [0, 1000]}
    result = explain_run(opened(walks[0], turned[0], **more), "run")
    [phase] = result.phases
    change = phase.features[0]
    assert change.feature == "Δx"
    assert change.where.startswith(("x increasing by more than", "x decreasing by more than"))
