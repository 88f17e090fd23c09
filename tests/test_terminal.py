"""Whatever stands in labels, errors and files, the terminal gets text."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from rich.console import Console

import pivec
from pivec.cli import main
from pivec.errors import UsageError
from pivec.terminal import Progress, literal, printable, say

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
    say("é… −1 ± 2")
    assert stream.buffer.getvalue() == b"\\xe9... -1 +/- 2\n"


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
    data = pivec.load("c")
    assert printable(HOSTILE) in data.labels
    assert len(data[HOSTILE]) == 1
    tables = sorted(tmp_path.rglob("*.csv"))
    assert {"map.csv", "pairs.csv", "distances.csv"} <= {table.name for table in tables}
    for table in tables:
        text = table.read_text(encoding="utf-8")
        assert harmless(text)
        assert printable(HOSTILE) in text


def test_labels_that_look_alike_are_not_taken_for_each_other():
    with pytest.raises(UsageError, match="two policies"):
        pivec.VisitedStates.from_arrays([[[[0.0]]]] * 2, ["a\n", r"a\n"])


def test_groups_and_features_are_text_too(run, tmp_path, rng):
    names = ["run\x1b[2J/a", "run\x1b[2J/b", "other\u202e"]
    walks = [[rng.normal(k, 1, (20, 2)) for _ in range(4)] for k in range(3)]
    data = pivec.VisitedStates.from_arrays(
        walks, names, groups=names, feature_names=["x\x9b1m", "y\x7f"]
    )
    pivec.compare(data, out=tmp_path / "out", parameters={"n_components": 2})
    assert harmless((tmp_path / "out/map.csv").read_text())
    for command in ("explain", "regions", "unusual"):
        assert harmless(run(command, "out").out)


@pytest.fixture
def run_in_ascii(tmp_path, monkeypatch):
    """Call the command line with streams that have only ASCII."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Console, "is_terminal", True)  # so that bars are drawn

    def call(*arguments):
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2)]
        streams[1].reconfigure(errors="backslashreplace")  # as Python does
        streams[1].isatty = lambda: True
        monkeypatch.setattr(sys, "argv", ["pivec", *map(str, arguments)])
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            with pytest.raises(SystemExit) as stop:
                main()
        for stream in streams:
            stream.flush()
        out, err = (stream.buffer.getvalue().decode("ascii") for stream in streams)
        verdicts = {0, 1, 3} if arguments[0] == "same" else {0}
        assert stop.value.code in verdicts, out + err
        assert "unexpected" not in err
        assert "\\u2" not in out  # signs have replacements
        return out

    return call


def test_every_command_prints_on_a_terminal_with_ascii_only(run_in_ascii, tmp_path, rng):
    walks = [[rng.normal(k % 2 - 9, 1, (20, 2)) for _ in range(6)] for k in range(6)]
    groups = [f"läufe-{k // 3}/seed_{k % 3}" for k in range(6)]
    labels = [f"{group}/π" for group in groups]
    features = ["größe", "x"]
    data = pivec.VisitedStates.from_arrays(walks, labels, groups, feature_names=features)
    pivec.compare(data, out=tmp_path / "walks", parameters={"n_components": 3})
    pair = labels[0], labels[1]
    for command in (
        ("demo", "--out", "demo", "--episodes", 2),
        ("compare", "walks", "--out", "again", "--components", 3),
        ("collect", "CartPole-v1", "random:2", "--episodes", 2, "--out", "collected"),
        ("export", "walks", "npz:files"),
        ("explain", "walks", *pair),
        ("explain", "walks"),
        ("groups", "walks"),
        ("regions", "walks"),
        ("unusual", "walks"),
        ("store", "ls", "walks"),
        ("store", "verify", "walks"),
        ("compare", "--help"),
        ("--help",),
    ):
        run_in_ascii(*command)
    run_in_ascii("same", *sorted(tmp_path.glob("files/**/*.npz"))[:2])
    assert "l\\xe4ufe-0/seed_0/\\u03c0" in run_in_ascii("store", "ls", "walks")


def test_the_stream_of_another_process_may_have_ascii_only():
    command = [sys.executable, "-m", "pivec", "compare", "--help"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert b"+/-" in done.stdout
    assert done.stderr == b""


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
