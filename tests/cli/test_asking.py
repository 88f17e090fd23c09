"""Where no file tells the environment, who sits at a terminal is asked for it."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "libraries"
FEW = ["--episodes", "2", "--components", "2"]
QUESTION = "Which environment"
SENTENCE = "pivec compare CartPole-v1 runs"
COMMANDS = {
    "compare": ["compare", "a.zip", "b.zip", *FEW],
    "same": ["same", "a.zip", "b.zip", *FEW],
    "plan": ["plan", "a.zip", "b.zip", *FEW],
    "collect": ["collect", "a.zip", "b.zip", "--out", "states", "--episodes", "2"],
    "watch": ["watch", "a.zip", "b.zip", "--at-least", "2", "--until-idle", "0", *FEW],
    "encoder": ["encoder", "a.zip"],
}


@pytest.fixture
def files(tmp_path):
    """Two files that do not tell their environment, in the folder that commands run in."""
    shutil.copy(DATA / "sb3-ppo" / "model.zip", tmp_path / "a.zip")
    shutil.copy(DATA / "contrib-recurrent-ppo" / "model.zip", tmp_path / "b.zip")
    return tmp_path


def answer(monkeypatch, text, terminal=(True, True)):
    """Let standard input and output be terminals, or not, with an answer typed."""
    stdin = io.StringIO(text)
    for stream, is_terminal in zip((stdin, sys.stdout), terminal, strict=True):
        monkeypatch.setattr(stream, "isatty", lambda there=is_terminal: there, raising=False)
    monkeypatch.setattr(sys, "stdin", stdin)


@pytest.mark.parametrize(
    ("command", "code"),
    [("compare", 0), ("same", 3), ("plan", 0), ("collect", 0), ("watch", 0), ("encoder", 2)],
)
def test_the_answer_is_the_environment(files, run, monkeypatch, command, code):
    answer(monkeypatch, " CartPole-v1\n")
    done = run(*COMMANDS[command], code=code)
    assert QUESTION in done.out
    assert SENTENCE not in done.err
    if command == "encoder":
        assert "images with three axes" in done.err


@pytest.mark.parametrize(
    ("command", "terminal"),
    [(command, (True, False)) for command in COMMANDS]
    + [("compare", (True, True)), ("compare", (False, True))],
)
def test_without_an_answer_it_is_the_sentence(files, run, monkeypatch, command, terminal):
    answer(monkeypatch, "\n" if all(terminal) else "CartPole-v1\n", terminal)
    done = run(*COMMANDS[command], code=2)
    assert SENTENCE in done.err
    assert (QUESTION in done.out) == all(terminal)


def test_a_wrong_answer_is_a_mistake_as_any(files, run, monkeypatch):
    answer(monkeypatch, "cartpole-v1\n")
    assert "did you mean CartPole-v1" in run(*COMMANDS["compare"], code=2).err


@pytest.mark.parametrize("end", [KeyboardInterrupt, EOFError], ids=["Ctrl-C", "Ctrl-D"])
def test_keys_that_end_the_question_are_no_answer(files, run, monkeypatch, end):
    def press(question):
        raise end

    answer(monkeypatch, "")
    monkeypatch.setattr("builtins.input", press)
    assert SENTENCE in run(*COMMANDS["same"], code=2).err


def test_a_real_terminal_is_asked(files):
    pytest.importorskip("pty")
    spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    command = [sys.executable, "-c", spawn, sys.executable, "-m", "pivec", *COMMANDS["same"]]
    done = subprocess.run(command, cwd=files, input=b"\n", capture_output=True, check=False)
    assert done.returncode == 2, done.stderr.decode()
    assert QUESTION in done.stdout.decode()
    assert SENTENCE in done.stdout.decode()
