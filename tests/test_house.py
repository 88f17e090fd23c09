"""The house stays plain: short files and functions, names that say something, no copies."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import pivec

SOURCE = Path(pivec.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
NO_NAMES = {"each", "one", "found", "some", "told", "hands", "hear"}  # they name nothing
MOST_LINES, MOST_LINES_OF_A_FUNCTION, LEAST_SHARED = 350, 70, 10


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_files_and_functions_are_short(file):
    text = file.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            n_lines = node.end_lineno - node.lineno + 1
            assert n_lines <= MOST_LINES_OF_A_FUNCTION, f"{node.name} has {n_lines} lines"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_names_are_nouns_and_errors_have_no_full_stop(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name | ast.arg | ast.FunctionDef | ast.ClassDef):
            name = getattr(node, "id", getattr(node, "arg", getattr(node, "name", "")))
            assert name not in NO_NAMES, f"line {node.lineno}"
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            said = node.exc.args[0]
            said = said.values[-1] if isinstance(said, ast.JoinedStr) else said
            if isinstance(said, ast.Constant):
                assert not str(said.value).rstrip().endswith("."), f"line {node.lineno}"


def test_nothing_is_written_twice():
    """Ten lines in a row that say something (no blanks, comments, imports) stand in one place."""
    places = defaultdict(list)
    for file in FILES:
        for first, window in windows(said(file)):
            places[window].append(f"{file.relative_to(SOURCE)}:{first}")
    again = sorted({tuple(where) for where in places.values() if len(where) > 1})
    assert not again


def said(file):
    """Return the lines of a file that count, with their numbers."""
    text = file.read_text(encoding="utf-8")
    imported = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    for number, line in enumerate(text.splitlines(), 1):
        folded = " ".join(line.split())
        thin = re.fullmatch(r"[\W_]*", folded) or folded.startswith("#")
        if number not in imported and not thin:
            yield number, folded


def windows(lines):
    """Go over all runs of LEAST_SHARED lines."""
    lines = list(lines)
    for i in range(len(lines) - LEAST_SHARED + 1):
        run = lines[i : i + LEAST_SHARED]
        yield run[0][0], tuple(line for _, line in run)


def hops():
    """Return the files and functions that CONTRIBUTING tells to be the way of `pivec compare`."""
    text = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return re.findall(r"^\d+\. `(.+?)`: `(.+?)`", text, re.MULTILINE)


def test_the_way_of_a_comparison_is_told_as_the_code_goes(tmp_path, run):
    """The functions are called first in the order in which they stand there."""
    calls = {}

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            file = str(Path(code.co_filename).relative_to(SOURCE))
            calls.setdefault((file, code.co_name), len(calls))

    sys.setprofile(note)
    try:
        run("compare", "CartPole-v1", "random:13", "--episodes", 2, "--components", 2,
            "--out", tmp_path)  # fmt: skip
    finally:
        sys.setprofile(None)
    way = hops()[1:]  # the entry point itself is not called here
    assert 10 < len(way) < 15
    assert [hop for hop in way if hop not in calls] == []
    assert way == sorted(way, key=calls.get)


def test_what_a_change_touches_is_there():
    """The files that CONTRIBUTING names exist."""
    text = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| an? .*$", text, re.MULTILINE)
    assert len(rows) == 11
    for name in re.findall(r"`([\w/]+\.py)`", "\n".join(rows)):
        assert list(SOURCE.glob(f"**/{name}")) or (SOURCE.parents[1] / name).exists() or name in (
            "recipe.py", "figure.py", "page.py")  # fmt: skip
