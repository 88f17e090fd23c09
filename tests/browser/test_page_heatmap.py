"""The heatmap: its numbers are Python's, it hatches what is not certain, and it traps no wheel."""

from __future__ import annotations

import numpy as np
import pytest
from sight import FRAMES, figure, pixels_of


@pytest.fixture(scope="module")
def page(walked, pages):
    page = pages.open(walked.path, width=1400)
    page.locator("#heat-note", has_text="48 policies in view").wait_for()
    page.evaluate(FRAMES)
    return page


def tip_of(page):
    """Return the names in the tip, and the distance; 0 for a single policy."""
    tip = page.locator("#heat-tip")
    said = [text for text in tip.locator("div").all_text_contents() if "distance" in text]
    return tip.locator("strong").all_text_contents(), figure(said[0]) if said else 0.0


def cells_of(page, n, seed=0, width=0.6):
    """Give places within the square, which ends at the right and begins below the letters."""
    box = page.locator("#heatmap").bounding_box()
    side = min(box["width"] - 151, box["height"] - 27)
    shares = np.random.default_rng(seed).uniform(0.03, width, (n, 2))
    return np.array([box["x"] + 151, box["y"] + 27]) + shares * side


def point(page, place):
    page.mouse.move(*place)
    page.evaluate(FRAMES)
    return tip_of(page)


def test_the_square_fits_into_the_dock(page):
    box, dock = (page.locator(name).bounding_box() for name in ("#heatmap", "#tab-heatmap"))
    assert box["y"] + box["height"] <= dock["y"] + dock["height"]
    sizes = page.locator("#tab-heatmap").evaluate("tab => [tab.scrollHeight, tab.clientHeight]")
    assert sizes[0] <= sizes[1]
    assert box["height"] > 200


def test_cells_have_pythons_distances_and_their_colours(page, walked):
    sure = walked.report.measured.intervals
    places = cells_of(page, 30)
    page.mouse.move(0, 0)
    page.evaluate(FRAMES)
    picture, known = pixels_of(page.screenshot()), []
    for place in places:
        names, distance = point(page, place)
        i, j = walked.data.labels.index(names[0]), walked.data.labels.index(names[-1])
        assert distance == pytest.approx(max(sure.distance[i, j], 0), rel=6e-3, abs=1e-6)
        hatched = page.locator("#heat-tip", has_text="cannot be distinguished").count() > 0
        assert hatched == (i != j and sure.low[i, j] <= 0)
        known.append(np.nan if hatched else distance)
    some = np.isfinite(known)
    x, y = places[some].astype(int).T
    ranks = [np.argsort(np.argsort(v)) for v in (np.array(known)[some], picture[y, x].sum(axis=1))]
    assert abs(np.corrcoef(*ranks)[0, 1]) > 0.9


def test_keys_walk_between_cells_and_choose_a_pair(page, walked):
    measured, rows = walked.report.measured, walked.report.policies
    order, heatmap = walked.report.heatmap_order, page.locator("#heatmap")
    page.mouse.move(0, 0)
    heatmap.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        heatmap.press(key)
    i, j = order[3], order[1]
    assert tip_of(page)[0] == [rows[i].label, rows[j].label]
    words = page.locator("#heat-tip div").first.inner_text().replace("(", "").replace(")", "")
    _, distance, low, _, high = words.split()
    known = measured.intervals
    expected = (measured.estimates[i, j], max(known.low[i, j], 0), known.high[i, j])
    shown = [float(text) for text in (distance, low, high)]
    assert shown == pytest.approx(expected, rel=0.006, abs=6e-6)
    heatmap.press("+")
    page.locator("#heat-note", has_text="32 of 48 policies in view").wait_for()
    heatmap.press("Enter")
    for side, row in zip("AB", (i, j), strict=True):
        page.locator("#panel .who", has_text=side).filter(has_text=rows[row].label).wait_for()
    heatmap.press("0")
    page.locator("#heat-note", has_text="48 policies in view").wait_for()


