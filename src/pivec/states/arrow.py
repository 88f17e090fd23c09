"""One policy as one Arrow file: a row an episode, its states a list of fixed-size lists.

The values of the list column lie in one piece, so the states are mapped, not read.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pivec.atomic import atomic_write
from pivec.engines.files import present
from pivec.errors import BadStore
from pivec.policies.described import read_policy as read_network
from pivec.policies.policy import Policy, PolicyInfo
from pivec.reading import read_regular
from pivec.states.record import EPISODE, Arrays, PolicyRecord, starts_of

_KEY = b"pivec"


def read_arrays(path: Path) -> Arrays:
    """Map the states and actions in a file into memory."""
    return _open(path)[1]


def read_kept_policy(path: Path) -> Policy | None:
    """Read the network beside the file of a policy, if it is kept."""
    file = path.with_suffix(".safetensors")
    return read_network(read_regular(file), file.name)[0] if present(file).exists() else None


def write_policy(path: Path, record: PolicyRecord, store: str = "") -> None:
    """Write the file of one policy; it appears when it is whole.

    ``store`` says what store it belongs to, should the index lose it.
    """
    states, actions = record.read_arrays()
    starts = starts_of(record.episodes["length"])
    columns: dict[str, pa.Array] = {
        name: pa.array(np.ascontiguousarray(record.episodes[name])) for name in EPISODE.names or ()
    }
    columns["states"] = _lists(states, starts)
    header: dict[str, Any] = {"info": asdict(record.info), "store": store}
    if actions is not None:
        columns["actions"] = _lists(actions, starts - np.arange(len(starts)))
        header["action_shape"] = list(actions.shape[1:])
    batch = pa.record_batch(columns).replace_schema_metadata({_KEY: json.dumps(header).encode()})
    with atomic_write(path) as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def read_policy(path: Path, store: str | None = None) -> PolicyRecord:
    """Read what is known of the episodes in a file; with ``store`` only if it belongs to it."""
    return _open(path, store)[0]


def _open(path: Path, store: str | None = None) -> tuple[PolicyRecord, Arrays]:
    """Map a file into memory: what is known of the episodes, and states and actions."""
    try:
        with pa.memory_map(str(present(path))) as source:
            reader = pa.ipc.open_file(source)
            batch = reader.get_batch(0)
        # Lengths in the file are as good as the file: beyond its end lies no memory.
        batch.validate(full=True)
        header = json.loads(reader.schema.metadata[_KEY])
        if store is not None and header.get("store") != store:
            raise BadStore(f"{path} was collected with other settings")
        states, starts = _unlist(batch, "states")
        _check(states.ndim == 2 and states.dtype == np.float32, "states are not rows of float32")
        actions = None
        if "action_shape" in header:
            flat, cuts = _unlist(batch, "actions")
            _check(np.array_equal(np.diff(cuts) + 1, np.diff(starts)), "actions do not fit states")
            actions = flat.reshape(-1, *header["action_shape"])
        episodes = np.empty(batch.num_rows, dtype=EPISODE)
        for name in EPISODE.names or ():
            episodes[name] = batch.column(name).to_numpy(zero_copy_only=False)
        _check(np.array_equal(episodes["length"], np.diff(starts)), "lengths do not fit states")
        record = PolicyRecord(
            PolicyInfo(**header["info"]),
            episodes,
            actions is not None,
            partial(read_arrays, path),
            partial(read_kept_policy, path),
        )
        return record, (states, actions)
    except FileNotFoundError as error:
        raise BadStore(
            f"{path.name} is gone: the store has grown or changed since it was loaded, so load it "
            "again"
        ) from error
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadStore(
            f"{path.name} is not the whole file of a policy ({error}): remove it and collect again"
        ) from error


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _lists(values: NDArray[Any], starts: NDArray[np.int64]) -> pa.Array:
    """Rows of ``values`` in lists, one an episode."""
    inner = pa.array(np.ascontiguousarray(values).reshape(-1))
    if values.ndim > 1:
        inner = pa.FixedSizeListArray.from_arrays(inner, int(np.prod(values.shape[1:])))
    return pa.LargeListArray.from_arrays(pa.array(starts), inner)


def _unlist(batch: pa.RecordBatch, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Rows of a column of lists, and where episodes begin: one follows another over all rows."""
    column = batch.column(name)
    starts, inner = column.offsets.to_numpy(), column.values
    if pa.types.is_fixed_size_list(inner.type):
        rows = inner.values.to_numpy(zero_copy_only=True).reshape(-1, inner.type.list_size)
    else:
        rows = inner.to_numpy(zero_copy_only=True)
    whole = len(starts) > 1 and starts[0] == 0 and starts[-1] == len(rows)
    _check(bool(whole and (np.diff(starts) >= 0).all()), f"episodes do not cover the {name}")
    return rows, starts
