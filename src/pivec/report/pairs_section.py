"""Tables of notable pairs: how far apart, how sure that is, how much of their time they share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pivec.report.findings import PairRow, ReportData, pair_rows
from pivec.report.markup import number_cell, shown_text, table
from pivec.statistics import Pairs
from pivec.text import interval, percent, rounded, thousands

MAX_SHOWN = 5
UNSURE = "cannot be told apart"


def pairs_tables(report: ReportData) -> str:
    """Show the nearest and the farthest pairs."""
    measured = report.measured
    labels = [row.label for row in report.rows]
    parts = (("Nearest pairs", measured.nearest), ("Farthest pairs", measured.farthest))
    return "".join(
        f'<h3>{heading}</h3><div class="scroll">{_table(labels, pairs)}</div>'
        for heading, pairs in parts
        if len(pairs)
    )


def _table(labels: Sequence[str], pairs: Pairs) -> str:
    pairs = pairs.take(range(min(MAX_SHOWN, len(pairs))))
    rows = pair_rows(labels, pairs)
    sure = any(math.isfinite(row.low) for row in rows)
    shared = any(math.isfinite(row.overlap) for row in rows)
    heads = ["Policy", "Policy", "Distance", *["In different places"] * shared]
    numbers = zip(pairs.i.tolist(), pairs.j.tolist(), strict=True)
    lines = (_line(row, *pair, sure, shared) for row, pair in zip(rows, numbers, strict=True))
    return table(heads, (2, 3), lines)


def _line(row: PairRow, i: int, j: int, sure: bool, shared: bool) -> str:
    distance = rounded(row.distance, 3)
    if sure:
        distance += f'<br><span class="pm">{interval(row.low, row.high)}</span>'
    apart = 1 - row.overlap
    names = shown_text(row.other) + (f'<br><span class="tag">{UNSURE}</span>' if row.alike else "")
    return (
        f"<tr data-a={i} data-b={j}{' class=unsure' if row.alike else ''}>"
        f'<td class="name">{shown_text(row.policy)}</td>'
        f'<td class="name">{names}</td>{number_cell(distance, row.distance)}'
        f"{number_cell(percent(apart), apart) if shared else ''}</tr>"
    )


def count_alike(report: ReportData) -> str:
    """Say how many pairs cannot be told apart; empty where that is not known."""
    known = report.measured.n_known
    if not known:
        return ""
    return f"{thousands(len(report.measured.alike))} of {thousands(known)}"
