"""What a comparison leaves behind: tables, figures and one page.

- `PolicyRow`, `PairRow`, `ReportData`: what is known about the policies compared.
- `write_distances`, `write_pairs_csv`, `write_map_csv`: tables.
- `Comparison`: all of it in memory, with plots.
- `map_figure`, `distances_figure`, and `save_png`: pictures.
- `write_report`: one HTML file that opens without a network; sections/ holds its parts.
- explained/: what explanations look like, on the terminal and as pages.
"""

from __future__ import annotations

from pivec.report.answers import plan_json, print_plan, print_sameness, say_json, write_junit
from pivec.report.comparison import SPACE, STATES, Comparison, distances_in, subtitle_of
from pivec.report.console import (
    print_environment,
    print_groups,
    print_normalisers,
    print_store,
    print_summary,
)
from pivec.report.distances_figure import matrix_figure
from pivec.report.evaluation_figure import draw_evaluation
from pivec.report.explained import (
    group_difference_html,
    print_difference,
    print_group_difference,
    print_run,
    print_unusual,
    run_html,
    say_written,
    write_difference,
    write_overview,
    write_page,
    write_regions_page,
    write_unusual,
)
from pivec.report.findings import PolicyRow, ReportData, behaviours_in, pair_rows, policy_rows
from pivec.report.groups import compare_groups, groups_in
from pivec.report.groups_section import groups_figure
from pivec.report.landmarks import LandmarkMap
from pivec.report.layout import place, positions_of, tsne_map
from pivec.report.map_figure import alike_pairs
from pivec.report.page import (
    content_policy,
    key_figures,
    report_html,
    script,
    summary,
    write_report,
)
from pivec.report.tables import distances_file, write_distances, write_map_csv, write_pairs_csv

__all__ = [
    "Comparison",
    "LandmarkMap",
    "PolicyRow",
    "ReportData",
    "SPACE",
    "STATES",
    "alike_pairs",
    "behaviours_in",
    "compare_groups",
    "content_policy",
    "distances_file",
    "distances_in",
    "draw_evaluation",
    "group_difference_html",
    "groups_figure",
    "groups_in",
    "key_figures",
    "matrix_figure",
    "pair_rows",
    "place",
    "plan_json",
    "policy_rows",
    "positions_of",
    "print_difference",
    "print_environment",
    "print_group_difference",
    "print_groups",
    "print_normalisers",
    "print_plan",
    "print_run",
    "print_sameness",
    "print_store",
    "print_summary",
    "print_unusual",
    "report_html",
    "run_html",
    "say_json",
    "say_written",
    "script",
    "subtitle_of",
    "summary",
    "tsne_map",
    "write_difference",
    "write_distances",
    "write_junit",
    "write_map_csv",
    "write_overview",
    "write_page",
    "write_pairs_csv",
    "write_regions_page",
    "write_report",
    "write_unusual",
]
