"""Tables read back as they were written, whatever the labels hold."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from pivec.distances import Measured
from pivec.errors import UsageError
from pivec.report import write_distances_csv as write_csv_of
from pivec.report import write_map_csv

ODD_LABELS = [
    "a,b",
    'say "x"',
    "two\r\nlines",
    "=cmd()|' /C calc'!A0",
    "ü€ 漢",
    " space ",
    "_x",
    "$1$",
]


def write_distances_csv(path, labels, distances):
    """Write a matrix alone."""
    d = np.array(distances)
    write_csv_of(path, labels, Measured(d, np.zeros((len(d), 0), int), d[:, :0]))


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, strict=True))


def test_distances_round_trip_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    d = rng.random((8, 8)) * 10.0 ** rng.integers(-300, 300, (8, 8))
    d[0, 1], d[1, 0] = 0.1 + 0.2, 5e-324
    write_distances_csv(tmp_path / "d.csv", ODD_LABELS, d)
    head, *lines = read(tmp_path / "d.csv")
    assert head == ["label", *ODD_LABELS]
    assert [line[0] for line in lines] == ODD_LABELS
    assert np.array_equal([[float(cell) for cell in line[1:]] for line in lines], d)


def test_neighbours_round_trip_to_the_last_bit(tmp_path):
    neighbours = np.array([[1, 2], [0, 2], [1, 0]])
    distances = np.array([[0.1 + 0.2, 1e-300], [5e-324, 1e300], [1.0, np.pi]])
    measured = Measured(None, neighbours, distances)
    write_csv_of(tmp_path / "d.csv", ODD_LABELS[:3], measured)
    head, *lines = read(tmp_path / "d.csv")
    assert head == ["label", "neighbour", "distance"]
    places = [(i, k) for i in range(3) for k in range(2)]
    for line, (i, k) in zip(lines, places, strict=True):
        assert line[:2] == [ODD_LABELS[i], ODD_LABELS[neighbours[i, k]]]
        assert float(line[2]) == distances[i, k]


def test_labels_are_kept_literally(tmp_path):
    write_distances_csv(tmp_path / "d.csv", ["=cmd()"], [[0.0]])
    assert (tmp_path / "d.csv").read_bytes() == b"label,=cmd()\r\n=cmd(),0.0\r\n"


def test_file_follows_rfc_4180(tmp_path):
    write_distances_csv(tmp_path / "d.csv", ['q"', "x,y"], np.zeros((2, 2)))
    text = (tmp_path / "d.csv").read_bytes().decode()
    assert text == 'label,"q""","x,y"\r\n"q""",0.0,0.0\r\n"x,y",0.0,0.0\r\n'


def test_names_that_are_not_text_are_escaped(tmp_path):
    write_distances_csv(tmp_path / "d.csv", ["a\udcff"], [[0.0]])
    assert read(tmp_path / "d.csv")[0] == ["label", "a\\udcff"]


def test_map_round_trip(tmp_path, rows_of):
    n = len(ODD_LABELS)
    rng = np.random.default_rng(1)
    columns = {
        "label": ODD_LABELS,
        "group": [*ODD_LABELS[1:], ""],
        "step": [None, *range(1, n)],
        "x": rng.normal(size=n).tolist(),
        "y": rng.normal(size=n).tolist(),
        "mean_return": [np.nan, np.inf, -0.1, *rng.normal(size=n - 3).tolist()],
        "episodes": list(range(n)),
        "states": [10**12] * n,
        "source": ODD_LABELS[::-1],
        "reference": [True] + [False] * (n - 1),
    }
    write_map_csv(tmp_path / "map.csv", rows_of(n, **columns))
    head, *lines = read(tmp_path / "map.csv")
    back = dict(zip(head, zip(*lines, strict=True), strict=True))
    for name in ("label", "group", "source"):
        assert list(back[name]) == columns[name]
    for name in ("x", "y", "episodes", "states"):
        assert [float(cell) for cell in back[name]] == columns[name]
    assert back["step"] == ("", *map(str, range(1, n)))
    assert back["mean_return"][0] == ""
    assert [float(cell) for cell in back["mean_return"][1:]] == columns["mean_return"][1:]
    assert back["reference"] == ("true", *["false"] * (n - 1))


def test_map_has_the_promised_columns(tmp_path, report):
    write_map_csv(tmp_path / "map.csv", report.rows)
    with open(tmp_path / "map.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == [
        "label", "group", "step", "x", "y", "mean_return", "episodes", "states", "source",
        "reference", "placed", "behaviour",
    ]  # fmt: skip
    assert lines[8]["step"] == ""
    assert [line["reference"] for line in lines] == ["false"] * 10 + ["true"]


def test_an_empty_map_has_columns(tmp_path):
    write_map_csv(tmp_path / "m.csv", [])
    assert len(read(tmp_path / "m.csv")) == 1


def test_failure_keeps_the_old_table(tmp_path):
    path = tmp_path / "d.csv"
    write_distances_csv(path, ["a"], [[0.0]])
    before = path.read_bytes()
    with pytest.raises(UsageError, match="2 labels"):
        write_distances_csv(path, ["a", "b"], [[0.0]])
    with pytest.raises(AttributeError):
        write_distances_csv(path, [None], [[1.0]])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
