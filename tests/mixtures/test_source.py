"""Sources give the rows that are asked for, from memory or from a file."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import BadData
from pivec.mixtures import ArraySource, StateSource
from pivec.mixtures.model import as_source, block_at, block_rows, release_pages, spans_of


def states(n=1000, d=3):
    return np.arange(n * d, dtype=np.float32).reshape(n, d)


class Claiming:
    """A source that claims to have more rows than it has."""

    n_states, n_features = 12, 3

    def rows(self, first, last):
        return states(10)[first:last]


def test_rows_of_an_array_are_views():
    source = ArraySource(states())
    assert np.shares_memory(source.rows(300, 600), source.states)
    np.testing.assert_array_equal(source.rows(300, 600), states()[300:600])
    assert isinstance(source, StateSource)


def test_spans_cover_a_source():
    source = ArraySource(np.zeros((2 * block_rows(3) + 5, 3), np.float32))
    rows = [range(*span) for span in spans_of(source)]
    assert [row for span in rows for row in span] == list(range(source.n_states))
    assert list(map(len, rows)) == [block_rows(3)] * 2 + [5]
    assert spans_of(ArraySource(np.zeros((0, 3)))) == []


def test_blocks_of_a_file_are_right_after_their_pages_were_released(tmp_path):
    np.save(tmp_path / "states.npy", states(100_000))
    mapped = np.load(tmp_path / "states.npy", mmap_mode="r")
    source = ArraySource(mapped)
    for _ in range(2):
        for first in range(0, 98_000, 7_000):
            with block_at(source, (first, first + 7_000)) as block:
                np.testing.assert_array_equal(block, states(100_000)[first : first + 7_000])


def test_releasing_pages_leaves_ordinary_and_writeable_arrays_alone(tmp_path):
    ordinary = states()
    release_pages(ordinary)
    np.testing.assert_array_equal(ordinary, states())
    np.save(tmp_path / "states.npy", states())
    private = np.load(tmp_path / "states.npy", mmap_mode="c")
    private[:] = 7
    release_pages(private)
    assert (private == 7).all()


def test_a_source_that_has_another_number_of_rows_is_refused():
    with pytest.raises(BadData, match=r"12.*10"):
        block_at(Claiming(), (0, 12)).__enter__()


def test_arrays_are_wrapped_and_sources_kept():
    source = Claiming()
    assert as_source(source) is source
    assert as_source(states()).n_states == 1000
    assert as_source([[1.0, 2.0]]).n_features == 2


def test_whole_numbers_and_booleans_become_floats():
    assert ArraySource(np.eye(3, dtype=bool)).states.dtype == np.float32
    assert ArraySource(np.full((2, 2), 2**40)).states[0, 0] == 2.0**40


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((2, 0)), np.array([["a"]])])
def test_what_is_no_table_of_numbers_is_refused(wrong):
    with pytest.raises(BadData):
        ArraySource(wrong)


def test_a_block_has_at_least_one_row():
    assert block_rows(10**9) > 0
