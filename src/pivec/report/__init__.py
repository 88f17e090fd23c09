"""What is shown of a comparison: figures, tables, pages and lines on the terminal.

findings           everything that is shown, computed once
layout             positions on the map and orders in heatmaps
policy_map         the map of policies; distance_figures: heatmap, runs, groups of runs
write              the files of a comparison: CSV, PNG and report.html
pages, script_data the page from templates/, and the data of its script in web/
explained          explanations on the terminal and as pages
console, answers   what commands print
"""

from __future__ import annotations

from pivec.report.answers import plan_json, print_plan, print_sameness, say_json, write_junit
from pivec.report.console import (
    print_environment,
    print_groups,
    print_normalisers,
    print_store,
    print_summary,
)
from pivec.report.distance_figures import groups_figure, heatmap_figure, travel_figure
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
    write_regions_page,
    write_unusual,
)
from pivec.report.findings import (
    SPACE,
    STATES,
    Findings,
    PairRow,
    PolicyRow,
    PolicyTable,
    distances_file,
    measure_space,
)
from pivec.report.groups import compare_groups
from pivec.report.layout import LandmarkMap, place, positions_of, tsne_map
from pivec.report.pages import (
    content_policy,
    key_figures,
    report_html,
    script,
    summary,
    write_page,
)
from pivec.report.policy_map import map_figure
from pivec.report.script_data import decomposition_data, page_data
from pivec.report.write import write_distances, write_map_csv, write_pairs_csv, write_results

__all__ = [
    "SPACE",
    "STATES",
    "Findings",
    "LandmarkMap",
    "PairRow",
    "PolicyRow",
    "PolicyTable",
    "compare_groups",
    "content_policy",
    "decomposition_data",
    "distances_file",
    "draw_evaluation",
    "group_difference_html",
    "groups_figure",
    "heatmap_figure",
    "key_figures",
    "map_figure",
    "measure_space",
    "page_data",
    "place",
    "plan_json",
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
    "summary",
    "travel_figure",
    "tsne_map",
    "write_difference",
    "write_distances",
    "write_junit",
    "write_map_csv",
    "write_overview",
    "write_page",
    "write_pairs_csv",
    "write_regions_page",
    "write_results",
    "write_unusual",
]
