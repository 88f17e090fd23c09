"""Sources give all rows in order, from memory or from a file."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pivec.errors import BadData, UsageError
from pivec.mixtures import ArraySource, StateSource
from pivec.mixtures.source import as_source, block_rows, numbered_blocks, release_pages


def states(n=1000, d=3):
    return np.arange(n * d, dtype=np.float32).reshape(n, d)


class Pieces:
    """A source whose blocks are as small as given."""

    def __init__(self, sizes, claimed=None):
        self.sizes, self.n_features = sizes, 3
        self.n_states = sum(sizes) if claimed is None else claimed

    def blocks(self, rows):
        everything = states(sum(self.sizes))
        cuts = np.concatenate([[0], np.cumsum(self.sizes)])
        for first, last in pairwise(cuts):
            yield everything[first:last]


def test_blocks_of_an_array_are_views_and_cover_it():
    source = ArraySource(states())
    blocks = list(source.blocks(300))
    assert [len(block) for block in blocks] == [300, 300, 300, 100]
    assert all(np.shares_memory(block, source.states) for block in blocks)
    np.testing.assert_array_equal(np.concatenate(blocks), states())
    assert isinstance(source, StateSource)


def test_blocks_of_a_file_are_right_after_their_pages_were_released(tmp_path):
    np.save(tmp_path / "states.npy", states(100_000))
    mapped = np.load(tmp_path / "states.npy", mmap_mode="r")
    source = ArraySource(mapped)
    for _ in range(2):
        for first, block in zip(range(0, 100_000, 7_001), source.blocks(7_001), strict=True):
            np.testing.assert_array_equal(block, states(100_000)[first : first + 7_001])


def test_releasing_pages_leaves_ordinary_and_writeable_arrays_alone(tmp_path):
    ordinary = states()
    release_pages(ordinary)
    np.testing.assert_array_equal(ordinary, states())
    np.save(tmp_path / "states.npy", states())
    private = np.load(tmp_path / "states.npy", mmap_mode="c")
    private[:] = 7
    release_pages(private)
    assert (private == 7).all()


def test_numbered_blocks_tell_their_first_row():
    for first, block in numbered_blocks(Pieces([30_000] * 30)):
        np.testing.assert_array_equal(block[0], states(900_000)[first])


def test_a_source_that_yields_another_number_of_rows_is_refused():
    with pytest.raises(BadData, match="12 states must yield as many rows, but yielded 10"):
        list(numbered_blocks(Pieces([5, 5], claimed=12)))


def test_arrays_are_wrapped_and_sources_kept():
    source = Pieces([5])
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
    with pytest.raises(UsageError, match="rows must be a whole number of at least 1, but is 0"):
        list(ArraySource(states()).blocks(0))
    assert block_rows(10**9) > 0
