"""The table of policies."""

from __future__ import annotations

import math

from pivec.report.data import PolicyRow, ReportData, colours_of_groups, in_order
from pivec.report.markup import (
    count_cell,
    cut_note,
    dot,
    filled,
    number_cell,
    paper_note,
    section,
    shown_text,
)
from pivec.text import rounded

MAX_STATIC = 100  # rows of a page without its script


def policies_section(report: ReportData) -> str:
    """List the first policies by run and training step; the script shows all of them."""
    rows = report.rows
    colours = colours_of_groups(rows)
    lines = (_line(rows[i], colours) for i in in_order(rows)[:MAX_STATIC].tolist())
    what = "policies; map.csv holds all of them"
    note = f"<noscript>{cut_note(len(rows), what, MAX_STATIC)}</noscript>"
    parts = {"rows": "".join(lines), "note": note + paper_note(len(rows), what)}
    return section("policies", "Policies", filled("policies.html", parts))


def _line(row: PolicyRow, colours: dict[str, str]) -> str:
    colour = "var(--reference)" if row.reference else colours.get(row.group, "var(--lone)")
    shown = rounded(row.mean_return)
    if not math.isnan(row.mean_return) and not math.isnan(row.return_std):
        shown += f' <span class="pm">± {rounded(row.return_std, 3)}</span>'
    return (
        f"<tr{' class=ref' if row.reference else ''}>"
        f'<th scope="row">{shown_text(row.label)}</th>'
        f'<td class="name">{dot(colour)}{shown_text(row.group) or "–"}</td>'
        f"{count_cell(row.step)}{number_cell(shown, row.mean_return)}"
        f"{count_cell(row.episodes)}{count_cell(row.states)}{count_cell(row.behaviour)}"
        f'<td class="src">{shown_text(row.source)}</td></tr>'
    )
