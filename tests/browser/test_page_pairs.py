"""Two policies chosen by keys, of few and of many: the numbers are those that Python computes."""

from __future__ import annotations

import numpy as np
import pytest
from sight import chosen, figure


@pytest.fixture(scope="module")
def page(pages, walked):
    return pages.open(walked.path)


@pytest.fixture(scope="module")
def sure(walked):
    return walked.space.method.intervals(walked.data)


def three_digits(value):
    """Numbers on the page have three digits: half of the last may be lost."""
    return pytest.approx(value, rel=6e-3, abs=1e-6)


@pytest.mark.parametrize(("a", "b"), [(3, 20), (32, 41)])
def test_the_distance_of_a_and_b_is_pythons_and_says_how_sure_it_is(page, walked, sure, a, b):
    panel = chosen(page, walked.data.labels[a], walked.data.labels[b])
    assert [who.strip("AB ") for who in panel.locator(".who .name").all_text_contents()] == [
        walked.data.labels[a], walked.data.labels[b]]  # fmt: skip
    said = panel.locator(".distance .figure")
    assert figure(said.locator("strong").text_content()) == three_digits(
        max(sure.distance[a, b], 0)
    )
    low, high = said.text_content().rsplit("between", 1)[1].split(" and ")
    assert figure(low) == three_digits(max(sure.low[a, b], 0))
    assert figure(high) == three_digits(sure.high[a, b])
    certain = walked.report.measured.certain[a, b]
    verdict = panel.locator(".distance .verdict").text_content()
    assert verdict.startswith("Different" if certain else "Cannot be distinguished")
    for row, near in zip((a, b), panel.locator(".near").all(), strict=True):
        others = [i for i in np.argsort(sure.distance[row], kind="stable") if i != row][:10]
        names = [name.strip() for name in near.locator(".name").all_text_contents()]
        assert names == [walked.data.labels[i] for i in others]


def test_search_finds_the_last_of_many_and_distances_are_right_there(pages, crowd):
    page, described = pages.open(crowd.path), crowd.space.descriptions
    a, b = len(described) - 1, 1234
    page.locator("#search").fill(described.labels[a])
    page.locator("#search-count", has_text="1 of 30").wait_for()
    panel = chosen(page, described.labels[a], described.labels[b])
    points = described.points
    distance = ((points[a] - points[b]) ** 2).sum()
    said = panel.locator(".distance .figure strong").text_content()
    assert figure(said) == pytest.approx(distance, rel=0.015)  # points are rounded: 1 %
    distances = ((points - points[a]) ** 2).sum(axis=1)
    distances[a] = np.inf
    nearest = np.argsort(distances)[:10]
    near = panel.locator(".near").first
    shown = [figure(text) for text in near.locator(".value").all_text_contents()]
    assert shown == pytest.approx(distances[nearest], rel=0.015)
    names = [name.strip() for name in near.locator(".name").all_text_contents()]
    rows = [described.labels.index(name) for name in names]
    # Rounding may exchange two that are about as far.
    assert distances[rows] == pytest.approx(distances[nearest], rel=0.015)


def test_a_link_restores_a_and_b(pages, walked):
    first = pages.open(walked.path)
    labels = [walked.data.labels[i] for i in (46, 0)]
    chosen(first, *labels)
    first.locator("#colour").select_option("step")
    first.wait_for_timeout(600)
    panel = pages.open(first.url).locator("#panel")
    panel.locator(".who").nth(1).wait_for()
    assert [name.strip() for name in panel.locator(".who .name").all_text_contents()] == labels
    assert panel.page.locator("#colour").input_value() == "step"
