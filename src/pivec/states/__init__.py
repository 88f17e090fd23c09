"""States that policies visited: VisitedStates in memory, Store on disk, readers and writers.

visited.py   `VisitedStates`, three levels (policies, episodes, states), flat in memory
derived.py   joining, regrouping and thinning data, moves, parallel passes, moments
store.py     `Store`: a folder with an index and Arrow files
arrow.py     policies in Arrow files
folders.py   local and remote folders of a store
recorded.py  `RecordedStates`: states recorded by others, found and put together

Imported when they are needed:

readers.py   recorded states in tables and array files: naming arrays, dividing rows into episodes
minari.py    Minari datasets, read and written
robots.py    LeRobot, robomimic and RLDS datasets, and frames of their videos
export.py    a store for other tools: pandas, Parquet, .npz, Minari
recorder.py  `StateRecorder`: a store that grows while a user's own loop runs
"""

from __future__ import annotations

from pivec.states.derived import Moments as Moments
from pivec.states.derived import Sent as Sent
from pivec.states.derived import Span as Span
from pivec.states.derived import distinct_features as distinct_features
from pivec.states.derived import engine_for as engine_for
from pivec.states.derived import joined as joined
from pivec.states.derived import moments_of as moments_of
from pivec.states.derived import move_names as move_names
from pivec.states.derived import move_rows as move_rows
from pivec.states.derived import moves_of as moves_of
from pivec.states.derived import only_features as only_features
from pivec.states.derived import over_policies as over_policies
from pivec.states.derived import paired as paired
from pivec.states.derived import policy_ranges as policy_ranges
from pivec.states.derived import regrouped as regrouped
from pivec.states.derived import thin as thin
from pivec.states.derived import thinned_alike as thinned_alike
from pivec.states.derived import warn_of_constants as warn_of_constants
from pivec.states.folders import without_credentials as without_credentials
from pivec.states.recorded import RecordedPolicy as RecordedPolicy
from pivec.states.recorded import RecordedStates as RecordedStates
from pivec.states.recorded import dataset_episode as dataset_episode
from pivec.states.recorded import find_recorded as find_recorded
from pivec.states.recorded import import_recorded as import_recorded
from pivec.states.recorded import is_filmed as is_filmed
from pivec.states.recorded import is_recorded as is_recorded
from pivec.states.recorded import print_readings as print_readings
from pivec.states.recorded import read_recorded as read_recorded
from pivec.states.recorded import split_recorded as split_recorded
from pivec.states.store import Store as Store
from pivec.states.store import check_store_path as check_store_path
from pivec.states.store import json_digest as json_digest
from pivec.states.store import load as load
from pivec.states.visited import PolicyRecord as PolicyRecord
from pivec.states.visited import VisitedStates as VisitedStates
from pivec.states.visited import check_finite as check_finite
from pivec.states.visited import check_states as check_states
from pivec.states.visited import check_unique as check_unique
from pivec.states.visited import content_digest as content_digest
from pivec.states.visited import overlapping as overlapping
from pivec.states.visited import record_of as record_of
from pivec.states.visited import record_of_played as record_of_played
from pivec.states.visited import starts_of as starts_of
