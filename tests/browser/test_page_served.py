"""The page of `pivec serve` in a browser: it grows without a reload, and asks its server alone."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pivec.options import ReplayOptions
from pivec.server.current import Current
from pivec.server.desk import Desk
from pivec.server.films import Films
from pivec.server.routes import Answers
from pivec.server.serving import listening, server_of


def leave(space, n, out):
    """Save a space with the first n of its policies."""
    described = space.descriptions.select(range(n))
    replace(space, descriptions=described, positions=space.positions[:n]).save(out / "space")


@pytest.fixture(scope="module")
def served(hostile, tmp_path_factory):
    """Serve 46 of 48 policies, with names that are not meant well."""
    out = tmp_path_factory.mktemp("served") / "out"
    leave(hostile.space, 46, out)
    with listening(0) as listener:
        answers = Answers(Current(out, quiet=True), ReplayOptions(), Desk(), Films(), every=0.05)
        server, address = server_of(answers, listener)
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
    status = page.locator(".live")
    assert status.inner_text() == "Live: new policies appear by themselves"
    panel = page.locator("#panel")
    panel.locator(".begin button", has_text="farthest").click()
    panel.locator(".differs").wait_for()
    panel.locator(".command").wait_for(state="detached")  # exact numbers came, chance is marked
    panel.locator(".differs").get_by_role("button", name="Show").click()
    parts = panel.locator(".part").count()
    leave(hostile.space, 48, served.out)
    page.locator(".live:has-text('48 policies, 2 joined')").wait_for()
    assert page.locator("header .figures dd").first.inner_text() == "48"
    assert page.locator("header .lead").inner_text().startswith("48 policies from 6 training runs")
    assert panel.locator(".part").count() == parts > 6  # what was opened stays
    assert page.title() == "Behaviour in Walk-v0"  # names stay text
