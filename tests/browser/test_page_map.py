"""The map: what is under the pointer, the slider, the lasso, and both painters."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from sight import Sight, figure, pixels_of, within


@pytest.fixture(scope="module")
def sight(pages, walked):
    return Sight(pages, walked.path, walked.space.positions)


@pytest.fixture(scope="module")
def crowded(pages, crowd):
    return Sight(pages, crowd.path, crowd.space.positions, reach=1500)


def test_hovering_names_the_policy_under_the_pointer(sight, walked):
    rows = np.random.default_rng(0).permutation(len(walked.data))[:25]
    for place in sight.pixels()[rows]:
        i, _ = sight.nearest(place)
        assert sight.point(place) == walked.data.labels[i]


def test_beside_all_policies_no_name_is_shown(sight):
    box = sight.overlay.bounding_box()
    corner = np.array([box["x"] + 4, box["y"] + 4])
    assert sight.nearest(corner)[1] > 40
    assert sight.point(corner) is None


def test_hovering_in_a_crowd_names_the_nearest_and_counts_the_others(crowded, crowd):
    labels = crowd.space.descriptions.labels
    box = crowded.overlay.bounding_box()
    rng = np.random.default_rng(1)
    right = 0
    for share in rng.uniform(0.1, 0.85, (25, 2)):  # not below the buttons
        place = np.array([box["x"], box["y"]]) + share * (box["width"], box["height"])
        i, far = crowded.nearest(place)
        if far > 11:
            right += crowded.point(place) is None or far < 13
            continue
        right += crowded.point(place) == labels[i]
    assert right == 25


def test_names_stay_right_while_the_map_is_zoomed_and_moved(pages, walked):
    sight = Sight(pages, walked.path, walked.space.positions)
    i = len(walked.data) - 10
    sight.page.mouse.move(*sight.pixels()[i])
    for _ in range(3):
        sight.page.mouse.wheel(0, -150)
    sight.follow()
    box = sight.overlay.bounding_box()
    corner = np.array([box["x"] + 30, box["y"] + box["height"] - 30])
    sight.draw([corner, corner + np.array([60, -40])])
    sight.follow()
    place = sight.pixels()[i]
    assert sight.point(place) == walked.data.labels[sight.nearest(place)[0]]
    sight.page.locator("#map-fit").click()


def test_the_slider_hides_later_checkpoints_from_hovering_too(pages, walked):
    sight = Sight(pages, walked.path, walked.space.positions)
    steps = np.array([np.nan if s is None else s for s in walked.data.steps])
    last = int(np.nanargmax(steps))
    place = sight.pixels()[last]
    assert sight.point(place) == walked.data.labels[sight.nearest(place)[0]]
    sight.page.locator("#filter-menu summary").click()
    track = sight.page.locator("#step-slider").bounding_box()
    sight.page.mouse.click(track["x"] + 0.45 * track["width"], track["y"] + track["height"] / 2)
    sight.page.keyboard.press("Escape")
    sight.frames()
    shown = figure(sight.page.locator("#step-shown").text_content())
    assert 0 < shown < np.nanmax(steps)
    left = ~(steps > shown)
    i, far = sight.nearest(place, left)
    assert sight.point(place) == (walked.data.labels[i] if far < 10 else None)
    assert figure(sight.page.locator("#shown-count").text_content()) == left.sum()


def test_the_lasso_selects_what_it_encloses_and_saves_it(sight, walked):
    page, places = sight.page, sight.pixels()
    centre = places.mean(axis=0)
    # A line that is not convex, and cuts through the crowd.
    line = centre + np.array([(-150, -130), (30, -20), (170, -140), (120, 160), (-20, 60)])
    inside = within(places, line)
    assert 5 < inside.sum() < len(inside) - 5
    page.locator("#lasso").click()
    sight.draw([*line, line[0]])
    assert figure(page.locator("#selected").text_content()) == inside.sum()
    with page.expect_download() as saved:
        page.locator("#export").click()
    with open(saved.value.path(), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["label"] for row in rows} == set(np.array(walked.data.labels)[inside])
    assert len(rows) == inside.sum()
    by_label = dict(zip(walked.data.labels, walked.space.descriptions.mean_returns, strict=True))
    for row in rows:
        assert float(row["mean_return"]) == pytest.approx(by_label[row["label"]], rel=1e-5)
    page.locator("#clear-selection").click()
    page.locator("#clear-selection").wait_for(state="detached")


def test_both_painters_give_the_same_picture(pages, walked):
    pictures = []
    for painter in ("pixels", "webgl"):
        sight = Sight(pages, walked.path, walked.space.positions, search=f"?painter={painter}")
        assert sight.page.locator("#map-points").get_attribute("data-painter") == painter
        sight.page.mouse.move(0, 0)
        sight.frames()
        pictures.append(pixels_of(sight.page.locator("#map").screenshot()))
    one, other = pictures
    assert one.shape == other.shape
    apart = np.abs(one - other).max(axis=2)
    # They may round edges differently, but not put a point elsewhere or in another colour.
    assert (apart > 60).mean() < 0.002
    assert apart.mean() < 1.0
    assert len(np.unique(one.reshape(-1, 3), axis=0)) > 50  # there is something to compare


def test_points_are_painted_where_the_policies_are(sight):
    page = sight.page
    page.mouse.move(0, 0)
    sight.frames()
    picture = pixels_of(page.locator("#map").screenshot())
    box = page.locator("#map").bounding_box()
    at = np.rint(sight.pixels() - (box["x"], box["y"])).astype(int)
    paper = picture[8, 8]
    assert (np.abs(picture[at[:, 1], at[:, 0]] - paper).max(axis=1) > 20).all()
