"""The table of all policies and the heatmap: they reach everything, with few nodes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from made_pages import drawn, report_of
from sight import FRAMES, figure, pixels_of


@pytest.fixture(scope="module")
def page(pages, crowd):
    return pages.open(crowd.path)


def test_the_table_reaches_its_last_row_with_few_nodes(page, crowd):
    table = page.locator("#policy-table")
    table.scroll_into_view_if_needed()
    table.focus()
    page.keyboard.press("End")
    last = page.locator("#policy-table tbody tr[data-i][aria-rowindex]").last
    last.wait_for()
    assert last.get_attribute("aria-rowindex") == "30001"
    labels = crowd.space.descriptions.labels
    assert last.locator("th").get_attribute("title") == labels[-1]
    assert page.locator("#policy-table tr").count() < 150
    page.keyboard.press("Enter")
    assert labels[-1] in page.locator("#panel .who").first.text_content()


def test_the_table_sorts_all_policies(page, crowd):
    head = page.locator("#policy-table th[data-column=return] button")
    head.click()
    head.click()
    assert head.locator("..").get_attribute("aria-sort") == "descending"
    table = page.locator("#policy-table")
    table.focus()
    page.keyboard.press("Home")
    best = crowd.space.descriptions.labels[int(crowd.space.descriptions.mean_returns.argmax())]
    first = page.locator("#policy-table tbody tr[data-i][aria-rowindex]").first
    page.locator(f'#policy-table tbody tr[aria-rowindex="2"] th[title="{best}"]').wait_for()
    assert first.locator("th").get_attribute("title") == best


def test_the_table_shows_what_the_search_leaves(page):
    page.locator("#search").fill("ppo-00077/")
    page.locator("#filter-count", has_text="25 of").wait_for()
    names = "#policy-table tbody tr[data-i][aria-rowindex] th"
    others = page.locator(f'{names}:not([title*="ppo-00077/"])')
    others.first.wait_for(state="detached")  # the table is drawn a frame after the count
    assert 0 < page.locator(names).count() <= 25
    assert others.count() == 0
    page.locator("#search").fill("")


def test_long_names_in_the_table_are_cut_where_they_do_not_differ(page_of):
    space = drawn(501)
    folder = "results/humanoid-standup-with-obstacles/hyperparameters-of-the-second-search"
    infos = [
        replace(info, label=f"{folder}/seed_{i % 3}/checkpoint_{i}_steps", source=f"{folder}/{i}")
        for i, info in enumerate(space.descriptions.policies)
    ]
    described = replace(space.descriptions, policies=tuple(infos))
    page = page_of(report_of(replace(space, descriptions=described)), width=700)
    cells = page.locator("#policy-table tbody.sight tr[data-i] th")
    cells.first.wait_for()
    for cell in cells.all():
        full, shown = cell.get_attribute("title"), cell.text_content()
        assert len(shown) < len(full)
        assert "…" in shown
        assert re.findall(r"_(\d+)", shown) == re.findall(r"_(\d+)", full)


@pytest.fixture(scope="module")
def heat(pages, walked):
    page = pages.open(walked.path)
    page.locator("#heatmap").scroll_into_view_if_needed()
    page.locator("#heat-note", has_text="48 policies in view").wait_for()
    page.evaluate(FRAMES)
    return page


def cells_of(page, n, seed=0):
    """Give places within the square of the heatmap, which ends at the right and at the bottom."""
    box = page.locator("#heatmap").bounding_box()
    shares = np.random.default_rng(seed).uniform(0.03, 0.6, (n, 2))
    corner = np.array([box["x"] + box["width"], box["y"] + box["height"]])
    return corner - shares * min(box["width"], box["height"])


def cell_at(page, place):
    """Point at a cell; return the rows of its two policies in the tip, and the distance there."""
    page.mouse.move(*place)
    page.evaluate(FRAMES)
    tip = page.locator("#heat-tip")
    said = [text for text in tip.locator("div").all_text_contents() if "distance" in text]
    return tip.locator("strong").all_text_contents(), figure(said[0]) if said else 0.0


def test_cells_of_the_heatmap_have_pythons_distances_and_their_colours(heat, walked):
    distances = np.maximum(walked.report.measured.intervals.distance, 0)
    places = cells_of(heat, 25)
    heat.mouse.move(0, 0)
    heat.evaluate(FRAMES)
    picture, known = pixels_of(heat.screenshot()), []
    for place in places:
        names, distance = cell_at(heat, place)
        i, j = walked.data.labels.index(names[0]), walked.data.labels.index(names[-1])
        assert distance == pytest.approx(distances[i, j], rel=6e-3, abs=1e-6)
        known.append(distances[i, j])
    x, y = places.astype(int).T
    ranks = [np.argsort(np.argsort(values)) for values in (known, picture[y, x].sum(axis=1))]
    assert abs(np.corrcoef(*ranks)[0, 1]) > 0.9


def test_the_heatmap_zooms_and_a_cell_chooses_its_pair(heat, walked):
    place = cells_of(heat, 1, seed=3)[0]
    names, _ = cell_at(heat, place)
    for _ in range(3):
        heat.mouse.wheel(0, -200)
    note = heat.locator("#heat-note", has_text="of 48 policies")
    note.wait_for()
    assert 6 <= figure(note.text_content()) < 24
    assert cell_at(heat, place)[0] == names  # what is under the pointer stays there
    other = place - np.array([90, 60])
    pair, _ = cell_at(heat, other)
    assert pair != names
    heat.mouse.click(*other)
    who = heat.locator("#panel .who .name")
    who.filter(has_text=pair[0]).first.wait_for()
    assert [name.strip() for name in who.all_text_contents()] == pair
    heat.locator("#heat-all").click()
    heat.locator("#heat-note", has_text="48 policies in view").wait_for()


def test_the_heatmap_follows_the_search(heat):
    heat.locator("#search").fill("a2c-0/")
    heat.locator("#heat-note").scroll_into_view_if_needed()
    heat.locator("#heat-note", has_text="8 policies in view").wait_for()
    heat.locator("#search").fill("")
