"""Recorded episodes in array files, one policy per file: `.npz`, `.npy` and D4RL's HDF5.

All arrays are numeric; nothing is unpickled. In a `.npz` file, ``states`` (or ``observations``) has
one of two layouts, in which each episode includes its first and its terminal observation:

- padded, (episodes, steps, ...), with ``lengths`` (episodes,) if episodes differ in length;
- long, (n, ...), with ``episode`` (n,) and ``step`` (n,), which number the rows, in any order.

All optional: ``actions`` in the same layout (the row of a terminal state is not read, and may be
missing if padded), ``returns``, ``seeds``, ``terminated``, ``truncated`` (episodes,),
``feature_names``, and ``policy``: its label, group and training step as text.

A `.npy` file has states alone, (episodes, steps, ...), or (n, ...) with a fixed episode length or
the rows where episodes start. HDF5 files have ``observations`` (n, ...) and, all optional and of as
many rows, ``actions``, ``rewards``, ``terminals``, ``timeouts`` and ``next_observations``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, BadPolicyFile, MissingExtra, PivecWarning
from pivec.files import Budget, atomic_write, file_name, make_folder, open_regular
from pivec.options import TableOptions
from pivec.policies import PolicyInfo, unpack_npz
from pivec.rollouts import Episode
from pivec.states.tables import MAX_BYTES, LogRows
from pivec.states.visited import PolicyRecord, RecordedPolicy

# Per-episode arrays of a .npz file: the field of `LogRows`, and what stands for unknown values.
_PER_EPISODE: dict[str, tuple[str, Any]] = {
    "returns": ("total", np.nan),
    "seeds": ("seed", -1),
    "terminated": ("terminated", False),
    "truncated": ("truncated", False),
}
# Fields of `LogRows` by their arrays in D4RL's files.
_D4RL = {
    "observations": "states",
    "actions": "actions",
    "rewards": "reward",
    "terminals": "terminated",
    "timeouts": "truncated",
    "next_observations": "after",
}


def _npz_policy(path: Path, info: PolicyInfo, _: TableOptions) -> RecordedPolicy:
    names = _load_npz(path, only="feature_names").get("feature_names")
    about = _load_npz(path, only="policy").get("policy")
    if about is not None and about.shape == (3,) and about.dtype.kind == "U":
        label, group, step = about.tolist()
        if npz_path(label).with_suffix("") == Path(info.label):  # the file was not renamed
            info = replace(info, label=label)
        is_known = step.isascii() and step.isdecimal()
        info = replace(info, group=group, step=int(step) if is_known else None)
    return RecordedPolicy(
        info,
        partial(_read_npz, path),
        names=None if names is None else tuple(str(name) for name in names.ravel()),
    )


def _read_npz(path: Path) -> Iterator[Episode]:
    arrays = _load_npz(path)
    name = "states" if "states" in arrays else "observations"
    if name not in arrays:
        names = ", ".join(sorted(arrays)) or "none"
        raise BadData(f"it has no array called states or observations, only {names}")
    states, actions = arrays[name], arrays.get("actions")
    if "episode" in arrays or "step" in arrays:
        yield from _long_episodes(states, actions, arrays)
        return
    if states.ndim < 3:
        raise BadData(
            f"{name} has shape {states.shape}, but needs (episodes, steps, ...), or arrays episode "
            "and step that number its rows"
        )
    lengths = np.asarray(arrays.get("lengths", np.full(len(states), states.shape[1])))
    is_whole = lengths.dtype.kind in "iuf" and bool((lengths % 1 == 0).all())
    fits = is_whole and ((lengths >= 1) & (lengths <= states.shape[1])).all()
    if lengths.shape != (len(states),) or not fits:
        raise BadData(
            f"lengths needs one number from 1 to {states.shape[1]} for each of {len(states)} "
            "episodes"
        )
    needed = len(states), lengths.max(initial=1) - 1
    if actions is not None and (actions.ndim < 2 or any(np.less(actions.shape[:2], needed))):
        raise BadData(f"actions of shape {actions.shape} are too few for its states")
    known = _per_episode(arrays, len(states))
    for i, length in enumerate(lengths.astype(np.int64).tolist()):
        moves = None if actions is None else actions[i, : length - 1]
        total, seed, *ends = (values[i] for values in known.values())
        yield Episode(states[i, :length], moves, float(total), int(seed), *map(bool, ends))


def _long_episodes(states: Any, actions: Any, arrays: dict[str, Any]) -> Iterator[Episode]:
    n = len(states)
    number, step = arrays.get("episode"), arrays.get("step")
    if number is None or step is None or number.shape != (n,) or step.shape != (n,):
        raise BadData(f"episode and step are both needed, one number for each of {n} rows")
    if actions is not None and len(actions) < n:
        raise BadData(f"actions of shape {actions.shape} are too few for its states")
    unique, rank = np.unique(number, return_inverse=True)
    known = {field: values[rank] for field, values in _per_episode(arrays, len(unique)).items()}
    order = np.argsort(rank, kind="stable")  # episodes in the order of their numbers
    known |= {"episode": number, "step": step} | ({} if actions is None else {"actions": actions})
    rows: dict[str, Any] = {field: values[order] for field, values in known.items()}
    yield from LogRows(states[order], **rows).episodes()


def _per_episode(arrays: dict[str, Any], n: int) -> dict[str, NDArray[Any]]:
    if not n:
        raise BadData("it holds no episodes: omit it")
    known = {}
    for name, (field, unknown) in _PER_EPISODE.items():
        values = arrays.get(name, np.full(n, unknown))
        if values.shape != (n,):
            raise BadData(f"{name} needs one value for each of {n} episodes")
        known[field] = values
    return known


def _load_npz(path: Path, only: str = "") -> dict[str, NDArray[Any]]:
    try:
        with open_regular(path) as file:
            budget = Budget(os.fstat(file.fileno()).st_size, str(path), MAX_BYTES)
            return unpack_npz(file, budget, kinds="biufU", only=only)
    except (OSError, BadPolicyFile) as error:
        raise BadData(f"{path} is not a readable .npz of plain arrays: {error}") from error


def npz_path(label: str) -> Path:
    """Return the path of a policy's file; folders in a label stay, but lead nowhere else."""
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


