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


def names(panel, selector):
    return [name.strip() for name in panel.locator(selector).all_text_contents()]


@pytest.mark.parametrize(("a", "b"), [(3, 20), (32, 41)])
def test_the_distance_of_a_and_b_is_pythons_with_its_interval(page, walked, sure, a, b):
    labels = walked.data.labels
    panel = chosen(page, labels[a], labels[b])
    assert names(panel, ".who .entity") == [labels[a], labels[b]]
    said = panel.locator(".distance .figure")
    assert figure(said.locator("strong").text_content()) == three_digits(
        max(sure.distance[a, b], 0)
    )
    low, high = said.locator(".interval").text_content().split("interval")[1].split(" to ")
    assert figure(low) == three_digits(max(sure.low[a, b], 0))
    assert figure(high) == three_digits(sure.high[a, b])
    measured = said.locator("strong").get_attribute("title")
    assert figure(measured) == three_digits(walked.report.measured.matrix[a, b])
    certain = walked.report.measured.certain[a, b]
    verdict = panel.locator(".distance .verdict").text_content()
    assert verdict.startswith("Different" if certain else "Cannot be distinguished")
    for row, near in zip((a, b), panel.locator(".near").all(), strict=True):
        others = [i for i in np.argsort(sure.distance[row], kind="stable") if i != row][:5]
        assert names(near, ".entity") == [labels[i] for i in others]


def test_the_ruler_ends_at_the_largest_distance(page, walked, sure):
    a, b = 3, 20
    ruler = chosen(page, walked.data.labels[a], walked.data.labels[b]).locator(".distance .ruler")
    line, point, band = (
        ruler.locator(part).first.bounding_box() for part in (".grid", "circle", ".whisker")
    )
    largest = sure.distance.max()

    def along(x):
        return (x - line["x"]) / line["width"] * largest

    assert along(point["x"] + point["width"] / 2) == pytest.approx(sure.distance[a, b], abs=0.01)
    assert along(band["x"]) == pytest.approx(sure.low[a, b], abs=0.01)
    assert along(band["x"] + band["width"]) == pytest.approx(sure.high[a, b], abs=0.01)
    assert figure(page.locator("#panel .distance .axis span").last.text_content()) == three_digits(
        largest
    )


def test_search_finds_the_last_of_many_and_distances_are_right_there(pages, crowd):
    page, described = pages.open(crowd.path), crowd.space.descriptions
    a, b = len(described) - 1, 1234
    panel = chosen(page, described.labels[a], described.labels[b])
    points = described.points
    distance = ((points[a] - points[b]) ** 2).sum()
    said = panel.locator(".distance .figure strong").text_content()
    assert figure(said) == pytest.approx(distance, rel=0.015)  # points are rounded: 1 %
    distances = ((points - points[a]) ** 2).sum(axis=1)
    distances[a] = np.inf
    nearest = np.argsort(distances)[:5]
    near = panel.locator(".near").first
    shown = [figure(text) for text in near.locator(".value").all_text_contents()]
    assert shown == pytest.approx(distances[nearest], rel=0.015)
    rows = [described.labels.index(name) for name in names(near, ".entity")]
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
    assert names(panel, ".who .entity") == labels
    assert panel.page.locator("#colour").input_value() == "step"
