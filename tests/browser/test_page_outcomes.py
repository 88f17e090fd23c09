"""Outcomes on the page: a column of the table that sorts, facts of a policy, colours of the map."""

from __future__ import annotations

import numpy as np
import pytest

import pivec

NAME = "<b>success"
SHARES = (0.9, 0.2, 0.5)


@pytest.fixture
def page(pages, tmp_path):
    rng = np.random.default_rng(0)
    data = pivec.VisitedStates.from_arrays(
        [[rng.normal(3 * k, 1.0, (10, 2)) for _ in range(20)] for k in range(3)],
        labels=["high", "low", "middle"],
        outcomes={NAME: [(np.arange(20) < 20 * share).tolist() for share in SHARES]},
    )
    result = pivec.compare(data, out=tmp_path, components=4)
    return pages.open(result.report, width=1400)


def test_outcomes_are_shown_sorted_and_a_colour(page):
    page.locator("#open-policies").click()
    page.locator('#policy-table th[data-column="outcome:0"] button').click()
    rows = page.locator("#policy-table tbody.sight tr[data-row]")
    page.wait_for_function(
        "document.querySelector('#policy-table tbody.sight tr[data-row] th').title === 'low'"
    )
    assert [row.locator("th").get_attribute("title") for row in rows.all()] == [
        "low", "middle", "high"
    ]  # fmt: skip
    assert "20 % (8.1 % to 42 %)" in rows.first.inner_text()
    rows.first.locator("th .entity").hover()
    page.locator("#map-tip", has_text="20 % (8.1 % to 42 %)").wait_for()
    rows.first.locator("th .entity").click()
    page.locator("#panel .facts", has_text="20 % (8.1 % to 42 %)").wait_for()
    assert page.locator("option", has_text=NAME).count() == 1
