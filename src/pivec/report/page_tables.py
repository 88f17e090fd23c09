"""The tables of the page, as HTML; every text from outside is escaped here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from pivec.maps import group_order
from pivec.notices import Notice
from pivec.report.data import ReportData
from pivec.report.text import rounded, thousands
from pivec.terminal import printable

# Rows of a table of policies or runs; the files beside the page hold all.
MAX_ROWS = 500


def shown_text(text: str) -> str:
    """Escape a text for HTML, control characters made visible.

    Examples
    --------
    >>> shown_text("<b>")
    '&lt;b&gt;'
    """
    return escape(printable(text))


def policies_html(report: ReportData, colours: Mapping[str, str]) -> tuple[str, str]:
    """Make the table of policies, and a note where it does not show all of them."""
    order = group_order(report.groups, report.steps)
    body = []
    for i in (int(row) for row in order[:MAX_ROWS]):
        reference = bool(report.is_reference[i])
        paint = "var(--reference)" if reference else colours.get(report.groups[i], "var(--lone)")
        step = report.steps[i]
        mean, spread = float(report.mean_returns[i]), float(report.return_stds[i])
        shown = rounded(mean)
        if not math.isnan(mean) and not math.isnan(spread):
            shown += f' <span class="pm">± {rounded(spread, 3)}</span>'
        body.append(
            f'<tr data-i="{i}"{" class=ref" if reference else ""}>'
            f'<th scope="row">{shown_text(report.labels[i])}</th>'
            f'<td class="name"><span class="dot" style="background:{paint}"></span>'
            f"{shown_text(report.groups[i]) or '–'}</td>"
            f"{_number_cell('–' if step is None else thousands(int(step)), step)}"
            f"{_number_cell(shown, mean)}"
            f"{_number_cell(thousands(int(report.n_episodes[i])), int(report.n_episodes[i]))}"
            f"{_number_cell(thousands(int(report.n_states[i])), int(report.n_states[i]))}"
            f'<td class="src">{shown_text(report.sources[i])}</td></tr>'
        )
    head = "".join(
        f'<th scope="col"{" class=n" if right else ""}>{name}</th>'
        for name, right in (
            ("Policy", False),
            ("Group", False),
            ("Step", True),
            ("Return ± std", True),
            ("Episodes", True),
            ("States", True),
            ("Source", False),
        )
    )
    table = (
        '<table class="sortable" id="policy-table"><caption class="unseen">All policies with '
        f"their returns</caption><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
        "</table>"
    )
    note = ""
    if len(report) > MAX_ROWS:
        note = (
            f'<p class="note">The table shows {thousands(MAX_ROWS)} of {thousands(len(report))} '
            "policies; map.csv holds all of them.</p>"
        )
    return table, note


def pairs_html(
    report: ReportData, pairs: Sequence[tuple[int, int, float]], heading: str, count: int = 5
) -> str:
    """Make a short table of pairs of policies and their distance."""
    if not pairs:
        return ""
    body = "".join(
        f'<tr><td class="name">{shown_text(report.labels[i])}</td>'
        f'<td class="name">{shown_text(report.labels[j])}</td>'
        f"{_number_cell(rounded(float(d)), float(d))}</tr>"
        for i, j, d in pairs[:count]
    )
    return (
        f'<h3>{escape(heading)}</h3><div class="scroll"><table><thead><tr><th scope="col">Policy'
        '</th><th scope="col">Policy</th><th scope="col" class="n">Distance</th></tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def travel_table_html(report: ReportData, colours: Sequence[str]) -> str:
    """Make the table of runs: how many checkpoints, from where to where, how far."""
    body = []
    for (group, steps, distances), paint in list(zip(report.travel, colours, strict=True))[
        :MAX_ROWS
    ]:
        total = float(distances[-1]) if len(distances) else math.nan
        mean = total / (len(steps) - 1) if len(steps) > 1 else math.nan
        first, last = (int(steps[0]), int(steps[-1])) if len(steps) else (None, None)
        body.append(
            f'<tr><th scope="row"><span class="dot" style="background:{paint}"></span>'
            f"{shown_text(group)}</th>{_number_cell(str(len(steps)), len(steps))}"
            f"{_number_cell('–' if first is None else thousands(first), first)}"
            f"{_number_cell('–' if last is None else thousands(last), last)}"
            f"{_number_cell(rounded(total), total)}{_number_cell(rounded(mean), mean)}</tr>"
        )
    heads = ("Checkpoints", "First step", "Last step", "Distance travelled", "Mean a checkpoint")
    note = ""
    if len(report.travel) > MAX_ROWS:
        note = (
            f'<p class="note">The table shows {thousands(MAX_ROWS)} of '
            f"{thousands(len(report.travel))} runs.</p>"
        )
    columns = "".join(f'<th scope="col" class="n">{head}</th>' for head in heads)
    return (
        '<div class="scroll tall"><table class="sortable"><thead><tr><th scope="col">Run</th>'
        f"{columns}</tr></thead><tbody>{''.join(body)}</tbody></table></div>{note}"
    )


def facts_html(report: ReportData) -> str:
    """Make the part on how the comparison was made: command, settings, timings, versions."""
    parts = []
    if report.command:
        parts.append(f'<pre class="command">{shown_text(report.command)}</pre>')
    timings = {key: f"{seconds:.3g} s" for key, seconds in report.timings.items()}
    if len(timings) > 1:
        timings["in all"] = f"{sum(report.timings.values()):.3g} s"
    tables = [
        _facts_table("Settings", report.settings),
        _facts_table("Time taken", timings),
        _facts_table("Versions", report.versions),
    ]
    return "".join(parts) + f'<div class="facts">{"".join(tables)}</div>'


def notices_html(report: ReportData) -> str:
    """Make the list of warnings: pivec's own, and folded away those of other packages."""
    own = [row for row in report.notices if row.own]
    others = [row for row in report.notices if not row.own]
    if not report.notices:
        return ""
    folded = (
        f'<details class="note"><summary>Warnings of other packages ({len(others)})</summary>'
        f"{_notice_list(others)}</details>"
    )
    return (
        '<section aria-labelledby="notices"><h2 id="notices">What to know about this run</h2>'
        f"{_notice_list(own) if own else ''}{folded if others else ''}</section>"
    )


def _notice_list(notices: Sequence[Notice]) -> str:
    items = (
        f"<li>{'' if row.own else f'{shown_text(row.kind)}: '}{shown_text(row.text)}"
        f"{f' ({thousands(row.times)} times)' if row.times > 1 else ''}</li>"
        for row in notices[:MAX_ROWS]
    )
    rest = len(notices) - MAX_ROWS
    more = f"<li>and {thousands(rest)} more, see run.json</li>" if rest > 0 else ""
    return f'<ul class="notices">{"".join(items)}{more}</ul>'


def _facts_table(heading: str, facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    body = "".join(
        f"<tr><td>{shown_text(str(key))}</td><td>{shown_text(str(value))}</td></tr>"
        for key, value in facts.items()
    )
    return f"<div><h3>{escape(heading)}</h3><table><tbody>{body}</tbody></table></div>"


def _number_cell(shown: str, value: float | None) -> str:
    """Make a cell that sorts by its value; ``shown`` is markup made here, never outside text."""
    known = value is not None and math.isfinite(value)
    return f'<td class="n"{f" data-v={value!r}" if known else ""}>{shown}</td>'
