"""What the page's script gets: columns of all policies, deflated, as text in the page.

`web/data.js` reads it back. Numbers are little-endian; a text column is its lines.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pivec.canvas import colour_scale
from pivec.report.data import PolicyRow, ReportData, colours_of_groups, in_order
from pivec.report.sections.map import alike_pairs
from pivec.terminal import printable

FORMAT = 1
Column = dict[str, Any]


def page_data(report: ReportData) -> dict[str, Any]:
    """Collect everything that the script shows, as values that JSON can hold."""
    rows = report.rows
    colours = colours_of_groups(rows)
    return {
        "format": FORMAT,
        "live": report.live,
        "n": len(rows),
        "columns": policy_columns(rows, list(colours)),
        "groups": [printable(name) for name in colours],
        "groupColours": list(colours.values()),
        "scales": {"return": colour_scale("viridis"), "step": colour_scale("plasma")},
        "joins": numbers(alike_pairs(report.measured), "i4"),
        "travels": _travels(report, list(colours)),
    }


def policy_columns(rows: Sequence[PolicyRow], groups: Sequence[str]) -> dict[str, Column]:
    """Give a column for each thing known of a policy; NaN stands for what is not."""
    number = {name: k for k, name in enumerate(groups)}
    return {
        "label": text(row.label for row in rows),
        "source": text(row.source for row in rows),
        "group": numbers([number.get(row.group, -1) for row in rows], "i4"),
        "step": numbers([np.nan if row.step is None else row.step for row in rows], "f8"),
        "x": numbers([row.x for row in rows], "f4"),
        "y": numbers([row.y for row in rows], "f4"),
        "return": numbers([row.mean_return for row in rows], "f4"),
        "deviation": numbers([row.return_std for row in rows], "f4"),
        "episodes": numbers([row.episodes for row in rows], "i4"),
        "states": numbers([row.states for row in rows], "f8"),
        "behaviour": numbers([row.behaviour or 0 for row in rows], "i4"),
        "reference": numbers([row.reference for row in rows], "u1"),
        "order": numbers(in_order(rows), "i4"),
    }


def numbers(values: ArrayLike, kind: str) -> Column:
    r"""Pack numbers of one kind: u1, u2, i4, f4 or f8.

    Examples
    --------
    >>> column = numbers([1, 2, 3], "u1")
    >>> column["type"], zlib.decompress(base64.b64decode(column["data"]))
    ('u1', b'\x01\x02\x03')
    """
    array = np.asarray(values).astype(np.dtype(kind).newbyteorder("<"))
    return {"type": kind, "data": _packed(array.tobytes())}


def text(lines: Iterable[str]) -> Column:
    """Pack texts, a line each; what could break a line is made visible."""
    return {"type": "text", "data": _packed("\n".join(map(printable, lines)).encode())}


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode("ascii")


def _travels(report: ReportData, groups: Sequence[str]) -> list[dict[str, Any]]:
    """Give the distance along each run, with its half-widths where they are known."""
    number = {name: k for k, name in enumerate(groups)}
    return [
        {
            "group": number.get(run.group, -1),
            "rows": list(run.rows),
            "cumulative": [_short(value) for value in run.cumulative],
            "half": None if run.half_widths is None else [_short(v) for v in run.half_widths],
        }
        for run in report.measured.travels
    ]


def _short(value: float) -> float | None:
    """Round to five digits, for a page of bearable size."""
    return float(f"{value:.5g}") if np.isfinite(value) else None
