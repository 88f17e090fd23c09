"""What is shown of a comparison: figures, tables, pages and lines on the terminal.

findings            everything that is shown, computed once
layout              positions on the map and orders in heatmaps
policy_map          the map of policies as a picture
distance_figures    pictures of the heatmap, of runs and of groups of runs
write               the files of a comparison: CSV, PNG and report.html
pages, script_data  the page from templates/, and the data of its script in web/
explanation_pages   pages of explanations
console             what commands print
"""

from __future__ import annotations

from pivec.report.console import (
    plan_json,
    print_environment,
    print_group_explanation,
    print_groups,
    print_normalisers,
    print_pair,
    print_plan,
    print_run,
    print_store,
    print_summary,
    print_unusual,
    print_verdict,
    print_written,
    say_json,
    write_junit,
)
from pivec.report.distance_figures import (
    groups_figure,
    heatmap_figure,
    matrix_figure,
    permanova_sentence,
    travel_figure,
)
from pivec.report.evaluation import evaluation_figure
from pivec.report.explanation_pages import (
    group_explanation_html,
    overview_html,
    pair_html,
    regions_html,
    run_html,
    unusual_html,
)
from pivec.report.findings import (
    SPACE,
    STATES,
    Findings,
    PairRow,
    PolicyRow,
    PolicyTable,
    measure_space,
)
from pivec.report.groups import GroupComparison, GroupPair, RunGroup, compare_groups
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
    "GroupComparison",
    "GroupPair",
    "LandmarkMap",
    "PairRow",
    "PolicyRow",
    "PolicyTable",
    "RunGroup",
    "compare_groups",
    "content_policy",
    "decomposition_data",
    "evaluation_figure",
    "group_explanation_html",
    "groups_figure",
    "heatmap_figure",
    "key_figures",
    "map_figure",
    "matrix_figure",
    "measure_space",
    "overview_html",
    "page_data",
    "pair_html",
    "permanova_sentence",
    "place",
    "plan_json",
    "positions_of",
    "print_environment",
    "print_group_explanation",
    "print_groups",
    "print_normalisers",
    "print_pair",
    "print_plan",
    "print_run",
    "print_store",
    "print_summary",
    "print_unusual",
    "print_verdict",
    "print_written",
    "regions_html",
    "report_html",
    "run_html",
    "say_json",
    "script",
    "summary",
    "travel_figure",
    "tsne_map",
    "unusual_html",
    "write_distances",
    "write_junit",
    "write_map_csv",
    "write_page",
    "write_pairs_csv",
    "write_results",
]
