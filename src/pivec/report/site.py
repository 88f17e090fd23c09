"""The pages of a comparison folder, and the files that explanations leave there.

Folders may come from strangers: files are read only within the folder, limited in number and size.
"""

from __future__ import annotations

import json
import os
import posixpath
import warnings
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pivec.errors import PivecError, PivecWarning
from pivec.explanations import FOLDER
from pivec.files import read_regular
from pivec.terminal import encodable, printable, shortened

REPORT, PAGE = "report.html", "explain.html"
# What reading a file with another content may raise.
BROKEN = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
_BYTES, _ALL_BYTES = (
    1 << 24,
    1 << 26,
)  # of a JSON file (64 regions of 350 features take half), of all
_FOLDERS = 400  # that are looked at
_LETTERS = 120  # of a title
_ALONE = {"regions": "Regions", "unusual": "Unusual episodes"}  # pages beside the report


class SitePage(NamedTuple):
    """A page of a comparison folder."""

    kind: str  # report, overview, pair, run, groups, regions or unusual
    title: str
    path: str  # from the folder on
    names: tuple[str, ...] = ()  # the policies of a pair, the run, the groups

    def href(self, current: str = REPORT) -> str:
        """Return the address of the page relative to another one."""
        return quote(os.fsencode(posixpath.relpath(self.path, posixpath.dirname(current) or ".")))


def site_pages(folder: Path) -> list[SitePage]:
    """Find the pages of a comparison folder; those of explanations are named by their JSON."""
    found: dict[str, SitePage] = {}

    def add(file: Path, kind: str, title: str, *names: str) -> None:
        if path := within(folder, file):
            found.setdefault(path, SitePage(kind, title, path, names))

    add(folder / REPORT, "report", "Overview")
    for name, title in _ALONE.items():
        add(folder / f"{name}.html", name, title)
    for file, content in explanation_files(folder):
        with suppress(*BROKEN):
            kind, names = _subject(content)
            title = shortened(" and ".join(map(printable, names)), _LETTERS)
            add(file.with_name(PAGE), kind, title or "Notable pairs", *names)
    return list(found.values())


def _subject(content: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the kind of an explanation, and what it is about."""
    if "pairs" in content:
        return "overview", ()
    if "phases" in content:
        kind, names = "run", [content["run"]]
    elif "decomposition" in content:
        kind, names = "pair", content["decomposition"]["labels"]
    else:
        kind, names = "groups", content["groups"]
    if not 0 < len(names) <= 2 or not all(isinstance(name, str) for name in names):
        raise ValueError("expected one or two names")
    return kind, tuple(names)


def is_page(name: str) -> bool:
    """Whether a path within a comparison folder may be that of a page beside the report."""
    *folders, last = name.split("/")
    if not folders:
        return last.removesuffix(".html") in _ALONE and last.endswith(".html")
    return folders[0] == FOLDER and len(folders) <= 2 and last == PAGE


class Links:
    """Addresses of other pages of a comparison, from one that is in its folder or will be.

    They are empty for pages elsewhere, and where the other page does not exist.
    """

    def __init__(self, folder: Path | None = None, page: Path | None = None) -> None:
        self._known: dict[tuple[str, ...], str] = {}
        own = None if folder is None or page is None else _relative(folder, page)
        if folder is not None and own is not None:
            self._known = {(page.kind, *page.names): page.href(own) for page in site_pages(folder)}

    def on_map(self, **words: str) -> str:
        """Return the address of a view of the report, such as ``a="ppo-0/step_0"``."""
        return self._to("report", "&".join(f"{key}={_part(text)}" for key, text in words.items()))

    def region(self, number: int | None) -> str:
        """Return the address of a region."""
        return "" if number is None else self._to("regions", f"region-{number}")

    def pair(self, a: str, b: str) -> str:
        """Return the address of the page of a pair."""
        return self._known.get(("pair", a, b)) or self._known.get(("pair", b, a), "")

    def run(self, name: str) -> str:
        """Return the address of the page of a run, or else of the run on the map."""
        return self._known.get(("run", name)) or self.on_map(run=name)

    def _to(self, kind: str, part: str) -> str:
        return f"{page}#{part}" if (page := self._known.get((kind,))) else ""


def _part(text: str) -> str:
    """Encode text, as the page shows it, as a value behind the # of an address."""
    return quote(encodable(printable(text)), safe="")


def explanation_files(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Read the explanations of a comparison: those of folders of their own, then the overview."""
    root = folder / FOLDER
    names: list[str] = []
    with suppress(OSError):
        names = sorted(entry.name for entry in islice(os.scandir(root), _FOLDERS))
    left = _ALL_BYTES
    for name in (*names, ""):
        file = root / name / "explain.json"
        content = read_json(folder, file) if left > 0 or not name else None
        if content is not None:
            left -= file.stat().st_size
            yield file, content


def read_json(folder: Path, file: Path) -> dict[str, Any] | None:
    """Read a JSON object within the folder; None if it is none."""
    with suppress(OSError, ValueError, RecursionError):
        if not within(folder, file):
            return None
        try:
            content = json.loads(read_regular(file, _BYTES))
        except PivecError as error:
            warnings.warn(f"no pictures on the page: {error}", PivecWarning, stacklevel=2)
            return None
        return content if isinstance(content, dict) else None
    return None


def address_of(folder: Path, file: Path) -> str | None:
    """Return the address of a file from the report on; None if it is not within the folder."""
    path = within(folder, file)
    return quote(os.fsencode(path)) if path else None


def within(folder: Path, file: Path) -> str | None:
    """Return the path of a file from the folder on, links followed; None if it is elsewhere."""
    with suppress(OSError, ValueError, RuntimeError):  # loops of links, zeros in names
        return _relative(folder, file) if file.is_file() else None
    return None


def _relative(folder: Path, file: Path) -> str | None:
    root, real = folder.resolve(), file.resolve()
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else None
