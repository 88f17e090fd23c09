"""Tab completes what fits, quickly, and nothing that a shell could take for a command."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def completed(line, tmp_path):
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-m", "pivec"],
        env=os.environ | {
            "_PIVEC_COMPLETE": "complete_bash",
            "COMP_WORDS": "\n".join(words),
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    return done.stdout.split()


@pytest.fixture
def finished(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    labels = ["ppo-0/step_9", "ppo-0/step_10", "a2c-1/last", "$(touch${IFS}gone)", "a;b", "a b"]
    lines = [f'"{label}",{label.partition("/")[0]}' for label in labels]
    (folder / "map.csv").write_text("\n".join(["label,group", *lines]))
    return folder


def test_the_shell_gets_commands_environments_and_policies(tmp_path, finished):
    assert completed("pivec compar", tmp_path) == ["compare"]
    assert "CartPole-v1" in completed("pivec compare CartP", tmp_path)
    assert completed("pivec explain out ppo", tmp_path) == ["ppo-0/step_9", "ppo-0/step_10"]
    assert completed("pivec explain out --run a2", tmp_path) == ["a2c-1"]


def test_names_are_completed(tmp_path):
    assert completed("pivec compare --method superv", tmp_path) == ["supervector"]
    assert completed("pivec evaluate --methods mmd,superv", tmp_path) == ["mmd,supervector"]
    assert completed("pivec compare runs/", tmp_path) == []  # then the shell completes files


def test_no_name_from_a_file_can_be_taken_for_a_command(tmp_path, finished):
    names = completed("pivec explain out ", tmp_path)
    assert names == ["ppo-0/step_9", "ppo-0/step_10", "a2c-1/last"]


@pytest.mark.parametrize("text", [None, "nothing,here", "\x00\xff"])
def test_a_folder_that_cannot_be_read_completes_to_nothing(tmp_path, text):
    (tmp_path / "out").mkdir()
    if text is not None:
        (tmp_path / "out" / "map.csv").write_text(text)
    assert completed("pivec explain out ", tmp_path) == []


def test_nothing_heavy_is_imported():
    code = "import sys, pivec.cli.main as _; print({'numpy', 'gymnasium'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
