"""Adaptation of many policies in one pass, against a call for each."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest
from mixture_reference import ENGINES, clusters, random_mixture, spiky, statistics

from pivec.errors import BadData, UsageError
from pivec.mixtures import map_offsets, policy_relevance, policy_statistics
from pivec.parallel import threads

engines = pytest.mark.parametrize("engine", ENGINES)


def cuts(n_states, seed=0):
    """Where policies of all lengths begin, some without states."""
    rng = np.random.default_rng(seed)
    inner = np.sort(rng.integers(n_states, size=60))
    return np.sort(np.concatenate([[0, 0], inner, inner[10:13], [n_states]]))


def one_by_one(states, starts, mixture):
    """The same by the formulas, one policy after another: counts, sums, squares."""
    parts = [statistics(states[i:j], mixture)[:3] for i, j in pairwise(starts)]
    return tuple(np.stack(arrays) for arrays in zip(*parts, strict=True))


def assert_close(got, expected):
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * max(1, np.abs(expected[1]).max()))


@engines
@pytest.mark.parametrize("rows", [None, 16_384, 1_000, 37])
def test_one_pass_is_the_same_as_a_call_for_each_policy(engine, rows, monkeypatch):
    n_states = 3_000 if rows == 37 else 40_000
    states = spiky(n_states, 5)
    mixture = random_mixture(states, 7, narrow=True)
    starts = cuts(n_states)
    if rows is not None:
        monkeypatch.setattr(sys.modules["pivec.mixtures.model"], "block_rows", lambda _: rows)
    expected = one_by_one(states, starts, mixture)
    got = policy_statistics(states, starts, mixture, device=engine)
    assert got.squares is None
    assert_close((got.counts, got.sums), expected[:2])
    full = policy_statistics(states, starts, mixture, squares=True, device=engine)
    assert_close((full.counts, full.sums, full.squares), expected)


@pytest.mark.bits
@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_threads_change_no_bit(engine):
    states = clusters(50_000, 4)
    mixture = random_mixture(states, 6)
    starts = np.arange(0, 50_001, 10)
    results = []
    for n in (1, 3):
        with threads(n):
            results.append(policy_statistics(states, starts, mixture, device=engine))
    np.testing.assert_array_equal(results[0].counts, results[1].counts)
    np.testing.assert_array_equal(results[0].sums, results[1].sums)


def test_one_long_policy_spans_all_runs_and_blocks(monkeypatch):
    states = clusters(70_000, 3)
    mixture = random_mixture(states, 4)
    n, f, _, _ = statistics(states, mixture)
    for rows in (16_384, 1 << 20):
        monkeypatch.setattr(
            sys.modules["pivec.mixtures.model"], "block_rows", lambda _, rows=rows: rows
        )
        got = policy_statistics(states, [0, 70_000], mixture)
        np.testing.assert_allclose(got.counts[0], n, rtol=1e-5)
        np.testing.assert_allclose(got.sums[0], f, rtol=1e-3, atol=1e-3 * np.abs(f).max())


@engines
def test_policies_without_states_have_zeros(engine):
    states = clusters(50, 2)
    mixture = random_mixture(states, 3)
    got = policy_statistics(states, [0, 0, 0, 50, 50], mixture, device=engine)
    assert got.counts[[0, 1, 3]].sum() == 0
    assert got.counts[2].sum() == pytest.approx(50)
    none = policy_statistics(states[:0], [0], mixture, device=engine)
    assert none.counts.shape == (0, 3)


@engines
def test_a_bad_value_is_named_by_its_row_of_all(engine, monkeypatch):
    states = clusters(50_000, 2)
    mixture = random_mixture(states, 3)
    states[44_444, 1] = np.inf
    monkeypatch.setattr(sys.modules["pivec.mixtures.model"], "block_rows", lambda _: 20_000)
    with pytest.raises(BadData, match="row 44444, column 1 is inf"):
        policy_statistics(states, [0, 50_000], mixture, device=engine)


def test_offsets_are_the_adapted_means_minus_the_background():
    states = clusters(2_000, 3)
    mixture = random_mixture(states, 4)
    got = policy_statistics(states, [0, 900, 2_000], mixture, device="numpy")
    offsets = map_offsets(got.counts, got.sums, mixture, relevance=16.0)
    for p, part in enumerate((states[:900], states[900:])):
        n, f, _, _ = statistics(part, mixture)
        # Reynolds 2000: E_k(x) = Σ r x / n, α = n / (n + 16), μ' = α E_k(x) + (1 − α) μ.
        expectation = mixture.means + np.sqrt(mixture.variances) * f / n[:, None]
        alpha = (n / (n + 16.0))[:, None]
        adapted = alpha * expectation + (1 - alpha) * mixture.means
        np.testing.assert_allclose(mixture.means + offsets[p], adapted, rtol=1e-9)


def test_components_that_were_never_visited_have_no_offset():
    mixture = random_mixture(clusters(100, 2), 3)
    offsets = map_offsets(np.zeros((1, 3)), np.zeros((1, 3, 2)), mixture)
    np.testing.assert_array_equal(offsets, 0)
    with pytest.raises(UsageError, match="relevance"):
        policy_relevance(np.zeros((1, 3)), relevance=0)


def test_nearly_equal_policies_keep_the_digits_of_their_difference():
    states = clusters(4_000, 3, dtype=np.float64)
    mixture = random_mixture(states, 3)
    moved = states.copy()
    moved[0, 0] += 1e-6 * mixture.scale[0]
    both = np.concatenate([states, moved])
    got = policy_statistics(both, [0, 4_000, 8_000], mixture, device="numpy")
    offsets = map_offsets(got.counts, got.sums, mixture)
    (n, f, _, _), (m, g, _, _) = (statistics(part, mixture) for part in (states, moved))
    deviations = np.sqrt(mixture.variances)
    expected = deviations * (f / (n[:, None] + 16) - g / (m[:, None] + 16))
    difference = offsets[0] - offsets[1]
    assert np.abs(difference - expected).max() < 1e-3 * np.abs(expected).max()


@pytest.mark.parametrize("starts", [[0, 50], [1, 100], [0, 60, 50, 100], []])
@pytest.mark.parametrize("squares", [False, True])
def test_starts_that_do_not_cut_the_rows_are_refused(starts, squares):
    states = clusters(100, 2)
    with pytest.raises(BadData, match="from 0 to 100"):
        policy_statistics(states, starts, random_mixture(states, 2), squares=squares)


def test_states_with_other_features_are_refused():
    states = clusters(100, 2)
    with pytest.raises(BadData, match=r"2 .*3"):
        policy_statistics(np.zeros((9, 3)), [0, 9], random_mixture(states, 2))
