"""What the page's panel has beside numbers: notable pairs, and pictures that lie in the folder.

`pivec explain` and `pivec regions` leave pictures, and JSON that names them. Folders may come from
strangers: only pictures within the folder are named, and what does not fit this comparison is not.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from pivec.characterizations.background import BackgroundModel
from pivec.errors import PivecError, PivecWarning
from pivec.reading import read_regular
from pivec.report.data import ReportData
from pivec.terminal import printable

_PICTURES = (".webp", ".png")
_BYTES = 1 << 24  # of a JSON file; one of 350 features and 64 regions has half of that
_ALL_BYTES = 1 << 26
_FOLDERS, _PAIRS, _CLIPS, _FRAMES = 400, 200, 20, 400  # that are looked at
_LETTERS = 1000  # of a text
_SAME = 1e-3  # of a distance: another comparison has another one
Content = dict[str, Any]


def panel_media(report: ReportData) -> Content:
    """Give what the panel shows of pairs: rows are by number, addresses relative to the page."""
    folder = report.log.folder
    return {
        # The page is shown to others: where on a disk it was made is left out.
        "folder": printable(folder.name if folder.is_absolute() else str(folder)),
        "notable": notable_pairs(report),
        "pairs": explained_pairs(report, folder),
        "regions": region_pictures(report, folder),
    }


def notable_pairs(report: ReportData) -> list[Content]:
    """Choose pairs to begin with: near but told apart, far apart, not told apart."""
    measured, groups = report.measured, np.array([row.group for row in report.rows])
    pairs, alike = measured.pairs, measured.pairs.alike
    sure = " that can be told apart" if measured.n_known else ""
    # Two runs that came to the same are worth more of a look than two checkpoints of one.
    other = alike & (groups[pairs.i] != groups[pairs.j])
    chosen = {
        f"The nearest pair{sure}": pairs.take(np.flatnonzero(~alike)[:1]),
        "The farthest pair": measured.farthest,
        "A pair that cannot be told apart": pairs.take(
            np.flatnonzero(other if other.any() else alike)[:1]
        ),
    }
    return [
        {"words": words, "rows": [int(pair.i[0]), int(pair.j[0])]}
        for words, pair in chosen.items()
        if len(pair)
    ]


def explained_pairs(report: ReportData, folder: Path) -> list[Content]:
    """Find clips and pictures of pairs that were explained in this comparison."""
    rows = {row.label: i for i, row in enumerate(report.rows)}
    result: dict[frozenset[int], Content] = {}
    for file, content in _explanations(folder):
        explanation = _of(content.get("explanation"), dict) or {}
        pair = [rows.get(label) for label in _list(explanation.get("labels"), str)]
        if len(pair) != 2 or None in pair or pair[0] == pair[1] or len(result) >= _PAIRS:
            continue
        a, b = int(pair[0] or 0), int(pair[1] or 0)
        if not _same(_of(explanation.get("distance"), float), report, a, b):
            continue
        shown = {
            "a": a,
            "b": b,
            "page": _address(folder, file.with_name("explain.html")),
            "clips": list(islice(_clips(folder, file, content), _CLIPS)),
            "frames": list(islice(_frames(folder, file, content), _FRAMES)),
        }
        if shown["page"] or shown["clips"] or shown["frames"]:
            result.setdefault(frozenset((a, b)), shown)
    return list(result.values())


def region_pictures(report: ReportData, folder: Path) -> list[Content]:
    """Find the pictures of regions that `pivec regions --frames` left."""
    from pivec.explanations.regions.names import features_of
    from pivec.explanations.regions.words import region_words

    space = report.space
    content = _read(folder, folder / "regions.json")
    if space is None or not isinstance(space.method, BackgroundModel) or content is None:
        return []
    words = region_words(space.method, features_of(space.collected, space.method.feature_names_))
    result = []
    for region in _list(content.get("regions"), dict)[: len(words)]:
        number, frame = _of(region.get("number"), int), _of(region.get("frame"), dict) or {}
        if number is None or not 0 <= number < len(words) or region.get("words") != words[number]:
            continue
        if src := _picture(folder, folder, frame.get("path")):
            result.append({"region": number, "src": src, "words": _visit(frame.get("visit"))})
    return result


def _explanations(folder: Path) -> Iterator[tuple[Path, Content]]:
    """Give the explanations of pairs: of folders of their own, then those of the overview."""
    from pivec.explanations.pairs.pairs import FOLDER

    root = folder / FOLDER
    names: list[str] = []
    with suppress(OSError):
        names = sorted(entry.name for entry in islice(os.scandir(root), _FOLDERS))
    left = _ALL_BYTES
    for name in names:
        file = root / name / "explain.json"
        content = _read(folder, file) if left > 0 else None
        if content is not None:
            left -= file.stat().st_size
            yield file, content
    file = root / "explain.json"
    for content in _list((_read(folder, file) or {}).get("pairs"), dict):
        yield file, content


def _read(folder: Path, file: Path) -> Content | None:
    """Read a JSON object within the folder; None if it is none."""
    with suppress(OSError, ValueError, RecursionError):
        if not file.is_file() or not _within(folder, file):
            return None
        try:
            content = json.loads(read_regular(file, _BYTES))
        except PivecError as error:
            warnings.warn(f"no pictures on the page: {error}", PivecWarning, stacklevel=2)
            return None
        return content if isinstance(content, dict) else None
    return None


def _same(distance: float | None, report: ReportData, i: int, j: int) -> bool:
    """Tell whether a distance is that of two policies in this comparison."""
    matrix, space = report.measured.matrix, report.space
    if distance is None:
        return False
    if matrix is not None:
        now = float(matrix[i, j])
    elif space is not None:
        described = space.descriptions
        now = float(space.method.distances(described.select([i]), described.select([j]))[0, 0])
    else:
        return False
    return math.isclose(distance, now, rel_tol=_SAME, abs_tol=1e-9)


def _clips(folder: Path, file: Path, content: Content) -> Iterator[Content]:
    for clip in _list(content.get("clips"), dict):
        if src := _picture(folder, file.parent, clip.get("picture")):
            yield {"src": src, "title": _text(clip.get("title")), "words": _text(clip.get("words"))}


def _frames(folder: Path, file: Path, content: Content) -> Iterator[Content]:
    for still in _list(content.get("stills"), dict):
        visit, region = _of(still.get("visit"), dict) or {}, _of(still.get("region"), int)
        src = _picture(folder, file.parent, still.get("picture"))
        if src and region is not None:
            policy = _text(visit.get("policy"))
            yield {"src": src, "region": region, "policy": policy, "words": _visit(visit)}


def _visit(visit: Any) -> str:
    visit = _of(visit, dict) or {}
    episode, step = (_of(visit.get(name), int) for name in ("episode", "step"))
    return f"{_text(visit.get('policy'))}, episode {episode}, step {step}"


def _picture(folder: Path, start: Path, name: Any) -> str | None:
    """Give the address of a picture within the folder, seen from there; None if it is none."""
    name = _of(name, str)
    if not name or len(name) > _LETTERS or Path(name).suffix.lower() not in _PICTURES:
        return None
    return _address(folder, start / name)


def _address(folder: Path, file: Path) -> str | None:
    with suppress(OSError, ValueError, RuntimeError):  # loops of links, zeros in names
        if file.is_file() and (within := _within(folder, file)):
            return quote(os.fsencode(within.as_posix()))
    return None


def _within(folder: Path, file: Path) -> Path | None:
    """Give the path of a file from the folder on, links followed; None if it is elsewhere."""
    root, real = folder.resolve(), file.resolve()
    return real.relative_to(root) if real.is_relative_to(root) else None


def _of(value: Any, kind: type) -> Any:
    """Give a value if it is of a kind, else None; whole numbers are numbers, truths are not."""
    if isinstance(value, bool):
        return None
    if kind is float and isinstance(value, int):
        return float(value) if abs(value) < 1 << 53 else None
    return value if isinstance(value, kind) else None


def _list(value: Any, kind: type) -> list[Any]:
    """Give what is of a kind in a list, if it is one."""
    return [item for item in value if isinstance(item, kind)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return printable(value[:_LETTERS]) if isinstance(value, str) else ""
