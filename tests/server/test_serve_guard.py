"""Who has no token, another name or too much to say learns nothing; every answer is sealed."""

from __future__ import annotations

import json

import pytest
from served_folders import HOST, TOKEN, TestClient

from pivec.server.application import HEADERS, LONGEST, Guard


@pytest.mark.parametrize(
    "path", ["", "version", "token", "wrong/version", f"{TOKEN}x/version", f"/{TOKEN}/version",
             f"{TOKEN[:-1]}/version", f"%00{TOKEN}/version", f"{TOKEN.upper()}/version"],
)  # fmt: skip
def test_without_the_token_nothing_is_said(served, path):
    answer = served.get(f"http://{HOST}/{path}")
    assert (answer.status_code, answer.content) == (404, b"")


@pytest.mark.parametrize(
    "host", ["example.org", "example.org:8765", "127.0.0.1:1", "127.0.0.1", ""]
)
def test_under_another_name_nothing_is_said(served, host):
    answer = served.get("version", headers={"Host": host})
    assert (answer.status_code, answer.content) == (404, b"")


def test_every_answer_has_the_headers(served):
    for path in ("", "version", "data", "pair", "media/none.png", "elsewhere", f"http://{HOST}/"):
        headers = served.get(path).headers
        assert {name: headers[name] for name in HEADERS} == HEADERS
    policy = HEADERS["Content-Security-Policy"]
    assert "connect-src 'self'" in policy
    assert "unsafe-inline'; script" not in policy.split("style-src")[0]
    assert "script-src 'sha256-" in policy


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(served, method):
    assert served.client.request(method, "version").status_code == 405


def test_only_clips_are_asked_for_by_post(served):
    for path in ("", "version", "data", "pair", "media/map.png"):
        assert served.post(path).status_code == 405


def test_requests_are_limited_in_size(served):
    assert served.get("version", params={"a": "a" * LONGEST}).status_code == 414
    assert served.get("a" * LONGEST).status_code == 414
    assert served.get("version", headers={"X": "x" * 2 * LONGEST}).status_code == 431
    assert served.post("clips", content=b"x").status_code == 413
    assert served.post("clips", content=iter([b"x"])).status_code == 413


def test_the_address_without_its_last_slash_leads_to_the_page(served):
    answer = served.get(f"http://{HOST}/{TOKEN}", follow_redirects=False)
    assert answer.status_code == 307
    assert answer.headers["location"] == f"{TOKEN}/"


def test_a_defect_is_said_here_and_not_there(capsys):
    async def broken(scope, receive, send):
        raise RuntimeError("a secret\x1b[31m")

    answer = TestClient(Guard(broken, TOKEN, [HOST]), f"http://{HOST}/{TOKEN}/").get("")
    assert (answer.status_code, answer.content) == (500, b"")
    assert "unexpected RuntimeError: a secret\\x1b" in capsys.readouterr().err


def test_hostile_names_stay_text(served):
    content = served.get("data").content
    assert content.isascii()
    assert json.loads(content)["live"] == served.get("version").json()["version"]
    page = served.get("").text
    assert "</script><b>" not in page
    assert "\x1b" not in page
