"""Recorded states in HDF5 files as D4RL writes them: an array for each of observations and so on.

A file is one policy. ``observations`` (n, ...) has all episodes one after another; beside it,
all optional: ``actions``, ``rewards``, ``terminals``, ``timeouts`` and ``next_observations``, of
as many rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pivec.errors import BadData, MissingExtra, PivecWarning
from pivec.files import Budget
from pivec.options import TableOptions
from pivec.policies import PolicyInfo
from pivec.rollouts import Episode
from pivec.states.record import Recorded
from pivec.states.tables import LogRows

MOST = 1 << 34  # bytes a file may unpack to
_FIELDS = {
    "states": "observations",
    "actions": "actions",
    "reward": "rewards",
    "terminated": "terminals",
    "truncated": "timeouts",
    "after": "next_observations",
}
_ENDS = {"timeouts", "next_observations"}  # that show where a time limit ended an episode


def recorded_hdf5(path: Path, info: PolicyInfo, options: TableOptions) -> Recorded:
    """Find the policy of a file."""
    with _open(path) as file:
        known = [name for name in _FIELDS.values() if name in file]
        if "observations" not in known:
            inside = ", ".join(map(repr, list(file)[:5])) or "nothing"
            raise BadData(
                f"it has no array observations, as D4RL's files have, but {inside}: a Minari "
                "dataset is named minari:NAME; of other layouts make arrays or a table first"
            )
    if "terminals" in known and not _ENDS & set(known) and options.episode_length is None:
        warnings.warn(
            f"{path} has no timeouts: episodes that a time limit ended run on into the next one "
            "(--episode-length of `pivec import` cuts them)",
            PivecWarning,
            stacklevel=2,
        )
    read = partial(_episodes, path, options)
    return Recorded(info, read, has_actions="actions" in known)


def _episodes(path: Path, options: TableOptions) -> Iterator[Episode]:
    with _open(path) as file:
        budget = Budget(path.stat().st_size, "it", MOST)
        arrays = {
            field: _array(file, name, budget) for field, name in _FIELDS.items() if name in file
        }
    n = len(arrays["states"])
    for field, array in arrays.items():
        if len(array) != n and not (field == "actions" and len(array) == n - 1):
            raise BadData(
                f"{_FIELDS[field]} has {len(array)} rows, but observations {n}: all need the same"
            )
    for field in ("terminated", "truncated", "reward"):
        if field in arrays:
            arrays[field] = arrays[field].reshape(n)
            arrays[field] = arrays[field] if field == "reward" else arrays[field].astype(bool)
    yield from LogRows(length=options.episode_length, **arrays).episodes()


def _array(file: Any, name: str, budget: Budget) -> Any:
    """Read an array that lies in the file itself, and not in another that it names."""
    import h5py

    array = file[name]
    linked = not isinstance(file.get(name, getlink=True), h5py.HardLink)
    if not isinstance(array, h5py.Dataset) or linked or array.external or array.is_virtual:
        raise BadData(f"{name} must be an array in the file itself, but is not")
    if array.dtype.kind not in "biuf" or not array.shape:
        raise BadData(f"{name} must be an array of numbers, but is {array.dtype}")
    budget.spend(array.size * array.dtype.itemsize)
    return np.asarray(array)


def _open(path: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise MissingExtra("reading HDF5 files", "tables") from error
    return h5py.File(path, "r")
