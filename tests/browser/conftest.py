"""A Chromium without a network, pages that must not complain, and what they show."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from made_pages import drawn, playing, report_of, walking

from pivec.report import report_html, write_page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LOCAL = ("file", "data", "blob", "about")
PATIENCE = 10_000  # ms for what a page should do at once; machines of others are slow
_loops = []  # the driver's event loop, once there is one


@contextmanager
def its_loop():
    """Let the driver's event loop count as running, but only here.

    It runs in this thread as long as there is a browser (by greenlets), and would forbid the tests
    of other folders to run one of their own.
    """
    if _loops:
        asyncio._set_running_loop(_loops[-1])
    try:
        yield
    finally:
        asyncio._set_running_loop(None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    with its_loop():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with its_loop():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    with its_loop():
        return (yield)


@pytest.fixture(scope="session")
def chromium():
    """Give the system's Chromium; it finds no network and paints without a graphics card."""
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    path = os.environ.get("PIVEC_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no Chromium: {', '.join(NAMES)} are not there, PIVEC_CHROMIUM is not set")
    flags = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--disable-gpu"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        flags.append("--no-sandbox")
    driver = api.sync_playwright().start()
    _loops.append(asyncio.get_running_loop())
    browser = driver.chromium.launch(executable_path=path, args=flags)
    yield browser
    asyncio._set_running_loop(_loops.pop())
    browser.close()
    driver.stop()


class Pages:
    """Opens pages, and keeps what they complain of."""

    def __init__(self, browser):
        self.browser = browser
        self.complaints = []
        self.contexts = []

    def open(self, address, *, width=1280, height=900, ready=True, **looks):
        """Open a file or an address; ``looks`` are options of a browser context.

        ``ready`` waits for the map to be painted.
        """
        context = self.browser.new_context(viewport={"width": width, "height": height}, **looks)
        self.contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", self._hear_console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", self._look_at_request)
        page.goto(address if "://" in str(address) else Path(address).as_uri())
        if ready:
            try:
                page.locator("html.ready").wait_for(state="attached")
            except Exception as error:  # what the page said tells more
                raise AssertionError(f"the page did not start: {self.complaints}") from error
        return page

    def _hear_console(self, message):
        # A screenshot makes WebGL's driver complain of being slow.
        if message.type in ("error", "warning") and "GL Driver Message" not in message.text:
            self.complaints.append(f"console: {message.text}")

    def _look_at_request(self, request):
        parts = urlsplit(request.url)
        if parts.scheme not in LOCAL and parts.hostname != "127.0.0.1":
            self.complaints.append(f"request: {request.url}")

    def close(self):
        for context in self.contexts:
            context.close()
        self.contexts.clear()


@pytest.fixture(scope="module")
def pages(chromium):
    """Give what opens pages, of which the tests of a file may share some."""
    opened = Pages(chromium)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _no_complaints(pages):
    """Fail a test whose page writes errors or warnings, or asks for anything from elsewhere."""
    yield
    complaints, pages.complaints = pages.complaints, []
    assert complaints == []


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def page_of(pages, tmp_path):
    """Open the page of a report: ``page_of(report, width=400, color_scheme="dark")``."""
    opened = []

    def opener(report, **looks):
        opened.append(pages.open(written(tmp_path, "report", report), **looks))
        return opened[-1]

    yield opener
    for page in opened:
        page.close()


def written(folder, name, report):
    path = folder / f"{name}.html"
    write_page(path, report_html(report))
    return path


@pytest.fixture(scope="session")
def walked(folder):
    """Give 48 policies of six runs: their data, space and report, and the path of the page."""
    made = walking()
    made.path = written(folder, "walked", made.report)
    return made


@pytest.fixture(scope="session")
def hostile(folder):
    """Give the same with names that are not meant well."""
    made = walking(hostile=True)
    made.path = written(folder, "hostile", made.report)
    return made


@pytest.fixture(scope="session")
def crowd(folder):
    """Give a space of 30 000 policies, and the path of its page."""
    space = drawn(30_000, regions=16)
    return SimpleNamespace(space=space, path=written(folder, "crowd", report_of(space)))


@pytest.fixture(scope="session")
def episodic(tmp_path_factory):
    """Give a comparison whose states are stored, with kinds of episodes and an unusual one."""
    return playing(tmp_path_factory.mktemp("episodes"))
