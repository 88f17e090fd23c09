"""How to read the page: how policies are compared, how sure that is, and what the map shows."""

from __future__ import annotations

import re
from html import escape

import numpy as np

from pivec.distances import LEVEL
from pivec.report.data import ReportData
from pivec.report.markup import filled, section, shown_text
from pivec.text import percent

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
