"""Compiled code is kept where a folder can be written; elsewhere it runs, and that is said once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pivec

pytest.importorskip("numba")

SCRIPT = """
from pivec.parallel.compiled import compiler

@compiler("contract")
def twice(x):
    return 2 * x

@compiler("contract")
def fourfold(x):
    return twice(twice(x))
"""
CALL = "\nprint(fourfold(2.0), twice(1.0))\n"
NOT_KEPT = "set NUMBA_CACHE_DIR"


def run(code: str, folder: Path, home: Path) -> str:
    """Run a script in a folder; give what it says on standard error."""
    script = folder / "script.py"
    script.write_text(code)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "XDG_"))}
    environment |= {"HOME": str(home), "PYTHONPATH": str(Path(pivec.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "8.0 2.0\n"
    return done.stderr


def test_a_folder_that_can_be_written_keeps_the_code(tmp_path):
    assert run(SCRIPT + CALL, tmp_path, tmp_path) == ""
    assert len(list(tmp_path.rglob("*.nbc"))) == 2


def test_without_a_folder_it_runs_and_says_so_once(tmp_path):
    # Files where folders would be cannot be written into, not even by the administrator.
    (tmp_path / "__pycache__").touch()
    (tmp_path / "home").touch()
    told = run(SCRIPT + CALL, tmp_path, tmp_path / "home")
    assert told.count(NOT_KEPT) == 1


def test_a_folder_that_fails_later_costs_no_result(tmp_path):
    fill = "\nimport pathlib, shutil\nhere = pathlib.Path(__file__).parent / '__pycache__'\n"
    fill += "shutil.rmtree(here)\nhere.touch()\n"
    assert run(SCRIPT + fill + CALL, tmp_path, tmp_path).count(NOT_KEPT) == 1


def test_damaged_code_is_compiled_again(tmp_path):
    run(SCRIPT + CALL, tmp_path, tmp_path)
    for path in tmp_path.rglob("*.nbc"):
        path.write_bytes(b"\x80\x04damaged")
    assert run(SCRIPT + CALL, tmp_path, tmp_path).count(NOT_KEPT) == 1


def test_code_of_other_files_beside_it_is_looked_at_too(tmp_path):
    code = SCRIPT.replace('"contract")', '"contract", sources="*.txt")') + CALL
    for text in ("first", "second", "first"):
        (tmp_path / "other.txt").write_text(text)
        run(code, tmp_path, tmp_path)
    assert len(list(tmp_path.rglob("*.nbc"))) == 4
