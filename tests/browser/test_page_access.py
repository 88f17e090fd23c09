"""The page for everyone: keys, screen readers, touch, narrow and dark screens, paper."""

from __future__ import annotations

import numpy as np
import pytest
from sight import Sight, chosen, pixels_of

THEMES = ("light", "dark")


@pytest.fixture(scope="module")
def sight(pages, walked):
    return Sight(pages, walked.path, walked.space.positions)


def test_arrows_walk_and_enter_chooses(sight, walked):
    page, labels = sight.page, walked.data.labels
    sight.overlay.focus()
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")  # the first goes to the policy in the middle
    sight.frames()
    tip, said = page.locator("#map-tip strong"), page.locator("#said")
    walk = [labels.index(tip.text_content())]
    for key, axis, sign in (("ArrowRight", 0, 1), ("ArrowUp", 1, 1), ("ArrowLeft", 0, -1)):
        page.keyboard.press(key)
        sight.frames()
        i = labels.index(tip.text_content())
        moved = (walked.space.positions[i] - walked.space.positions[walk[-1]])[axis] * sign
        assert i == walk[-1] or moved > 0
        assert said.text_content().startswith((labels[i], "No policy"))
        walk.append(i)
    assert len(set(walk)) > 2
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    sight.frames()
    b = tip.text_content()
    page.keyboard.press("Shift+Enter")
    names = page.locator("#panel .who .entity")
    names.nth(1).wait_for()
    assert [name.strip() for name in names.all_text_contents()] == [labels[walk[-1]], b]


@pytest.mark.parametrize("width", [1400, 400])
def test_axe_finds_nothing(pages, walked, width):
    """Neither with two policies nor a run selected, in any tab, theme, or on paper."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = pages.open(walked.path, width=width, height=900)

    def check(where, **rules):
        found = axe.run(page, options={"resultTypes": ["violations"], **rules}).response
        violations = [(v["id"], v["nodes"][0]["html"][:200]) for v in found["violations"]]
        assert violations == [], where

    chosen(page, walked.data.labels[3], walked.data.labels[30])
    contrast = {"runOnly": ["color-contrast"]}
    for tab in page.locator("[role=tab]").all():
        tab.click()
        page.emulate_media(color_scheme="light")
        check(tab.text_content())
        page.emulate_media(color_scheme="dark")
        check(tab.text_content(), **contrast)
    page.emulate_media(color_scheme="light")
    for opener in ("#help-open", "#keys-open"):
        page.locator(opener).click()
        check(opener)
        page.keyboard.press("Escape")
    page.locator("#open-runs").click()
    page.locator("#tab-runs table [data-run]:visible").first.click()
    check("a run")
    page.emulate_media(media="print", color_scheme="light")
    check("print")


def test_marks_stand_out_from_the_paper(pages, walked):
    """Points have a contrast of 3 to what they are painted on, whatever they are coloured by."""
    sight = Sight(pages, walked.path, walked.space.positions)
    for theme in THEMES:
        sight.page.emulate_media(color_scheme=theme)
        sight.page.locator("#view-menu summary").click()
        for flag in ("lines", "joins", "labels"):  # nothing but points
            sight.page.locator(f"#map-{flag}").set_checked(False)
        sight.page.keyboard.press("Escape")
        sight.page.mouse.move(0, 0)
        for colour in ("return", "group", "step", "feature:0"):
            sight.page.locator("#colour").select_option(colour)
            sight.frames()
            box = sight.page.locator("#map").bounding_box()  # a longer key makes the map smaller
            at = np.rint(sight.pixels() - (box["x"], box["y"])).astype(int)
            apart = np.hypot(*(at[:, None] - at[None]).T) + 1e9 * np.eye(len(at))
            at = at[apart.min(axis=0) > 16]  # others may cover the rest, or have their rims there
            assert len(at) > 10
            picture = pixels_of(sight.page.locator("#map").screenshot())
            paper, inks = luminance(picture[8, 8]), luminance(picture[at[:, 1], at[:, 0]])
            assert (paper > 0.5) == (theme == "light")
            low, high = np.minimum(paper, inks), np.maximum(paper, inks)
            assert ((high + 0.05) / (low + 0.05)).min() >= 3, (theme, colour)


def luminance(rgb):
    """Compute the relative luminance of WCAG 2."""
    c = np.asarray(rgb) / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return linear @ (0.2126, 0.7152, 0.0722)


def test_a_narrow_page_does_not_scroll_sideways_and_a_touch_keeps_the_name(pages, walked):
    sight = Sight(
        pages, walked.path, walked.space.positions, reach=120, width=400, height=800, has_touch=True
    )
    page = sight.page
    wide = "() => [document.documentElement.scrollWidth, innerWidth]"
    assert page.evaluate(wide) == [400, 400]
    i = 15
    place = sight.pixels()[i]
    page.touchscreen.tap(*place)
    sight.frames()
    nearest = walked.data.labels[sight.nearest(place)[0]]
    assert page.locator("#map-tip strong").text_content() == nearest
    page.wait_for_timeout(300)
    assert page.locator("#map-tip").is_visible()
    chosen(page, walked.data.labels[1], walked.data.labels[40])
    assert page.evaluate(wide) == [400, 400]


def test_without_scripts_the_page_is_a_picture_with_tables(pages, walked):
    page = pages.open(walked.path, ready=False, java_script_enabled=False)
    assert page.locator("#map-static").is_visible()
    assert page.locator("#tabs").is_hidden()
    assert page.locator("#policy-table tbody tr").count() >= 20
