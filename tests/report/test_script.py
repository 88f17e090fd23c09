"""The scripts of pages are built from their sources, are small, and make no code from text."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from pivec.report import script
from pivec.report.pages import SCRIPTS, fingerprint, resource

BUILD = Path(__file__).parents[2] / "scripts/page/build.py"
LARGEST = 140_000  # bytes


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_was_built_from_its_sources(name):
    first = resource(f"built/{name}").partition("\n")[0]
    sources = runpy.run_path(str(BUILD))["sources"]
    assert fingerprint(sources()) in first, "web/ has changed: run `make page`"


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_is_small_and_makes_no_code_or_markup_from_text(name):
    code = script(name)
    assert len(code.encode()) <= LARGEST
    for word in ("eval(", "new Function", "outerHTML", "insertAdjacentHTML", "srcdoc"):
        assert word not in code
