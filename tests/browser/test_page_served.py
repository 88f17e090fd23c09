"""The page of `pivec serve` in a browser: it grows without a reload, and asks its server alone."""

from __future__ import annotations

import base64
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from itertools import chain, repeat
from types import SimpleNamespace

import pytest
from made_pages import HOSTILE

from pivec.options import ReplayOptions
from pivec.server.application import Handlers, LatestSnapshot, listening, make_server

# A picture of one dot.
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


def leave(space, n, out):
    """Save a space with the first n of its policies."""
    described = space.descriptions.select(range(n))
    replace(space, descriptions=described, positions=space.positions[:n]).save(out / "space")


class StubClipMaker:
    """At first clips are being made, asked again they are there."""

    states = iter(())

    def submit(self, key, request):
        (request.folder / "clip.png").write_bytes(PICTURE)
        self.states = chain(("working", "working"), repeat("done"))
        return self.answer(key)

    def answer(self, _):
        clip = {"src": "media/clip.png", "title": HOSTILE[0], "words": "both <b>play</b>"}
        clip |= {"fps": 10.0, "sheets": []}
        state = next(self.states, None)
        return state and {
            "state": state,
            "words": "playing",
            "share": 0.5,
            "clips": [clip],
            "frames": [],
        }

    def stop(self):
        pass


@pytest.fixture(scope="module")
def served(hostile, tmp_path_factory):
    """Serve 46 of 48 policies, with names that are not meant well."""
    out = tmp_path_factory.mktemp("served") / "out"
    leave(hostile.space, 46, out)
    with listening(0) as listener:
        latest = LatestSnapshot(out, quiet=True)
        handlers = Handlers(latest, ReplayOptions(), StubClipMaker(), interval=0.05)
        server, address = make_server(handlers, listener)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield SimpleNamespace(address=address, out=out)
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("path", ["/", "/wrong/", "/wrong/data", "TOKEN/media/../space/space.npz",
                                  "TOKEN/media/%2e%2e/%2e%2e/etc/hosts.png"])  # fmt: skip
def test_the_token_is_needed_and_paths_lead_nowhere_else(served, path):
    root, token = served.address[:-1].rsplit("/", 1)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(root + path.replace("TOKEN", f"/{token}"))


def test_new_policies_appear_without_a_reload(served, hostile, pages):
    page = pages.open(served.address)
    page.locator("#live", has_text="Live").wait_for()
    panel = page.locator("#panel")
    with page.expect_response("**/pair?*") as response:
        panel.locator(".begin button", has_text="farthest").click()
    exact = response.value.json()
    panel.locator(".differs").wait_for()
    panel.locator(".command").wait_for(state="detached")  # exact numbers came, chance is marked
    assert f"{exact['distance']:.3g}" in panel.locator(".figure").inner_text()
    names = panel.locator(".who").all_inner_texts()
    assert exact["a"].strip() in names[0]
    assert exact["b"].strip() in names[1]
    make_clips(page)
    parts = panel.locator(".part").count()
    leave(hostile.space, 48, served.out)
    page.locator("#live", has_text="48 policies, 2 more").wait_for()
    assert page.locator("#help .figures dd").first.text_content() == "48"
    assert page.locator("header .lead").inner_text().startswith("48 policies from 6 training runs")
    # What was chosen and drawn stays.
    assert panel.locator(".who").all_inner_texts() == names
    assert panel.locator(".part").count() == parts > 1
    assert panel.locator(".clips img").count() == 1
    swap = panel.get_by_role("button", name="Swap")
    swap.click()
    panel.get_by_role("button", name="Make clips of both").wait_for()
    swap.click()
    panel.locator(".clips img").wait_for()  # these clips need not be asked for again
    assert page.title() == "Behaviour in Walk-v0"  # names stay text


def make_clips(page):
    """Have clips made, and see that the picture is there and its words are text."""
    page.get_by_role("button", name="Make clips of both").click()
    page.locator("#panel .clips img").wait_for()
    page.wait_for_function("document.querySelector('#panel .clips img').naturalWidth === 1")
    assert HOSTILE[0] in page.locator("#panel .clips").inner_text()
