"""Acting: episode quotas, seeds, vectorised environments, many policies in lock-step.

environment.py          which environment, made from a name or a factory, with clear errors
fitting.py              which environment a policy fits, where nobody says
wrappers.py, atari.py   what is put around it
games.py, role_env.py   games of several agents, of which one role is played
procgen_games.py        games of Procgen, which knows the old Gym alone
named_objects.py        objects named on the command line: wrappers, features
spaces.py               batches of observations as rows of numbers
features.py             states that are something else than observations, found by name:
cells.py, encoders.py   grey cells, encoders in files
latent.py, seen.py      what a policy sees; values of infos and environments
seeds.py                one seed for each (seed, policy, episode)
lanes.py                environments side by side, each reset and stepped under our control
array_lanes.py          lanes on arrays, equal to Gymnasium's to the last bit
envpool_lanes.py        the same in EnvPool
quirks.py               what is peculiar about single environments and packages
backends.py             which of these is used
answers.py              how a group of policies answers the observations of all its lanes
episodes.py             what is kept of episodes while they are played and after
gather.py               episodes out of somebody else's loop
table.py                the loop: lanes, answers, record
play.py                 every policy plays exactly its episodes, here or in several processes
"""

from __future__ import annotations

from pivec.rollouts.backends import BACKENDS, Layout, choose_backend, make_lanes
from pivec.rollouts.environment import ENVIRONMENT, ID, Environment, close, environment_of, failure
from pivec.rollouts.episodes import Episode, Gatherer, PlayedPolicy, PolicyEpisodes, Quota
from pivec.rollouts.features import (
    encoder_bytes,
    feature_rows,
    find_features_features,
    name_of,
    same_policy,
)
from pivec.rollouts.games import GAME, joint_states
from pivec.rollouts.lanes import Probe
from pivec.rollouts.named_objects import split_arguments
from pivec.rollouts.observations import Centred, Offsets, is_wide, lost_features, moved_names
from pivec.rollouts.play import bind, play_here
from pivec.rollouts.seeds import action_stream, episode_seeds
from pivec.rollouts.seen import sees

__all__ = [
    "BACKENDS",
    "ENVIRONMENT",
    "GAME",
    "ID",
    "Centred",
    "Environment",
    "Episode",
    "Gatherer",
    "Layout",
    "Offsets",
    "PlayedPolicy",
    "PolicyEpisodes",
    "Probe",
    "Quota",
    "action_stream",
    "bind",
    "choose_backend",
    "close",
    "encoder_bytes",
    "environment_of",
    "episode_seeds",
    "failure",
    "feature_rows",
    "find_features_features",
    "is_wide",
    "joint_states",
    "lost_features",
    "make_lanes",
    "moved_names",
    "name_of",
    "play_here",
    "same_policy",
    "sees",
    "split_arguments",
]
