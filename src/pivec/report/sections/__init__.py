"""The sections of the page: a module each, with its figure, its table and its text.

A section is a function from a report to markup, empty if there is nothing to show.
"""

from __future__ import annotations

from collections.abc import Callable

from pivec.report.data import ReportData
from pivec.report.sections.behaviours import behaviours_section
from pivec.report.sections.explore import explore_section
from pivec.report.sections.groups import groups_section
from pivec.report.sections.heatmap import distances_section
from pivec.report.sections.made import made_section
from pivec.report.sections.notices import notices_section
from pivec.report.sections.policies import policies_section
from pivec.report.sections.reading import reading_section
from pivec.report.sections.travel import travel_section

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
