"""Odd places to write to, full disks, closed streams and early Ctrl-C: a sentence each."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pivec
from pivec.__main__ import STOPPED
from pivec.errors import UsageError
from pivec.files import atomic_write, check_folder, make_folder

COLLECT = ("collect", "CartPole-v1", "random", "--episodes", "1")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_text("x"), "is not a folder"),
        (lambda path: path.symlink_to("nowhere"), "is a link to nothing"),
        (lambda path: path.symlink_to("/dev/null"), "is not a folder"),
        (lambda path: path.symlink_to(path.name), "link"),  # to itself
    ],
)
@pytest.mark.parametrize("below", ["", "a/b"])
def test_what_is_no_folder_is_refused_before_anybody_acts(run, tmp_path, make, words, below):
    make(tmp_path / "odd")
    done = run(*COLLECT, "--out", os.path.join("odd", below), code=2)
    assert words in done.err
    with pytest.raises(UsageError, match=words):
        check_folder(tmp_path / "odd" / below)


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "CartPole-v1", "odd.zip"),
        ("same", "CartPole-v1", "odd.zip", "random"),
        ("compare", "odd.npz"),
        ("import", "odd.h5", "--out", "store"),
        ("import", "odd", "--out", "store"),
        ("explain", "odd"),
        ("serve", "odd"),
        ("store", "ls", "odd"),
        ("compare", "CartPole-v1", "random", "--space", "odd"),
    ],
)
def test_a_link_to_itself_is_called_that(run, tmp_path, command):
    for name in ("odd", "odd.zip", "odd.npz", "odd.h5"):
        (tmp_path / name).symlink_to(name)
    assert "is a link to itself" in run(*command, code=2).err


def test_names_too_long_and_empty_names(run):
    assert "too long" in run(*COLLECT, "--out", "a" * 300, code=2).err
    assert "empty" in run(*COLLECT, "--out", "", code=2).err


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_no_permission_is_told_before_anybody_acts(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(UsageError, match="permission"):
        pivec.compare("CartPole-v1", "random", tmp_path / "mine/a/b")
    assert not list((tmp_path / "mine").iterdir())


def test_folders_are_made_only_when_asked(tmp_path):
    assert check_folder(tmp_path / "a/b") == tmp_path / "a/b"
    assert not (tmp_path / "a").exists()
    assert make_folder(tmp_path / "a/b").is_dir()


def test_a_full_disk_names_the_file_and_leaves_nothing(run, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run("compare", "CartPole-v1", "random:2", "--episodes", 2, "--components", 2)
    before = {p: p.read_bytes() for p in (tmp_path / "pivec-out").iterdir() if p.is_file()}
    monkeypatch.setattr(os, "fsync", full)
    done = run("compare", "pivec-out", "--components", 2, code=1)
    assert "No space left on device" in done.err
    assert "pivec-out/" in done.err
    assert before == {p: p.read_bytes() for p in (tmp_path / "pivec-out").iterdir() if p.is_file()}
    assert "s/store.json: No space left" in run(*COLLECT, "--out", "s", code=1).err
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_write_that_cannot_begin_names_its_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "no/x"):
        pass
    assert caught.value.filename == str(tmp_path / "no/x")


def pivec_process(*arguments, **how):
    return subprocess.Popen(
        [sys.executable, "-m", "pivec", *arguments],
        env=os.environ | {"PYTHONPATH": str(Path(pivec.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **how,
    )


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_closed_streams_are_no_failure_and_no_file_takes_their_place(tmp_path, closed):
    def close():
        for number in closed:
            os.close(number)

    process = pivec_process("store", "ls", "nowhere", cwd=tmp_path, preexec_fn=close)
    out, err = process.communicate()
    assert process.returncode == 2
    assert "Traceback" not in out + err
    assert ("is not a store" in err) == (2 not in closed)


def test_nobody_reads(tmp_path):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "pivec", "--version"],
        env=os.environ | {"PYTHONPATH": str(Path(pivec.__file__).parents[1])},
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert done.returncode == 1
    assert not done.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["ast", "typer"])  # of the first that are imported, and later
def test_signals_while_modules_are_imported(tmp_path, sign, module):
    (tmp_path / f"{module}.py").write_text(
        "import time\nprint('importing', flush=True)\ntime.sleep(60)"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(pivec.__file__).parents[1])])
    process = subprocess.Popen(
        [sys.executable, "-m", "pivec", "--version"],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout.readline() == "importing\n"
    process.send_signal(sign)
    _, err = process.communicate()
    assert process.returncode in (128 + sign, -sign)  # shells show both as the former
    assert not err


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("where", ["work", "__del__"])
def test_signals_while_a_command_runs(tmp_path, sign, where):
    """It cleans up and exits with the number of the signal; Python would ignore one in __del__."""
    program = f"""
import os, sys, pivec.cli
class Work:
    def work(self):
        os.kill(os.getpid(), {sign:d})
    __del__ = work if {where!r} == "__del__" else lambda _: None
def run():
    try:
        Work().work() if {where!r} == "work" else Work()
        print("goes on")
    except KeyboardInterrupt:
        print("cleans up")
        sys.exit({STOPPED})
pivec.cli.main = run
from pivec.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(Path(pivec.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 128 + sign
    assert done.stdout.split("\n") == (["cleans up", ""] if where == "work" else [""])
    assert not done.stderr
