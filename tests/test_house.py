"""No code is written twice, and CONTRIBUTING names files that exist."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pivec

SOURCE = Path(pivec.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
LEAST_SHARED = 10


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


def test_what_a_change_touches_is_there():
    """The files that CONTRIBUTING names exist."""
    text = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^(?:\| an? |\d+\. ).*$", text, re.MULTILINE)
    for name in re.findall(r"`([\w/]+\.py)`", "\n".join(rows)):
        assert list(SOURCE.glob(f"**/{name}")) or (SOURCE.parents[1] / name).exists()
