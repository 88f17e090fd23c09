"""Recorded episodes in `.npz` and `.npy` files, one file a policy: read, and written back.

Every array is of numbers; nothing is unpickled. ``states`` (or ``observations``) comes in one of
two layouts, of which each episode holds the first observation, every later one and the terminal:

- padded, (episodes, steps, ...), with ``lengths`` (episodes,) if episodes differ in length;
- long, (n, ...), with ``episode`` (n,) and ``step`` (n,), which number the rows, in any order.

Beside it, all optional: ``actions`` in the same layout (the row of a terminal state is not read,
and may be missing if padded), ``returns``, ``seeds``, ``terminated``, ``truncated`` (episodes,),
``feature_names``, and ``policy``: its label, group and training step as text.

A `.npy` file has states alone, (episodes, steps, ...), or (n, ...) and a fixed length of episodes
or the rows where they begin.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, BadPolicyFile
from pivec.files import Budget, atomic_write, file_name, make_folder, open_regular
from pivec.options import TableOptions
from pivec.policies import PolicyInfo, unpack_npz
from pivec.rollouts import Episode
from pivec.states.record import PolicyRecord, Recorded
from pivec.states.tables import LogRows

_MOST = 1 << 34  # bytes a file may unpack to
Index = tuple[NDArray[np.int64], ...]  # of the rows of an episode
# What stands for what a file does not tell of its episodes.
_UNKNOWN: dict[str, Any] = {"returns": np.nan, "seeds": -1, "terminated": False, "truncated": False}


def recorded_npz(path: Path, info: PolicyInfo, _: TableOptions) -> Recorded:
    """Find the policy of a `.npz` file."""
    names = _arrays(path, only="feature_names").get("feature_names")
    about = _arrays(path, only="policy").get("policy")
    if about is not None and about.shape == (3,) and about.dtype.kind == "U":
        label, group, step = about.tolist()
        known = step.isascii() and step.isdecimal()
        if inner_path(label).with_suffix("") == Path(info.label):  # and the file was not renamed
            info = replace(info, label=label)
        info = replace(info, group=group, step=int(step) if known else None)
    return Recorded(
        info,
        partial(read_npz, path),
        names=None if names is None else tuple(str(name) for name in names.ravel()),
    )


def recorded_npy(path: Path, info: PolicyInfo, options: TableOptions) -> Recorded:
    """Find the policy of a `.npy` file."""
    return Recorded(info, partial(read_npy, path, options), has_actions=False)


def read_npy(path: Path, options: TableOptions) -> Iterator[Episode]:
    """Go through the episodes of an array of states."""
    with open_regular(path):  # which refuses what is no regular file
        states = np.load(path, mmap_mode="r", allow_pickle=False)
    starts = options.episode_starts
    if states.ndim > 2 and options.episode_length is None and starts is None:
        for episode in states:
            yield Episode(episode, None, np.nan, -1, False, False)
        return
    if states.ndim < 2:
        raise BadData(
            f"it has shape {states.shape}, but states have (episodes, steps, ...), or (n, ...) "
            "with --episode-length of `pivec import`; a vector of parameters needs a .json beside "
            "it that states the layers"
        )
    begins = None if starts is None else np.load(starts, allow_pickle=False)
    yield from LogRows(states, length=options.episode_length, starts=begins).episodes()


def read_npz(path: Path) -> Iterator[Episode]:
    """Go through the episodes of one file."""
    arrays = _arrays(path)
    name = "states" if "states" in arrays else "observations"
    if name not in arrays:
        names = ", ".join(sorted(arrays)) or "none"
        raise BadData(f"it has no array called states or observations, only {names}")
    rows = _rows(name, arrays)
    if not rows:
        raise BadData("it holds no episodes: leave it out")
    columns = []
    for column, default in _UNKNOWN.items():
        values = arrays.get(column, np.full(len(rows), default))
        if values.shape != (len(rows),):
            raise BadData(f"{column} needs one value for each of {len(rows)} episodes")
        columns.append([type(default)(value) for value in values.tolist()])
    for mine, *known in zip(rows, *columns, strict=True):
        yield Episode(arrays[name][mine], _moves(arrays.get("actions"), mine), *known)


def inner_path(label: str) -> Path:
    """Give the path of a policy's file; folders in a label stay, but lead nowhere else."""
    parts = [file_name(part) for part in label.split("/")]
    return Path("/".join(part for part in parts if part) + ".npz")


