"""The table of all policies and the heatmap: they reach everything, with few nodes."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def page(pages, crowd):
    return pages.open(crowd.path)


def test_the_table_reaches_its_last_row_with_few_nodes(page, crowd):
    table = page.locator("#policy-table")
    table.scroll_into_view_if_needed()
    table.focus()
    page.keyboard.press("End")
    last = page.locator("#policy-table tbody.live tr[data-i]").last
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
    first = page.locator("#policy-table tbody.live tr[data-i]").first
    page.locator(f'#policy-table tbody.live tr[aria-rowindex="2"] th[title="{best}"]').wait_for()
    assert first.locator("th").get_attribute("title") == best


def test_the_table_shows_what_the_search_leaves(page):
    page.locator("#search").fill("ppo-00077/")
    page.locator("#filter-count", has_text="25 of").wait_for()
    rows = page.locator("#policy-table tbody.live tr[data-i]")
    assert 0 < rows.count() <= 25
    assert all("ppo-00077/" in (row.locator("th").get_attribute("title")) for row in rows.all())
    page.locator("#search").fill("")
