"""Two policies chosen: distance, what differs and who is near are those that Python computes."""

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


@pytest.mark.parametrize(("a", "b"), [(3, 20), (44, 7), (32, 41)])
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
    assert verdict.startswith("Told apart" if certain else "Cannot be told apart")


def test_what_differs_is_sorted_and_adds_up(page, walked):
    a, b = 4, 30
    panel = chosen(page, walked.data.labels[a], walked.data.labels[b])
    more = panel.locator(".differs button", has_text="more")
    if more.count():
        more.click()
    shares = [
        figure(text) for text in panel.locator(".differs li.part > p strong").all_text_contents()
    ]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=0.5 * len(shares))
    told = walked.space.method.explain(walked.data[a], walked.data[b])
    parts = np.sort(told.regions.measured)[::-1]
    assert shares == pytest.approx(100 * parts[: len(shares)] / parts.sum(), abs=1.1)
    order = np.argsort(told.regions.measured)[::-1]
    times = panel.locator(".differs li.part").first.locator(".time").all_text_contents()
    for side, text in enumerate(times):
        assert figure(text.lstrip("AB ")) == pytest.approx(100 * told.share[side, order[0]], abs=1)


def test_the_nearest_are_those_of_brute_force(page, walked, sure):
    a, b = 12, 40
    panel = chosen(page, walked.data.labels[a], walked.data.labels[b])
    for row, near in zip((a, b), panel.locator(".near").all(), strict=True):
        names = [name.strip() for name in near.locator(".name").all_text_contents()]
        others = [i for i in np.argsort(sure.distance[row], kind="stable") if i != row]
        assert names == [walked.data.labels[i] for i in others[:10]]
        shown = [figure(text) for text in near.locator(".value").all_text_contents()]
        assert shown == [three_digits(max(sure.distance[row, i], 0)) for i in others[:10]]


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
