"""One HTML file that shows a comparison and opens without a network.

Everything that comes from files or the command line is escaped where it is put into the page
(`pivec.report.markup`); the script sets text as text only. A content security policy forbids to
load anything.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np
from scipy.spatial.distance import squareform

from pivec.files import atomic_write
from pivec.report.behaviours_section import behaviours_section
from pivec.report.distances_figure import distances_section
from pivec.report.findings import (
    PolicyRow,
    ReportData,
    colours_of_groups,
    compared,
    in_order,
    training_runs,
)
from pivec.report.groups_section import groups_section
from pivec.report.map_figure import METHOD_NAMES, alike_pairs, map_figure
from pivec.report.markup import (
    MAX_ROWS,
    count_cell,
    cut_note,
    dot,
    filled,
    json_for_script,
    number_cell,
    paper_note,
    picture,
    resource,
    section,
    shown_text,
)
from pivec.report.page_data import page_data
from pivec.report.pairs_section import count_alike
from pivec.report.travel_section import travel_section
from pivec.run_log import versions
from pivec.statistics.measure import LEVEL
from pivec.terminal import Notice, encodable
from pivec.text import n_policies, percent, rounded, thousands

# -----------------------------------------------------------------------------
# The page's script and styles: the files of web/ as one text each.


ENTRY, BUILT = "main.js", "built/script.js"
STYLES = ("page.css", "explore.css", "map.css", "panel.css", "tables.css", "live.css", "print.css")
_IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"\./([\w.-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+", re.MULTILINE)


def script() -> str:
    """Give the script of the page: the modules of web/, joined and made small by `make page`."""
    return resource(BUILT).partition("\n")[2]


def joined() -> str:
    """Join the modules, each after those it imports; names at the top level are shared by all."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in parts:
            return
        source = resource(name)
        parts[name] = ""  # modules may import each other
        for other in _IMPORT.findall(source):
            add(other)
        del parts[name]  # after what it needs
        parts[name] = _EXPORT.sub("", _IMPORT.sub("", source))

    add(ENTRY)
    return '"use strict";\n(() => {\n' + "".join(parts.values()) + "})();\n"


def styles() -> str:
    """Join the styles."""
    return "".join(resource(name) for name in STYLES)


