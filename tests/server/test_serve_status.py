"""What the page and the console say of a comparison that is not there yet, or grows."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import replace

import numpy as np
import pytest
from served_folders import LABELS, client_of, describe, leave, opened

import pivec
from packed import unpacked
from pivec.errors import UsageError
from pivec.report import RELOAD, Findings, measure_space
from pivec.report.pages import fingerprint
from pivec.run_log import RunLog
from pivec.workflows.watch import FirstCheckpoints

MORE = (*LABELS, "run/5", "run/6")


def rounds(served):
    """Return with which addition each policy came, by label."""
    data = served.get("data").json()
    numbers = unpacked(data["added"]["rounds"]).tolist()
    return data["added"]["round"], dict(
        zip(unpacked(data["columns"]["label"]), numbers, strict=True)
    )


def embedded(page):
    """Return the data within a page."""
    return json.loads(re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", page, re.S)[1])


def look(served):
    for _ in range(2):  # the second time nothing is being written any more
        served.handlers.latest.refresh()


def reloads(page):
    """Whether a page loads itself again, and its policy lets it."""
    allowed = fingerprint(RELOAD) in page.headers["content-security-policy"]
    assert (f"<script>{RELOAD}</script>" in page.text) == allowed
    return allowed


def test_a_folder_where_watch_waits_is_served_with_the_number_of_checkpoints(tmp_path, capsys):
    out = tmp_path / "out"
    FirstCheckpoints(3, 10).save(out)
    served = client_of(out)
    assert served.handlers.latest.opening == "3 of 10 checkpoints"
    page = served.get("")
    assert page.status_code == 200
    assert reloads(page)
    assert "3 of 10 checkpoints" in page.text
    assert "--at-least" in page.text
    status = served.get("version").json()
    assert (status["state"], status["version"], status["exact"]) == ("waiting", "", False)
    assert status["checkpoints"] == {"found": 3, "needed": 10}
    for path in ("data", "pair?a=x&b=y", "clips?a=x&b=y"):
        answer = served.get(path)
        assert answer.status_code == 503
        assert "3 of 10 checkpoints" in answer.json()["error"]
    FirstCheckpoints(4, 10).save(out)
    assert served.get("version").json()["checkpoints"]["found"] == 4
    # The space is there before its map.
    space, _ = describe(out)
    look(served)
    assert served.get("version").json()["state"] == "waiting"
    replace(space, positions=np.zeros((4, 2))).save(out / "space")
    (out / "watch.json").unlink()
    look(served)
    status = served.get("version").json()
    assert (status["state"], status["policies"], status["round"]) == ("ready", 4, 0)
    assert not reloads(served.get(""))
    assert "4 policies shown. All distances are exact." in capsys.readouterr().out


def test_a_watch_that_ends_without_results_is_said(tmp_path):
    out = tmp_path / "out"
    FirstCheckpoints(1, 10).save(out)
    served = client_of(out)
    (out / "watch.json").unlink()
    assert served.get("version").json()["state"] == "failed"
    assert "checkpoints" not in served.get("").text
    with pytest.raises(UsageError, match="holds no space"):
        opened(out)
    FirstCheckpoints(2, 10).save(out)  # and starts again
    assert served.get("version").json()["words"] == "2 of 10 checkpoints"


def test_while_distances_are_computed_the_page_says_so(out, monkeypatch):
    go_on, begun = threading.Event(), threading.Event()

    def slow(*arguments):
        begun.set()
        assert go_on.wait(60)
        return measure_space(*arguments)

    monkeypatch.setattr("pivec.report.measure_space", slow, raising=False)
    monkeypatch.setattr("pivec.server.application._BRIEF", 0.05)
    served = client_of(out, refreshed=False, interval=0.02)
    with served.client:
        assert begun.wait(30)
        page = served.get("")
        assert "Computing the distances of 4 policies" in page.text
        assert reloads(page)
        status = served.get("version").json()
        assert (status["state"], status["version"]) == ("computing", "")
        assert status["seconds"] >= 0
        assert served.get("data").status_code == 503
        go_on.set()
        wait_for(lambda: served.get("version").json()["state"] == "ready")
        first = served.get("version").json()
        assert (first["exact"], first["policies"], first["seconds"]) == (True, 4, None)
        # Meanwhile the page is that of the earlier policies, and says that it will change.
        served.get("")
        go_on.clear()
        begun.clear()
        leave(out, MORE)
        assert begun.wait(30)
        status = served.get("version").json()
        assert (status["state"], status["version"]) == ("computing", first["version"])
        assert "6 policies" in status["words"]
        assert "shows 4" in status["words"]
        assert embedded(served.get("").text)["live"] == first["version"]
        go_on.set()
        wait_for(lambda: served.get("version").json()["policies"] == 6)


def wait_for(condition):
    last = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < last
        time.sleep(0.02)


def test_few_policies_are_there_in_a_moment(out):
    served = client_of(out, refreshed=False)
    with served.client:
        assert '"live":"' in served.get("").text


def test_the_page_and_its_data_are_of_one_version(out):
    served = client_of(out)
    before = served.get("version").json()["version"]
    leave(out, MORE)
    look(served)
    version = served.get("version").json()["version"]
    assert version != before
    page = served.get("")
    assert page.headers["etag"] == f'"{version}"'
    assert embedded(page.text) == served.get("data").json()
    assert served.get("data").json()["live"] == version


def test_policies_have_the_round_in_which_they_came(out):
    served = client_of(out)
    first = [*rounds(served)[1]]
    assert rounds(served) == (0, dict.fromkeys(first, 0))
    leave(out, MORE[:5])
    look(served)
    assert rounds(served) == (1, dict.fromkeys(first, 0) | {"run/5": 1})
    (out / "run.json").write_text("{}")  # nothing new
    look(served)
    assert rounds(served)[0] == served.get("version").json()["round"] == 1
    leave(out, MORE)
    look(served)
    assert rounds(served) == (2, dict.fromkeys(first, 0) | {"run/5": 1, "run/6": 2})
    # One that was overwritten is another policy of the same name.
    space = pivec.Space.load(out)
    policies = [*space.descriptions.policies]
    policies[0] = replace(policies[0], fingerprint="another")
    descriptions = replace(space.descriptions, policies=tuple(policies))
    replace(space, descriptions=descriptions).save(out / "space")
    look(served)
    assert rounds(served)[1] == dict.fromkeys(first, 0) | {"run/5": 1, "run/6": 2, first[0]: 3}


@pytest.mark.parametrize("room", [0, 10**9])
def test_distances_that_are_not_exact_are_called_so(made, monkeypatch, room, capsys):
    """Without room for all pairs the page has approximate points; a pair is exact on request."""
    monkeypatch.setattr("pivec.report.script_data.PAIRS_BYTES", room)
    served = client_of(made)
    status, data = served.get("version").json(), served.get("data").json()
    assert status["exact"] == bool(room) == (data["pairs"] is not None)
    assert status["words"] in capsys.readouterr().out
    if room:
        assert status["words"] == "All distances are exact."
        return
    assert data["words"] == status["words"]
    assert "All distances" not in status["words"]
    assert "pivec serve" not in status["words"]  # which is what serves it
    assert f"{100 * data['points']['error']:.2g} %" in status["words"]
    space = pivec.Space.load(made)
    exact = Findings.of(space, measure_space(space, made), RunLog(made)).distance(0, 2)
    pair = served.get("pair", params={"a": "run/1", "b": "run/3"}).json()
    assert pair["measured"] == pytest.approx(exact, rel=1e-12)


def test_what_cannot_be_shown_is_said_on_the_page_too(out):
    served = client_of(out)
    (out / "space" / "space.npz").write_bytes(b"PK spoilt")
    look(served)
    status = served.get("version").json()
    assert (status["state"], status["policies"]) == ("failed", 4)
    assert "the page is unchanged" in status["words"]
    leave(out, MORE)
    look(served)
    assert served.get("version").json()["state"] == "ready"


def test_the_command_waits_for_a_watch(tmp_path):
    out = tmp_path / "out"
    FirstCheckpoints(3, 10).save(out)
    command = [sys.executable, "-m", "pivec", "serve", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines[0] == "3 of 10 checkpoints\n"
        address = lines[1].removeprefix("Page: ").strip()
        with urllib.request.urlopen(address) as answer:
            assert b"3 of 10 checkpoints" in answer.read()
        leave(out)
        assert process.stdout.readline().startswith("4 policies shown. ")
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "Stopped\n"
    finally:
        process.kill()
