"""The figure of an evaluation: small, the same each time, one look a method, gaps said."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.figures import save_figure
from pivec.report import evaluation_figure
from pivec.statistics import Evaluation, Row

LIMIT = 300_000
METRICS = ("correlation", "error", "variance")


def made(environments=1, methods=3, *, failing=(), sizes=(100, 50, 25, 10), spread=1.0):
    rng = np.random.default_rng(0)
    rows = []
    for e in range(environments):
        for m in range(methods):
            for store in "ab":
                for size in sizes:
                    for repetition in (1, 2, 3):
                        facts = (f"World-v{e}", f"method-{m}", f"{e}{store}", size, repetition)
                        if m in failing:
                            rows.append(Row(*facts, problem="no actions"))
                        else:
                            far = spread**m * (100 / size) ** 0.5 * rng.uniform(0.8, 1.2)
                            rows.append(Row(*facts, rng.uniform(0.5, 1), 5 * far, 0.1 * far, 1, 9))
    return Evaluation(tuple(rows))


def test_it_is_a_png_and_repeats(tmp_path):
    for name in ("a.png", "b.png"):
        save_figure(evaluation_figure(made(1, 2)), tmp_path / name)
    data = (tmp_path / "a.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert data == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize(("environments", "methods"), [(1, 2), (3, 20)])
def test_it_is_small(tmp_path, environments, methods):
    save_figure(evaluation_figure(made(environments, methods)), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size < LIMIT


def test_a_row_an_environment_and_a_line_a_method():
    figure = evaluation_figure(made(2, 3))
    assert len(figure.axes) == 2 * len(METRICS)
    for axes in figure.axes:
        assert len(axes.lines) == 3
        assert len(axes.collections) == 3  # the bands
    first = figure.axes[0].lines[0]
    assert first.get_xdata().tolist() == [10, 25, 50, 100]


def test_lines_are_the_means_of_the_summary():
    found = made(1, 2)
    figure = evaluation_figure(found)
    for axes, metric in zip(figure.axes, METRICS, strict=True):
        for line, name in zip(axes.lines, found.methods, strict=True):
            rows = sorted((r for r in found.summary() if r.method == name), key=lambda r: r.size)
            assert line.get_ydata().tolist() == [getattr(r, metric).mean for r in rows]


def test_sixteen_methods_differ_in_more_than_their_colour():
    lines = evaluation_figure(made(1, 16)).axes[0].lines
    colours = {line.get_color() for line in lines}
    shapes = {(str(line._unscaled_dash_pattern), line.get_marker()) for line in lines}
    assert len(colours) == len(shapes) == 16


def test_methods_without_a_result_are_named():
    figure = evaluation_figure(made(1, 3, failing=(1,)))
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["method-0", "method-2", "no result: method-1"]
    assert len(figure.axes[0].lines) == 2


def test_values_that_spread_widely_are_on_a_logarithmic_scale(tmp_path):
    assert evaluation_figure(made(1, 3)).axes[1].get_yscale() == "linear"
    wide = made(1, 3, spread=30.0)
    assert [axes.get_yscale() for axes in evaluation_figure(wide).axes] == ["linear", "log", "log"]
    save_figure(evaluation_figure(wide), tmp_path / "a.png")


def test_a_metric_without_values_says_so(tmp_path):
    rows = tuple(Row("W", "m $x$ 漢", "s", size, 1, 0.5) for size in (10, 5))
    figure = evaluation_figure(Evaluation(rows))
    assert figure.axes[1].texts[0].get_text() == "no values"
    save_figure(evaluation_figure(Evaluation(rows)), tmp_path / "a.png")


def test_one_size_is_a_point(tmp_path):
    save_figure(evaluation_figure(made(1, 2, sizes=(10,))), tmp_path / "a.png")


def test_methods_that_never_err_can_be_drawn(tmp_path):
    rows = tuple(Row("W", "m", "s", size, 1, -0.5, 0.0, 0.0) for size in (10, 5))
    save_figure(evaluation_figure(Evaluation(rows)), tmp_path / "a.png")
