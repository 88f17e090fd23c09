"""How a policy is described: one contract, one module per family.

base.py           the contract: `Characterization` and its `Traits`
descriptions.py   what `describe` returns, one row per policy
registry.py       the names, and `characterization(name, ...)`
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
networks.py       discriminator, skill-discriminator, state-actions (networks in torch_mlp.py)
encoder.py        encoder, trajectory-encoder (networks in torch_vae.py)
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
from pivec.characterizations.base import Characterization, Traits
from pivec.characterizations.decomposition import (
    OFTEN,
    USUAL,
    WHERE,
    WIDE,
    Decomposition,
    RegionSummary,
    decomposition_figure,
    share_ends,
)
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.discretization import Discretization, Transitions
from pivec.characterizations.distributions import MMD, Gaussian, SlicedWasserstein
from pivec.characterizations.encoder import PolicyEncoder, TrajectoryEncoder
from pivec.characterizations.episodes import Returns, TerminalState, Trajectories
from pivec.characterizations.measurement import WHOLE, Measured, measure
from pivec.characterizations.networks import (
    Discriminator,
    NetworkCharacterization,
    SkillDiscriminator,
    StateActions,
)
from pivec.characterizations.policies import Actions, Parameters
from pivec.characterizations.registry import characterization, names
from pivec.characterizations.sampling import described_spread, without_noise
from pivec.characterizations.space import Space, grown_space, space_beside

__all__ = [
    "MMD",
    "OFTEN",
    "USUAL",
    "WHERE",
    "WHOLE",
    "WIDE",
    "Actions",
    "BackgroundModel",
    "Characterization",
    "Decomposition",
    "Descriptions",
    "Discretization",
    "Discriminator",
    "Gaussian",
    "Measured",
    "NetworkCharacterization",
    "Parameters",
    "PolicyEncoder",
    "RegionSummary",
    "Returns",
    "SkillDiscriminator",
    "SlicedWasserstein",
    "Space",
    "StateActions",
    "Supervector",
    "TerminalState",
    "Traits",
    "Trajectories",
    "TrajectoryEncoder",
    "Transitions",
    "Visitation",
    "background_share",
    "background_words",
    "characterization",
    "decomposition_figure",
    "described_spread",
    "grown_space",
    "measure",
    "names",
    "region_ranges",
    "share_ends",
    "space_beside",
    "without_noise",
]
