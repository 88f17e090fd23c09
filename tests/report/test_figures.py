"""Figures are small files, the same each time, and take any label and any number of points."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from pivec.canvas import new_figure, save_png, to_png
from pivec.distances import Travel
from pivec.errors import UsageError
from pivec.report.sections.distances import averaged, distances_figure
from pivec.report.sections.map import informative_colourings, map_figure
from pivec.report.sections.travel import round_ticks, spread_out, travel_svg

LIMIT = 300_000


def draw_map(path, *arguments, **options):
    save_png(map_figure(*arguments, **options), path)


def draw_distances(path, *arguments):
    save_png(distances_figure(*arguments), path)


def run(group, steps, legs):
    return Travel(group, tuple(range(len(steps))), tuple(steps), np.array(legs))


def pixels(path_or_bytes):
    from PIL import Image

    source = io.BytesIO(path_or_bytes) if isinstance(path_or_bytes, bytes) else path_or_bytes
    with Image.open(source) as image:
        return np.asarray(image.convert("RGB")).astype(int)


@pytest.mark.parametrize("colour", [None, "return", "group", "step"])
def test_map_is_a_small_png_and_repeats(tmp_path, report, colour):
    for name in ("a.png", "b.png"):
        draw_map(tmp_path / name, report.rows, colour=colour)
    data = (tmp_path / "a.png").read_bytes()
    assert data == (tmp_path / "b.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < LIMIT
    assert (pixels(data)[:, [0, -1]] == 255).all()


def test_map_of_thirty_thousand_points_is_small_and_readable(tmp_path, rows_of):
    n = 30_000
    rows = rows_of(n, group=[f"run {i // 50}" for i in range(n)], step=[i % 50 for i in range(n)])
    draw_map(tmp_path / "map.png", rows)
    assert (tmp_path / "map.png").stat().st_size < LIMIT
    assert pixels(tmp_path / "map.png").shape[1] > 1000


def test_colourings_are_those_that_tell_policies_apart(make_report, rows_of):
    assert informative_colourings(make_report().rows) == ["return", "group", "step"]
    unknown = make_report({"mean_return": [np.nan] * 11})
    assert informative_colourings(unknown.rows) == ["group", "step"]
    assert informative_colourings(rows_of(3, mean_return=[1.0] * 3)) == ["group"]
    assert informative_colourings(rows_of(3)) == ["return"]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_identical_or_unknown_policies_can_be_drawn(tmp_path, n, rows_of):
    rows = rows_of(
        n,
        group=["r"] * n,
        step=[7] * n,
        x=[0.0] * n,
        y=[0.0] * n,
        mean_return=[np.nan, np.inf, -np.inf, 1.0, 1.0][:n],
    )
    for colour in (None, "return", "group", "step"):
        draw_map(tmp_path / "map.png", rows, colour=colour)
    draw_distances(tmp_path / "d.png", np.zeros((n, n)), rows)


def test_a_map_needs_a_policy_and_a_known_colour(tmp_path, report, rows_of):
    with pytest.raises(UsageError, match="at least one"):
        draw_map(tmp_path / "map.png", rows_of(0))
    with pytest.raises(UsageError, match="colour must be"):
        draw_map(tmp_path / "map.png", report.rows, colour="size")
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


def test_odd_names_are_drawn_literally(tmp_path, rows_of):
    n = 2 * len(ODD_NAMES)
    rows = rows_of(n, label=ODD_NAMES * 2, group=ODD_NAMES * 2, step=list(range(n)))
    draw_map(tmp_path / "map.png", rows, ODD_NAMES[1])
    d = np.ones((n, n)) - np.eye(n)
    draw_distances(tmp_path / "d.png", d, rows, ODD_NAMES[1])
    draw_distances(tmp_path / "e.png", d, rows_of(n, label=ODD_NAMES * 2))
    svg = travel_svg([run(name, [0, 1], [1.0]) for name in ODD_NAMES], ["#000"] * len(ODD_NAMES))
    assert "<b>" not in svg


def test_dollar_signs_are_shown_not_set_as_mathematics(rows_of):
    texts = [
        text.get_text()
        for text in map_figure(
            rows_of(4, group=["$x$", "$x$", "_y", "_y"], step=[1, 2, 1, 2]), colour="group"
        ).findobj(lambda artist: hasattr(artist, "get_text"))
    ]
    assert r"\$x\$" in texts
    assert "_y" in texts


def test_many_groups_are_counted_in_the_legend(rows_of):
    n = 100
    rows = rows_of(n, group=[f"g{i // 2}" for i in range(n)], step=[i % 2 for i in range(n)])
    figure = map_figure(rows, colour="group")
    texts = [t.get_text() for t in figure.findobj(lambda artist: hasattr(artist, "get_text"))]
    assert "… and 36 more" in texts
    assert "g13" in texts


def test_checkpoints_are_joined_in_order_of_step(rows_of):
    from matplotlib.collections import LineCollection

    rows = rows_of(3, group=["r"] * 3, step=[30, 10, 20])
    lines = map_figure(rows, colour="step").findobj(LineCollection)
    expected = [(rows[i].x, rows[i].y) for i in (1, 2, 0)]
    assert np.allclose(lines[0].get_segments()[0], expected)


def test_panels_have_equal_scales(rows_of):
    axes = map_figure(rows_of(9, x=(9 * np.random.default_rng(0).normal(size=9)).tolist())).axes
    assert axes[0].get_aspect() == 1
    assert np.isclose(np.ptp(axes[0].get_xlim()), np.ptp(axes[0].get_ylim()))


@pytest.mark.parametrize("n", [40, 281, 1500])
def test_worst_case_heatmaps_are_small_files(tmp_path, n, rows_of):
    d = np.random.default_rng(0).random((n, n)) ** 4
    draw_distances(tmp_path / "d.png", d + d.T, rows_of(n))
    assert (tmp_path / "d.png").stat().st_size < LIMIT
    assert pixels(tmp_path / "d.png").shape[1] > 500


def test_heatmap_keeps_groups_together_and_like_groups_side_by_side(rows_of):
    groups = ["a", "b", "c"] * 4
    at = {"a": 0.0, "b": 10.0, "c": 1.0}
    places = np.array([at[g] + 0.01 * i for i, g in enumerate(groups)])
    d = np.abs(np.subtract.outer(places, places))
    figure = distances_figure(d, rows_of(12, group=groups, step=list(range(12))))
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


def test_heatmap_must_fit_its_rows(tmp_path, rows_of):
    with pytest.raises(UsageError, match="shape"):
        draw_distances(tmp_path / "d.png", np.zeros((2, 2)), rows_of(3))


@pytest.mark.parametrize("n_runs", [1, 12, 60])
def test_travel_has_a_line_a_run_and_names_while_there_is_room(n_runs):
    rng = np.random.default_rng(0)
    travels = [run(f"run {i}", list(range(50)), rng.random(49)) for i in range(n_runs)]
    svg = travel_svg(travels, ["#000"] * n_runs)
    assert svg.count("<polyline") == n_runs
    assert svg.count('class="name"') == (n_runs if n_runs <= 24 else 0)


def test_travel_drawing_escapes_names_and_has_a_line_a_run():
    svg = travel_svg([run("<b>&", [0, 10], [2.0]), run("still", [5, 5], [0.0])], ["#000", "#111"])
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
    draw_map(tmp_path / "map.png", report.rows)
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot


def test_resolution_falls_until_the_file_fits():
    figure = new_figure(6, 6)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(np.random.default_rng(0).random((1500, 1500, 3)), aspect="auto")
    data = to_png(figure)
    assert len(data) < LIMIT
    assert pixels(data).shape[0] < 6 * 200
