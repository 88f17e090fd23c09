"""The page's script is that of its modules, and small."""

from __future__ import annotations

import runpy
from pathlib import Path

from pivec.report import script
from pivec.report.pages import BUILT, fingerprint, resource

BUILD = Path(__file__).parents[2] / "scripts/page/build.py"

LARGEST = 80_000  # bytes


def test_the_script_was_made_from_the_modules_as_they_are():
    first = resource(BUILT).partition("\n")[0]
    joined = runpy.run_path(str(BUILD))["joined"]
    assert fingerprint(joined()) in first, "the modules of web/ have changed: run `make page`"


def test_the_script_is_small_and_without_eval():
    code = script()
    assert len(code.encode()) <= LARGEST
    assert "eval(" not in code
    assert "new Function" not in code
    assert "innerHTML" not in code
