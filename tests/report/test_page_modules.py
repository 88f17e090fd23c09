"""The page's script: modules with one purpose each that can be joined, and are small together."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files

import pytest

MODULES = sorted((files("pivec.report") / "web").glob("*.js"))
DECLARED = re.compile(
    r"^(?:export )?(?:async )?(?:const|let|function|class)\s+(\w+|\{[^}]*\}|[^=]*)", re.M
)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_module_says_its_purpose_and_is_short(module):
    text = module.read_text(encoding="utf-8")
    assert re.match(r"// \S.*\.\n", text)
    assert text.count("\n") <= 300


def test_names_at_the_top_of_modules_are_unique_for_they_are_joined():
    names = Counter()
    for module in MODULES:
        for declared in DECLARED.findall(module.read_text(encoding="utf-8")):
            names.update(re.findall(r"\w+", re.sub(r"\w+\s*:\s*", "", declared)))
    assert len(names) > 20
    assert {name for name, count in names.items() if count > 1} == set()
