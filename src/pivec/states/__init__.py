"""States that policies visited: VisitedStates in memory, Store on disk, readers and writers.

visited.py      `VisitedStates`, three levels (policies, episodes, states), flat in memory
derived.py      joining, regrouping and thinning data, parallel passes, moments
store.py        `Store`: a folder with an index and Arrow files
arrow.py        policies in Arrow files
folders.py      local and remote folders of a store
recorder.py     `StateRecorder`: a store that grows while a user's own loop runs
recorded.py     `RecordedStates`: states recorded by others, found and read
tables.py       recorded states in tables: which column means what, rows divided into episodes
array_files.py  recorded states in .npz, .npy and HDF5 files
minari.py       recorded states in Minari datasets
export.py       a store for other tools: pandas, Parquet, .npz, Minari
"""

from __future__ import annotations

from pivec.states.derived import (
    Moments,
    Sent,
    Span,
    engine_for,
    joined,
    moments_of,
    over_policies,
    policy_ranges,
    regrouped,
    thin,
    warn_of_constants,
)
from pivec.states.folders import without_credentials
from pivec.states.recorded import (
    RecordedStates,
    find_recorded,
    import_recorded,
    is_recorded,
    read_recorded,
    split_recorded,
)
from pivec.states.recorder import (
    LOCK_SECONDS,
    RecorderOptions,
    StateRecorder,
    batch_of_one,
    identity_of,
)
from pivec.states.store import Store, check_store_path, json_digest, load
from pivec.states.visited import (
    PolicyRecord,
    RecordedPolicy,
    VisitedStates,
    check_finite,
    check_states,
    check_unique,
    content_digest,
    overlapping,
    record_of,
    record_of_played,
    starts_of,
)

__all__ = [
    "LOCK_SECONDS",
    "Moments",
    "PolicyRecord",
    "RecordedPolicy",
    "RecordedStates",
    "RecorderOptions",
    "Sent",
    "Span",
    "StateRecorder",
    "Store",
    "VisitedStates",
    "batch_of_one",
    "check_finite",
    "check_states",
    "check_store_path",
    "check_unique",
    "content_digest",
    "engine_for",
    "find_recorded",
    "identity_of",
    "import_recorded",
    "is_recorded",
    "joined",
    "json_digest",
    "load",
    "moments_of",
    "over_policies",
    "overlapping",
    "policy_ranges",
    "read_recorded",
    "record_of",
    "record_of_played",
    "regrouped",
    "split_recorded",
    "starts_of",
    "thin",
    "warn_of_constants",
    "without_credentials",
]
