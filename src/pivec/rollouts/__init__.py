"""Rollouts: policies act in environments, and the states they visit are recorded.

environment.py   an environment by name or factory, with wrappers; which one the policies need
observations.py  batches of observations as rows of numbers
features.py      ``features=``: other states than flattened observations
episodes.py      seeds, episodes, their record while they are played, thinning
lanes.py         environments side by side: Gymnasium, on arrays, EnvPool; which of them is used
actors.py        actions of many policies for the observations of all lanes
play.py          the rollout loop, in this process or in several

Imported when they are needed:

atari.py         Atari with the usual preprocessing; Procgen
games.py         multi-agent environments (PettingZoo), in which policies control one agent

Environments and features are described by JSON objects (``to_json``), as stores keep them.
"""

from __future__ import annotations

from pivec.rollouts.environment import BACKENDS as BACKENDS
from pivec.rollouts.environment import ENVIRONMENT as ENVIRONMENT
from pivec.rollouts.environment import GAME as GAME
from pivec.rollouts.environment import ID as ID
from pivec.rollouts.environment import Environment as Environment
from pivec.rollouts.environment import callable_to_json as callable_to_json
from pivec.rollouts.environment import close as close
from pivec.rollouts.environment import environment_of as environment_of
from pivec.rollouts.environment import environments_of as environments_of
from pivec.rollouts.environment import failure as failure
from pivec.rollouts.environment import split_arguments as split_arguments
from pivec.rollouts.episodes import Episode as Episode
from pivec.rollouts.episodes import EpisodeRecorder as EpisodeRecorder
from pivec.rollouts.episodes import PlayedPolicy as PlayedPolicy
from pivec.rollouts.episodes import PolicyEpisodes as PolicyEpisodes
from pivec.rollouts.episodes import Quota as Quota
from pivec.rollouts.episodes import action_stream as action_stream
from pivec.rollouts.episodes import episode_seeds as episode_seeds
from pivec.rollouts.episodes import kept_lengths as kept_lengths
from pivec.rollouts.episodes import kept_rows as kept_rows
from pivec.rollouts.episodes import row_times as row_times
from pivec.rollouts.features import GreyCells as GreyCells
from pivec.rollouts.features import OffsetFeatures as OffsetFeatures
from pivec.rollouts.features import PolicyLatent as PolicyLatent
from pivec.rollouts.features import Values as Values
from pivec.rollouts.features import encoder_bytes as encoder_bytes
from pivec.rollouts.features import feature_rows as feature_rows
from pivec.rollouts.features import features_from_json as features_from_json
from pivec.rollouts.features import features_to_json as features_to_json
from pivec.rollouts.features import find_features_again as find_features_again
from pivec.rollouts.features import find_reference as find_reference
from pivec.rollouts.features import load_features as load_features
from pivec.rollouts.features import n_inputs as n_inputs
from pivec.rollouts.features import read_encoder as read_encoder
from pivec.rollouts.lanes import GymnasiumLanes as GymnasiumLanes
from pivec.rollouts.lanes import Layout as Layout
from pivec.rollouts.lanes import Probe as Probe
from pivec.rollouts.lanes import choose_array_lanes as choose_array_lanes
from pivec.rollouts.lanes import choose_backend as choose_backend
from pivec.rollouts.lanes import make_lanes as make_lanes
from pivec.rollouts.observations import Offsets as Offsets
from pivec.rollouts.observations import feature_names as feature_names
from pivec.rollouts.observations import flatten as flatten
from pivec.rollouts.observations import is_wide as is_wide
from pivec.rollouts.observations import lost_features as lost_features
from pivec.rollouts.observations import offset_names as offset_names
from pivec.rollouts.play import bind as bind
from pivec.rollouts.play import play_here as play_here
from pivec.rollouts.play import play_policies as play_policies
