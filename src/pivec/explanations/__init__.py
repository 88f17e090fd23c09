"""What differs: between two policies, along a run, between groups of runs, and within a policy.

folder.py   what a comparison folder holds: its space and its states
names.py    names of features with their units, and names of regions
replay.py   episodes replayed from their seeds
clips.py    frames of states and clips of episodes
regions.py  the regions of a space: who visits them, when, and states near their centres
pairs.py    what differs between two policies
spans.py    spans of a feature in which policies spend different shares of their time
runs.py     what changed along a training run
groups.py   what the runs of a group have in common
unusual.py  unusual episodes, and states outside of what a space covers

Functions take a comparison: its folder, the result of `pivec.compare`, or a `ComparisonFolder`.
"""

from __future__ import annotations

from pivec.explanations.clips import Clip, make_clips, record_episodes
from pivec.explanations.folder import ComparisonFolder, comparison_folder, stored_states
from pivec.explanations.groups import (
    Contrast,
    GroupExplanation,
    explain_groups,
    leading_contrasts,
    percent_range,
)
from pivec.explanations.names import Feature, features_of, region_names
from pivec.explanations.pairs import (
    FOLDER,
    Overview,
    PairExplanation,
    Shift,
    explain_pair,
    leading_regions,
    pair_folder,
    plan_first_episode,
    with_media,
)
from pivec.explanations.regions import Frame, Regions, RegionSummary, Visit, summarize_regions
from pivec.explanations.replay import CannotReplay, Replayer
from pivec.explanations.runs import Change, Phase, RunExplanation, explain_run
from pivec.explanations.unusual import (
    Coverage,
    Unusual,
    UnusualEpisode,
    coverage_radius,
    find_unusual,
    measure_coverage,
    policy_coverage,
    warn_uncovered,
)

__all__ = [
    "FOLDER",
    "CannotReplay",
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
    "comparison_folder",
    "coverage_radius",
    "explain_groups",
    "explain_pair",
    "explain_run",
    "features_of",
    "find_unusual",
    "leading_contrasts",
    "leading_regions",
    "make_clips",
    "measure_coverage",
    "pair_folder",
    "percent_range",
    "plan_first_episode",
    "policy_coverage",
    "record_episodes",
    "region_names",
    "stored_states",
    "summarize_regions",
    "warn_uncovered",
    "with_media",
]