def _npy_policy(path: Path, info: PolicyInfo, options: TableOptions) -> RecordedPolicy:
    return RecordedPolicy(info, partial(_read_npy, path, options), has_actions=False)


def _read_npy(path: Path, options: TableOptions) -> Iterator[Episode]:
    with open_regular(path):  # raises if it is not a regular file
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
            "it that describes the layers"
        )
    rows = None if starts is None else np.load(starts, allow_pickle=False)
    yield from LogRows(states, length=options.episode_length, starts=rows).episodes()


def _hdf5_policy(path: Path, info: PolicyInfo, options: TableOptions) -> RecordedPolicy:
    with _open_hdf5(path) as file:
        known = {name for name in _D4RL if name in file}
        if "observations" not in known:
            inside = ", ".join(map(repr, list(file)[:5])) or "nothing"
            raise BadData(
                f"it has no array observations, as D4RL's files have, but {inside}: a Minari "
                "dataset is named minari:NAME; convert other layouts to arrays or a table first"
            )
    shows_limits = known & {"timeouts", "next_observations"} or options.episode_length is not None
    if "terminals" in known and not shows_limits:
        warnings.warn(
            f"{path} has no timeouts: episodes that were truncated continue into the next one "
            "(--episode-length of `pivec import` separates them)",
            PivecWarning,
            stacklevel=2,
        )
    return RecordedPolicy(info, partial(_read_hdf5, path, options), has_actions="actions" in known)


def _read_hdf5(path: Path, options: TableOptions) -> Iterator[Episode]:
    with _open_hdf5(path) as file:
        budget = Budget(path.stat().st_size, "it", MAX_BYTES)
        arrays = {name: _hdf5_array(file, name, budget) for name in _D4RL if name in file}
    n = len(arrays["observations"])
    for name, array in arrays.items():
        if len(array) != n and not (name == "actions" and len(array) == n - 1):
            raise BadData(f"{name} has {len(array)} rows, but observations {n}")
        if name in ("terminals", "timeouts"):
            arrays[name] = array.reshape(n).astype(bool)
        elif name == "rewards":
            arrays[name] = array.reshape(n)
    fields = {_D4RL[name]: array for name, array in arrays.items()}
    yield from LogRows(length=options.episode_length, **fields).episodes()


def _hdf5_array(file: Any, name: str, budget: Budget) -> Any:
    """Read an array that is in the file itself, and not in another that it links to."""
    import h5py

    array = file[name]
    linked = not isinstance(file.get(name, getlink=True), h5py.HardLink)
    if not isinstance(array, h5py.Dataset) or linked or array.external or array.is_virtual:
        raise BadData(f"{name} must be an array in the file itself, but is not")
    if array.dtype.kind not in "biuf" or not array.shape:
        raise BadData(f"{name} must be an array of numbers, but is {array.dtype}")
    budget.spend(array.size * array.dtype.itemsize)
    return np.asarray(array)


def _open_hdf5(path: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise MissingExtra("reading HDF5 files", "tables") from error
    return h5py.File(path, "r")


ARRAY_FILES: dict[str, Callable[[Path, PolicyInfo, TableOptions], RecordedPolicy]] = {
    ".npz": _npz_policy,
    ".npy": _npy_policy,
    ".hdf5": _hdf5_policy,
    ".h5": _hdf5_policy,
}
