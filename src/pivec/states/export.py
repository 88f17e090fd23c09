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

from pivec.errors import MissingExtra, UsageError
from pivec.files import atomic_write, check_folder
from pivec.rollouts import Environment
from pivec.states.array_files import npz_path, write_npz
from pivec.states.minari import write_minari
from pivec.states.store import Store
from pivec.states.tables import METADATA
from pivec.states.visited import EPISODE, PolicyRecord, VisitedStates


def export(store: str | Path, target: str, level: str = "states") -> str:
    """Export a store, or that of a comparison, and return what was written.

    ``target`` is ``file.parquet`` (with one row per state, episode or policy, depending on
    ``level``), ``npz:DIR`` or ``minari:NAME``.
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
        data = source.load()
        taken: set[Path] = set()
        for number, record in enumerate(data.records):
            path = Path(where).expanduser() / npz_path(record.info.label)
            if path in taken:
                path = path.with_stem(f"{path.stem}-{number}")
            taken.add(path)
            write_npz(path, record, data.feature_names)
        return f"{len(taken)} files: {where}"
    if kind == "minari" and where:
        write_minari(source.load(), where, Environment.from_json(source.settings))
        return f"Minari dataset: {where}"
    raise UsageError(f"cannot export to {target!r}: expected FILE.parquet, npz:DIR or minari:NAME")


def to_pandas(data: VisitedStates, level: str = "states") -> Any:
    """Build a pandas DataFrame; see `VisitedStates.to_pandas`."""
    if importlib.util.find_spec("pandas") is None:
        raise MissingExtra("to_pandas", "tables")
    batches = list(_batches(data, level))
    return pa.Table.from_batches(batches).to_pandas(strings_to_categorical=True)


def write_parquet(data: VisitedStates, path: str | Path, level: str = "states") -> None:
    """Write one row per state, episode or policy; one policy is in memory at a time."""
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
    """Yield the table, one batch per policy."""
    if level not in _COLUMNS:
        raise UsageError(f"level must be one of {', '.join(_COLUMNS)}, but is {level!r}")
    for record in data.records:
        batch = pa.record_batch(_COLUMNS[level](record, data))
        if level == "states":  # the table describes its columns, so that it can be read back
            known = {"columns": batch.schema.names, "features": _feature_columns(data)}
            known |= {"feature_names": data.feature_names, "environment": data.environment}
            actions = record.read_arrays()[1] if data.has_actions else None
            if actions is not None:
                known["action_shape"] = actions.shape[1:]
            batch = batch.replace_schema_metadata({METADATA: json.dumps(known).encode()})
        yield batch


def _feature_columns(data: VisitedStates) -> list[str]:
    """Name the columns of features differently from all others."""
    return [
        f"state.{name}" if name in _OTHER_COLUMNS or "action" in name else name
        for name in data.feature_names
    ]


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
    for column, name in enumerate(_feature_columns(data)):
        columns[name] = np.ascontiguousarray(states[:, column])
    if actions is not None and data.has_actions:
        flat = actions.reshape(len(actions), -1)
        for column in range(flat.shape[1]):
            name = "action" if actions.ndim == 1 else f"action[{column}]"
            values = np.zeros(len(states), dtype=flat.dtype)
            values[acted] = flat[:, column]
            columns[name] = pa.array(values, mask=~acted)
    return columns


def _owner(record: PolicyRecord, rows: int) -> dict[str, Any]:
    """Return the columns that identify the policy."""
    return {
        "policy": pa.array([record.info.label] * rows),
        "group": pa.array([record.info.group] * rows),
        "training_step": pa.array([record.info.step] * rows, pa.int64()),
    }


_OTHER_COLUMNS = {*EPISODE.names, "policy", "group", "training_step", "episode", "step"}  # type: ignore[misc]
_COLUMNS = {"states": _states, "episodes": _episodes, "policies": _policy}
