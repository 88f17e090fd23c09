"""The map as a test sees it: where policies are on the screen, by the view that a link gives."""

from __future__ import annotations

import io
import re
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np

FRAMES = "() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))"
VISIBLE_WORDS = """() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let n = 0;
  for (let node; (node = texts.nextNode()); ) {
    const range = document.createRange();
    range.selectNodeContents(node);
    const parent = node.parentElement;
    const seen = [...range.getClientRects()].some((box) =>
      box.width > 1 && box.bottom > 0 && box.top < innerHeight && box.left >= 0 &&
      box.left < innerWidth);
    const hidden = parent.closest("script, style, option, .unseen, [hidden]");
    const box = parent.getBoundingClientRect();
    const top = document.elementFromPoint(
      Math.max(1, box.left + 2), Math.min(innerHeight - 1, Math.max(1, box.top + 2)));
    if (seen && !hidden && top && (parent.contains(top) || top.contains(parent)))
      n += node.textContent.split(/\\s+/).filter(Boolean).length;
  }
  return n;
}"""


class Sight:
    """A page that was opened by a link to a view of the map; pixels follow from the view alone."""

    def __init__(
        self, pages, path, positions, *, middle=None, reach=240, search="", link=(), **looks
    ):
        """``reach`` are the pixels from the middle to the farthest policy; ``link`` more of it."""
        self.positions = np.asarray(positions, float)
        low, high = self.positions.min(axis=0), self.positions.max(axis=0)
        self.middle = (low + high) / 2 if middle is None else np.asarray(middle)
        self.scale = reach / np.abs(self.positions - (low + high) / 2).max()
        view = f"{self.middle[0]:.9g} {self.middle[1]:.9g} {self.scale:.9g}"
        words = "&".join(
            f"{key}={quote(value)}" for key, value in {"view": view, **dict(link)}.items()
        )
        looks = {"height": 1250} | looks  # room for the map
        self.page = pages.open(f"{Path(path).as_uri()}{search}#{words}", **looks)
        self.overlay = self.page.locator("#map-overlay")
        self.overlay.scroll_into_view_if_needed()

    def frames(self):
        """Let the page paint."""
        self.page.evaluate(FRAMES)

    def pixels(self):
        """Return the places of all policies in the window, (n, 2)."""
        box = self.overlay.bounding_box()
        centre = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        return centre + (self.positions - self.middle) * self.scale * (1, -1)

    def nearest(self, place, among=None):
        """Return the policy next to a place of the window, and how many pixels away it is."""
        far = np.hypot(*(self.pixels() - place).T)
        if among is not None:
            far[~np.asarray(among)] = np.inf
        return int(far.argmin()), float(far.min())

    def point(self, place):
        """Move the mouse there and return the name that the page shows; none if it shows none."""
        self.page.mouse.move(*place)
        self.frames()
        name = self.page.locator("#map-tip:not([hidden]) strong")
        return name.text_content() if name.count() else None

    def follow(self):
        """Take over the view that the page's address has, after it was moved by hand."""
        self.page.wait_for_timeout(700)  # the address follows when the view rests
        words = parse_qs(urlsplit(self.page.url).fragment)
        x, y, self.scale = map(float, words["view"][0].split())
        self.middle = np.array([x, y])

    def draw(self, corners, key=None):
        """Drag the mouse along a line through these places of the window."""
        if key:
            self.page.keyboard.down(key)
        self.page.mouse.move(*corners[0])
        self.page.mouse.down()
        for corner in corners[1:]:
            self.page.mouse.move(*corner, steps=4)
        self.page.mouse.up()
        if key:
            self.page.keyboard.up(key)
        self.frames()


def within(places, corners):
    """Tell which places lie inside of a closed line: its angles around them add up to turns."""
    a = np.asarray(corners, float)[None] - np.asarray(places, float)[:, None]
    b = np.roll(a, -1, axis=1)
    cross = a[:, :, 0] * b[:, :, 1] - a[:, :, 1] * b[:, :, 0]
    turns = np.arctan2(cross, (a * b).sum(axis=2)).sum(axis=1) / (2 * np.pi)
    return np.rint(turns).astype(int) % 2 == 1


def pixels_of(png):
    """Decode a screenshot, (height, width, 3)."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(float)


def figure(text):
    """Read the first number of a text as the page writes them."""
    plain = text.replace("\u202f", "").replace("−", "-")
    return float(re.search(r"-?\d+(\.\d+)?(e-?\d+)?", plain)[0])


def chosen(page, a, b=None):
    """Choose A and B by searching for their names, and wait for the panel to show them."""
    search = page.locator("#search")
    for key, label in (("Enter", a), ("Shift+Enter", b)):
        if label is not None:
            search.fill(label)
            search.press(key)
    search.fill("")
    panel = page.locator("#panel")
    wanted = panel.locator("h2 [data-row]") if b is None else panel.locator(".who").nth(1)
    wanted.wait_for()
    return panel
