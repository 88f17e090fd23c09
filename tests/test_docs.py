"""The Python of README and docs runs as it is printed, and their links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    if blocks:
        exec(compile("\n".join(blocks), str(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_local_links_exist(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_commands_of_the_readme_work_in_an_empty_folder(run):
    text = (ROOT / "README.md").read_text().partition("## Five questions")[2]
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).splitlines()
    assert {line.split()[1] for line in lines} >= {"demo", "compare", "explain", "same", "watch"}
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "pivec"
        run(*arguments, code=1 if arguments[0] == "same" else 0)  # 1: they are different


def test_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
