"""Clips on pages: two policies on one timeline, which can be played, stepped and scrubbed."""

from __future__ import annotations

import io
import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import explained_pairs
from pivec.explanations import Clip, Sheet
from pivec.report import pair_html, write_page

LABELS = "ppo/20000", "a2c/5000"
LONG, SHORT, EVERY, FPS = 12, 5, 2, 10.0
WIDTH, HEIGHT, COLUMNS = 32, 24, 4


def grey(side, frame):
    """Return the brightness of a frame, which tells it from all others."""
    return 40 + 16 * frame + 8 * side


def sheet_of(folder, side, frames, **changes):
    """Draw frames that are as grey as their number."""
    rows = -(-frames // COLUMNS)
    pixels = np.zeros((rows * HEIGHT, COLUMNS * WIDTH), np.uint8)
    for k in range(frames):
        top, left = k // COLUMNS * HEIGHT, k % COLUMNS * WIDTH
        pixels[top : top + HEIGHT, left : left + WIDTH] = grey(side, k)
    path = folder / "clips" / f"c-{side}.webp"
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).convert("RGB").save(path, lossless=True)
    first = 100 * side
    known = Sheet(
        path, LABELS[side], 3, 8, first, first + EVERY * (frames - 1), EVERY, True, frames, COLUMNS,
        WIDTH, HEIGHT, ("left <b>", "right"), tuple(k // 2 % 2 for k in range(frames)),
    )  # fmt: skip
    return replace(known, **changes)


def written(folder, *sheets):
    animated = folder / "clips" / "c.webp"
    animated.write_bytes(sheets[0].path.read_bytes())
    clip = Clip("Both", "from one seed", animated, fps=FPS, sheets=sheets)
    page = pair_html(replace(explained_pairs.difference_of(), clips=(clip,)))
    write_page(folder / "explain.html", page)
    return folder / "explain.html"


@pytest.fixture
def path(tmp_path):
    """A page with a clip of which the second policy ends earlier."""
    return written(tmp_path, sheet_of(tmp_path, 0, LONG), sheet_of(tmp_path, 1, SHORT))


@pytest.fixture
def page(pages, path):
    return pages.open(path)


def shown(page):
    """Return the numbers of the frames of both policies, as they are seen."""
    boxes = page.locator(".player .sheet")
    frames = []
    for side in range(boxes.count()):
        with Image.open(io.BytesIO(boxes.nth(side).screenshot())) as picture:
            pixels = np.asarray(picture.convert("L")).astype(float)
        middle = pixels[10:-10, 10:-10]
        assert np.ptp(middle) <= 6  # nothing of a neighbour
        frames.append(middle.mean())
    return [float((value - 40 - 8 * side) / 16) for side, value in enumerate(frames)]


def at(page, *frames):
    """Expect frames; a policy that has ended is pale, and keeps its last frame."""
    found = shown(page)
    for side, frame in enumerate(frames):
        if frame >= (LONG, SHORT)[side]:
            last = grey(side, (LONG, SHORT)[side] - 1)
            pale = page.locator(".sheet").nth(side)
            assert float(pale.evaluate("x => getComputedStyle(x).opacity")) < 1
            assert found[side] * 16 + 40 + 8 * side > last  # on white paper
        else:
            assert found[side] == pytest.approx(frame, abs=0.2)


def wait_for_time(page, enough):
    """Wait until the timeline is at a frame that is enough."""
    last = time.monotonic() + 10
    while not enough(int(page.locator(".time").input_value())):
        assert time.monotonic() < last
        page.wait_for_timeout(20)


def words(page, what):
    return page.locator(f".player .{what}").all_text_contents()


def test_the_first_frame_is_there_and_nothing_starts_by_itself(page):
    at(page, 0, 0)
    page.wait_for_timeout(400)
    at(page, 0, 0)
    assert words(page, "label") == ["A ppo/20000, episode 3", "B a2c/5000, episode 3"]
    assert words(page, "now") == ["step 0", "step 100"]
    assert words(page, "caption") == ["left <b>", "left <b>"]
    assert page.get_by_text("Shows one in 2 steps").is_visible()
    link = page.get_by_role("link", name="Animated picture")
    assert link.get_attribute("href").endswith("/c.webp")


def test_steps_and_scrubbing_are_on_one_timeline(page):
    back, on = (page.get_by_role("button", name=f"{x} frame") for x in ("Previous", "Next"))
    slider = page.get_by_role("slider", name="Time")
    assert back.is_disabled()
    on.click()
    on.click()
    on.click()
    back.click()
    at(page, 2, 2)
    assert words(page, "now") == ["step 4", "step 104"]
    assert words(page, "caption") == ["right", "right"]
    assert slider.input_value() == "2"
    slider.fill("4")
    at(page, 4, 4)
    assert words(page, "now") == ["step 8", "step 108: episode ends"]
    slider.fill("7")
    at(page, 7, 7)  # the shorter one stays
    assert words(page, "now") == ["step 14", "step 108: episode ends"]
    assert words(page, "clock") == ["14 / 22"]
    assert slider.get_attribute("aria-valuetext") == "step 14 of 22"
    slider.fill("11")
    assert words(page, "now")[0] == "step 22: episode ends"
    assert on.is_disabled()


def test_it_plays_pauses_and_begins_again(page):
    button = page.get_by_role("button", name="Play")
    button.click()
    assert page.locator(".caption").first.get_attribute("aria-live") == "off"
    wait_for_time(page, lambda frame: frame >= 3)
    page.get_by_role("button", name="Pause").click()
    assert page.locator(".caption").first.get_attribute("aria-live") == "polite"
    frame = int(page.locator(".time").input_value())
    page.wait_for_timeout(300)
    assert int(page.locator(".time").input_value()) == frame
    at(page, frame, frame)
    button.click()
    wait_for_time(page, lambda frame: frame == LONG - 1)
    button.wait_for()  # it stops at the end
    button.click()
    wait_for_time(page, lambda frame: frame < 5)


def elapsed(page, speed):
    """Return the seconds of the page's clock that 8 frames take."""
    page.get_by_role("slider").fill("0")
    page.get_by_role("combobox", name="Speed").select_option(str(speed))
    return page.evaluate(
        """() => new Promise((done) => {
          const time = document.querySelector(".player .time");
          document.querySelector(".player button").click();
          const start = performance.now();
          const look = () => time.value >= 8 ? done((performance.now() - start) / 1000)
            : requestAnimationFrame(look);
          look();
        })"""
    )


def test_the_speed_is_that_of_the_environment_times_what_is_chosen(page):
    for speed in (1, 4):
        assert elapsed(page, speed) == pytest.approx(8 / FPS / speed, abs=0.12)


def test_keys_do_the_same(page):
    page.locator(".player").focus()
    for key, frame in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 11),
                      ("Home", 0), ("ArrowLeft", 0)):  # fmt: skip
        page.keyboard.press(key)
        at(page, frame, frame)
    page.keyboard.press("Space")
    wait_for_time(page, lambda frame: frame >= 2)
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Play").is_visible()
    # The keys of a control are its own, and count once.
    page.get_by_role("slider").fill("0")
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".time").input_value() == "1"
    page.get_by_role("combobox").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator(".time").input_value() == "1"
    page.get_by_role("button", name="Play").focus()
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Pause").is_visible()


