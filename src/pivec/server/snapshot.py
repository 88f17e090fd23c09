"""A comparison as it was at a moment: its page, its data, and what differs between its policies."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pivec.characterizations.space import Space
from pivec.comparison import distances_in, report_of
from pivec.distances import Measured
from pivec.errors import PivecError, UsageError
from pivec.explanations.folder import Findings, kept_states
from pivec.explanations.pairs.difference import Difference
from pivec.explanations.pairs.pairs import measure_difference
from pivec.report.columns import page_data
from pivec.report.page import key_figures, report_html, summary
from pivec.run_log import RunLog
from pivec.server.pairs import pair_answer
from pivec.terminal import encodable, printable

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
        self.measured = measured or distances_in(space, folder)
        self._report = report_of(space, RunLog(folder), self.measured)
        data = page_data(self._report)
        self.version = hashlib.sha256(_json(data)).hexdigest()[:16]
        head = {"summary": summary(self._report), "figures": key_figures(self._report)}
        self.data = _json(data | {"live": self.version} | head)
        names = [printable(label) for label in space.descriptions.labels]  # as the page has them
        counts = Counter(names)
        self._rows = {name: row for row, name in enumerate(names) if counts[name] == 1}
        self._pairs: OrderedDict[Pair, bytes] = OrderedDict()
        self._differences: OrderedDict[Pair, Difference] = OrderedDict()

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

    def difference(self, i: int, j: int) -> Difference:
        """Take the distance of two policies apart."""
        labels = [self.space.descriptions.labels[row] for row in (i, j)]

        def difference() -> Difference:
            kept = kept_states(self.folder, labels)
            return measure_difference(Findings(self.folder, self.space, kept), *labels)

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
