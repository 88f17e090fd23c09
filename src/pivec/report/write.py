"""The files of a comparison: tables, pictures and the page."""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import Measured
from pivec.errors import UsageError
from pivec.files import atomic_write, cell, make_folder, write_csv
from pivec.report.findings import (
    DISTANCES_CSV,
    DISTANCES_NPZ,
    Findings,
    PairRow,
    PolicyRow,
    distances_file,
)
from pivec.report.pages import Pictures, report_html, write_page
from pivec.terminal import encodable


def write_results(folder: str | os.PathLike[str], findings: Findings) -> Path:
    """Write the tables, pictures and page of a comparison; return the path of the page.

    These are distances.csv (or distances.npz), pairs.csv, map.csv, distances.png, map.png and
    report.html.
    """
    home = make_folder(folder)
    write_distances(home, findings.policies.labels, findings.measured)
    write_pairs_csv(home / "pairs.csv", findings.pair_rows)
    write_map_csv(home / "map.csv", findings.policies)
    pictures = Pictures.of(findings)
    for name, png in (("distances.png", pictures.heatmap), ("map.png", pictures.map)):
        with atomic_write(home / name) as file:
            file.write(png)
    write_page(home / "report.html", report_html(findings, pictures))
    return home / "report.html"


def write_distances(
    folder: str | os.PathLike[str], labels: Sequence[str], measured: Measured
) -> None:
    """Write distances.csv, or distances.npz for more than 1000 policies.

    distances.csv has labels in the first row and the first column. distances.npz has ``labels``;
    ``neighbours``, the numbers of the nearest others of each policy, and ``neighbour_distances``;
    ``distances`` as measured, where the matrix is kept; and where all intervals are, ``estimates``
    (without sampling noise; may be below 0), ``low``, ``high`` and ``p``. The other file, if an
    earlier run left it, is removed.
    """
    n = len(measured.neighbours)
    if len(labels) != n:
        raise UsageError(f"distances must be those of the {len(labels)} labels, but are of {n}")
    names = [encodable(label) for label in labels]
    csv_file, npz_file = Path(folder, DISTANCES_CSV), Path(folder, DISTANCES_NPZ)
    if distances_file(n) == DISTANCES_CSV:
        if measured.matrix is None:
            raise UsageError("expected all distances, but only those to nearest others are known")
        rows = ([names[i], *row.tolist()] for i, row in enumerate(measured.matrix))
        write_csv(csv_file, ["label", *names], rows)
        _remove_earlier(npz_file)
        return
    arrays = {
        "labels": np.array(names),
        "neighbours": measured.neighbours.astype(np.int32),
        "neighbour_distances": _compact(measured.neighbour_distances),
    }
    if measured.matrix is not None:
        arrays["distances"] = _compact(measured.matrix)
    if (sure := measured.intervals) is not None:
        known = {"estimates": sure.distance, "low": sure.low, "high": sure.high, "p": sure.p_value}
        arrays |= {name: _compact(matrix) for name, matrix in known.items()}
    with atomic_write(npz_file) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    _remove_earlier(csv_file)


def _remove_earlier(path: Path) -> None:
    """Remove a file that pivec wrote; another of that name is a user's own."""
    ours = False
    if path.suffix == ".npz" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            ours = {"labels.npy", "neighbours.npy"} <= set(archive.namelist())
    elif path.suffix == ".csv":
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            ours = file.readline(6) == b"label,"
    if ours:
        path.unlink()


def _compact(values: NDArray[np.float64]) -> NDArray[np.floating]:
    """Convert to float32, seven digits where sampling leaves three, unless some are too large."""
    most = np.abs(values, where=np.isfinite(values), out=np.zeros_like(values)).max(initial=0.0)
    return values.astype(np.float32) if most <= np.finfo(np.float32).max else values


def write_map_csv(path: str | os.PathLike[str], rows: Sequence[PolicyRow]) -> None:
    """Write a map, one line per policy; an unknown step or return is an empty cell."""
    _write_rows(path, PolicyRow, rows)


def write_pairs_csv(path: str | os.PathLike[str], rows: Iterable[PairRow]) -> None:
    """Write distances of pairs and their uncertainty, one line per pair.

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