def test_without_a_script_the_first_frames_are_shown(pages, path):
    page = pages.open(path, ready=False, java_script_enabled=False)
    at(page, 0, 0)
    assert page.locator(".player button").count() == 0
    assert page.get_by_text("ppo/20000, episode 3").is_visible()


def test_one_policy_has_no_letter_and_a_single_frame_no_controls(pages, tmp_path):
    sheet = sheet_of(tmp_path, 0, 1, is_end=False, captions=(1,), episode=None)
    page = pages.open(written(tmp_path, sheet))
    at(page, 0)
    assert words(page, "label") == ["ppo/20000, seed 8"]
    assert words(page, "now") == ["step 0"]
    assert words(page, "caption") == ["right"]
    assert page.locator(".player button").count() == 0


def test_a_page_too_small_for_its_pictures_shows_those_beside_it(pages, tmp_path, monkeypatch):
    monkeypatch.setattr("pivec.report.pages.Embedder.__call__", lambda *_: None)
    page = pages.open(written(tmp_path, *(sheet_of(tmp_path, k, LONG) for k in (0, 1))))
    page.get_by_role("slider").fill("9")
    assert shown(page) == pytest.approx([9, 9], abs=0.2)
    assert page.locator(".sheet img").first.get_attribute("src").endswith("clips/c-0.webp")


@pytest.mark.parametrize("looks", [{}, {"color_scheme": "dark"}, {"width": 400}])
def test_axe_finds_nothing(pages, path, looks):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = pages.open(path, **looks)
    page.get_by_role("slider").fill("7")
    found = axe.run(page, ".player", options={"resultTypes": ["violations"]}).response
    assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found["violations"]] == []
