"""What a comparison leaves behind: tables, figures and one page.

- `PolicyRow`, `PairRow`, `ReportData`: what is known about the policies compared.
- `write_distances`, `write_pairs_csv`, `write_map_csv`: tables.
- `Comparison`: all of it in memory, with plots.
- `map_figure`, `distances_figure`, and `save_png`: pictures.
- `write_report`: one HTML file that opens without a network; sections/ holds its parts.
- explained/: what explanations look like, on the terminal and as pages.
"""

from __future__ import annotations

from pivec.canvas import save_png
from pivec.report.compared import Comparison
from pivec.report.data import PairRow, PolicyRow, ReportData, pair_rows, policy_rows
from pivec.report.page import write_report
from pivec.report.sections.distances import distances_figure, matrix_figure
from pivec.report.sections.groups import groups_figure
from pivec.report.sections.map import alike_pairs, map_figure
from pivec.report.tables import distances_file, write_distances, write_map_csv, write_pairs_csv

__all__ = [
    "Comparison",
    "PairRow",
    "PolicyRow",
    "ReportData",
    "alike_pairs",
    "distances_figure",
    "distances_file",
    "groups_figure",
    "map_figure",
    "matrix_figure",
    "pair_rows",
    "policy_rows",
    "save_png",
    "write_distances",
    "write_map_csv",
    "write_pairs_csv",
    "write_report",
]
