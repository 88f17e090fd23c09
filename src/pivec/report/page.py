"""One HTML file that shows a comparison and opens without a network.

Everything that comes from files or the command line is escaped where it is put into the page
(`pivec.report.markup`); the script sets text as text only. A content security policy forbids to
load anything.
"""

from __future__ import annotations

import os
from dataclasses import replace
from html import escape

import numpy as np
from scipy.spatial.distance import squareform

from pivec.atomic import atomic_write
from pivec.report.data import ReportData, compared, training_runs
from pivec.report.markup import filled, shown_text
from pivec.report.script import content_policy, script, styles
from pivec.report.sections import SECTIONS
from pivec.report.sections.pairs import count_alike
from pivec.run_log import versions
from pivec.terminal import encodable
from pivec.text import n_policies, thousands


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
