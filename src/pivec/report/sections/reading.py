"""How to read the page: how policies are compared, and what the map shows of it."""

from __future__ import annotations

import re
from html import escape

from pivec.report.data import ReportData
from pivec.report.markup import filled, section, shown_text

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


def reading_section(report: ReportData) -> str:
    """Explain the characterization in its own words, then what holds for all."""
    paragraphs = [part for part in re.split(r"\n\s*\n", report.method.strip()) if part]
    method = "".join(f"<p>{shown_text(' '.join(part.split()))}</p>" for part in paragraphs)
    formula = report.formula.strip()
    if formula:
        method += f'<p class="formula">{escape(formula)}</p>'
    on_map = LINEAR_MAP if report.map_method in ("pca", "mds") else TSNE_MAP
    prose = filled("reading.html", {"method": method, "map": on_map})
    return section("reading", "How to read this", prose)
