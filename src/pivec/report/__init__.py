"""What a comparison leaves behind: tables, figures and one page.

- `PolicyRow`, `ReportData`: what is known about the policies compared.
- `write_distances_csv`, `write_map_csv`: tables.
- `draw_map`, `draw_distances`: PNG files.
- `write_report`: one HTML file that opens without a network; sections/ holds its parts.
"""

from __future__ import annotations

from pivec.report.data import PolicyRow, ReportData, policy_rows
from pivec.report.page import write_report
from pivec.report.sections.distances import draw_distances
from pivec.report.sections.map import draw_map
from pivec.report.tables import write_distances_csv, write_map_csv

__all__ = [
    "PolicyRow",
    "ReportData",
    "draw_distances",
    "draw_map",
    "policy_rows",
    "write_distances_csv",
    "write_map_csv",
    "write_report",
]
