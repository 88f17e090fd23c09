"""Whatever stands in labels, errors and files, the terminal gets text."""

from __future__ import annotations

import io
import os
import sys

import pytest

import pivec
from pivec.terminal import Progress, encodable, literal, printable, say

HOSTILE = "a\x1b]0;title\x07\x1b[31m\x9b2J\u202e\u2066\r\x08\udcff\x00[red]b[/red]"


def harmless(text):
    return all(c.isprintable() or c in " \n" for c in text)


def test_say_prints_one_line_of_text(capsys):
    say(f"before\n\t{HOSTILE}")
    say(HOSTILE, error=True)
    done = capsys.readouterr()
    for text in (done.out, done.err):
        assert text.count("\n") == 1
        assert harmless(text)
        assert "[red]b[/red]" in text
    assert done.out.startswith("before a\\x1b]0;title\\x07")


def test_say_where_letters_are_missing(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    say("é…")
    assert stream.buffer.getvalue() == b"\\xe9\\u2026\n"


def test_say_without_streams(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    say("nobody hears")
    say("nobody hears", error=True)
    with Progress("counting", 1):
        pass


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_a_full_standard_output_is_an_error_and_full_standard_error_is_none(monkeypatch):
    for name, error in (("stdout", False), ("stderr", True)):
        with open("/dev/full", "w") as full:
            monkeypatch.setattr(sys, name, full)
            if error:
                say("lost", error=True)
            else:
                with pytest.raises(OSError, match="standard output"):
                    say("lost")


def test_tables_show_markup_as_text():
    assert literal(HOSTILE).plain == printable(HOSTILE)


def test_notes_of_bars_are_text(monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "dumb")
    with Progress("[b]t[/b]\x1b]0", 1) as bar:
        bar.advance(1, "[b]n[/b]\x07")
    assert r"[b]t[/b]\x1b]0" in stream.getvalue()
    assert r"[b]n[/b]\x07" in stream.getvalue()


def test_hostile_labels_go_through_every_stage(run, tmp_path):
    class Still:
        def act(self, observations, rng, deterministic=False):
            import numpy as np

            return np.zeros(len(observations), dtype=int)

    pivec.compare(
        "CartPole-v1", {HOSTILE: Still(), "b\n,\"'": "random"}, tmp_path / "c", episodes=2,
        parameters={"n_components": 2},
    )  # fmt: skip
    for command in (("store", "ls", "c"), ("store", "verify", "c"), ("explain", "c", "--clips", 0),
                    ("export", "c", "t.parquet"), ("export", "c", "npz:d"),
                    ("compare", "c", "--components", 2)):  # fmt: skip
        assert harmless(run(*command).out)
    assert encodable(HOSTILE) in pivec.load("c").labels


def test_files_whose_names_are_not_utf8(run, tmp_path):
    from importlib.resources import files

    shelf = files("pivec") / "demo_policies/CartPole-v1"
    shipped = next(p for p in sorted(shelf.rglob("*")) if p.suffix == ".safetensors")
    folder = os.fsencode(tmp_path) + b"/r\xff\x1b[31m"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("the file system takes only UTF-8")
    with open(folder + b"/x\xfe.safetensors", "wb") as file:
        file.write(shipped.read_bytes())
    done = run("compare", "CartPole-v1", os.fsdecode(folder), "random", "--episodes", 2,
               "--components", 2)  # fmt: skip
    assert harmless(done.out)
    assert "\\udcfe" in done.out
    assert "\\udcfe" in (tmp_path / "pivec-out/map.csv").read_text()


def test_an_error_that_names_a_hostile_file(run):
    done = run("compare", "CartPole-v1", "\x1b[31m*.zip", code=2)
    assert harmless(done.err)
    assert "\\x1b" in done.err
    assert harmless(run("\x1b[2J", code=2).err)
