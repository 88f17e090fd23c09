"""What a comparison leaves behind: tables, figures and one page.

- `MapRows`, `ReportData`: what is known about the policies compared, as plain arrays.
- `write_distances_csv`, `write_map_csv` and their readers.
- `draw_map`, `draw_distances`, `draw_travel`: PNG files.
- `write_report`: one HTML file that opens without a network.
"""

from __future__ import annotations

from pivec.report.data import MapRows, ReportData
from pivec.report.figures import draw_distances, draw_map, draw_travel
from pivec.report.page import write_report
from pivec.report.tables import (
    read_distances_csv,
    read_map_csv,
    write_distances_csv,
    write_map_csv,
    write_neighbours_csv,
)

__all__ = [
    "MapRows",
    "ReportData",
    "draw_distances",
    "draw_map",
    "draw_travel",
    "read_distances_csv",
    "read_map_csv",
    "write_distances_csv",
    "write_map_csv",
    "write_neighbours_csv",
    "write_report",
]
