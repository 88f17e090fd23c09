"""Figures are small files, the same each time, and take any label and any number of points."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from pivec.characterizations import Measured, Space, characterization, measure
from pivec.errors import UsageError
from pivec.figures import LONE_COLOUR, new_figure, save_figure, to_png
from pivec.report import Findings, heatmap_figure, map_figure, matrix_figure
from pivec.report.distance_figures import MAX_RUNS, travel_figure
from pivec.report.layout import heatmap_order
from pivec.statistics import Travel

LIMIT = 300_000
MAX_CLASS_COLOURS = 10


def draw_map(path, *arguments, **options):
    save_figure(map_figure(*arguments, **options), path)


def distances_figure(d, policies, *arguments, **options):
    order = heatmap_order(np.asarray(d), [row.group for row in policies], policies.order)
    return matrix_figure(d, policies, order, *arguments, **options)


def draw_distances(path, *arguments):
    save_figure(distances_figure(*arguments), path)


def run(group, steps, legs):
    return Travel(group, tuple(range(len(steps))), tuple(steps), np.array(legs))


def words_of(figure):
    return [t.get_text() for t in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def text_of(figure):
    """Join the lines of notes and headings."""
    return " ".join(" ".join(words_of(figure)).split())


def in_classes(rows_of, sizes, **columns):
    """Make rows of behaviour classes with so many policies each, 1 the first."""
    numbers = [number for number, size in enumerate(sizes, start=1) for _ in range(size)]
    return rows_of(len(numbers), behaviour=numbers, **columns)


def pixels(path_or_bytes):
    from PIL import Image

    source = io.BytesIO(path_or_bytes) if isinstance(path_or_bytes, bytes) else path_or_bytes
    with Image.open(source) as image:
        return np.asarray(image.convert("RGB")).astype(int)


@pytest.mark.parametrize("colour", [None, "return", "group", "step"])
def test_map_is_a_small_png_and_repeats(tmp_path, report, colour):
    for name in ("a.png", "b.png"):
        draw_map(tmp_path / name, report.policies, colour=colour)
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
    assert pixels(tmp_path / "map.png").shape[1] >= 1000


def test_a_crowd_shows_what_lies_at_each_spot(rows_of, monkeypatch):
    monkeypatch.setattr("pivec.report.policy_map.DENSE", 8)
    corners = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    # Three at a corner with returns 0, 3 and unknown; groups a, b, b; one reference alone.
    x, y = zip(*[corner for corner in corners[:3] for _ in range(3)], corners[3], strict=True)
    rows = rows_of(
        10,
        x=list(x),
        y=list(y),
        mean_return=[0.0, 3.0, np.nan, 2.0, 4.0, np.nan, 5.0, 5.0, 5.0, 9.0],
        group=["a", "b", "b"] * 3 + ["a"],
        reference=[False] * 9 + [True],
    )
    figure = map_figure(rows)
    shown = {axes.get_title() or i: axes.images for i, axes in enumerate(figure.axes)}
    assert "Commonest group at each spot" in text_of(figure)
    pictures = [images[0].get_array() for images in shown.values() if images]
    pictures = [picture for picture in pictures if picture.ndim == 3]
    assert len(pictures) == 3  # group, return, density
    at = [np.argwhere(picture[..., 3] > 0) for picture in pictures]
    assert all(len(spots) == 4 for spots in at)
    low, right, high, alone = pictures[1][tuple(at[1].T)]
    from matplotlib import colormaps
    from matplotlib.colors import to_rgba

    for colour, mean in ((low, 1.5), (right, 3.0), (high, 5.0)):
        step = min(int((mean - 1.5) / 3.5 * 20), 19)
        assert np.allclose(colour, colormaps["viridis"](np.linspace(0, 1, 20)[step]))
    groups = pictures[0][tuple(at[0].T)]
    assert np.allclose(groups[:3], to_rgba("#E69F00"))
    assert np.allclose(alone, groups[3])


def test_four_panels_are_in_two_rows(rows_of):
    rows = in_classes(rows_of, [3, 2, 1], group=[*"aabbcc"], step=list(range(6)))
    narrow = map_figure(rows)
    inside = [axes.get_position() for axes in narrow.axes]
    assert all(box.y0 > 0 and box.x1 < 1 and box.y1 < 1 for box in inside)
    panels = [axes for axes in narrow.axes if axes.get_aspect() == 1]
    assert len({round(axes.get_position().y0, 6) for axes in panels}) == 2


def test_classes_have_a_panel_where_they_differ(rows_of):
    figure = map_figure(in_classes(rows_of, [3, 2, 1, 1]))
    words = words_of(figure)
    for text in ("Behaviour class", "1: 3 policies", "2: 2 policies", "2 like no other", "1", "2"):
        assert text in words, text
    assert "3: 1 policy" not in words
    for sizes in ([4], [1, 1, 1]):
        assert "Behaviour class" not in words_of(map_figure(in_classes(rows_of, sizes)))


def test_only_so_many_classes_have_colours_of_their_own(rows_of):
    rows = in_classes(rows_of, [2] * 30 + [1])
    colours = list(rows.class_colours.values())
    assert len(set(colours[:MAX_CLASS_COLOURS])) == MAX_CLASS_COLOURS
    assert colours[MAX_CLASS_COLOURS:] == [LONE_COLOUR] * (30 - MAX_CLASS_COLOURS)
    words = words_of(map_figure(rows, colour="behaviour"))
    assert "+ 20 smaller" in words
    assert "1 like no other" in words


def test_policies_without_a_class_are_counted(rows_of):
    rows = rows_of(5, behaviour=[1, 1, 2, None, None])
    assert "2 not known" in words_of(map_figure(rows, colour="behaviour"))


def test_names_on_the_map_cover_no_point_and_no_other_name(rows_of):
    n = 60
    rows = rows_of(
        n, group=[f"runs/run {i // 6}" for i in range(n)], step=[i % 6 for i in range(n)]
    )
    figure = map_figure(rows, colour="group")
    figure.set_dpi(72)
    to_png(figure, 50)
    axes = figure.axes[0]
    names = [text for text in axes.texts if text.get_text().startswith("run ")]
    assert len(names) >= 5
    boxes = [text.get_window_extent() for text in names]
    points = axes.transData.transform([(row.x, row.y) for row in rows])
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])
        assert not any(box.contains(*point) for point in points)
        assert axes.bbox.contains(box.x0, box.y0)
        assert axes.bbox.contains(box.x1, box.y1)


def test_few_policies_without_runs_have_their_names(rows_of):
    assert {"p0", "p1", "p2"} <= set(words_of(map_figure(rows_of(3))))
    assert "p0" not in words_of(map_figure(rows_of(30)))


def test_colourings_are_those_that_tell_policies_apart(make_report, rows_of):
    titles = {"Mean return", "Group", "Training step"}
    unknown = make_report({"mean_return": [np.nan] * 11})
    for policies, expected in (
        (make_report().policies, titles),
        (unknown.policies, {"Group", "Training step"}),
        (rows_of(3, mean_return=[1.0] * 3), {"Group"}),
        (rows_of(3), {"Mean return"}),
    ):
        assert titles & set(words_of(map_figure(policies))) == expected


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
    for colour in (None, "return", "group", "step", "behaviour", "density"):
        draw_map(tmp_path / "map.png", rows, colour=colour)
    draw_distances(tmp_path / "d.png", np.zeros((n, n)), rows)


def test_a_map_needs_a_known_colour(tmp_path, report):
    with pytest.raises(UsageError, match="colour must be"):
        draw_map(tmp_path / "map.png", report.policies, colour="size")
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


def test_dollar_signs_are_shown_not_set_as_mathematics(rows_of):
    rows = rows_of(4, group=["$x$", "$x$", "_y", "_y"], step=[1, 2, 1, 2])
    texts = words_of(map_figure(rows, colour="group"))
    assert r"\$x\$" in texts
    assert "_y" in texts


def test_many_groups_are_counted_in_the_legend(rows_of):
    n = 100
    rows = rows_of(n, group=[f"g{i // 2}" for i in range(n)], step=[i % 2 for i in range(n)])
    texts = words_of(map_figure(rows, colour="group"))
    assert "… and 15 more" in texts
    assert "g34" in texts
    assert "g35" not in texts


def test_checkpoints_are_joined_in_order_of_step(rows_of):
    from matplotlib.collections import LineCollection

    rows = rows_of(3, group=["r"] * 3, step=[30, 10, 20])
    lines = map_figure(rows, colour="step").findobj(LineCollection)
    expected = [(rows[i].x, rows[i].y) for i in (1, 2, 0)]
    assert np.allclose(lines[0].get_segments()[0], expected)


@pytest.mark.parametrize("shape", [(9, 1), (1, 1), (1, 9), (0, 0)])
def test_panels_show_the_same_part_of_the_map_with_equal_scales(rows_of, shape):
    rng = np.random.default_rng(0)
    x, y = (
        (shape[:, None] * rng.normal(size=(2, 9))).tolist()
        if (shape := np.array(shape)) is not None
        else 0
    )
    rows = in_classes(rows_of, [5, 4], x=x, y=y, group=[*"aaabbbccc"], step=list(range(9)))
    figure = map_figure(rows)
    to_png(figure, 50)
    panels = [axes for axes in figure.axes if axes.get_aspect() == 1]
    assert len(panels) == 4
    assert len({(*axes.get_xlim(), *axes.get_ylim()) for axes in panels}) == 1
    for axes in panels:
        box, (left, right), (low, high) = axes.get_window_extent(), axes.get_xlim(), axes.get_ylim()
        assert np.isclose(box.width / (right - left), box.height / (high - low), rtol=1e-6)
        assert all(left < row.x < right and low < row.y < high for row in rows)
        # No panel is half empty: the points span most of it, unless they are in a line.
        if min(shape) > 0 and shape[0] == shape[1]:
            assert np.ptp(x) > 0.6 * (right - left) or np.ptp(y) > 0.6 * (high - low)


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


def test_averaging_keeps_the_mean_over_equal_blocks(rows_of, monkeypatch):
    monkeypatch.setattr("pivec.report.distance_figures.MAX_CELLS", 4)
    d = np.random.default_rng(0).random((12, 12))
    order = np.random.default_rng(1).permutation(12)
    small = matrix_figure(d, rows_of(12), order).axes[0].images[0].get_array()
    sorted_d = d[np.ix_(order, order)]
    assert np.allclose(small, sorted_d.reshape(4, 3, 4, 3).mean(axis=(1, 3)))


def test_heatmap_shows_classes_beside_it_and_as_frames(rows_of):
    from matplotlib.patches import Rectangle

    rows = in_classes(rows_of, [3, 2, 1])
    places = np.array([0.0, 0.1, 0.2, 5.0, 5.1, 9.0])
    figure = distances_figure(np.abs(np.subtract.outer(places, places)), rows)
    boxes = [p for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    frames = sorted(p.get_width() for p in boxes if not p.get_fill())
    assert frames == [2, 3]
    strips = sorted((p.get_height(), p.get_x() > 6) for p in boxes if p.get_fill())
    assert strips == [(2, True), (3, True)]
    assert "right: classes of policies" in words_of(figure)[-1]
    assert len(figure.axes[0].texts) == 2


def test_heatmap_says_where_its_scale_ends_and_what_a_cell_is(rows_of):
    d = np.random.default_rng(0).random((300, 300))
    d += d.T
    d[0, 1] = d[1, 0] = 900.0
    notes = text_of(distances_figure(d, rows_of(300)))
    assert "the scale omits the largest 1 %, up to " in notes
    assert "each cell is the mean of about 1.1 pairs" in notes


def test_small_cells_that_are_not_certain_are_white(rows_of):
    n = 101
    certain = np.eye(n, dtype=bool)
    texts = words_of(distances_figure(np.ones((n, n)), rows_of(n), certain=certain))
    assert "white: cannot be distinguished (q > 0.05)" in texts


def test_of_too_many_policies_for_a_matrix_some_are_shown(walks, log_of, monkeypatch):
    method = characterization("visitation", n_components=2).fit(walks)
    space = Space(method, method.describe(walks, influences=True))
    whole = measure(method, space.descriptions)
    none = Measured(None, whole.neighbours, whole.neighbour_distances)
    monkeypatch.setattr("pivec.report.distance_figures.MAX_SHOWN", 4)
    figure = heatmap_figure(Findings.of(space, none, log_of()))
    shown = figure.axes[0].images[0].get_array()
    kept = whole.matrix[::2, ::2]
    assert np.allclose(np.sort(shown, axis=None), np.sort(kept, axis=None))
    words = words_of(figure)
    assert "1 in 2 is shown" in text_of(figure)
    assert "the uncertainty of distances is not shown" in words


def test_heatmap_must_fit_its_rows(tmp_path, rows_of):
    with pytest.raises(UsageError, match="shape"):
        draw_distances(tmp_path / "d.png", np.zeros((2, 2)), rows_of(3))


@pytest.mark.parametrize("n_runs", [1, 24, 30])
def test_travel_has_a_line_and_a_name_a_run(n_runs):
    rng = np.random.default_rng(0)
    travels = [run(f"run {i}", list(range(50)), rng.random(49)) for i in range(n_runs)]
    figure = travel_figure(travels, {})
    [axes] = figure.axes
    lines = [line for line in axes.lines if line.get_marker() == "o"]
    assert {len(line.get_xdata()) for line in lines} == {50}
    assert len(lines) == min(n_runs, MAX_RUNS)
    assert {text.get_text() for text in axes.texts} <= {travel.group for travel in travels}
    farthest = max(travels, key=lambda travel: travel.total)
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(farthest.total)
    to_png(travel_figure([run("still", [5, 5], [0.0])], {}), 50)


def test_matplotlib_settings_and_pyplot_are_left_alone(tmp_path, report):
    import matplotlib

    before = dict(matplotlib.rcParams)
    had_pyplot = "matplotlib.pyplot" in sys.modules
    draw_map(tmp_path / "map.png", report.policies)
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot


def test_resolution_falls_until_the_file_fits():
    figure = new_figure(4, 4)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(np.random.default_rng(0).random((1000, 1000, 3)), aspect="auto")
    data = to_png(figure)
    assert len(data) < LIMIT
    assert pixels(data).shape[0] < 4 * 200
