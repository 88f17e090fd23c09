"""Tables read back as they were written, whatever the labels hold."""

from __future__ import annotations

import csv
import dataclasses

import numpy as np
import pytest

from pivec.errors import BadData, UsageError
from pivec.report import (
    MapRows,
    read_distances_csv,
    read_map_csv,
    write_distances_csv,
    write_map_csv,
)

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


def test_distances_round_trip_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    d = rng.random((8, 8)) * 10.0 ** rng.integers(-300, 300, (8, 8))
    d[0, 1], d[1, 0] = 0.1 + 0.2, 5e-324
    write_distances_csv(tmp_path / "d.csv", ODD_LABELS, d)
    labels, back = read_distances_csv(tmp_path / "d.csv")
    assert labels == ODD_LABELS
    assert np.array_equal(back, d)


def test_labels_are_kept_literally(tmp_path):
    write_distances_csv(tmp_path / "d.csv", ["=cmd()"], [[0.0]])
    assert (tmp_path / "d.csv").read_bytes() == b"label,=cmd()\r\n=cmd(),0.0\r\n"


def test_file_follows_rfc_4180(tmp_path):
    write_distances_csv(tmp_path / "d.csv", ['q"', "x,y"], np.zeros((2, 2)))
    text = (tmp_path / "d.csv").read_bytes().decode()
    assert text == 'label,"q""","x,y"\r\n"q""",0.0,0.0\r\n"x,y",0.0,0.0\r\n'


def test_names_that_are_not_text_are_escaped(tmp_path):
    write_distances_csv(tmp_path / "d.csv", ["a\udcff"], [[0.0]])
    assert read_distances_csv(tmp_path / "d.csv")[0] == ["a\\udcff"]


def test_map_round_trip(tmp_path):
    n = len(ODD_LABELS)
    rng = np.random.default_rng(1)
    rows = MapRows(
        labels=ODD_LABELS,
        groups=[*ODD_LABELS[1:], ""],
        steps=[None, *range(1, n)],
        positions=rng.normal(size=(n, 2)),
        mean_returns=np.array([np.nan, np.inf, -0.1, *rng.normal(size=n - 3)]),
        n_episodes=np.arange(n),
        n_states=[10**12] * n,
        sources=ODD_LABELS[::-1],
        is_reference=[True] + [False] * (n - 1),
    )
    write_map_csv(tmp_path / "map.csv", rows)
    back = read_map_csv(tmp_path / "map.csv")
    for field in dataclasses.fields(MapRows):
        a, b = getattr(rows, field.name), getattr(back, field.name)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_map_has_the_promised_columns(tmp_path, report):
    write_map_csv(tmp_path / "map.csv", report)
    with open(tmp_path / "map.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == [
        "label", "group", "step", "x", "y", "mean_return", "episodes", "states", "source",
        "reference",
    ]  # fmt: skip
    assert lines[8]["step"] == ""
    assert [line["reference"] for line in lines] == ["false"] * 10 + ["true"]


def test_an_empty_map_can_be_read(tmp_path):
    write_map_csv(tmp_path / "m.csv", MapRows([], [], [], np.zeros((0, 2)), [], [], [], [], []))
    assert len(read_map_csv(tmp_path / "m.csv")) == 0


def test_failure_keeps_the_old_table(tmp_path):
    path = tmp_path / "d.csv"
    write_distances_csv(path, ["a"], [[0.0]])
    before = path.read_bytes()
    with pytest.raises(UsageError, match="shape"):
        write_distances_csv(path, ["a", "b"], [[0.0]])
    with pytest.raises(AttributeError):
        write_distances_csv(path, [None], [[1.0]])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "text",
    ["", "label\r\n", "label,a,b\r\na,0,1\r\n", "label,a\r\nb,0\r\n", "label,a\r\na,x\r\n",
     "label,a\r\na,0\r\na,0\r\n", 'label,"a\r\n'],
)  # fmt: skip
def test_damaged_distances_are_told(tmp_path, text):
    (tmp_path / "d.csv").write_text(text, newline="")
    with pytest.raises(BadData, match="write it anew"):
        read_distances_csv(tmp_path / "d.csv")


@pytest.mark.parametrize(
    "line",
    ["a,g,1,0,0,1,1,1,s", "a,g,x,0,0,1,1,1,s,true", "a,g,1,0,0,1,1,1,s,maybe"],
)
def test_damaged_maps_are_told(tmp_path, line):
    head = "label,group,step,x,y,mean_return,episodes,states,source,reference"
    (tmp_path / "m.csv").write_text(f"{head}\n{line}\n")
    with pytest.raises(BadData, match="write it anew"):
        read_map_csv(tmp_path / "m.csv")
    (tmp_path / "m.csv").write_text("a,b\n")
    with pytest.raises(BadData, match="columns"):
        read_map_csv(tmp_path / "m.csv")


def test_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_map_csv(tmp_path / "none.csv")
