"""On paper the page is short, and says where the rest is."""

from __future__ import annotations

import re

import numpy as np
import pytest
from made_pages import report_of

from pivec.characterizations import Measured
from pivec.statistics import Travel


@pytest.fixture
def paper(pages, page_of, crowd):
    """Open the page of 30 000 policies and their runs, as it would be printed."""
    n, steps = len(crowd.space.descriptions), tuple(range(0, 25_000, 1000))
    none = np.zeros((n, 0))
    runs = [
        Travel(f"runs/ppo-{i:05d}", tuple(range(25 * i, 25 * i + 25)), steps, np.ones(24))
        for i in range(n // 25)
    ]
    page = page_of(report_of(crowd.space, Measured(None, none.astype(int), none, travels=runs)))
    page.emulate_media(media="print")
    return page


def test_thirty_thousand_policies_print_on_six_pages(paper):
    pages = re.findall(rb"/Type\s*/Page[^s]", paper.pdf(format="A4"))
    assert 2 <= len(pages) <= 6
    assert paper.locator("#map-static").is_visible()
    assert not paper.locator("#map").is_visible()
    rows = paper.locator("#tab-runs tbody tr")
    assert rows.count() > 25
    assert rows.nth(24).is_visible()
    assert not rows.nth(25).is_visible()
