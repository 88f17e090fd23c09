"""The heatmap by keys, what is certain of it, the pairs beside it, and the distance travelled."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def page(walked, pages):
    page = pages.open(walked.path)
    page.locator("#heatmap").scroll_into_view_if_needed()
    page.get_by_text("48 policies in view on the map.").wait_for()
    return page


def expect_pair(page, *labels):
    """Wait until the panel shows A and B of these names."""
    for side, label in zip("AB", labels, strict=True):
        page.locator("#panel .who", has_text=side).filter(has_text=label).wait_for()


def test_keys_walk_between_cells_and_choose_a_pair(page, walked):
    measured, rows = walked.report.measured, walked.report.policies
    order = walked.report.heatmap_order
    heatmap = page.locator("#heatmap")
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        heatmap.press(key)
    i, j = order[3], order[1]
    assert page.locator("#heat-tip strong").all_inner_texts() == [rows[i].label, rows[j].label]
    heatmap.press("+")
    page.get_by_text("32 of 48 policies in view on the map.").wait_for()
    words = page.locator("#heat-tip div").first.inner_text().replace("(", "").replace(")", "")
    _, distance, low, _, high = words.split()
    known = measured.intervals
    expected = (measured.estimates[i, j], max(known.low[i, j], 0), known.high[i, j])
    shown = [float(text) for text in (distance, low, high)]
    assert shown == pytest.approx(expected, rel=0.006, abs=6e-6)
    heatmap.press("Enter")
    expect_pair(page, rows[i].label, rows[j].label)
    heatmap.press("0")
    page.get_by_text("48 policies in view on the map.", exact=True).wait_for()


def test_a_row_of_the_nearest_pairs_chooses_them(page, walked):
    nearest = walked.report.measured.nearest
    row = page.locator("tr[data-a]").nth(1)
    row.locator("button").press("Enter")
    expect_pair(page, *(walked.report.policies[k].label for k in (nearest.i[1], nearest.j[1])))


def test_only_what_is_certain_is_shown_at_choice(page):
    assert not page.locator("#heat-hatched").is_visible()
    page.locator("#certain").check()
    page.locator("#heat-hatched").wait_for()
    page.locator("#certain").uncheck()


def test_the_distance_travelled_names_its_runs(page, walked):
    travels = walked.report.measured.travels
    page.locator("#travel-lines").scroll_into_view_if_needed()
    page.get_by_text(f"{len(travels)} runs.").wait_for()
    box = page.locator("#travel-lines").bounding_box()
    for share in np.linspace(0.2, 0.8, 30):  # across the lines, until a checkpoint is near
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.7 * box["height"])
        if page.locator("#travel-tip").is_visible():
            break
    name, step, travelled = page.locator("#travel-tip > *").all_inner_texts()
    [run] = [run for run in travels if run.group == name]
    at = run.steps.index(int(step.removeprefix("step ").replace("\u202f", "")))
    value, half = travelled.removeprefix("travelled ").split(" ± ")
    assert float(value) == pytest.approx(run.cumulative[at], rel=0.006)
    assert float(half) == pytest.approx(run.half_widths[at], rel=0.06)


def test_heads_sort_small_tables(page):
    table = page.locator("table.sortable", has_text="Distance travelled")
    head = table.get_by_role("button", name="Distance travelled")
    values = []
    for _ in range(2):
        head.click()
        cells = table.locator("tbody td:nth-child(5)")
        values.append([float(text.split()[0]) for text in cells.all_inner_texts()])
    assert values[0] == sorted(values[0])
    assert values[1] == values[0][::-1]