def test_what_cannot_be_distinguished_is_hatched_unless_switched_off(page, walked):
    """A hatched cell has several colours, a plain one has one."""
    sure, order = walked.report.measured.intervals, walked.report.heatmap_order
    n, box = len(order), page.locator("#heatmap").bounding_box()
    side = min(box["width"] - 151, box["height"] - 27) - 1
    low = sure.low[np.ix_(order, order)]
    alike = (low <= 0) & ~np.eye(n, dtype=bool)
    # Blocks of 2 x 2 cells of a kind, away from the lines between runs and of A and B.
    blocks = {
        kind: [
            (y, x)
            for y in range(n - 1)
            for x in range(n - 1)
            if (alike[y : y + 2, x : x + 2] == kind).all() and abs(x - y) > 2
        ]
        for kind in (True, False)
    }
    page.mouse.move(0, 0)

    def variety(kind):
        page.evaluate(FRAMES)
        picture = pixels_of(page.screenshot())
        spreads = []
        for y, x in blocks[kind]:
            top, left = (int(start + at * side / n) + 1 for start, at in (
                (box["y"] + 27, y), (box["x"] + 151, x)
            ))  # fmt: skip
            cell = picture[top : top + int(side / n) - 2, left : left + int(side / n) - 2]
            spreads.append(np.ptp(cell, axis=(0, 1)).max())
        return np.median(spreads)

    assert variety(True) > 20 > variety(False)
    page.locator("#certain").uncheck()
    page.wait_for_timeout(200)
    assert variety(True) < 20
    page.locator("#certain").check()
    page.wait_for_timeout(200)
    assert variety(True) > 20


def test_it_zooms_at_the_pointer_and_a_cell_chooses_its_pair(page, walked):
    page.mouse.move(0, 0)
    place = cells_of(page, 1, seed=3)[0]
    names, _ = point(page, place)
    page.keyboard.down("Control")
    for _ in range(3):
        page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    note = page.locator("#heat-note", has_text="of 48 policies")
    note.wait_for()
    assert 6 <= figure(note.text_content()) < 24
    assert point(page, place)[0] == names  # what is under the pointer stays there
    other = place + np.array([60, 40])
    pair, _ = point(page, other)
    assert pair != names
    page.mouse.click(*other)
    for side, name in zip("AB", pair, strict=True):
        page.locator("#panel .who", has_text=side).filter(has_text=name).wait_for()
    page.locator("#heat-all").click()
    page.locator("#heat-note", has_text="48 policies in view").wait_for()


def test_names_of_runs_are_entities(page, walked):
    names = page.locator(".heat-names [data-run]")
    runs = list(walked.report.policies.runs)
    assert {name.get_attribute("title") for name in names.all()} <= set(runs)
    assert names.count() >= 4
    first = names.first
    run = first.get_attribute("data-run")
    first.hover()
    page.locator(f"#tab-runs tr.lit[data-run='{run}']").wait_for(state="attached")
    first.click()
    page.locator("#panel h2", has_text=first.get_attribute("title")).wait_for()
    first.click()


def test_rows_of_pairs_are_pythons_and_choose_them(page, walked):
    findings = walked.report
    for heading, pairs in (
        ("Nearest pairs that differ", findings.nearest_different),
        ("Farthest pairs", findings.measured.farthest),
    ):
        rows = page.locator(".pairs section", has_text=heading).locator("[data-pair]")
        assert rows.count() == min(4, len(pairs))
        for k, row in enumerate(rows.all()):
            assert row.get_attribute("data-pair") == f"{pairs.i[k]} {pairs.j[k]}"
            shown = figure(row.locator("b").text_content())
            assert shown == pytest.approx(pairs.distance[k], rel=5e-3)
        assert not (pairs.low[: rows.count()] <= 0).any()
    rows.nth(1).press("Enter")
    for side, k in zip("AB", (pairs.i[1], pairs.j[1]), strict=True):
        label = findings.policies[k].label
        page.locator("#panel .who", has_text=side).filter(has_text=label).wait_for()
    n_alike = len(findings.measured.alike)
    assert f"{n_alike} of" in page.locator("#heat-key").inner_text().replace("\u202f", "")


def test_it_follows_the_filters(page):
    page.locator("[data-run='0'].entity").first.dblclick()
    page.locator("#heat-note", has_text="8 policies in view").wait_for()
    page.locator("[data-run='0'].entity").first.dblclick()
    page.locator("#heat-note", has_text="48 policies in view").wait_for()


def test_one_finger_scrolls_the_page_over_the_heatmap(walked, pages):
    page = pages.open(walked.path, width=400, height=800, has_touch=True)
    heatmap = page.locator("#heatmap")
    heatmap.scroll_into_view_if_needed()
    page.locator("#heat-note", has_text="48 policies in view").wait_for()
    assert heatmap.evaluate("node => getComputedStyle(node).touchAction") == "pan-x pan-y"
    box = heatmap.bounding_box()
    before = page.evaluate("scrollY")
    page.mouse.move(box["x"] + 250, box["y"] + 100)
    page.mouse.wheel(0, -200)
    page.wait_for_timeout(300)
    assert page.evaluate("scrollY") < before
    assert "48 policies" in page.locator("#heat-note").text_content()
    heatmap.scroll_into_view_if_needed()
    box = heatmap.bounding_box()
    for _ in range(2):  # the first touch shows the pair, the second chooses it
        page.touchscreen.tap(box["x"] + 250, box["y"] + 60)
        page.wait_for_timeout(100)
    assert page.locator("#panel .who").count() == 2
