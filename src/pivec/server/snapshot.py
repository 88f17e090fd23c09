"""A comparison as it was at a moment: its page, its data, and what differs between its policies."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pivec.characterizations import Measured, Space
from pivec.errors import PivecError, UsageError
from pivec.explanations import (
    FOLDER,
    ComparisonFolder,
    PairExplanation,
    explain_pair,
    stored_states,
)
from pivec.report import (
    SPACE,
    Findings,
    key_figures,
    measure_space,
    page_data,
    report_html,
    summary,
)
from pivec.results import plain
from pivec.run_log import RUN, RunLog
from pivec.statistics import LEVEL
from pivec.terminal import encodable, printable, say
from pivec.text import n_policies

if TYPE_CHECKING:
    pass

T = TypeVar("T")
Pair = tuple[int, int]
_KEPT = 32  # pairs; each has some MB where states have hundreds of features


class NotFound(PivecError):
    """There is no such policy."""


class Snapshot:
    """A space that was read, what was measured of it, and what the page shows.

    Its `page`, `pair` and `difference` are heavy, and for one thread at a time.

    Parameters
    ----------
    folder : path
        Of the comparison.
    space : Space
        With a place for every policy.
    measured : Measured, optional
        What an earlier snapshot measured of the same space.
    """

    def __init__(self, folder: Path, space: Space, measured: Measured | None = None) -> None:
        self.folder, self.space = folder, space
        self.measured = measured or measure_space(space, folder)
        self._report = Findings.of(space, self.measured, RunLog(folder))
        data = page_data(self._report)
        self.version = hashlib.sha256(_json(data)).hexdigest()[:16]
        head = {"summary": summary(self._report), "figures": key_figures(self._report)}
        self.data = _json(data | {"live": self.version} | head)
        names = [printable(label) for label in space.descriptions.labels]  # as the page has them
        counts = Counter(names)
        self._rows = {name: row for row, name in enumerate(names) if counts[name] == 1}
        self._pairs: OrderedDict[Pair, bytes] = OrderedDict()
        self._differences: OrderedDict[Pair, PairExplanation] = OrderedDict()

    @cached_property
    def page(self) -> bytes:
        """The page, as HTML; its figures take a while."""
        return encodable(report_html(self._report, live=self.version)).encode()

    def rows(self, a: str, b: str) -> Pair:
        """Find two policies by their whole labels."""
        for label in (a, b):
            if label not in self._rows:
                raise NotFound(f"there is no policy {label!r} here (any more), or not just one")
        if a == b:
            raise UsageError(f"expected two policies, but both are {a!r}: choose another")
        return self._rows[a], self._rows[b]

    def pair(self, i: int, j: int) -> bytes:
        """Tell all that is known of two policies, as JSON."""
        return _kept(self._pairs, (i, j), lambda: _json(pair_answer(self, i, j)))

    def difference(self, i: int, j: int) -> PairExplanation:
        """Take the distance of two policies apart."""
        labels = [self.space.descriptions.labels[row] for row in (i, j)]

        def difference() -> PairExplanation:
            kept = stored_states(self.folder, labels)
            return explain_pair(ComparisonFolder(self.folder, self.space, kept), *labels)

        return _kept(self._differences, (i, j), difference)

    def marks(self, i: int, j: int) -> tuple[str, str]:
        """Name two policies by what is described of them, whoever else is there."""
        return self._mark(i), self._mark(j)

    def _mark(self, row: int) -> str:
        described = self.space.descriptions
        info = described.policies[row]
        known = [info.label, info.identity, int(described.n_episodes[row])]
        digest = hashlib.sha256(json.dumps(known).encode())
        here = (
            self.version.encode() if described.points is None else described.points[row].tobytes()
        )
        digest.update(here)
        return digest.hexdigest()


def _kept(known: OrderedDict[Pair, T], key: Pair, make: Callable[[], T]) -> T:
    """Give what is known, or make it; what was asked for longest ago is forgotten."""
    if key not in known:
        known[key] = make()
    known.move_to_end(key)
    while len(known) > _KEPT:
        known.popitem(last=False)
    return known[key]


def _json(content: Any) -> bytes:
    """Write JSON in ASCII, which also holds halves of characters that names of files may have."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


# -----------------------------------------------------------------------------
# The newest snapshot of a folder that others may write to meanwhile.


Version = tuple[int, int, int] | None
Signature = tuple[tuple[Version, ...], tuple[Version, ...]]
_MANY = 1000  # policies, of which measuring takes a while
_EXPLAINED = 400  # pairs that are looked for


