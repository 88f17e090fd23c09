"""Rows of different lengths are picked and joined like plain ones."""

from __future__ import annotations

import numpy as np

from pivec.characterizations.descriptions import join_rows, pack, take_rows, unpack

ROWS = [np.arange(6).reshape(3, 2), np.arange(2).reshape(1, 2), np.arange(8).reshape(4, 2)]


def test_what_was_packed_comes_out():
    for row, expected in zip(unpack(pack("x", ROWS), "x"), ROWS, strict=True):
        assert np.array_equal(row, expected)


def test_rows_are_taken_in_the_asked_order_beside_plain_ones():
    arrays = pack("x", ROWS) | {"plain": np.array([10, 11, 12])}
    taken = take_rows(arrays, np.array([2, 0, 2]))
    assert [len(row) for row in unpack(taken, "x")] == [4, 3, 4]
    assert np.array_equal(unpack(taken, "x")[1], ROWS[0])
    assert taken["plain"].tolist() == [12, 10, 12]


def test_no_rows_at_all():
    taken = take_rows(pack("x", ROWS), np.array([], dtype=np.intp))
    assert unpack(taken, "x") == []
    assert taken["x"].shape == (0, 2)


def test_joining_keeps_every_row():
    joined = join_rows(pack("x", ROWS[:2]), pack("x", ROWS[1:]))
    for row, expected in zip(unpack(joined, "x"), ROWS[:2] + ROWS[1:], strict=True):
        assert np.array_equal(row, expected)


def test_an_entry_that_merely_ends_in_starts_is_plain():
    arrays = {"head.starts": np.array([5, 6])}
    assert take_rows(arrays, np.array([1]))["head.starts"].tolist() == [6]
    assert join_rows(arrays, arrays)["head.starts"].tolist() == [5, 6, 5, 6]
