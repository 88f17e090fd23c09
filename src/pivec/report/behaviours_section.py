"""Behaviours: which policies cannot be told apart, and what that means."""

from __future__ import annotations

import numpy as np

from pivec.report.findings import ReportData
from pivec.report.markup import (
    MAX_ROWS,
    count_cell,
    cut_note,
    number_cell,
    section,
    shown_text,
    table,
)
from pivec.statistics import Behaviours
from pivec.text import n_policies, rounded, thousands

MAX_NAMES = 12  # of the policies of a class


def behaviours_section(report: ReportData) -> str:
    """List the classes of policies that cannot be told apart, the largest first."""
    classes = report.behaviours
    if classes is None or len(report.rows) < 2:
        return ""
    members: dict[int, list[int]] = {}
    for i, number in enumerate(classes.numbers):
        if number is not None:
            members.setdefault(number, []).append(i)
    lines = [_line(report, k, classes.medoids[k - 1], members[k]) for k in sorted(members)]
    heads = ("Behaviour", "In the middle", "Policies", "Mean return", "Which")
    shown = table(heads, (0, 2, 3), lines[:MAX_ROWS], ' class="sortable"')
    return section(
        "behaviours",
        "Behaviours",
        f'<p class="about"><strong>{words_of_behaviours(classes)}.</strong> No two policies of a '
        f"behaviour are told apart by a test of all pairs (of the pairs told apart, at most "
        f"{100 * classes.rate:.0f} % are the same, on average). Policies of different behaviours "
        "may not be told apart either, and chance may part a few that are the same; more episodes "
        "tell more apart.</p>",
        f'<div class="scroll tall">{shown}</div>',
        cut_note(len(lines), "behaviours; map.csv holds all of them"),
    )


def words_of_behaviours(classes: Behaviours) -> str:
    """Say how many behaviours there are.

    Examples
    --------
    >>> words_of_behaviours(Behaviours((1, 1, 2, None), (0, 2), 0.05))
    '3 policies, 2 behaviours; 1 more has too few episodes for a test'
    """
    n, untested = len(classes), len(classes.numbers) - classes.n_policies
    rest = f"; {thousands(untested)} more {'has' if untested == 1 else 'have'} too few episodes"
    return (
        f"{n_policies(classes.n_policies)}, {thousands(n)} behaviour{'s' * (n != 1)}"
        f"{f'{rest} for a test' if untested else ''}"
    )


def _line(report: ReportData, number: int, medoid: int, rows: list[int]) -> str:
    returns = np.array([report.rows[i].mean_return for i in rows])
    known = returns[np.isfinite(returns)]
    mean = float(known.mean()) if len(known) else float("nan")
    names = ", ".join(shown_text(report.rows[i].label) for i in rows[:MAX_NAMES])
    more = f" and {thousands(len(rows) - MAX_NAMES)} more" if len(rows) > MAX_NAMES else ""
    return (
        f"<tr>{count_cell(number)}"
        f'<th scope="row">{shown_text(report.rows[medoid].label)}</th>'
        f"{count_cell(len(rows))}{number_cell(rounded(mean), mean)}"
        f'<td class="src">{names}{more}</td></tr>'
    )
