"""Figures are small files, the same each time, and take any label and any number of points."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from pivec.errors import UsageError
from pivec.report import MapRows, draw_distances, draw_map, draw_travel
from pivec.report.canvas import new_figure, to_png
from pivec.report.heatmap import averaged, distances_figure
from pivec.report.map_figure import informative_colourings, map_figure
from pivec.report.travel import round_ticks, spread_out, travel_svg

LIMIT = 300_000


def pixels(path_or_bytes):
    from PIL import Image

    source = io.BytesIO(path_or_bytes) if isinstance(path_or_bytes, bytes) else path_or_bytes
    with Image.open(source) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def rows_of(n, *, groups=None, steps=None, seed=0, **changes):
    rng = np.random.default_rng(seed)
    values = {
        "labels": [f"p{i}" for i in range(n)],
        "groups": groups or [""] * n,
        "steps": steps or [None] * n,
        "positions": rng.normal(size=(n, 2)),
        "mean_returns": rng.normal(size=n),
        "n_episodes": [1] * n,
        "n_states": [1] * n,
        "sources": [""] * n,
        "is_reference": [False] * n,
    }
    return MapRows(**(values | changes))


@pytest.mark.parametrize("colour", [None, "return", "group", "step"])
def test_map_is_a_small_png_and_repeats(tmp_path, report, colour):
    for name in ("a.png", "b.png"):
        draw_map(tmp_path / name, report, colour=colour)
    data = (tmp_path / "a.png").read_bytes()
    assert data == (tmp_path / "b.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < LIMIT
    assert (pixels(data)[:, [0, -1]] == 255).all()


def test_map_of_thirty_thousand_points_is_small_and_readable(tmp_path):
    n = 30_000
    rows = rows_of(n, groups=[f"run {i // 50}" for i in range(n)], steps=[i % 50 for i in range(n)])
    draw_map(tmp_path / "map.png", rows)
    assert (tmp_path / "map.png").stat().st_size < LIMIT
    assert pixels(tmp_path / "map.png").shape[1] > 1000


def test_colourings_are_those_that_tell_policies_apart(make_report):
    assert informative_colourings(make_report()) == ["return", "group", "step"]
    assert informative_colourings(make_report(mean_returns=np.full(11, np.nan))) == [
        "group",
        "step",
    ]
    assert informative_colourings(rows_of(3, mean_returns=np.ones(3))) == ["group"]
    assert informative_colourings(rows_of(3)) == ["return"]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_identical_or_unknown_policies_can_be_drawn(tmp_path, n):
    rows = rows_of(
        n,
        groups=["r"] * n,
        steps=[7] * n,
        positions=np.zeros((n, 2)),
        mean_returns=np.array([np.nan, np.inf, -np.inf, 1, 1])[:n],
    )
    for colour in (None, "return", "group", "step"):
        draw_map(tmp_path / "map.png", rows, colour=colour)
    draw_distances(tmp_path / "d.png", np.zeros((n, n)), rows)


def test_a_map_needs_a_policy_and_a_known_colour(tmp_path, report):
    with pytest.raises(UsageError, match="at least one"):
        draw_map(tmp_path / "map.png", rows_of(0))
    with pytest.raises(UsageError, match="colour must be"):
        draw_map(tmp_path / "map.png", report, colour="size")
    assert not list(tmp_path.iterdir())


ODD_NAMES = [
    "$x$",
    r"$\frac{",
    "_hidden",
    "a\nb",
    "漢字",
    "🙂",
    "=cmd()",
    "<b>",
    "x" * 300,
    "a\\$b",
    "\udcff",
]


def test_odd_names_are_drawn_literally(tmp_path):
    n = 2 * len(ODD_NAMES)
    rows = rows_of(n, labels=ODD_NAMES * 2, groups=ODD_NAMES * 2, steps=list(range(n)))
    draw_map(tmp_path / "map.png", rows, title=ODD_NAMES[0], subtitle=ODD_NAMES[1])
    d = np.ones((n, n)) - np.eye(n)
    draw_distances(tmp_path / "d.png", d, rows, title=ODD_NAMES[1])
    draw_distances(tmp_path / "e.png", d, rows_of(n, labels=ODD_NAMES * 2))
    draw_travel(tmp_path / "t.png", [(name, [0, 1], [0.0, 1.0]) for name in ODD_NAMES])


def test_dollar_signs_are_shown_not_set_as_mathematics():
    texts = [
        text.get_text()
        for text in map_figure(
            rows_of(4, groups=["$x$", "$x$", "_y", "_y"], steps=[1, 2, 1, 2]), colour="group"
        ).findobj(lambda artist: hasattr(artist, "get_text"))
    ]
    assert r"\$x\$" in texts
    assert "_y" in texts


def test_many_groups_are_counted_in_the_legend():
    n = 100
    rows = rows_of(n, groups=[f"g{i // 2}" for i in range(n)], steps=[i % 2 for i in range(n)])
    figure = map_figure(rows, colour="group")
    texts = [t.get_text() for t in figure.findobj(lambda artist: hasattr(artist, "get_text"))]
    assert "… and 36 more" in texts
    assert "g13" in texts


def test_checkpoints_are_joined_in_order_of_step():
    from matplotlib.collections import LineCollection

    rows = rows_of(3, groups=["r"] * 3, steps=[30, 10, 20])
    lines = map_figure(rows, colour="step").findobj(LineCollection)
    assert np.allclose(lines[0].get_segments()[0], rows.positions[[1, 2, 0]])


def test_panels_have_equal_scales():
    axes = map_figure(
        rows_of(9, positions=np.random.default_rng(0).normal(size=(9, 2)) * [9, 1])
    ).axes
    assert axes[0].get_aspect() == 1
    assert np.isclose(np.ptp(axes[0].get_xlim()), np.ptp(axes[0].get_ylim()))


@pytest.mark.parametrize("n", [40, 281, 1500])
def test_worst_case_heatmaps_are_small_files(tmp_path, n):
    d = np.random.default_rng(0).random((n, n)) ** 4
    draw_distances(tmp_path / "d.png", d + d.T, rows_of(n))
    assert (tmp_path / "d.png").stat().st_size < LIMIT
    assert pixels(tmp_path / "d.png").shape[1] > 500


def test_heatmap_keeps_groups_together_and_like_groups_side_by_side():
    groups = ["a", "b", "c"] * 4
    at = {"a": 0.0, "b": 10.0, "c": 1.0}
    places = np.array([at[g] + 0.01 * i for i, g in enumerate(groups)])
    d = np.abs(np.subtract.outer(places, places))
    figure = distances_figure(d, rows_of(12, groups=groups, steps=list(range(12))))
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["a", "c", "b"]
    image = figure.axes[0].images[0].get_array()
    expected = np.concatenate([[i for i in range(12) if groups[i] == g] for g in "acb"])
    assert np.allclose(image, d[np.ix_(expected, expected)])


def test_averaging_keeps_the_mean_over_equal_blocks():
    d = np.random.default_rng(0).random((12, 12))
    order = np.random.default_rng(1).permutation(12)
    small = averaged(d, order, 4)
    sorted_d = d[np.ix_(order, order)]
    assert np.allclose(small, sorted_d.reshape(4, 3, 4, 3).mean(axis=(1, 3)))


def test_heatmap_must_fit_its_rows(tmp_path):
    with pytest.raises(UsageError, match="shape"):
        draw_distances(tmp_path / "d.png", np.zeros((2, 2)), rows_of(3))


@pytest.mark.parametrize("n_runs", [1, 12, 60])
def test_travel_is_a_small_png(tmp_path, n_runs):
    rng = np.random.default_rng(0)
    travel = [
        (f"run {i}", list(range(50)), np.cumsum(rng.random(50)).tolist()) for i in range(n_runs)
    ]
    draw_travel(tmp_path / "t.png", travel)
    assert (tmp_path / "t.png").stat().st_size < LIMIT
    draw_travel(tmp_path / "t.png", [("still", [5], [0.0]), ("none", [], [])])
    with pytest.raises(UsageError, match="at least one run"):
        draw_travel(tmp_path / "t.png", [])


def test_travel_drawing_escapes_names_and_has_a_line_a_run():
    svg = travel_svg([("<b>&", [0, 10], [0.0, 2.0]), ("still", [5], [0.0])], ["#000", "#111"])
    assert svg.count("<polyline") == 2
    assert "<b>" not in svg
    assert "&lt;b&gt;&amp;" in svg
    assert "nan" not in svg


def test_labels_keep_their_distance_inside_the_plot():
    spots = spread_out([10, 10.1, 10.2, 3], 1.0, lowest=0.0, highest=10.0)
    assert spots[3] == 3
    assert np.allclose(spots[:3], [8, 9, 10])


@pytest.mark.parametrize(("low", "high"), [(0, 1e-9), (0, 7e8), (50_000, 400_000), (5, 5)])
def test_ticks_are_round_and_cover(low, high):
    ticks = round_ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    assert 2 <= len(ticks) <= 8


def test_matplotlib_settings_and_pyplot_are_left_alone(tmp_path, report):
    import matplotlib

    before = dict(matplotlib.rcParams)
    had_pyplot = "matplotlib.pyplot" in sys.modules
    draw_map(tmp_path / "map.png", report)
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot


def test_resolution_falls_until_the_file_fits():
    figure = new_figure(6, 6)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(np.random.default_rng(0).random((1500, 1500, 3)), aspect="auto")
    data = to_png(figure)
    assert len(data) < LIMIT
    assert pixels(data).shape[0] < 6 * 200
