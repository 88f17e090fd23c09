"""How a policy is described: one file for each way, one contract for all.

base.py           the contract: fit, describe, distances, save
descriptions.py   what describe returns: one row a policy
registry.py       the names, and `characterization(name, ...)` that makes one
views.py          what is described: states, (state, action) or (state, next state)
cells.py          sparse histograms and the distances between them
networks/         what the trained characterizations share: batched networks, sequence encoders
space.py          a fitted characterization on disk, with the policies it has described

One file for each characterization, named after it: see `names()`.
"""

from __future__ import annotations

from pivec.characterizations.background import BackgroundModel, region_ranges
from pivec.characterizations.base import Characterization
from pivec.characterizations.decomposition import (
    OFTEN,
    USUAL,
    WHERE,
    WIDE,
    Explanation,
    explanation_figure,
    share_ends,
)
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.gaussian import Gaussian
from pivec.characterizations.network_method import NetworkCharacterization
from pivec.characterizations.refits import background_share, background_words
from pivec.characterizations.registry import characterization, names
from pivec.characterizations.resampling import described_spread, rests, without_noise
from pivec.characterizations.space import Space, grown_space, space_beside
from pivec.characterizations.supervector import Supervector
from pivec.characterizations.visitation import Visitation

__all__ = [
    "BackgroundModel",
    "Characterization",
    "Descriptions",
    "Explanation",
    "Gaussian",
    "NetworkCharacterization",
    "OFTEN",
    "Space",
    "Supervector",
    "USUAL",
    "Visitation",
    "WHERE",
    "WIDE",
    "background_share",
    "background_words",
    "characterization",
    "described_spread",
    "explanation_figure",
    "grown_space",
    "names",
    "region_ranges",
    "rests",
    "share_ends",
    "space_beside",
    "without_noise",
]
