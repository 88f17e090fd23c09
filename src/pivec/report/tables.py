"""Tables as CSV files (RFC 4180, UTF-8), exact to the last bit of every number.

Cells hold labels literally. A label such as ``=cmd()`` is a formula to some spreadsheet programs;
it is written as it is, so that files can be read back without loss. Import such files as text.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.atomic import atomic_write
from pivec.errors import BadData, UsageError
from pivec.report.data import MapRows
from pivec.terminal import encodable

Array = NDArray[np.float64]
Path = str | os.PathLike[str]

MAP_COLUMNS = (
    "label",
    "group",
    "step",
    "x",
    "y",
    "mean_return",
    "episodes",
    "states",
    "source",
    "reference",
)


def write_distances_csv(path: Path, labels: Sequence[str], distances: ArrayLike) -> None:
    """Write a square matrix of distances, labels in the first row and the first column.

    Parameters
    ----------
    path : path
        Replaced when the new file is whole.
    labels : sequence of str
    distances : (n, n) array

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
        raise UsageError(f"distances must have shape ({n}, {n}), one row a label, not {d.shape}.")
    names = [encodable(label) for label in labels]
    with atomic_write(path, "w") as file:
        writer = csv.writer(file)
        writer.writerow(["label", *names])
        for name, row in zip(names, d, strict=True):
            # repr of a float64 is the shortest text that reads back as the same number.
            writer.writerow([name, *map(repr, row.tolist())])


def write_neighbours_csv(
    path: Path, labels: Sequence[str], neighbours: NDArray[np.intp], distances: ArrayLike
) -> None:
    """Write the nearest others of each policy, a row a pair, where a matrix would be too large.

    Parameters
    ----------
    path : path
        Replaced when the new file is whole.
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
    rows = zip(names, neighbours.tolist(), np.asarray(distances).tolist(), strict=True)
    with atomic_write(path, "w") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "neighbour", "distance"])
        for name, others, far in rows:
            writer.writerows([name, names[j], repr(d)] for j, d in zip(others, far, strict=True))


def read_distances_csv(path: Path) -> tuple[list[str], Array]:
    """Read what `write_distances_csv` wrote.

    Returns
    -------
    labels : list of str
    distances : (n, n) float64 array

    Raises
    ------
    BadData
        If the file is not a square table of numbers whose labels agree.
    """
    with _reader(path) as lines:
        labels = next(lines, ["label"])[1:]
        n = len(labels)
        distances = np.empty((n, n))
        count = 0
        for i, line in enumerate(lines):
            if i >= n or len(line) != n + 1 or line[0] != labels[i]:
                raise BadData(
                    f"{os.fspath(path)} must be a square table with the same labels in its first "
                    f"row and column, but line {i + 2} does not fit; write it anew."
                )
            distances[i] = [float(cell) for cell in line[1:]]
            count = i + 1
    if n == 0 or count != n:
        raise BadData(
            f"{os.fspath(path)} must have one row for each of its {n} labels, not {count}; "
            "write it anew."
        )
    return labels, distances


def write_map_csv(path: Path, rows: MapRows) -> None:
    """Write a map, one policy a line; an unknown step or return is an empty cell.

    Parameters
    ----------
    path : path
        Replaced when the new file is whole.
    rows : MapRows

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "map.csv"
    >>> write_map_csv(path, MapRows(["a"], ["run"], [5], np.array([[0.5, 1.0]]),
    ...     np.array([9.5]), [10], [200], ["a.zip"], [False]))
    >>> print(path.read_text())
    label,group,step,x,y,mean_return,episodes,states,source,reference
    a,run,5,0.5,1.0,9.5,10,200,a.zip,false
    """
    with atomic_write(path, "w") as file:
        writer = csv.writer(file)
        writer.writerow(MAP_COLUMNS)
        for i, (x, y) in enumerate(rows.positions.tolist()):
            step, mean_return = rows.steps[i], float(rows.mean_returns[i])
            writer.writerow(
                [
                    encodable(rows.labels[i]),
                    encodable(rows.groups[i]),
                    "" if step is None else int(step),
                    repr(x),
                    repr(y),
                    "" if math.isnan(mean_return) else repr(mean_return),
                    int(rows.n_episodes[i]),
                    int(rows.n_states[i]),
                    encodable(rows.sources[i]),
                    "true" if rows.is_reference[i] else "false",
                ]
            )


def read_map_csv(path: Path) -> MapRows:
    """Read what `write_map_csv` wrote.

    Raises
    ------
    BadData
        If the file has other columns, or cells that cannot be read.
    """
    with _reader(path) as lines:
        header = next(lines, [])
        if tuple(header) != MAP_COLUMNS:
            raise BadData(
                f"{os.fspath(path)} must have the columns {', '.join(MAP_COLUMNS)}, "
                f"not {', '.join(header) or 'none'}; write it anew."
            )
        table = list(lines)
        for i, line in enumerate(table):
            if len(line) != len(MAP_COLUMNS) or line[9] not in ("true", "false"):
                raise BadData(f"{os.fspath(path)}: line {i + 2} is damaged; write it anew.")
        return MapRows(
            labels=[line[0] for line in table],
            groups=[line[1] for line in table],
            steps=[int(line[2]) if line[2] else None for line in table],
            positions=np.array(
                [[float(line[3]), float(line[4])] for line in table], dtype=np.float64
            ).reshape(-1, 2),
            mean_returns=np.array(
                [float(line[5]) if line[5] else np.nan for line in table], dtype=np.float64
            ),
            n_episodes=[int(line[6]) for line in table],
            n_states=[int(line[7]) for line in table],
            sources=[line[8] for line in table],
            is_reference=[line[9] == "true" for line in table],
        )


@contextmanager
def _reader(path: Path) -> Iterator[Iterator[list[str]]]:
    """Lines of a CSV file; whatever is wrong with its text becomes `BadData`."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield csv.reader(file, strict=True)
    except FileNotFoundError:
        raise
    except (csv.Error, UnicodeDecodeError, ValueError) as error:
        raise BadData(
            f"{os.fspath(path)} must be a table that pivec wrote, but it cannot be read "
            f"({error}); write it anew."
        ) from error
