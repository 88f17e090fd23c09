"""Clips of the workbench: those beside the page, and those that a server makes meanwhile."""

from __future__ import annotations

import io
import json
import threading
from base64 import b64encode
from dataclasses import replace
from itertools import chain, repeat

import numpy as np
import pytest
from made_pages import HOSTILE
from PIL import Image

from pivec.options import ReplayOptions
from pivec.report import report_html, write_page
from pivec.run_log import RunLog
from pivec.server.application import Handlers, LatestSnapshot, listening, make_server


def picture(greys):
    """Draw a sheet of frames of 8 x 8 points in a row."""
    content = io.BytesIO()
    pixels = np.kron(np.array([greys]), np.ones((8, 8))).astype(np.uint8)
    Image.fromarray(pixels).convert("RGB").save(content, "WEBP", lossless=True)
    return content.getvalue()


def sheet_of(label, frames, **changes):
    known = {"label": label, "episode": 2, "seed": 5, "first": 0, "last": frames - 1, "every": 1}
    known |= {"frames": frames, "columns": frames, "width": 8, "height": 8}
    return known | {"texts": ["<i>"], "captions": [0] * frames} | changes


@pytest.fixture
def beside(walked, tmp_path):
    """Give the page of a comparison, the farthest pair of which was explained."""
    report = replace(walked.report, log=RunLog(tmp_path))
    i, j = report.notable_pairs["The farthest pair"]
    labels = [report.policies[k].label for k in (i, j)]
    folder = tmp_path / "explain" / "a pair"
    folder.mkdir(parents=True)
    sheets = [sheet_of(label, 4, path=f"{k}.webp", is_end=True) for k, label in enumerate(labels)]
    for k in (0, 1):
        (folder / f"{k}.webp").write_bytes(picture([50 + 100 * k] * 4))
    (folder / "c.webp").write_bytes(picture([0]))
    clip = {"title": "Both", "caption": "from the start", "path": "c.webp", "fps": 10.0}
    content = {
        "decomposition": {"labels": labels, "distance": report.distance(i, j)},
        "clips": [clip | {"sheets": sheets}],
    }
    (folder / "explain.json").write_text(json.dumps(content))
    write_page(tmp_path / "report.html", report_html(report))
    return tmp_path / "report.html", labels


def test_clips_beside_the_page_have_the_sides_that_were_selected(beside, pages):
    path, labels = beside
    for order in (labels, labels[::-1]):
        page = pages.open(f"{path.as_uri()}#a={order[0]}&b={order[1]}")
        player = page.locator("#panel .player")
        player.get_by_role("slider").fill("3")
        names = player.locator(".label").all_inner_texts()
        assert names == [
            f"{side} {name}, episode 2" for side, name in zip("AB", order, strict=True)
        ]
        for side, label in enumerate(order):
            seen = Image.open(io.BytesIO(player.locator(".sheet").nth(side).screenshot()))
            grey = np.asarray(seen.convert("L"))[10:-10, 10:-10].mean()
            assert grey == pytest.approx(50 + 100 * labels.index(label), abs=3)
        assert player.locator(".now").first.inner_text() == "step 3: episode ends"


class StubClipMaker:
    """At first clips are being made, with their first frame; then they are there."""

    def __init__(self):
        self.states, self.asked, self.ready = iter(()), [], threading.Event()

    def submit(self, _, request):
        self.asked.append(request.wanted)
        (request.folder / "s.webp").write_bytes(picture([60, 120, 180]))
        self.states = chain(("working",), repeat("later"))
        return self.answer(_)

    def answer(self, _):
        state = next(self.states, None)
        if state == "later":
            state = "done" if self.ready.is_set() else "working"
        if state is None:
            return None
        first = f"data:image/webp;base64,{b64encode(picture([60])).decode()}"
        done = state == "done"
        sheet = sheet_of(HOSTILE[1], 3 if done else 1, src="media/s.webp" if done else first)
        clip = {"title": HOSTILE[0], "words": "both <b>play</b>", "fps": 20.0}
        clip |= {"sheets": [sheet | {"isEnd": done}]}
        answer = {"state": state, "words": "drawing, 25 % done", "share": 0.25}
        return answer | {"clips": [clip], "frames": []}

    def stop(self):
        pass


@pytest.fixture
def served(walked, tmp_path):
    maker = StubClipMaker()
    walked.space.save(tmp_path / "out" / "space")
    with listening(0) as listener:
        latest = LatestSnapshot(tmp_path / "out", quiet=True)
        handlers = Handlers(latest, ReplayOptions(), maker, interval=10)
        server, address = make_server(handlers, listener)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield address, maker
        server.should_exit = True
        thread.join()


def test_the_first_frame_and_progress_are_shown_while_clips_are_made(served, walked, pages):
    address, maker = served
    a, b = walked.data.labels[3], walked.data.labels[30]
    page = pages.open(f"{address}#a={a}&b={b}")
    panel = page.locator("#panel")
    button = panel.get_by_role("button", name="Make clips of both")
    button.click()
    image = panel.locator(".player img")
    image.wait_for()
    assert image.get_attribute("src").startswith("data:image/webp")
    assert image.evaluate("async x => { await x.decode(); return x.naturalWidth }") == 8
    assert panel.locator(".player button").count() == 0  # there is nothing to be played yet
    assert button.is_disabled()
    assert float(panel.locator(".making progress").get_attribute("value")) == 0.25
    assert panel.get_by_role("status").inner_text() == "drawing, 25 % done"
    maker.ready.set()
    panel.get_by_role("button", name="Play").wait_for()
    panel.get_by_role("slider").fill("2")
    assert image.evaluate("async x => { await x.decode(); return x.naturalWidth }") == 24
    assert panel.locator(".now").inner_text() == "step 2: episode ends"
    assert panel.locator(".caption").inner_text() == "<i>"
    assert HOSTILE[0] in panel.locator(".clip h4").inner_text()
    assert panel.locator(".clip .making").count() == 0
    assert [wanted.labels for wanted in maker.asked] == [(a, b)]
    assert page.title() == "Behaviour in Walk-v0"  # names stay text
