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
from pivec.files import atomic_write, check_folder, make_folder
from pivec.rollouts import Environment
from pivec.states.minari import write_minari
from pivec.states.readers import METADATA, OUTCOME
from pivec.states.recorded import npz_path
from pivec.states.store import Store
from pivec.states.visited import EPISODE, PolicyRecord, VisitedStates, outcome_names

_LEVELS = ("states", "episodes", "policies")
_OTHER_COLUMNS = {*EPISODE.names, "policy", "group", "training_step", "episode", "step"}  # type: ignore[misc]


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
            _write_npz(path, record, data.feature_names)
        return f"{len(taken)} files: {where}"
    if kind == "minari" and where:
        if any(info.own_environment for info in source.policies):
            raise UsageError(
                f"a Minari dataset has one environment, but {source.path} has several: export to "
                "Parquet or npz"
            )
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
    if level not in _LEVELS:
        raise UsageError(f"level must be one of {', '.join(_LEVELS)}, but is {level!r}")
    features = [  # named differently from all other columns
        f"state.{name}"
        if name in _OTHER_COLUMNS or "action" in name or name.startswith(OUTCOME)
        else name
        for name in data.feature_names
    ]
    for number, record in enumerate(data.records):
        info, known = record.info, record.episodes
        columns: dict[str, Any] = {}
        metadata: dict[str, Any] = {}
        mine = slice(*data.policy_starts[number : number + 2])
        outcomes = {name: values[mine] for name, values in data.outcomes.items()}
        if level == "policies":
            columns["source"] = pa.array([info.source])
            columns["episodes"] = pa.array([len(known)])
            columns["states"] = pa.array([int(known["length"].sum())])
            columns["mean_return"] = pa.array([float(np.mean(known["return"]))])
        elif level == "episodes":
            columns["episode"] = np.arange(len(known))
            columns |= {name: np.ascontiguousarray(known[name]) for name in EPISODE.names or ()}
            for name, values in outcomes.items():
                column = name if name not in _OTHER_COLUMNS else OUTCOME + name
                columns[column] = pa.array(values.tolist())
        else:
            columns, shape = _state_columns(record, features, data.has_actions)
            for name, values in outcomes.items():
                columns[OUTCOME + name] = pa.array(np.repeat(values, known["length"]).tolist())
            metadata = {"features": features, "feature_names": data.feature_names} | shape
        rows = len(next(iter(columns.values())))
        owner = {
            "policy": pa.array([info.label] * rows),
            "group": pa.array([info.group] * rows),
            "training_step": pa.array([info.step] * rows, pa.int64()),
        }
        batch = pa.record_batch(owner | columns)
        if metadata:  # the table describes its columns, so that it can be read back
            metadata |= {"columns": batch.schema.names, "environment": data.environment}
            metadata["kept_every"] = {r.info.label: r.every for r in data.records if r.every > 1}
            batch = batch.replace_schema_metadata({METADATA: json.dumps(metadata).encode()})
        yield batch


def _state_columns(
    record: PolicyRecord, features: list[str], has_actions: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of a table of states, and the shape of actions if there are any."""
    known = record.episodes
    lengths = known["length"]
    states, actions = record.read_arrays()
    acted = np.ones(len(states), dtype=bool)  # a terminal state has no action
    acted[np.cumsum(lengths) - 1] = False
    columns: dict[str, Any] = {
        **_row_numbers(record),
        "return": np.repeat(known["return"], lengths),
        "seed": np.repeat(known["seed"], lengths),
        "terminated": np.repeat(known["terminated"], lengths) & ~acted,
        "truncated": np.repeat(known["truncated"], lengths) & ~acted,
    }
    for column, name in enumerate(features):
        columns[name] = np.ascontiguousarray(states[:, column])
    if actions is None or not has_actions:
        return columns, {}
    for column, moves in enumerate(actions.reshape(len(actions), -1).T):
        values = np.zeros(len(states), dtype=moves.dtype)
        values[acted] = moves
        name = "action" if actions.ndim == 1 else f"action[{column}]"
        columns[name] = pa.array(values, mask=~acted)
    return columns, {"action_shape": actions.shape[1:]}


def _row_numbers(record: PolicyRecord) -> dict[str, Any]:
    """Return the episode and the step of each state."""
    numbers = np.arange(len(record.episodes))
    return {"episode": np.repeat(numbers, record.episodes["length"]), "step": record.times}


def _write_npz(path: Path, record: PolicyRecord, names: tuple[str, ...]) -> None:
    """Write the episodes of one policy in the long layout; see `pivec.states.readers`."""
    known, info = record.episodes, record.info
    states, actions = record.read_arrays()
    about = [info.label, info.group, str(info.step), *[str(record.every)] * (record.every > 1)]
    arrays: dict[str, Any] = {
        "states": states,
        **_row_numbers(record),
        "returns": known["return"],
        "seeds": known["seed"],
        "terminated": known["terminated"],
        "truncated": known["truncated"],
        "feature_names": np.array(names),
        "policy": np.array(about, dtype=np.str_),
    }
    for name in outcome_names(known.dtype):
        texts = known.dtype[name].kind == "O"
        arrays[OUTCOME + name] = known[name].astype(np.str_) if texts else known[name]
    if actions is not None and len(actions):
        # The terminal state has no action: its row repeats the last one and is not read.
        rows = np.arange(len(states)) - arrays["episode"]
        rows[np.cumsum(known["length"]) - 1] -= 1
        arrays["actions"] = actions[rows]
    make_folder(path.parent)
    with atomic_write(path) as file:
        np.savez(file, **arrays)
