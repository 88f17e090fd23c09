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
from pivec.explanations.clips import film_episodes
from pivec.explanations.films import alone, shot, with_films
from pivec.explanations.folder import Findings, folder_around, kept_states
from pivec.explanations.groups import (
    Contrast,
    GroupDifference,
    explain_groups,
    shown_contrasts,
    written,
)
from pivec.explanations.names import Feature, features_of, region_words
from pivec.explanations.outside import Outside, outside_of, space_reach, warn_of_outside
from pivec.explanations.pairs import (
    FOLDER,
    Clip,
    Difference,
    Overview,
    Shift,
    Still,
    explain,
    folder_of,
    measure_difference,
)
from pivec.explanations.regions import Region, Regions
from pivec.explanations.replay import Replayer
from pivec.explanations.runs import RunChanges, RunStep, explain_run
from pivec.explanations.unusual import Unusual, UnusualEpisode

__all__ = [
    "Change",
    "Clip",
    "Contrast",
    "Difference",
    "FOLDER",
    "Feature",
    "Findings",
    "GroupDifference",
    "Outside",
    "Overview",
    "Region",
    "Regions",
    "Replayer",
    "RunChanges",
    "RunStep",
    "Shift",
    "Still",
    "Unusual",
    "UnusualEpisode",
    "alone",
    "explain",
    "explain_groups",
    "explain_run",
    "features_of",
    "film_episodes",
    "folder_around",
    "folder_of",
    "kept_states",
    "measure_difference",
    "outside_of",
    "region_words",
    "shot",
    "shown_contrasts",
    "space_reach",
    "warn_of_outside",
    "with_films",
    "written",
]
