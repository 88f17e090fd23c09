"""The part of the page that can be explored: tools, map and panel; a picture without scripts."""

from __future__ import annotations

from html import escape

from pivec.report.columns import page_data
from pivec.report.data import ReportData, compared
from pivec.report.markup import filled, json_for_script, picture, section
from pivec.report.sections.map import METHOD_NAMES, alike_pairs, map_figure
from pivec.text import n_policies, thousands


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
