"""What differs: the regions of a space and their faces, frames and clips, unusual episodes.

folder.py    what a comparison left: its space, its states, its environment
assigned.py  the region of every state
worded.py    words for regions and features
film/        episodes played again, pictures, clips
regions/     the regions of a space
pairs/       two policies
runs/        a training run
groups/      groups of runs
unusual/     unusual episodes and states
"""

from __future__ import annotations

from pivec.explanations.changes import Change
from pivec.explanations.clips import record_episodes
from pivec.explanations.films import alone, shot, with_media
from pivec.explanations.folder import ComparisonFolder, comparison_folder, stored_states
from pivec.explanations.groups import (
    Contrast,
    GroupExplanation,
    explain_groups,
    leading_contrasts,
    written,
)
from pivec.explanations.names import Feature, features_of, region_names
from pivec.explanations.outside import (
    Coverage,
    coverage_radius,
    measure_coverage,
    policy_coverage,
    warn_uncovered,
)
from pivec.explanations.pairs import (
    FOLDER,
    Clip,
    Overview,
    PairExplanation,
    Shift,
    explain,
    explain_pair,
    pair_folder,
)
from pivec.explanations.regions import Regions, RegionSummary, summarize_regions
from pivec.explanations.replay import Replayer
from pivec.explanations.runs import Phase, RunExplanation, explain_run
from pivec.explanations.unusual import Unusual, UnusualEpisode, find_unusual
from pivec.explanations.visits import Frame, Visit

__all__ = [
    "FOLDER",
    "Change",
    "Clip",
    "ComparisonFolder",
    "Contrast",
    "Coverage",
    "Feature",
    "Frame",
    "GroupExplanation",
    "Overview",
    "PairExplanation",
    "Phase",
    "RegionSummary",
    "Regions",
    "Replayer",
    "RunExplanation",
    "Shift",
    "Unusual",
    "UnusualEpisode",
    "Visit",
    "alone",
    "comparison_folder",
    "coverage_radius",
    "explain",
    "explain_groups",
    "explain_pair",
    "explain_run",
    "features_of",
    "find_unusual",
    "leading_contrasts",
    "measure_coverage",
    "pair_folder",
    "policy_coverage",
    "record_episodes",
    "region_names",
    "shot",
    "stored_states",
    "summarize_regions",
    "warn_uncovered",
    "with_media",
    "written",
]