class Current:
    """Holds a snapshot, and takes another when the space of the folder was replaced.

    A space whose policies have no places yet is half made, and waited for.
    """

    def __init__(self, folder: Path, quiet: bool = False) -> None:
        self.folder = folder
        self._quiet = quiet
        self._shown = self._seen = signature_of(folder)
        self._said: set[str] = set()
        space = Space.load(folder)
        if not _is_whole(space):
            raise UsageError(
                f"the policies of {folder} have no places on a map yet: run `pivec map {folder}`, "
                "or wait for the command that writes there"
            )
        if len(space.descriptions) > _MANY and not quiet:
            say(f"Measuring the distances of {n_policies(len(space.descriptions))}")
        self.snapshot = Snapshot(folder, space)

    def look(self) -> None:
        """Take another snapshot if the files are others, and have been for a while."""
        now = signature_of(self.folder)
        rests, self._seen = now == self._seen, now
        if now == self._shown or not rests:
            return
        try:
            self._take(now)
        except Exception as error:  # what was shown before stays, and the server goes on
            reason = str(error) if isinstance(error, PivecError | OSError) else repr(error)
            if reason not in self._said:
                self._said.add(reason)
                words = f"{self.folder} has changed, but cannot be shown: {reason}"
                say(f"pivec: {words}; the page stays as it was", error=True)
        self._shown = now

    def _take(self, now: Signature) -> None:
        before = self.snapshot
        same = now[0] == self._shown[0]
        space = before.space if same else Space.load(self.folder)
        if not _is_whole(space):
            return
        self.snapshot = Snapshot(self.folder, space, before.measured if same else None)
        n, n_before = len(space.descriptions), len(before.space.descriptions)
        if n != n_before and not self._quiet:
            say(f"{n_policies(n)} now, {n_before} before")


def _is_whole(space: Space) -> bool:
    """Tell whether all policies have their places: that is written last."""
    return space.positions is not None and not np.isnan(space.positions).any()


def signature_of(folder: Path) -> Signature:
    """Tell versions of a folder apart: of its space, and of what the page shows beside it."""
    explained = islice(sorted(folder.glob(f"{FOLDER}/*/explain.json")), _EXPLAINED)
    beside = (folder / RUN, folder / "regions.json", folder / FOLDER / "explain.json", *explained)
    spaces = folder / SPACE / "space.npz", folder / "space.npz"
    return tuple(map(_version, spaces)), tuple(map(_version, beside))


def _version(file: Path) -> Version:
    """Tell versions of a file apart; None if it is not there."""
    try:
        known = os.stat(file)
    except OSError:
        return None
    return known.st_mtime_ns, known.st_size, known.st_ino


# -----------------------------------------------------------------------------
# All that is known of two policies: their exact distance, how sure it is, and what differs.


def pair_answer(snapshot: Snapshot, i: int, j: int) -> dict[str, Any]:
    """Tell of policies ``i`` and ``j`` what JSON can hold; None is what is not known.

    ``distance`` is without the noise of sampling where there is an interval, ``measured`` with it.
    ``difference`` has the shape of explain.json; where there is none, ``reason`` says why.
    """
    labels = snapshot.space.descriptions.labels
    answer = {"a": labels[i], "b": labels[j], "level": LEVEL} | sureness(snapshot, i, j)
    difference: dict[str, Any] | None
    try:
        difference, reason = snapshot.difference(i, j).to_json(), ""
    except PivecError as error:
        difference, reason = None, str(error)
    answer = plain(answer) | {"difference": difference, "reason": reason}
    return {key: shown(part) for key, part in answer.items()}


def shown(content: Any) -> Any:
    r"""Write the texts within a content as the page does, so that a label is the same in both.

    Examples
    --------
    >>> print(shown({"labels": ["a\nb"]}))
    {'labels': ['a\\nb']}
    """
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, dict):
        return {key: shown(part) for key, part in content.items()}
    return [shown(part) for part in content] if isinstance(content, list | tuple) else content


def sureness(snapshot: Snapshot, i: int, j: int) -> dict[str, Any]:
    """Give distance, interval, p-value and overlap of two policies, as pairs.csv has them."""
    method, described = snapshot.space.method, snapshot.space.descriptions
    known = snapshot.measured.intervals
    a, b = described.select([i]), described.select([j])
    measured = float(method.distances(a, b)[0, 0])
    answer: dict[str, Any] = {"distance": measured, "measured": measured}
    answer |= dict.fromkeys(("low", "high", "p", "overlap"))
    at = i, j
    if known is None and ("influences" in described.arrays or method.traits.exact):
        known, at = method.intervals(a, b, LEVEL), (0, 0)
    if known is not None:
        answer["distance"] = max(float(known.distance[at]), 0.0)
        answer |= {"low": known.low[at], "high": known.high[at], "p": known.p_value[at]}
    overlap = getattr(method, "overlap", None)  # of what has regions
    if overlap is not None:
        answer["overlap"] = float(overlap(a, b)[0, 0])
    return answer
