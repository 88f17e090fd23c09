"""Sparse histograms against dense ones."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.characterizations.discretization import cell_words, digits_of_word, half_l1, histogram


def dense(rows, low, high, bins):
    """A histogram as the paper has it: one array over all cells."""
    edges = [np.linspace(a, b, bins + 1) for a, b in zip(low, high, strict=True)]
    counts, _ = np.histogramdd(rows, edges)
    return counts / len(rows)


@pytest.mark.parametrize("bins", [2, 3, 10])
def test_half_l1_is_that_of_dense_arrays(rng, bins):
    low, high = np.full(3, -4.0), np.full(3, 4.0)
    samples = [rng.normal(0.3 * i, 0.7, (200, 3)).clip(-3.9, 3.9) for i in range(5)]
    histograms = [histogram(cell_words(rows, low, high, bins)) for rows in samples]
    result = half_l1(histograms)
    full = [dense(rows, low, high, bins) for rows in samples]
    expected = [[0.5 * np.abs(p - q).sum() for q in full] for p in full]
    assert np.allclose(result, expected, atol=1e-14)
    assert np.array_equal(result, result.T)
    across = half_l1(histograms[:2], histograms[2:])
    assert np.allclose(across, np.array(expected)[:2, 2:], atol=1e-14)


def test_equal_histograms_are_exactly_zero_apart(rng):
    cells = histogram(rng.integers(0, 50, (999, 1)).astype(np.uint64))
    assert half_l1([cells, cells]).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("bins", [2, 10, 1000, 2**32])
def test_many_dimensions_do_not_run_together(rng, bins):
    """Cells that differ in one bin of one of 30 dimensions only are different cells."""
    n = 30
    rows = (rng.integers(0, bins, n) + np.zeros((2 * n, 1))) / bins
    for i in range(n):
        rows[2 * i, i] = 0.0
        rows[2 * i + 1, i] = 1.0 - 0.5 / bins
    words = cell_words(rows + 0.25 / bins, np.zeros(n), np.ones(n), bins)
    assert words.shape[1] == -(-n // digits_of_word(bins))
    expected = len(np.unique(np.floor((rows + 0.25 / bins) * bins), axis=0))
    assert len(histogram(words)[0]) == expected


def test_a_word_never_overflows():
    for bins in (2, 3, 7, 10, 11, 255, 2**32):
        assert bins ** digits_of_word(bins) <= 2**64
    words = cell_words(np.ones((1, 19)), np.zeros(19), np.ones(19), 10)
    assert int(words[0, 0]) == 10**19 - 1


def test_shares_add_up(rng):
    words = rng.integers(0, 3, (1000, 2)).astype(np.uint64)
    cells, shares = histogram(words)
    assert len(cells) == 9
    assert shares.sum() == pytest.approx(1)
    first = (words == cells[4]).all(axis=1).mean()
    assert shares[4] == pytest.approx(first)
