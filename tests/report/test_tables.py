"""Tables read back as they were written, whatever the labels hold."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from pivec.characterizations import Measured
from pivec.errors import UsageError
from pivec.report import write_distances, write_map_csv
from pivec.statistics import Intervals

ODD_LABELS = [
    "a,b",
    'say "x"',
    "back\\slash",
    "=cmd()|' /C calc'!A0",
    "ü€ 漢",
    " space ",
    "_x",
    "$1$",
]


def write_distances_csv(path, labels, distances):
    """Write a matrix alone."""
    d = np.array(distances)
    write_distances(path.parent, labels, Measured(d, np.zeros((len(d), 0), int), d[:, :0]))


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, strict=True))


def test_distances_round_trip_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    d = rng.random((8, 8)) * 10.0 ** rng.integers(-300, 300, (8, 8))
    d[0, 1], d[1, 0] = 0.1 + 0.2, 5e-324
    write_distances_csv(tmp_path / "distances.csv", ODD_LABELS, d)
    head, *lines = read(tmp_path / "distances.csv")
    assert head == ["label", *ODD_LABELS]
    assert [line[0] for line in lines] == ODD_LABELS
    assert np.array_equal([[float(cell) for cell in line[1:]] for line in lines], d)


@pytest.fixture
def few(monkeypatch):
    """Make three policies too many for text."""
    monkeypatch.setattr("pivec.report.findings.MAX_CSV", 2)


NEAR = np.array([[1, 2], [0, 2], [1, 0]]), np.array([[0.1, 0.5], [1e-30, 2.0], [1.0, np.pi]])


def test_many_policies_have_arrays_instead_of_text(tmp_path, few):
    d, near = np.array([[0.0, 0.1, 0.5], [0.1, 0.0, 1e-30], [0.5, 1e-30, 0.0]]), NEAR
    write_distances(tmp_path, ODD_LABELS[:3], Measured(d, *near))
    assert [path.name for path in tmp_path.iterdir()] == ["distances.npz"]
    with np.load(tmp_path / "distances.npz") as kept:
        assert sorted(kept) == ["distances", "labels", "neighbour_distances", "neighbours"]
        assert kept["labels"].tolist() == ODD_LABELS[:3]
        assert np.array_equal(kept["neighbours"], near[0])
        assert np.array_equal(kept["neighbour_distances"], near[1].astype(np.float32))
        assert np.array_equal(kept["distances"], d.astype(np.float32))


def test_all_intervals_stand_beside_the_distances(tmp_path, few):
    matrices = [k + np.eye(3) for k in range(8)]
    sure = Intervals(*matrices, level=0.95)
    sure.low[0, 1] = np.nan
    write_distances(tmp_path, ["a", "b", "c"], Measured(np.eye(3), *NEAR, intervals=sure))
    with np.load(tmp_path / "distances.npz") as kept:
        for name, matrix in zip(("estimates", "low", "high", "p"), (0, 1, 2, 5), strict=True):
            assert np.array_equal(kept[name], matrices[matrix], equal_nan=True)
            assert kept[name].dtype == np.float32


def test_distances_beyond_float32_are_float64(tmp_path, few):
    write_distances(tmp_path, ["a", "b", "c"], Measured(1e300 * np.eye(3), *NEAR))
    with np.load(tmp_path / "distances.npz") as kept:
        assert kept["distances"][0, 0] == 1e300


def test_distances_of_fewer_or_more_policies_do_not_stay_beside(tmp_path, monkeypatch, few):
    write_distances(tmp_path, ["a", "b", "c"], Measured(None, *NEAR))
    monkeypatch.setattr("pivec.report.findings.MAX_CSV", 3)
    for matrix in (np.eye(3), None):
        if matrix is None:
            monkeypatch.setattr("pivec.report.findings.MAX_CSV", 2)
        write_distances(tmp_path, ["a", "b", "c"], Measured(matrix, *NEAR))
        kind = "npz" if matrix is None else "csv"
        assert [path.name for path in tmp_path.iterdir()] == [f"distances.{kind}"]


@pytest.mark.parametrize(("name", "most"), [("distances.npz", 3), ("distances.csv", 2)])
def test_a_file_of_that_name_that_is_not_of_pivec_stays(tmp_path, monkeypatch, name, most):
    monkeypatch.setattr("pivec.report.findings.MAX_CSV", most)
    (tmp_path / name).write_text("mine")
    write_distances(tmp_path, ["a", "b", "c"], Measured(np.eye(3), *NEAR))
    assert (tmp_path / name).read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2


def test_the_page_says_what_the_arrays_hold(few, make_report, rows_of):
    for matrix, words in ((None, "the 2 nearest neighbours"), (np.eye(3), "all distances")):
        findings = make_report(policies=rows_of(3), measured=Measured(matrix, *NEAR))
        assert words in findings.distances_note
    two = Measured(np.eye(2), NEAR[0][:2], NEAR[1][:2])
    assert make_report(policies=rows_of(2), measured=two).distances_note == ""


def test_labels_are_kept_literally(tmp_path):
    write_distances_csv(tmp_path / "distances.csv", ["=cmd()"], [[0.0]])
    assert (tmp_path / "distances.csv").read_bytes() == b"label,=cmd()\r\n=cmd(),0.0\r\n"


def test_file_follows_rfc_4180(tmp_path):
    write_distances_csv(tmp_path / "distances.csv", ['q"', "x,y"], np.zeros((2, 2)))
    text = (tmp_path / "distances.csv").read_bytes().decode()
    assert text == 'label,"q""","x,y"\r\n"q""",0.0,0.0\r\n"x,y",0.0,0.0\r\n'


def test_names_that_are_not_text_are_escaped(tmp_path):
    write_distances_csv(tmp_path / "distances.csv", ["a\udcff"], [[0.0]])
    assert read(tmp_path / "distances.csv")[0] == ["label", "a\\udcff"]


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
    write_map_csv(tmp_path / "map.csv", report.policies)
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
    path = tmp_path / "distances.csv"
    write_distances_csv(path, ["a"], [[0.0]])
    before = path.read_bytes()
    with pytest.raises(UsageError, match="2 labels"):
        write_distances_csv(path, ["a", "b"], [[0.0]])
    with pytest.raises(AttributeError):
        write_distances_csv(path, [None], [[1.0]])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
