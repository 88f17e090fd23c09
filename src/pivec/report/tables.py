"""The tables beside the page: distances.csv, pairs.csv and map.csv."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from pivec.csv_file import cell, write_csv
from pivec.distances import Measured
from pivec.errors import UsageError
from pivec.report.data import PairRow, PolicyRow
from pivec.terminal import encodable


def write_distances_csv(
    path: str | os.PathLike[str], labels: Sequence[str], measured: Measured
) -> None:
    """Write all distances, labels in the first row and the first column.

    Where there are too many for a matrix, write the nearest others of each policy, a row a pair.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "distances.csv"
    >>> d = np.array([[0.0, 0.1], [0.1, 0.0]])
    >>> near = np.array([[1], [0]]), np.array([[0.1], [0.1]])
    >>> write_distances_csv(path, ["a", "b"], Measured(d, *near))
    >>> print(path.read_text())
    label,a,b
    a,0.0,0.1
    b,0.1,0.0
    >>> write_distances_csv(path, ["a", "b"], Measured(None, *near))
    >>> print(path.read_text())
    label,neighbour,distance
    a,b,0.1
    b,a,0.1
    """
    if len(labels) != len(measured.neighbours):
        raise UsageError(
            f"distances must be those of the {len(labels)} labels, but are of "
            f"{len(measured.neighbours)} policies"
        )
    names = [encodable(label) for label in labels]
    rows: Iterable[list[Any]]
    if measured.matrix is not None:
        columns = ["label", *names]
        rows = ([names[i], *row.tolist()] for i, row in enumerate(measured.matrix))
    else:
        columns = ["label", "neighbour", "distance"]
        rows = (
            [names[i], names[j], distance]
            for i, others in enumerate(measured.neighbours.tolist())
            for j, distance in zip(others, measured.neighbour_distances[i].tolist(), strict=True)
        )
    write_csv(path, columns, rows)


def write_map_csv(path: str | os.PathLike[str], rows: Sequence[PolicyRow]) -> None:
    """Write a map, one policy a line; an unknown step or return is an empty cell."""
    _write_rows(path, PolicyRow, rows)


def write_pairs_csv(path: str | os.PathLike[str], rows: Iterable[PairRow]) -> None:
    """Write how far apart policies are and how sure that is, a pair a line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pairs.csv"
    >>> unknown = float("nan")
    >>> write_pairs_csv(path, [PairRow("a", "b", 0.3, 0.2, 0.4, unknown, 0.001, 0.002)])
    >>> print(path.read_text())
    policy,other,distance,low,high,overlap,p,q
    a,b,0.3,0.2,0.4,,0.001,0.002
    """
    _write_rows(path, PairRow, rows)


def _write_rows(path: str | os.PathLike[str], kind: type[Any], rows: Iterable[Any]) -> None:
    columns = [column.name for column in fields(kind) if column.metadata.get("csv", True)]
    write_csv(path, columns, ([cell(getattr(row, name)) for name in columns] for row in rows))