def write_npz(path: Path, record: PolicyRecord, names: tuple[str, ...]) -> None:
    """Write the episodes of one policy in the long layout."""
    lengths = record.episodes["length"]
    states, actions = record.read_arrays()
    arrays: dict[str, Any] = {
        "states": states,
        "episode": np.repeat(np.arange(len(lengths)), lengths),
        "step": np.concatenate([np.arange(length) for length in lengths]),
        "returns": record.episodes["return"],
        "seeds": record.episodes["seed"],
        "terminated": record.episodes["terminated"],
        "truncated": record.episodes["truncated"],
        "feature_names": np.array(names),
        "policy": np.array(
            [record.info.label, record.info.group, str(record.info.step)], dtype=np.str_
        ),
    }
    if actions is not None and len(actions):
        # The terminal state has no action: its row repeats the last one and is not read.
        rows = np.arange(len(states)) - arrays["episode"]
        rows[np.cumsum(lengths) - 1] -= 1
        arrays["actions"] = actions[rows]
    make_folder(path.parent)
    with atomic_write(path) as file:
        np.savez(file, **arrays)


def _arrays(path: Path, only: str = "") -> dict[str, NDArray[Any]]:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            budget = Budget(size, str(path), _MOST)
            return unpack_npz(file, budget, kinds="biufU", only=only)
    except (OSError, BadPolicyFile) as error:
        raise BadData(f"{path} is not a readable .npz of plain arrays: {error}") from error


def _rows(name: str, arrays: dict[str, NDArray[Any]]) -> list[Index]:
    """For each episode the index of its rows, in order of the steps."""
    states = arrays[name]
    if "episode" in arrays or "step" in arrays:
        return _long_rows(arrays.get("episode"), arrays.get("step"), len(states))
    if states.ndim < 3:
        raise BadData(
            f"{name} has shape {states.shape}, but needs (episodes, steps, ...), or beside it "
            "arrays episode and step that number its rows"
        )
    lengths = np.asarray(arrays.get("lengths", np.full(len(states), states.shape[1])))
    whole = lengths.dtype.kind in "iu" or (lengths.dtype.kind == "f" and (lengths % 1 == 0).all())
    if lengths.shape != (len(states),) or not whole or lengths.min(initial=1) < 1:
        raise BadData(f"lengths needs one number from 1 for each of {len(states)} episodes")
    if lengths.max(initial=0) > states.shape[1]:
        raise BadData(f"a length of {lengths.max()} does not fit in {states.shape[1]} steps")
    counts = lengths.astype(np.int64).tolist()
    return [(np.full(count, number), np.arange(count)) for number, count in enumerate(counts)]


def _long_rows(episode: Any, step: Any, n: int) -> list[Index]:
    if episode is None or step is None or episode.shape != (n,) or step.shape != (n,):
        raise BadData(f"episode and step are both needed, one number for each of {n} rows")
    order = np.lexsort((step, episode))
    cuts = np.flatnonzero(np.diff(episode[order], prepend=np.nan))
    pieces = [piece for piece in np.split(order, cuts) if len(piece)]
    for piece in pieces:
        if not np.array_equal(step[piece], np.arange(len(piece))):
            raise BadData(
                f"the steps of episode {episode[piece[0]]} must be 0, 1, 2, ... with none missing "
                f"or twice, but begin {step[piece][:6].tolist()}"
            )
    return [(piece,) for piece in pieces]


def _moves(actions: Any, mine: Index) -> NDArray[Any] | None:
    try:
        return None if actions is None else actions[tuple(part[:-1] for part in mine)]
    except IndexError as error:
        raise BadData(f"actions of shape {actions.shape} are too few for its states") from error
