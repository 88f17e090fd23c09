"""Distances on the page: a heatmap that the script measures, a picture without it, and pairs."""

from __future__ import annotations

from pivec.distances import LEVEL
from pivec.report.data import ReportData
from pivec.report.markup import filled, picture, section
from pivec.report.sections.distances import ALT, distances_figure, has_groups
from pivec.report.sections.pairs import UNSURE, count_alike, pairs_tables
from pivec.report.tables import words_of_file
from pivec.text import percent

SWITCH = '<label class="tick"><input type="checkbox" id="certain"> Only what is certain</label>'
TOO_MANY = (
    '<p class="note print-only">There are too many policies for a picture of all distances; '
    "distances.png shows some of them.</p>"
    "<noscript><p>With scripts allowed, this page measures distances itself.</p></noscript>"
)


def distances_section(report: ReportData) -> str:
    """Show distances as a heatmap, and the nearest and the farthest pairs."""
    measured = report.measured
    if len(report.rows) < 2:
        return ""
    about = ["What is near fades into the page, what is far stands out."]
    if not has_groups(report.rows):
        about.append("Policies that are alike are neighbours.")
    elif measured.estimates is not None:
        about.append(
            "Policies of one run stand together, in order of training; runs that are alike are "
            "neighbours."
        )
    else:
        about.append("Policies of one run stand together, in order of training.")
    if measured.n_known:
        about.append(
            f"Under each distance in the tables is its {percent(LEVEL)} interval, see "
            '<a href="#sure">how sure a distance is</a>. '
            f"{count_alike(report)} pairs {UNSURE} with these episodes."
        )
    if words := words_of_file(measured):
        about.append(f"The file {words}.")
    parts = {"switch": SWITCH if measured.n_known else "", "picture": _picture(report)}
    tables = pairs_tables(report)
    return section(
        "distances",
        "Distances",
        f'<p class="about">{" ".join(about)}</p>',
        f'<div class="pair"><div>{filled("heatmap.html", parts)}</div><div>{tables}</div></div>',
    )


def _picture(report: ReportData) -> str:
    """Make the picture that paper and a page without its script show."""
    measured = report.measured
    if measured.estimates is None:
        return TOO_MANY
    figure = distances_figure(measured.estimates, report.rows, certain=measured.certain)
    return f'<img class="paper" id="heat-static" src="{picture(figure)}" alt="{ALT}">'
