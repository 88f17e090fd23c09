"""How to read the page: how policies are compared, and what the map shows of it."""

from __future__ import annotations

import re
from html import escape

from pivec.report.data import ReportData
from pivec.report.markup import section, shown_text

COMPARED = (
    "Policies are compared by <strong>what they do</strong>, that is by the states they visit, and "
    "not by their parameters or their score. Two policies with a small distance visit the same "
    "states about as often, even if they were trained in different ways; two policies with the "
    "same return can be far apart."
)
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
LINES = (
    "A line follows the checkpoints of one run in order of training; a ring marks the first and an "
    "arrow the last."
)
CHANCE = (
    "All numbers are estimates from a limited number of episodes. One policy measured twice, in "
    "different episodes, has a small distance from itself too: differences of that size say "
    "nothing."
)


def reading_section(report: ReportData) -> str:
    """Explain the characterization in its own words, then what holds for all."""
    method = [
        shown_text(" ".join(part.split()))
        for part in re.split(r"\n\s*\n", report.method.strip())
        if part
    ]
    formula = report.formula.strip()
    on_map = LINEAR_MAP if report.map_method in ("pca", "mds") else TSNE_MAP
    prose = (
        *(f"<p>{part}</p>" for part in method),
        f'<p class="formula">{escape(formula)}</p>' if formula else "",
        *(f"<p>{part}</p>" for part in (COMPARED, f"{on_map} {LINES}", CHANCE)),
    )
    return section("reading", "How to read this", f'<div class="prose">\n{"".join(prose)}\n</div>')
