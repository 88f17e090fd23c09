"""The tab of runs: how far each travelled, and how far apart they end, as Python measured it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from made_pages import drawn, report_of
from sight import FRAMES, figure

from pivec.characterizations import measure


@pytest.fixture(scope="module")
def page(walked, pages):
    page = pages.open(walked.path, width=1400)
    page.locator("#open-runs").click()
    page.locator(".chart g.run").first.wait_for()
    page.locator("#farthest-ends").wait_for()
    page.evaluate(FRAMES)
    return page


def test_lines_are_the_distances_travelled(page, walked):
    """The heights of all checkpoints have one scale, whose ticks are written beside it."""
    ticks = {
        figure(tick.locator("text").text_content()): float(tick.locator("line").get_attribute("y1"))
        for tick in page.locator(".chart g:has(> .grid)").all()
    }
    (low, floor), *_, (high, top) = sorted(ticks.items())
    groups = list(walked.report.policies.group_colours)
    travels = {groups.index(run.group): run for run in walked.report.measured.travels}
    lines = page.locator(".chart g.run")
    assert {int(line.get_attribute("data-run")) for line in lines.all()} == set(travels)
    for line in lines.all():
        run = travels[int(line.get_attribute("data-run"))]
        points = line.locator("polyline").last.get_attribute("points").split()
        y = np.array([float(point.split(",")[1]) for point in points])
        shown = low + (floor - y) / (floor - top) * (high - low)
        assert shown == pytest.approx(run.cumulative, abs=1e-3 * high)
        x = np.array([float(point.split(",")[0]) for point in points])
        assert (np.diff(x) > 0).all()


def test_names_of_lines_do_not_overlap(page):
    boxes = [name.bounding_box() for name in page.locator(".chart > .entity").all()]
    assert len(boxes) == page.locator(".chart g.run").count()
    ends = sorted((box["y"], box["y"] + box["height"]) for box in boxes)
    assert all(low >= end - 0.5 for (_, end), (low, _) in itertools.pairwise(ends))


def test_a_checkpoint_is_told_with_its_uncertainty(page, walked):
    circle = page.locator(".chart g.run").first.locator("circle").last
    circle.hover(force=True)
    tip = page.locator(".chart .tip")
    name, step, travelled = tip.locator("> *").all_inner_texts()
    [run] = [run for run in walked.report.measured.travels if run.group == name]
    at = run.steps.index(int(figure(step)))
    value, half = travelled.removeprefix("travelled ").split(" ± ")
    assert float(value) == pytest.approx(run.cumulative[at], rel=0.006)
    assert float(half) == pytest.approx(run.half_widths[at], rel=0.06)
    assert page.locator("#map-tip strong").text_content().startswith(run.group)
    page.mouse.move(5, 5)
    tip.wait_for(state="detached")


def test_a_click_selects_a_run_and_a_double_click_isolates_it(page, walked):
    name = page.locator(".chart > .entity").first
    run = name.get_attribute("title")
    name.click()
    page.locator("#panel h2", has_text=run).wait_for()
    page.wait_for_timeout(600)  # the next clicks are others
    page.locator(".chart > .entity").first.dblclick()
    page.locator(".chart g.run").nth(1).wait_for(state="detached")
    assert page.locator(".chart g.run").count() == 1
    page.wait_for_timeout(600)
    page.locator(".chart > .entity").first.dblclick()
    page.locator(".chart g.run").nth(1).wait_for()


def test_the_matrix_has_the_distances_of_last_checkpoints(page, walked):
    findings = walked.report
    ends = [rows[-1] for rows in findings.policies.runs.values()]
    order = [i for i in findings.heatmap_order if i in ends]
    sure, labels = findings.measured.intervals, walked.data.labels
    canvas = page.locator(".ends-of-runs canvas")
    tip = page.locator(".ends-of-runs .tip")
    canvas.focus()
    seen = {}
    at = [0, 0]
    for key in ["ArrowDown"] + ["ArrowRight", "ArrowDown"] * (len(order) - 2):
        canvas.press(key)
        at[key == "ArrowRight"] += 1
        i, j = order[at[0]], order[at[1]]
        assert tip.locator("strong").all_text_contents() == [labels[i], labels[j]][: 1 + (i != j)]
        if i == j:
            continue
        seen[i, j] = figure(tip.locator("div").first.text_content())
        assert seen[i, j] == pytest.approx(max(sure.distance[i, j], 0), rel=6e-3, abs=1e-6)
        assert ("cannot" in tip.inner_text()) == (sure.low[i, j] <= 0)
    assert len(seen) == len(order) - 1
    canvas.press("Enter")
    names = page.locator("#panel .who").all_inner_texts()
    assert [name.splitlines()[-1].strip() for name in names] == [labels[i], labels[j]]


def test_the_farthest_ends_are_named(page, walked):
    findings = walked.report
    ends = {name: rows[-1] for name, rows in findings.policies.runs.items()}
    estimates, names = findings.measured.estimates, list(ends)
    a, b = max(
        ((a, b) for k, a in enumerate(names) for b in names[k + 1 :]),
        key=lambda pair: estimates[ends[pair[0]], ends[pair[1]]],
    )
    words = page.locator("#farthest-ends")
    assert all(name in words.inner_text() for name in (a, b))
    pair = words.locator("[data-pair]")
    assert figure(pair.inner_text()) == pytest.approx(estimates[ends[a], ends[b]], rel=5e-3)
    assert set(map(int, pair.get_attribute("data-pair").split())) == {ends[a], ends[b]}


def test_heads_sort_the_table_of_runs(page):
    table = page.locator("#runs-table table")
    head = table.get_by_role("button", name="Distance travelled")
    values = []
    for _ in range(2):
        head.click()
        cells = table.locator("tbody td:nth-child(5)")
        values.append([float(text.split()[0]) for text in cells.all_inner_texts()])
    assert values[0] == sorted(values[0])
    assert values[1] == values[0][::-1]


@pytest.mark.filterwarnings("ignore:no intervals")
def test_of_very_many_runs_the_largest_are_drawn_and_that_is_said(page_of):
    space = drawn(680, run_length=2)
    measured = measure(space.method, space.descriptions)
    page = page_of(report_of(space, measured), width=1400)
    page.locator("#open-runs").click()
    lines = page.locator(".chart g.run")
    lines.first.wait_for()
    totals = {run.group: run.total for run in measured.travels}
    assert len(totals) == 340
    groups = page.evaluate("JSON.parse(document.getElementById('data').textContent).groups")
    drawn_runs = [int(line.get_attribute("data-run")) for line in lines.all()]
    assert {groups[g] for g in drawn_runs} == set(sorted(totals, key=totals.get)[-300:])
    assert "300 of 340 runs" in page.locator(".chart .hint").inner_text()
