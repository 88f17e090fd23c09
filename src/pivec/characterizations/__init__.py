"""How a policy is described: one contract, one module per family.

base.py           the contract: `Characterization`, its `Traits`, and `characterization(name, ...)`
descriptions.py   what `describe` returns, one row per policy
sampling.py       influences of episodes, the jackknife and the permutation test
decomposition.py  parts of a distance by region, kind and feature
measurement.py    `measure`: all distances between many policies
rows.py           what is described: states, (state, action) pairs or transitions
space.py          a fitted characterization on disk, with the policies it has described
background.py     visitation, supervector: a Gaussian mixture of all states
distributions.py  gaussian, mmd, sliced-wasserstein
discretization.py discretization, transitions: histograms over a grid
episodes.py       returns, terminal-state, trajectories
policies.py       actions, parameters: the policies themselves
networks.py       discriminator, skill-discriminator, state-actions, encoder, trajectory-encoder
                  (networks in torch_networks.py)

The classes of all characterizations are imported from `pivec`, which loads their modules only when
they are used.
"""

from __future__ import annotations

from pivec.characterizations.background import (
    BackgroundModel,
    Supervector,
    Visitation,
    background_share,
    background_words,
    region_ranges,
)
from pivec.characterizations.base import Characterization, Traits, characterization, names
from pivec.characterizations.decomposition import (
    OFTEN,
    USUAL,
    WHERE,
    WIDE,
    Decomposition,
    decomposition_figure,
    share_ends,
)
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.measurement import WHOLE, Measured, measure
from pivec.characterizations.sampling import without_noise
from pivec.characterizations.space import Space, grown_space, space_beside

__all__ = [
    "OFTEN",
    "USUAL",
    "WHERE",
    "WHOLE",
    "WIDE",
    "BackgroundModel",
    "Characterization",
    "Decomposition",
    "Descriptions",
    "Measured",
    "Space",
    "Supervector",
    "Traits",
    "Visitation",
    "background_share",
    "background_words",
    "characterization",
    "decomposition_figure",
    "grown_space",
    "measure",
    "names",
    "region_ranges",
    "share_ends",
    "space_beside",
    "without_noise",
]
