"""Tables: that of all policies reaches everything with few nodes; names in all are interactive."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from made_pages import drawn, report_of
from sight import FRAMES, chosen, figure

import pivec


@pytest.fixture(scope="module")
def page(pages, crowd):
    page = pages.open(crowd.path, width=1400)
    page.locator("#open-policies").click()
    return page


def test_the_table_reaches_its_last_row_with_few_nodes(page, crowd):
    table = page.locator("#policy-table")
    table.focus()
    page.keyboard.press("End")
    last = page.locator("#policy-table tbody tr[data-row][aria-rowindex]").last
    last.wait_for()
    assert last.get_attribute("aria-rowindex") == "30001"
    labels = crowd.space.descriptions.labels
    assert last.locator("th").get_attribute("title") == labels[-1]
    assert page.locator("#policy-table tr").count() < 150
    page.keyboard.press("Enter")
    page.locator("#panel h2", has_text=labels[-1]).wait_for()


def test_the_table_sorts_all_policies(page, crowd):
    head = page.locator("#policy-table th[data-column=return] button")
    head.click()
    head.click()
    assert head.locator("..").get_attribute("aria-sort") == "descending"
    table = page.locator("#policy-table")
    table.focus()
    page.keyboard.press("Home")
    best = crowd.space.descriptions.labels[int(crowd.space.descriptions.mean_returns.argmax())]
    first = page.locator("#policy-table tbody tr[data-row][aria-rowindex]").first
    page.locator(f'#policy-table tbody tr[aria-rowindex="2"] th[title="{best}"]').wait_for()
    assert first.locator("th").get_attribute("title") == best


def test_the_table_shows_what_the_search_leaves(page):
    page.locator("#search").fill("ppo-00077/")
    page.locator("#shown-count", has_text="25 of").wait_for()
    names = "#policy-table tbody tr[data-row][aria-rowindex] th"
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
    page.locator("#open-policies").click()
    cells = page.locator("#policy-table tbody.sight tr[data-row] th")
    cells.first.wait_for()
    for cell in cells.all():
        full, shown = cell.get_attribute("title"), cell.text_content()
        assert len(shown) < len(full)
        assert "…" in shown
        assert re.findall(r"_(\d+)", shown) == re.findall(r"_(\d+)", full)


@pytest.fixture
def small(pages, walked):
    return pages.open(walked.path, width=1400)


def test_distances_to_a_are_those_of_python(small, walked):
    labels = walked.data.labels
    chosen(small, labels[12])
    small.locator("#open-policies").click()
    head = small.locator("#policy-table th[data-column=distance] button")
    head.click()
    small.evaluate(FRAMES)
    rows = small.locator("#policy-table tbody.sight tr[data-row]")
    known = np.maximum(walked.report.measured.estimates[12], 0)
    at = [h.get_attribute("data-column") for h in small.locator("#policy-table thead th").all()]
    cell = at.index("distance")
    shown = []
    for row in rows.all():
        i = int(row.get_attribute("data-row"))
        shown.append(figure(row.locator("> *").nth(cell).inner_text()))
        assert shown[-1] == pytest.approx(known[i], rel=6e-3, abs=1e-6)
    assert len(shown) > 8
    assert shown == sorted(shown)


def test_names_in_the_table_are_interactive(small, walked):
    small.locator("#open-policies").click()
    row = small.locator("#policy-table tbody.sight tr[data-row]").nth(3)
    i = int(row.get_attribute("data-row"))
    name = row.locator("th .entity")
    name.hover()
    small.locator("#map-tip strong", has_text=walked.data.labels[i]).wait_for()
    name.click()
    small.locator("#panel", has_text=walked.data.labels[i]).wait_for()
    run = small.locator("#policy-table tbody.sight tr[data-row]").nth(3).locator("[data-run]")
    label = run.inner_text()
    run.click()
    small.locator("#panel h2", has_text=label).wait_for()
    small.wait_for_timeout(600)
    small.locator("#policy-table tbody.sight tr[data-row]").nth(3).locator("[data-run]").dblclick()
    small.locator("#shown-count", has_text="8 of 48").wait_for()


def test_classes_are_those_of_python_and_select_their_members(small, walked):
    classes, policies = walked.report.behaviours, walked.report.policies
    small.locator("#open-behaviours").click()
    rows = small.locator("#tab-behaviours tbody tr")
    sizes = [classes.numbers.count(k) for k in range(1, len(classes) + 1)]
    for k, row in enumerate(rows.all()):
        assert int(row.get_attribute("data-class")) == k + 1
        assert int(row.locator("td").nth(1).inner_text()) == sizes[k]
        typical = row.locator("th [data-row]").get_attribute("data-row")
        assert int(typical) == classes.medoids[k]
        own = [r.mean_return for r, c in zip(policies, classes.numbers, strict=True) if c == k + 1]
        assert figure(row.locator("td").nth(2).inner_text()) == pytest.approx(
            np.mean(own), rel=5e-3, abs=0.01
        )
    rows.first.locator("[data-class].entity").click()
    small.locator("#open-policies").click()
    small.locator("#shown-count", has_text=f"{sizes[0]} of 48").wait_for()


def test_policies_stay_in_view_next_to_pairs_with_the_same_outcome(pages, tmp_path):
    rng = np.random.default_rng(0)
    walks = {f"p{k}": [rng.normal(2 * (k % 3), 1, (9, 2)) for _ in range(8)] for k in range(12)}
    returns = [rng.normal(10, 0.1, 8) for _ in walks]
    data = pivec.VisitedStates.from_arrays(walks, returns=returns)
    pivec.compare(data, out=tmp_path, components=3)
    page = pages.open(tmp_path / "report.html", width=1400, height=900)
    page.locator("#open-policies").click()
    page.locator("#contrasts summary").click()
    assert page.locator("#contrasts li").first.is_visible()
    assert page.locator("#tab-policies .scroll").bounding_box()["height"] > 100
