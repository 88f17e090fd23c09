"""The server also sends the pages beside the report, of which no other script can run."""

from __future__ import annotations

import pytest
from served_folders import client_of

from pivec.report import script
from pivec.report.pages import fingerprint
from pivec.server.application import HEADERS
from site_folder import PAGES, leave_site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return leave_site(tmp_path_factory.mktemp("served_site") / "out")


@pytest.fixture(scope="module")
def served_site(site):
    return client_of(site)


def test_pages_are_served_under_their_own_addresses(site, served_site):
    for kind, page in PAGES.items():
        answer = served_site.get(page)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        if kind == "report":
            assert answer.content == served_site.get("").content
        else:
            assert answer.content == (site / page).read_bytes()


def test_only_the_script_of_these_pages_may_run_in_them(served_site):
    for page in PAGES.values():
        given = served_site.get(page).headers
        policies = given.get_list("content-security-policy")
        assert len(policies) == 1
        rules = dict(rule.split(" ", 1) for rule in policies[0].split("; "))
        own = "script.js" if page == "report.html" else "player.js"
        assert rules["script-src"] == fingerprint(script(own))
        assert rules["default-src"] == rules["frame-ancestors"] == "'none'"
        assert ("connect-src" in rules) == (page == "report.html")
        for name in HEADERS.keys() - {"Content-Security-Policy"}:
            assert given[name] == HEADERS[name]


def test_pictures_are_where_pages_look_for_them(site, served_site):
    beside = site / PAGES["pair"]
    answer = served_site.get(beside.with_name("explain.png").relative_to(site).as_posix())
    assert answer.content == beside.with_name("explain.png").read_bytes()
    assert answer.headers["content-type"] == "image/png"


def test_nothing_else_is_served(site, served_site, tmp_path):
    secret = tmp_path / "explain.html"
    secret.write_text("secret")
    (site / "other.html").write_text("secret")
    (site / "explain" / "up").symlink_to(tmp_path)
    (site / "explain" / "file").mkdir()
    (site / "explain" / "file" / "explain.html").symlink_to(secret)
    (site / "explain" / "data").mkdir()
    (site / "explain" / "data" / "explain.html").symlink_to(site / "run.json")
    for name in ("other.html", "explain/up/explain.html", "explain/file/explain.html", "run.json",
                 "explain/data/explain.html", "explain/explain.json", "space/space.npz",
                 "%2e%2e/explain.html", "explain/%2e%2e/%2e%2e/explain.html", "none/explain.html",
                 "explain/", "explain//explain.html/", "explain/%00/explain.html"):  # fmt: skip
        answer = served_site.get(name)
        assert (answer.status_code, answer.content) == (404, b""), name
    assert served_site.post(PAGES["pair"]).status_code == 405
