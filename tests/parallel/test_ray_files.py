"""Workers of a Ray cluster ask for files of the driver."""

from __future__ import annotations

import os

import pytest

from pivec.parallel import files, offer, offered
from pivec.parallel.offered import Answer

pytest.importorskip("ray", reason="Ray is not installed")


def asks(path, tell):
    return files._source._ask(path, None, None), str(files.present(os.path.basename(path)))


def test_workers_ask_for_what_is_offered(tmp_path, monkeypatch, ray_engine):
    from pivec.parallel import ray_files

    monkeypatch.setattr(offered, "_offered", set())
    monkeypatch.chdir(tmp_path)
    for name in ("before", "after", "never"):
        (tmp_path / name).write_text(name)
    offer(tmp_path / "before")
    ray_engine._files = ray_files.start()
    try:
        offer(tmp_path / "after")
        paths = [str(tmp_path / name) for name in ("before", "after", "never")]
        replies = {reply.item: reply.content for reply in ray_engine.map(asks, paths)}
    finally:
        ray_files.stop(ray_engine._files)
    before, after, never = (replies[path] for path in paths)
    assert before[0].content == b"before"
    assert after[0].content == b"after"
    assert never[0] == Answer()
    assert [place for _, place in (before, after, never)] == paths  # all are seen here
    assert offered.followers == []
