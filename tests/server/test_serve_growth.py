"""While others write to the folder the server shows the newest whole state of it."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from served_folders import LABELS, client_of, describe, leave, opened

from pivec.server.application import folder_versions

MORE = (*LABELS, "run/5")


def test_new_policies_appear_when_they_have_places(out, capsys):
    latest = opened(out)
    first = latest.snapshot
    space, _ = describe(out, MORE)
    for _ in range(3):
        latest.refresh()
    assert latest.snapshot is first  # half made
    replace(space, positions=np.full((5, 2), np.nan)).save(out / "space")
    for _ in range(3):
        latest.refresh()
    assert latest.snapshot is first
    leave(out, MORE)
    latest.refresh()
    assert latest.snapshot is first  # it may still be written to
    latest.refresh()
    assert latest.snapshot.version != first.version
    assert latest.snapshot.rows("run/5", "run/1") == (4, 0)
    assert capsys.readouterr().out.endswith("\n5 policies now, 4 before\n")


def test_a_spoilt_space_is_said_once_and_the_page_stays(out, capsys):
    latest = opened(out)
    first = latest.snapshot
    for content in (b"PK spoilt", b"PK spoilt too"):
        (out / "space" / "space.npz").write_bytes(content)
        for _ in range(3):
            latest.refresh()
    assert latest.snapshot is first
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "cannot be shown" in said
    assert "the page is unchanged" in said
    leave(out, MORE)
    latest.refresh()
    latest.refresh()
    assert len(latest.snapshot.space.descriptions) == 5


def test_what_does_not_show_is_no_new_version(out):
    latest = opened(out)
    first = latest.snapshot
    (out / "run.json").write_text("{}")
    latest.refresh()
    latest.refresh()
    assert latest.snapshot.version == first.version
    assert latest.snapshot.findings.measured is first.findings.measured


def test_what_explain_leaves_is_seen(out):
    latest = opened(out)
    for name in ("regions.json", "explain/explain.json", "explain/a--b/explain.json"):
        before = folder_versions(out)
        (out / name).parent.mkdir(exist_ok=True, parents=True)
        (out / name).write_text("{}")
        assert folder_versions(out)[0] == before[0]
        assert folder_versions(out)[1] != before[1]
    first = latest.snapshot
    latest.refresh()
    latest.refresh()
    assert latest.snapshot is not first


def test_the_folder_is_looked_at_while_the_server_runs(out):
    served = client_of(out, interval=0.02)
    with served.client:
        before = served.get("version").json()["version"]
        leave(out, MORE)
        last = time.monotonic() + 30
        while served.get("version").json()["version"] == before and time.monotonic() < last:
            time.sleep(0.02)
        assert served.get("data").json()["n"] == 5
        assert served.get("pair", params={"a": "run/5", "b": "run/1"}).status_code == 200
