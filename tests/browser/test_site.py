"""The pages of a comparison as one site: by mouse and keyboard, from files and served, for all."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import SimpleNamespace
from urllib.parse import unquote

import pytest

from pivec.options import ReplayOptions
from pivec.server.application import Handlers, LatestSnapshot, listening, make_server
from site_folder import PAGES, leave_site

# Each from the page before; the first is opened.
WALK = {
    "Overview": "report",
    "Regions": "regions",
    "Unusual episodes": "unusual",
    "Groups": "groups",
    "Runs": "run",
    "ppo-0/0 and ppo-0/100": "pair",
    "Notable pairs": "overview",
}
BESIDE = [page for kind, page in PAGES.items() if kind != "report"]


@contextmanager
def serving(folder):
    with listening(0) as listener:
        handlers = Handlers(LatestSnapshot(folder, quiet=True), ReplayOptions())
        server, address = make_server(handlers, listener)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield address
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = leave_site(tmp_path_factory.mktemp("site") / "out")
    with serving(folder) as address:
        roots = {"files": f"{folder.as_uri()}/", "served": address}
        yield SimpleNamespace(folder=folder, roots=roots)


def go(page, name):
    """Follow a link of the navigation, opening its menu if it is in one."""
    link = page.locator("nav.site").get_by_role("link", name=name, exact=True)
    menus = page.locator("nav.site summary:visible")
    for number in range(menus.count()):
        if link.count():
            break
        menus.nth(number).click()
    link.click()


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("how", ["files", "served"])
def test_every_page_is_reached_by_clicks(site, pages, how, width):
    root = site.roots[how]
    page = pages.open(root + PAGES["overview"], ready=False, width=width)
    for name, kind in WALK.items():
        go(page, name)
        page.wait_for_url(lambda url, kind=kind: url.split("#")[0] == root + PAGES[kind])
        assert page.locator("nav.site [aria-current=page]").count() == 2  # wide and narrow
        shown = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert shown[0] == shown[1], (name, shown)


@pytest.mark.parametrize("how", ["files", "served"])
def test_a_pair_is_shown_on_the_map(site, pages, how):
    page = pages.open(site.roots[how] + PAGES["pair"], ready=False)
    page.get_by_role("link", name="Show both on the map").click()
    page.locator("html.ready").wait_for(state="attached")
    assert "a=ppo-0/0&b=ppo-0/100" in unquote(page.url)
    panel = page.locator("#panel")
    for label in ("ppo-0/0", "ppo-0/100"):
        panel.get_by_text(label, exact=True).first.wait_for()


def test_a_region_leads_to_its_card(site, pages):
    page = pages.open(site.roots["files"] + PAGES["overview"], ready=False)
    link = page.locator("article.card h3 a").first
    name = link.inner_text()
    link.click()
    card = page.locator(".card:target")
    assert name in card.locator("h3").inner_text()
    bar, box = page.locator("nav.site").bounding_box(), card.bounding_box()
    assert box["y"] >= bar["y"] + bar["height"]  # the bar does not cover it


def test_menus_open_by_keyboard(site, pages):
    page = pages.open(site.roots["files"] + PAGES["regions"], ready=False)
    summary = page.locator("nav.site summary:visible", has_text="What differs")
    summary.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{PAGES['overview']}")


@pytest.mark.parametrize("width", [1400, 400])
def test_axe_finds_nothing(site, pages, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    contrast = {"runOnly": ["color-contrast"]}
    page = pages.open(site.roots["files"] + BESIDE[0], ready=False, width=width)
    for path in BESIDE:
        page.emulate_media(media="screen")
        page.goto(site.roots["files"] + path)
        menu = page.locator("nav.site summary:visible").first
        menu.click()
        for media, rules in (
            ({"color_scheme": "light", "media": "screen"}, {}),
            ({"color_scheme": "dark"}, contrast),
            ({"media": "print", "color_scheme": "light"}, contrast),
        ):
            page.emulate_media(**media)
            options = {"resultTypes": ["violations"], **rules}
            found = axe.run(page, options=options).response["violations"]
            nodes = [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found]
            assert nodes == [], (path, media)


# Columns of labels and names may not become narrower than words: of each text, the longest word
# fits into its element, so that none is broken letter by letter.
BROKEN_WORDS = """() => {
  const broken = [], range = document.createRange();
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const parent = node.parentElement;
    if (!parent.checkVisibility() || parent.closest("pre, code, .unseen")) continue;
    for (const { 0: word, index } of node.data.matchAll(/[\\p{L}\\p{N}_/.]{2,40}/gu)) {
      range.setStart(node, index); range.setEnd(node, index + word.length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) broken.push(word);
    }
  }
  return broken;
}"""


@pytest.mark.parametrize("width", [1400, 400])
def test_no_word_is_broken(site, pages, width):
    page = pages.open(site.roots["files"] + BESIDE[0], ready=False, width=width)
    for path in BESIDE:
        page.goto(site.roots["files"] + path)
        assert page.evaluate(BROKEN_WORDS) == [], path


def test_a_forged_page_runs_nothing(site, pages):
    """Neither its script nor an attribute runs when it is served, and the rest is shown."""
    script = "document.title = 'run'"
    forged = site.folder / "explain" / "forged" / "explain.html"
    forged.parent.mkdir()
    forged.write_text(
        f"<title>still</title><script>{script}</script><p id=here>text</p>"
        f'<img src="none.png" onerror="{script}"><a id=go href="javascript:{script}">go</a>'
    )
    page = pages.open(site.roots["served"] + "explain/forged/explain.html", ready=False)
    assert page.locator("#here").inner_text() == "text"
    page.locator("#go").click()
    page.wait_for_timeout(200)
    assert page.title() == "still"
    # Each attempt was refused, and the picture is not there.
    refused, missing = (
        [words for words in pages.complaints if part in words]
        for part in ("Content Security Policy", "404")
    )
    assert len(refused) == 3
    assert len(refused) + len(missing) == len(pages.complaints)
    pages.complaints.clear()
    opened = pages.open(forged, ready=False)
    assert opened.title() == "run"  # it would run as a file: the header of the server forbids it
    pages.complaints.clear()
