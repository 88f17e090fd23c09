"""Visited states as flat tables: pandas, and Parquet for files that do not fit in memory."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pivec.atomic import atomic_write
from pivec.errors import MissingExtra, UsageError
from pivec.states.visited import VisitedStates

LEVELS = ("states", "episodes", "policies")


def to_pandas(data: VisitedStates, level: str = "states") -> Any:
    """Build a pandas DataFrame; see `VisitedStates.to_pandas`."""
    if importlib.util.find_spec("pandas") is None:
        raise MissingExtra("to_pandas", "pandas")
    return pa.Table.from_batches(list(batches(data, level))).to_pandas(strings_to_categorical=True)


def write_parquet(data: VisitedStates, path: str | Path, level: str = "states") -> None:
    """Write one row a state (or an episode, or a policy); one policy is in memory at a time."""
    writer = None
    with atomic_write(Path(path)) as file:
        try:
            for batch in batches(data, level):
                writer = writer or pq.ParquetWriter(file, batch.schema, compression="zstd")
                writer.write_batch(batch)
        finally:
            if writer is not None:
                writer.close()


def batches(data: VisitedStates, level: str = "states") -> Iterator[pa.RecordBatch]:
    """Go through the table, one batch a policy."""
    if level not in LEVELS:
        raise UsageError(f"level must be one of {', '.join(LEVELS)}, but is {level!r}")
    make = {"states": _states, "episodes": _episodes, "policies": _policies}[level]
    for policy in range(data.n_policies):
        yield pa.record_batch(make(data, policy))


def _policies(data: VisitedStates, policy: int) -> dict[str, Any]:
    info = data.policies[policy]
    first, last = data.policy_starts[policy : policy + 2]
    return {
        "policy": pa.array([info.label]),
        "group": pa.array([info.group]),
        "training_step": pa.array([info.step], pa.int64()),
        "source": pa.array([info.source]),
        "episodes": pa.array([int(last - first)]),
        "states": pa.array([int(data.episode_starts[last] - data.episode_starts[first])]),
        "mean_return": pa.array([float(np.mean(data.returns[first:last]))]),
    }


def _episodes(data: VisitedStates, policy: int) -> dict[str, Any]:
    first, last = data.policy_starts[policy : policy + 2]
    return {
        **_whose(data, policy, int(last - first)),
        "episode": np.arange(last - first),
        "return": data.returns[first:last],
        "length": data.lengths[first:last],
        "seed": data.seeds[first:last],
        "terminated": data.terminated[first:last],
        "truncated": data.truncated[first:last],
    }


def _states(data: VisitedStates, policy: int) -> dict[str, Any]:
    first, last = data.policy_starts[policy : policy + 2]
    lengths = data.lengths[first:last]
    states, actions = data._chunks[policy]
    columns: dict[str, Any] = {
        **_whose(data, policy, len(states)),
        "episode": np.repeat(np.arange(last - first), lengths),
        "step": np.concatenate([np.arange(length) for length in lengths]),
    }
    for column, name in enumerate(data.feature_names):
        columns[name] = np.ascontiguousarray(states[:, column])
    if actions is not None:
        # A terminal state has no action.
        acted = np.ones(len(states), dtype=bool)
        acted[np.cumsum(lengths) - 1] = False
        flat = actions.reshape(len(actions), -1)
        for column in range(flat.shape[1]):
            name = "action" if actions.ndim == 1 else f"action[{column}]"
            columns[name] = _spread(flat[:, column], acted)
    return columns


def _whose(data: VisitedStates, policy: int, rows: int) -> dict[str, Any]:
    info = data.policies[policy]
    return {
        "policy": pa.array([info.label] * rows),
        "group": pa.array([info.group] * rows),
        "training_step": pa.array([info.step] * rows, pa.int64()),
    }


def _spread(values: NDArray[Any], where: NDArray[np.bool_]) -> pa.Array:
    full = np.zeros(len(where), dtype=values.dtype)
    full[where] = values
    return pa.array(full, mask=~where)
