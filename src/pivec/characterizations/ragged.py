"""Rows of different lengths, one for each policy, as plain arrays that can be saved and joined.

A packed entry is two arrays: ``name`` holds all rows one after another, and ``name.starts``, of
n_policies + 1 numbers, tells where each begins. Everything else has one row a policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_STARTS = ".starts"


def pack(name: str, rows: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Pack one array a policy, equal but for their lengths, under ``name``.

    Examples
    --------
    >>> packed = pack("cells", [np.array([3, 1]), np.array([2])])
    >>> packed["cells"], packed["cells.starts"]
    (array([3, 1, 2]), array([0, 2, 3]))
    """
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
    return {name: np.concatenate(rows), name + _STARTS: starts}


def unpack(arrays: Mapping[str, NDArray[Any]], name: str) -> list[NDArray[Any]]:
    """Give the rows that `pack` packed under ``name``, one array a policy, without copying.

    Examples
    --------
    >>> unpack(pack("cells", [np.array([3, 1]), np.array([2])]), "cells")
    [array([3, 1]), array([2])]
    """
    return [arrays[name][i:j] for i, j in pairwise(arrays[name + _STARTS].tolist())]


def take_rows(
    arrays: Mapping[str, NDArray[Any]], index: NDArray[np.intp]
) -> dict[str, NDArray[Any]]:
    """Pick policies by number, of plain and of packed entries.

    Examples
    --------
    >>> take_rows(pack("cells", [np.array([3, 1]), np.array([2])]), np.array([1]))
    {'cells': array([2]), 'cells.starts': array([0, 1])}
    """
    result: dict[str, NDArray[Any]] = {}
    for name, values in arrays.items():
        if name + _STARTS in arrays:
            rows = unpack(arrays, name)
            chosen = [rows[i] for i in index.tolist()]
            result |= pack(name, chosen or [values[:0]])
            if not chosen:
                result[name + _STARTS] = np.zeros(1, dtype=np.int64)
        elif not _is_starts(arrays, name):
            result[name] = values[index]
    return result


def join_rows(
    a: Mapping[str, NDArray[Any]], b: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Put the policies of ``b`` behind those of ``a``, in plain and in packed entries."""
    result: dict[str, NDArray[Any]] = {}
    for name, values in a.items():
        if _is_starts(a, name):
            result[name] = np.concatenate([values, values[-1] + b[name][1:]])
        else:
            result[name] = np.concatenate([values, b[name]])
    return result


def _is_starts(arrays: Mapping[str, NDArray[Any]], name: str) -> bool:
    return name.endswith(_STARTS) and name.removesuffix(_STARTS) in arrays