def fingerprint(code: str) -> str:
    """Name a script as a content policy does: no other may run.

    Examples
    --------
    >>> fingerprint("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def content_policy(code: str = "", *more: str) -> str:
    """Forbid to load anything but pictures beside the page, and to run anything but its script."""
    runs = fingerprint(code) if code else "'none'"
    rules = (
        "default-src 'none'",
        "img-src 'self' data:",
        "style-src 'unsafe-inline'",
        f"script-src {runs}",
        "base-uri 'none'",
        "form-action 'none'",
        *more,
    )
    return "; ".join(rules)


# -----------------------------------------------------------------------------
# How the comparison was made: command, settings, timings, versions.


def made_section(report: ReportData) -> str:
    """Show what run.json holds."""
    log = report.log
    command = f'<pre class="command">{shown_text(log.command)}</pre>' if log.command else ""
    timings = {key: f"{seconds:.3g} s" for key, seconds in log.timings.items()}
    if len(timings) > 1:
        timings["in all"] = f"{sum(log.timings.values()):.3g} s"
    tables = (
        _facts("Settings", log.settings)
        + _facts("Time taken", timings)
        + _facts("Versions", versions())
    )
    return section("made", "How it was made", f'{command}<div class="facts">{tables}</div>')


def _facts(heading: str, facts: Mapping[str, Any]) -> str:
    if not facts:
        return ""
    body = "".join(
        f"<tr><td>{shown_text(str(key))}</td><td>{shown_text(_text(value))}</td></tr>"
        for key, value in facts.items()
    )
    return f"<div><h3>{heading}</h3><table><tbody>{body}</tbody></table></div>"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={part}" for key, part in value.items())
    return str(value)


# -----------------------------------------------------------------------------
# What to know about the run: pivec's own warnings, and folded away those of other packages.


def notices_section(report: ReportData) -> str:
    """List the warnings that were raised on the way."""
    own = [notice for notice in report.log.warnings if notice.own]
    others = [notice for notice in report.log.warnings if not notice.own]
    if not own and not others:
        return ""
    folded = (
        f'<details class="note"><summary>Warnings of other packages ({len(others)})</summary>'
        f"{_list(others)}</details>"
    )
    return section(
        "notices",
        "What to know about this run",
        _list(own) if own else "",
        folded if others else "",
    )


def _list(notices: Sequence[Notice]) -> str:
    items = (
        f"<li>{'' if notice.own else f'{shown_text(notice.kind)}: '}{shown_text(notice.text)}"
        f"{f' ({thousands(notice.times)} times)' if notice.times > 1 else ''}</li>"
        for notice in notices[:MAX_ROWS]
    )
    rest = len(notices) - MAX_ROWS
    more = f"<li>and {thousands(rest)} more, see run.json</li>" if rest > 0 else ""
    return f'<ul class="notices">{"".join(items)}{more}</ul>'


# -----------------------------------------------------------------------------
# The table of policies.


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


# -----------------------------------------------------------------------------
# How to read the page: how policies are compared, how sure that is, and what the map shows.


TSNE_MAP = (
    "On the map, neighbours are policies that behave alike. The space between far-apart clusters, "
    "the directions and the absolute size carry no meaning: read distances from the heatmap and "
    "the tables."
)
LINEAR_MAP = (
    "With so few policies the map is a linear projection: the length of the way between two points "
    "is about the square root of their distance, as far as two dimensions can show it. Directions "
    "carry no meaning."
)
# How sure a distance is, where there are intervals and where there are none.
SURE = f"""
<p>All numbers are estimates from a limited number of episodes. The {percent(LEVEL)} interval of a
distance says what these episodes leave open: of 100 such intervals about {100 * LEVEL:.0f} hold the
distance that endless episodes would give. What chance alone adds to a distance has been taken off:
two samples of one policy are 0 apart on average.</p>
<p>Where chance explains a distance, the two policies <strong>cannot be told apart</strong>: they
behave alike, or they differ by no more than the upper end of the interval, and more episodes would
show it. Among many pairs of equal policies, a few in a hundred look different by chance, which is
accounted for: of all pairs that are told apart (q up to 0.05 in pairs.csv), at most one in twenty
is such an error, on average. An interval is about its own pair alone.</p>
<p>Intervals assume that the episodes of a policy are independent of each other. They speak of the
chance in the episodes, not of that in training: another run of the same algorithm may be farther
away. From three or five episodes an interval is only a rough one.</p>
"""
NOT_SURE = """
<p>All numbers are estimates from a limited number of episodes, and here it is not known how good
they are. One policy measured twice, in different episodes, has a small distance from itself too:
differences of that size say nothing.</p>
"""
OVERLAP = """
<p><strong>In different places</strong> is the share of its time that one policy would have to spend
elsewhere to be as often in every place as the other: 0 % if both are everywhere equally often,
100 % if neither is ever where the other is. A place is a region of states that are alike; the
regions are the same for all policies. What a policy does within a region does not count here, but
it does in the distance.</p>
"""


def reading_section(report: ReportData) -> str:
    """Explain the characterization in its own words, then what holds for all."""
    paragraphs = [part for part in re.split(r"\n\s*\n", report.method.strip()) if part]
    method = "".join(f"<p>{shown_text(' '.join(part.split()))}</p>" for part in paragraphs)
    formula = report.formula.strip()
    if formula:
        method += f'<p class="formula">{escape(formula)}</p>'
    on_map = LINEAR_MAP if report.map_method in ("pca", "mds") else TSNE_MAP
    parts = {"method": method, "map": on_map, "sure": _how_sure(report)}
    prose = filled("reading.html", parts)
    return section("reading", "How to read this", prose)


def _how_sure(report: ReportData) -> str:
    """Explain what an interval says, and the overlap."""
    measured = report.measured
    shared = OVERLAP if np.isfinite(measured.nearest.overlap).any() else ""
    words = SURE if measured.n_known else NOT_SURE
    stopped = report.log.settings.get("precision")  # what `compare(until=)` did
    words += f"<p>Here {shown_text(str(stopped))}.</p>" if stopped else ""
    return f'<h3 id="sure">How sure a distance is</h3>{words}{shared}'


# -----------------------------------------------------------------------------
# The part of the page that can be explored: tools, map and panel; a picture without scripts.


def explore_section(report: ReportData) -> str:
    """Show the map as a picture, which the script replaces by one that can be explored."""
    rows = report.rows
    n_own = len(compared(rows))
    method = METHOD_NAMES.get(report.map_method, report.map_method)
    joins = alike_pairs(report.measured)
    about = "Each point is a policy; policies that visit similar states lie close together."
    if joins:
        about += " Pale bands join policies that cannot be told apart, each to its nearest ones."
    if method:
        laid_out = "The plane was laid out by" if report.map_method == "tsne" else "Layout:"
        about += f" {laid_out} {method}."
    earlier = f"{thousands(len(rows) - n_own)} of an earlier map" if n_own < len(rows) else ""
    shown = (report.environment, n_policies(n_own), earlier, method)
    words = " · ".join(part for part in shown if part)
    figure = map_figure(rows, words, joins=joins, two_rows=True)
    parts = {
        "about": escape(about),
        "label": f"Map of {n_own} policies in the plane; the table below lists them with their "
        "returns.",
        "png": picture(figure),
        "data": json_for_script(page_data(report)),
    }
    return section("map-heading", "Map", filled("explore.html", parts))


# -----------------------------------------------------------------------------
# The sections of the page: a module each, with its figure, its table and its text.
#
# A section is a function from a report to markup, empty if there is nothing to show.


# In the order of the page.
SECTIONS: tuple[Callable[[ReportData], str], ...] = (
    notices_section,
    explore_section,
    distances_section,
    behaviours_section,
    groups_section,
    travel_section,
    policies_section,
    reading_section,
    made_section,
)


def write_report(path: str | os.PathLike[str], report: ReportData) -> None:
    """Write a page with the map, the distances, the runs and the table of policies.

    What was there is replaced when the new page is whole.
    """
    page = report_html(report)
    with atomic_write(path, "w") as file:
        file.write(encodable(page))


def report_html(report: ReportData, live: str = "") -> str:
    """Make the page that `write_report` writes.

    ``live`` is the version of the data, where a server sends the page, which then asks it for more.
    """
    code, report = script(), replace(report, live=live)
    sections = (section(report) for section in SECTIONS)
    title = f"Behaviour in {report.environment}" if report.environment else "Behaviour of policies"
    return filled(
        "page.html",
        {
            "title": shown_text(title),
            "heading": shown_text(title),
            "skip": '<a class="skip" href="#policies">Skip to the table of policies</a>',
            "environment": "",  # the heading names it
            "summary": escape(summary(report)),
            "figures": "".join(
                f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
                for name, value in key_figures(report).items()
            ),
            "sections": "\n".join(section for section in sections if section),
            "version": shown_text(versions().get("pivec", "")),
            "policy": content_policy(code, *(["connect-src 'self'"] if live else [])),
            "style": styles(),
            "script": code,
        },
    )


def summary(report: ReportData) -> str:
    """Say in a sentence what was compared."""
    n_own, n_runs = len(compared(report.rows)), len(training_runs(report.rows))
    runs = f" from {thousands(n_runs)} training run{'s' * (n_runs != 1)}" if n_runs else ""
    rest = len(report.rows) - n_own
    context = f" {thousands(rest)} policies of an earlier map are shown in grey." if rest else ""
    return f"{n_policies(n_own)}{runs}, compared by the states they visit.{context}"


def key_figures(report: ReportData) -> dict[str, str]:
    """Give what a reader wants to know first, as text."""
    own, n_runs = compared(report.rows), len(training_runs(report.rows))
    states = sum(row.states for row in own)
    figures = {"policies": thousands(len(own))}
    if n_runs:
        figures["training runs" if n_runs > 1 else "training run"] = thousands(n_runs)
    figures["episodes"] = thousands(sum(row.episodes for row in own))
    figures["states visited"] = (
        f"{states / 1e9:.3g} billion" if states >= 1e9
        else f"{states / 1e6:.3g} M" if states >= 1e7 else thousands(states)
    )  # fmt: skip
    returns = [row.mean_return for row in own if np.isfinite(row.mean_return)]
    if returns:
        figures["best mean return"] = f"{max(returns):.4g}"
    if report.measured.estimates is not None and len(report.rows) > 1:
        pairs = squareform(report.measured.estimates, checks=False)
        figures["median distance"] = f"{np.median(pairs):.3g}"
    if report.behaviours:
        figures["behaviours"] = thousands(len(report.behaviours))
    if alike := count_alike(report):
        figures["pairs cannot be told apart"] = alike
    return figures
