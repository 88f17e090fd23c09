"""The map of episodes: what is shown of each is what Python found, and it can be saved."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from made_pages import ODD_EPISODE
from sight import FRAMES, figure, within


@pytest.fixture
def page(pages, episodic):
    page = pages.open(episodic.report, width=1400)
    page.locator("#open-episodes").click()
    page.locator(".episode-map canvas").wait_for()
    page.evaluate(FRAMES)
    return page


def places_of(page, found):
    """Return the places of all episodes in the window: they fill the canvas, but for a margin."""
    box = page.locator(".episode-map canvas").bounding_box()
    low, high = found.positions.min(axis=0), found.positions.max(axis=0)
    scale = min((box["width"] - 32) / (high - low)[0], (box["height"] - 32) / (high - low)[1])
    middle = np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
    return middle + (found.positions - (low + high) / 2) * scale * (1, -1)


def lonely(places):
    """Return the episode that is farthest from its nearest."""
    apart = np.hypot(*(places[:, None] - places[None]).T) + 1e9 * np.eye(len(places))
    return int(apart.min(axis=0).argmax())


def facts_of(page):
    box = page.locator("#episode-facts")
    names, values = (box.locator(f".facts {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, map(str.strip, values), strict=True))


def expect(page, found, e):
    """Compare what is shown of the selected episode with what is known of it."""
    page.locator("#episode-facts h3", has_text=f"Episode {found.episodes[e]}").wait_for()
    facts = facts_of(page)
    assert facts["policy"] == found.policies[e]
    assert facts["kind"] == f"kind {found.kind[e]}"
    assert figure(facts["states"]) == found.lengths[e]
    assert figure(facts["unusual"]) == pytest.approx(found.times[e], rel=0.06)
    if np.isfinite(found.returns[e]):
        assert figure(facts["return"]) == pytest.approx(found.returns[e], rel=5e-3)
    else:
        assert "return" not in facts


def test_the_most_unusual_episodes_are_listed_and_select(page, episodic):
    found = episodic.episode_map
    rows = page.locator(".unusual [data-episode]")
    assert [int(row.get_attribute("data-episode")) for row in rows.all()] == list(
        found.unusual[:10]
    )
    first = found.unusual[0]
    assert (found.policies[first], found.episodes[first]) == ("one", ODD_EPISODE)
    assert figure(rows.first.locator("b").inner_text()) == pytest.approx(
        found.times[first], rel=0.06
    )
    rows.first.click()
    expect(page, found, first)


def test_pointing_shows_an_episode_and_a_click_selects_it(page, episodic):
    found = episodic.episode_map
    places = places_of(page, found)
    e = lonely(places)
    page.mouse.move(*places[e])
    page.evaluate(FRAMES)
    name = page.locator(".episode-map .tip strong").inner_text()
    assert name == f"{found.policies[e]}, episode {found.episodes[e]}"
    page.mouse.click(*places[e])
    expect(page, found, e)
    page.mouse.click(*places[e])
    page.locator("#episode-facts").wait_for(state="detached")


def test_keys_walk_between_episodes(page, episodic):
    found = episodic.episode_map
    canvas = page.locator(".episode-map canvas")
    canvas.focus()
    names = set()
    for key in ["ArrowRight"] * 3 + ["ArrowDown"] * 3:
        page.keyboard.press(key)
        names.add(page.locator("#said").text_content().split(", kind")[0])
    known = {f"{p}, episode {e}" for p, e in zip(found.policies, found.episodes, strict=True)}
    assert len(names & known) > 2
    name = page.locator(".episode-map .tip strong").inner_text()
    page.keyboard.press("Enter")
    e = [f"{p}, episode {k}" for p, k in zip(found.policies, found.episodes, strict=True)].index(
        name
    )
    expect(page, found, e)
    page.keyboard.press("Escape")
    page.locator("#episode-facts").wait_for(state="detached")


def test_a_lasso_saves_its_episodes_with_the_columns_of_the_file(page, episodic):
    found = episodic.episode_map
    places = places_of(page, found)
    centre = places[lonely(places)]
    corners = centre + 60 * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    page.get_by_role("button", name="Lasso").last.click()
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in [*corners[1:], corners[0]]:
        page.mouse.move(*corner, steps=6)
    page.mouse.up()
    inside = np.flatnonzero(within(places, corners))
    assert 0 < len(inside) < len(places)
    with page.expect_download() as saved:
        page.get_by_role("button", name=f"Save {len(inside)} as CSV").click()
    with open(saved.value.path(), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with (episodic.folder / "episodes.csv").open(encoding="utf-8", newline="") as file:
        all_rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(all_rows[0])
    span = np.ptp(found.positions, axis=0).max()
    for row, e in zip(rows, inside, strict=True):
        known = all_rows[e]
        for column in ("policy", "episode", "seed", "kind", "length"):
            assert row[column] == known[column]
        assert float(row["x"]) == pytest.approx(float(known["x"]), abs=span / 8000)
        for column in ("times_as_far", "return"):
            assert (row[column] == "") == (known[column] == "")
            if row[column]:
                assert float(row[column]) == pytest.approx(float(known[column]), rel=1e-3)


def test_kinds_have_their_shares_and_choose_their_episodes(page, episodic):
    found = episodic.episode_map
    rows = page.locator(".kinds [data-kind]")
    for row, kind in zip(rows.all(), found.kinds.kinds, strict=True):
        assert row.get_attribute("data-kind") == str(kind.number)
        assert kind.name in row.inner_text().replace("\u00a0", " ")
        share = figure(row.locator("em").inner_text())
        assert share == pytest.approx(100 * kind.share, abs=0.51)
    rows.first.hover()
    page.locator("#kinds-tables tr.lit[data-kind='1']").wait_for(state="attached")
    rows.first.click()
    n = int((found.kind == 1).sum())
    page.get_by_role("button", name=f"Save {n} as CSV").wait_for()
    rows.first.click()
    page.get_by_role("button", name=f"Save {n} as CSV").wait_for(state="detached")


def test_a_link_restores_the_episode(page, pages, episodic):
    found = episodic.episode_map
    page.locator(".unusual [data-episode]").first.click()
    page.wait_for_timeout(600)
    again = pages.open(page.url, width=1400)
    expect(again, found, found.unusual[0])


def test_names_of_a_dataset_stay_text(page):
    assert page.locator("#tab-episodes i:text('both')").count() == 0
    assert page.locator("#kinds-tables", has_text="<i>both").count() == 1
