"""What was visited: VisitedStates in memory, the store on disk.

visited.py      `VisitedStates`, three levels (policies, episodes, states), flat in memory
record.py       what is kept of one policy; episodes that somebody recorded
arrays.py       building VisitedStates from plain arrays, with every mistake named
derived.py      data made of data: joined, regrouped, thinned
parts.py        going through states in parts, by the engine
moments.py      pooled mean and deviation, and features that are constant
arrow.py        policies in Arrow files: a record batch a policy, a row an episode
index.py        the index of a store, `store.json`
folder.py       the folder of a store: files are put there whole
remote.py       such a folder on object storage, with copies of its files here
shards.py       which policies of a large store lie in one file
shelf.py        the files behind an index: names, checksums, what a killed run left
store.py        `Store`: what is written, put together and loaded
recorder.py     `StateRecorder`: a store that grows while somebody else's loop runs
choosing.py     which policies of many are meant
recorded.py     states that others recorded: found, and read
recordings.py   such states alone, with no environment
files.py        files of them, by path, folder or glob
tables.py       tables with a row a state: Parquet, CSV, Feather, frames
columns.py      which column of a table tells what
log_rows.py     rows of a log, cut into episodes
hdf5.py         recorded episodes in D4RL's HDF5 files
npz.py          recorded episodes in .npz and .npy files
minari_data.py  recorded episodes in Minari datasets
export.py       a store for other tools: pandas, Parquet, .npz, Minari
"""

from __future__ import annotations

from pivec.states.arrays import check_states
from pivec.states.derived import (
    Moments,
    Sent,
    Span,
    engine_for,
    held,
    joined,
    moments_of,
    over_policies,
    regrouped,
    runs_of,
    thin,
    warn_of_constants,
)
from pivec.states.record import (
    PolicyRecord,
    Recorded,
    check_finite,
    check_unique,
    overlapping,
    record_of,
    record_of_played,
    starts_of,
)
from pivec.states.recorded import (
    Recordings,
    find_recorded,
    import_recorded,
    is_recorded,
    read_recorded,
    split_recorded,
)
from pivec.states.recorder import LOCK_SECONDS, Recording, StateRecorder, batch_of_one, identity_of
from pivec.states.store import Keeper, Store, check_place, info_of, load, shown_place, take
from pivec.states.visited import VisitedStates

__all__ = [
    "LOCK_SECONDS",
    "Keeper",
    "Moments",
    "PolicyRecord",
    "Recorded",
    "Recording",
    "Recordings",
    "Sent",
    "Span",
    "StateRecorder",
    "Store",
    "VisitedStates",
    "batch_of_one",
    "check_finite",
    "check_place",
    "check_states",
    "check_unique",
    "engine_for",
    "find_recorded",
    "held",
    "identity_of",
    "import_recorded",
    "info_of",
    "is_recorded",
    "joined",
    "load",
    "moments_of",
    "over_policies",
    "overlapping",
    "read_recorded",
    "record_of",
    "record_of_played",
    "regrouped",
    "runs_of",
    "shown_place",
    "split_recorded",
    "starts_of",
    "take",
    "thin",
    "warn_of_constants",
]
