"""Rollouts: policies act in environments, and the states they visit are recorded.

environment.py    an environment by name or factory, with wrappers; which one the policies need
atari.py          Atari with the usual preprocessing; Procgen
games.py          multi-agent environments (PettingZoo), in which policies control one agent
observations.py   batches of observations as rows of numbers
features.py       ``features=``: other states than flattened observations
episodes.py       seeds, episodes, their record while they are played, thinning
lanes.py          environments side by side
array_lanes.py    the same on arrays, equal to Gymnasium's to the last bit
backends.py       which of these is used; EnvPool
actors.py         actions of many policies for the observations of all lanes
play.py           the rollout loop, in this process or in several

Environments and features are described by JSON objects (``to_json``), as stores keep them.
"""

from __future__ import annotations

from pivec.rollouts.array_lanes import choose_array_lanes
from pivec.rollouts.backends import BACKENDS, choose_backend, make_lanes
from pivec.rollouts.environment import (
    ENVIRONMENT,
    GAME,
    ID,
    Environment,
    close,
    environment_of,
    failure,
    split_arguments,
)
from pivec.rollouts.episodes import (
    Episode,
    EpisodeRecorder,
    PlayedPolicy,
    PolicyEpisodes,
    Quota,
    action_stream,
    episode_seeds,
)
from pivec.rollouts.features import (
    GreyCells,
    OffsetFeatures,
    PolicyLatent,
    Values,
    encoder_bytes,
    feature_rows,
    features_from_json,
    features_to_json,
    find_features_again,
    find_reference,
    load_features,
    n_inputs,
    read_encoder,
)
from pivec.rollouts.lanes import GymnasiumLanes, Layout, Probe
from pivec.rollouts.observations import (
    Offsets,
    feature_names,
    flatten,
    is_wide,
    lost_features,
    offset_names,
)
from pivec.rollouts.play import bind, play_here, play_policies

__all__ = [
    "BACKENDS",
    "ENVIRONMENT",
    "GAME",
    "ID",
    "Environment",
    "Episode",
    "EpisodeRecorder",
    "GreyCells",
    "GymnasiumLanes",
    "Layout",
    "OffsetFeatures",
    "Offsets",
    "PlayedPolicy",
    "PolicyEpisodes",
    "PolicyLatent",
    "Probe",
    "Quota",
    "Values",
    "action_stream",
    "bind",
    "choose_array_lanes",
    "choose_backend",
    "close",
    "encoder_bytes",
    "environment_of",
    "episode_seeds",
    "failure",
    "feature_names",
    "feature_rows",
    "features_from_json",
    "features_to_json",
    "find_features_again",
    "find_reference",
    "flatten",
    "is_wide",
    "load_features",
    "lost_features",
    "make_lanes",
    "n_inputs",
    "offset_names",
    "play_here",
    "play_policies",
    "read_encoder",
    "split_arguments",
]
