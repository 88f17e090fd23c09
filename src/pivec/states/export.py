"""States for other tools: pandas, Parquet, a folder of .npz, a Minari dataset."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pivec.errors import MissingExtra, UsageError
from pivec.files import atomic_write, check_folder
from pivec.rollouts import Environment
from pivec.states.minari import write_minari
from pivec.states.npz import inner_path, write_npz
from pivec.states.record import EPISODE, PolicyRecord
from pivec.states.store import Store
from pivec.states.tables import METADATA
from pivec.states.visited import VisitedStates


def export(store: str | Path, target: str, level: str = "states") -> str:
    """Write a store, or that of a comparison, elsewhere, and say what was written.

    ``target`` is ``file.parquet`` (a row for each of the states, the episodes or the policies,
    after ``level``), ``npz:DIR`` or ``minari:NAME``.
    """
    source = Store.find(store)
    kind, _, where = target.partition(":")
    if target.endswith(".parquet"):
        if not Path(target).parent.is_dir() or Path(target).is_dir():
            raise UsageError(f"cannot export to {target}: expected a file in a folder that exists")
        check_folder(Path(target).parent)
        write_parquet(source.load(), target, level)
        return f"Parquet: {target}"
    if kind == "npz" and where:
        return f"{_write_files(source.load(), Path(where).expanduser())} files: {where}"
    if kind == "minari" and where:
        write_minari(source.load(), where, Environment.from_json(source.settings))
        return f"Minari dataset: {where}"
    raise UsageError(f"cannot export to {target!r}: expected FILE.parquet, npz:DIR or minari:NAME")


def _write_files(data: VisitedStates, folder: Path) -> int:
    """Write a .npz file for each policy; tell how many."""
    taken: set[Path] = set()
    for number, record in enumerate(data.records):
        path = folder / inner_path(record.info.label)
        if path in taken:
            path = path.with_stem(f"{path.stem}-{number}")
        taken.add(path)
        write_npz(path, record, data.feature_names)
    return len(taken)


def to_pandas(data: VisitedStates, level: str = "states") -> Any:
    """Build a pandas DataFrame; see `VisitedStates.to_pandas`."""
    if importlib.util.find_spec("pandas") is None:
        raise MissingExtra("to_pandas", "tables")
    batches = list(_batches(data, level))
    return pa.Table.from_batches(batches).to_pandas(strings_to_categorical=True)


def write_parquet(data: VisitedStates, path: str | Path, level: str = "states") -> None:
    """Write one row a state (or an episode, or a policy); one policy is in memory at a time."""
    batches = _batches(data, level)
    first = next(batches)
    with (
        atomic_write(Path(path)) as file,
        pq.ParquetWriter(file, first.schema, compression="zstd") as writer,
    ):
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def _batches(data: VisitedStates, level: str) -> Iterator[pa.RecordBatch]:
    """Go through the table, one batch a policy."""
    if level not in _COLUMNS:
        raise UsageError(f"level must be one of {', '.join(_COLUMNS)}, but is {level!r}")
    for record in data.records:
        batch = pa.record_batch(_COLUMNS[level](record, data))
        yield _told(batch, record, data) if level == "states" else batch


def _told(batch: pa.RecordBatch, record: PolicyRecord, data: VisitedStates) -> pa.RecordBatch:
    """Let a table of states tell what its columns are, so that it can be read back."""
    features = _feature_columns(data.feature_names)
    written: dict[str, Any] = {"columns": batch.schema.names, "features": features}
    written |= {"feature_names": data.feature_names, "environment": data.environment}
    actions = record.read_arrays()[1] if data.has_actions else None
    if actions is not None:
        written["action_shape"] = actions.shape[1:]
    return batch.replace_schema_metadata({METADATA: json.dumps(written).encode()})


def _feature_columns(names: tuple[str, ...]) -> list[str]:
    """Name the columns of features apart from all others."""
    return [f"state.{name}" if name in _TAKEN or "action" in name else name for name in names]


def _policy(record: PolicyRecord, _: VisitedStates) -> dict[str, Any]:
    return {
        **_owner(record, 1),
        "source": pa.array([record.info.source]),
        "episodes": pa.array([len(record.episodes)]),
        "states": pa.array([int(record.episodes["length"].sum())]),
        "mean_return": pa.array([float(np.mean(record.episodes["return"]))]),
    }


def _episodes(record: PolicyRecord, _: VisitedStates) -> dict[str, Any]:
    n = len(record.episodes)
    known = {name: np.ascontiguousarray(record.episodes[name]) for name in EPISODE.names or ()}
    return {**_owner(record, n), "episode": np.arange(n), **known}


def _states(record: PolicyRecord, data: VisitedStates) -> dict[str, Any]:
    known = record.episodes
    lengths = known["length"]
    states, actions = record.read_arrays()
    acted = np.ones(len(states), dtype=bool)  # a terminal state has no action
    acted[np.cumsum(lengths) - 1] = False
    columns: dict[str, Any] = {
        **_owner(record, len(states)),
        "episode": np.repeat(np.arange(len(lengths)), lengths),
        "step": np.concatenate([np.arange(length) for length in lengths]),
        "return": np.repeat(known["return"], lengths),
        "seed": np.repeat(known["seed"], lengths),
        "terminated": np.repeat(known["terminated"], lengths) & ~acted,
        "truncated": np.repeat(known["truncated"], lengths) & ~acted,
    }
    for column, name in enumerate(_feature_columns(data.feature_names)):
        columns[name] = np.ascontiguousarray(states[:, column])
    if actions is not None and data.has_actions:
        flat = actions.reshape(len(actions), -1)
        for column in range(flat.shape[1]):
            name = "action" if actions.ndim == 1 else f"action[{column}]"
            columns[name] = _spread(flat[:, column], acted)
    return columns


def _owner(record: PolicyRecord, rows: int) -> dict[str, Any]:
    """Columns that say whose the rows are."""
    return {
        "policy": pa.array([record.info.label] * rows),
        "group": pa.array([record.info.group] * rows),
        "training_step": pa.array([record.info.step] * rows, pa.int64()),
    }


def _spread(values: NDArray[Any], where: NDArray[np.bool_]) -> pa.Array:
    full = np.zeros(len(where), dtype=values.dtype)
    full[where] = values
    return pa.array(full, mask=~where)


_TAKEN = {*EPISODE.names, "policy", "group", "training_step", "episode", "step"}  # type: ignore[misc]
_COLUMNS = {"states": _states, "episodes": _episodes, "policies": _policy}
