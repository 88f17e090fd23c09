"""The tables beside the page: distances.csv and map.csv."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.csv_file import cell, write_csv
from pivec.errors import UsageError
from pivec.report.data import PolicyRow
from pivec.terminal import encodable

Path = str | os.PathLike[str]

MAP_COLUMNS = tuple(column.name for column in fields(PolicyRow) if column.metadata.get("csv", True))


def write_distances_csv(path: Path, labels: Sequence[str], distances: ArrayLike) -> None:
    """Write a square matrix of distances, labels in the first row and the first column.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "distances.csv"
    >>> write_distances_csv(path, ["a", "b"], [[0.0, 0.1], [0.1, 0.0]])
    >>> print(path.read_text())
    label,a,b
    a,0.0,0.1
    b,0.1,0.0
    """
    d = np.asarray(distances, dtype=np.float64)
    n = len(labels)
    if d.shape != (n, n):
        raise UsageError(f"distances must have shape ({n}, {n}), one row a label, but {d.shape}")
    names = [encodable(label) for label in labels]
    rows = ([name, *row.tolist()] for name, row in zip(names, d, strict=True))
    write_csv(path, ["label", *names], rows)


def write_neighbours_csv(
    path: Path, labels: Sequence[str], neighbours: NDArray[np.intp], distances: ArrayLike
) -> None:
    """Write the nearest others of each policy, a row a pair, where a matrix would be too large.

    Parameters
    ----------
    path : path
    labels : sequence of str
    neighbours, distances : (n, k) arrays
        Row numbers of the nearest others, and how far they are.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "distances.csv"
    >>> write_neighbours_csv(path, ["a", "b"], np.array([[1], [0]]), [[0.5], [0.5]])
    >>> print(path.read_text())
    label,neighbour,distance
    a,b,0.5
    b,a,0.5
    """
    names = [encodable(label) for label in labels]
    pairs = zip(names, neighbours.tolist(), np.asarray(distances).tolist(), strict=True)
    rows = (
        [name, names[j], distance]
        for name, others, far in pairs
        for j, distance in zip(others, far, strict=True)
    )
    write_csv(path, ["label", "neighbour", "distance"], rows)


def write_map_csv(path: Path, rows: Sequence[PolicyRow]) -> None:
    """Write a map, one policy a line; an unknown step or return is an empty cell.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "map.csv"
    >>> write_map_csv(path, [PolicyRow("a", "run", 5, 0.5, 1.0, 9.5, 10, 200, "a.zip")])
    >>> print(path.read_text())
    label,group,step,x,y,mean_return,episodes,states,source,reference
    a,run,5,0.5,1.0,9.5,10,200,a.zip,false
    """
    cells = ([cell(getattr(row, name)) for name in MAP_COLUMNS] for row in rows)
    write_csv(path, MAP_COLUMNS, cells)
