"""Adaptation of many policies in one pass, against a call for each."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from mixture_reference import ENGINES, clusters, random_mixture, spiky, statistics

from pivec.errors import BadData, UsageError
from pivec.mixtures import map_offsets, policy_statistics, threads

engines = pytest.mark.parametrize("engine", ENGINES)


def cuts(n_states, seed=0):
    """Episodes of all lengths, some empty, and policies, some without episodes."""
    rng = np.random.default_rng(seed)
    inner = np.sort(rng.integers(n_states, size=60))
    episodes = np.concatenate([[0], inner, inner[10:13], [n_states]])
    episodes.sort()
    policies = np.concatenate([[0, 0], np.sort(rng.integers(len(episodes), size=9)), [0]])
    policies[-1] = len(episodes) - 1
    policies.sort()
    return episodes, policies


def one_by_one(states, episodes, policies, mixture):
    """The same by the formulas, one episode after another."""
    P, (K, D) = len(policies) - 1, mixture.means.shape
    counts, sums = np.zeros((P, K)), np.zeros((P, K, D))
    nn, nf, ff = np.zeros((P, K)), np.zeros((P, K, D)), np.zeros((P, K, D))
    for p in range(P):
        for e in range(policies[p], policies[p + 1]):
            n, f, _, _ = statistics(states[episodes[e] : episodes[e + 1]], mixture)
            counts[p] += n
            sums[p] += f
            nn[p] += n**2
            nf[p] += n[:, None] * f
            ff[p] += f**2
    return counts, sums, nn, nf, ff


def assert_close(got, expected):
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * max(1, np.abs(expected[1]).max()))


@engines
@pytest.mark.parametrize("rows", [None, 16_384, 1_000, 37])
def test_one_pass_is_the_same_as_a_call_for_each_episode(engine, rows, monkeypatch):
    n_states = 3_000 if rows == 37 else 40_000
    states = spiky(n_states, 5)
    mixture = random_mixture(states, 7, narrow=True)
    episodes, policies = cuts(n_states)
    if rows is not None:
        monkeypatch.setattr(sys.modules["pivec.mixtures.source"], "block_rows", lambda _: rows)
    got = policy_statistics(
        states, episodes, policies, mixture, episode_moments=True, device=engine
    )
    expected = one_by_one(states, episodes, policies, mixture)
    moments = got.moments
    assert_close((got.counts, got.sums), expected[:2])
    for a, b in zip((moments.nn, moments.nf, moments.ff), expected[2:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5 * np.abs(b).max())
    plain = policy_statistics(states, episodes, policies, mixture, device=engine)
    assert plain.moments is None
    assert_close((plain.counts, plain.sums), expected[:2])
    np.testing.assert_array_equal(plain.n_episodes, np.diff(policies))


@pytest.mark.bits
@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_threads_change_no_bit(engine):
    states = clusters(50_000, 4)
    mixture = random_mixture(states, 6)
    episodes, policies = np.arange(0, 50_001, 10), np.arange(0, 5_001, 25)
    results = []
    for n in (1, 3):
        with threads(n):
            results.append(
                policy_statistics(
                    states, episodes, policies, mixture, episode_moments=True, device=engine
                )
            )
    np.testing.assert_array_equal(results[0].sums, results[1].sums)
    np.testing.assert_array_equal(results[0].moments.ff, results[1].moments.ff)


def test_one_long_episode_spans_all_runs_and_blocks(monkeypatch):
    states = clusters(70_000, 3)
    mixture = random_mixture(states, 4)
    n, f, _, _ = statistics(states, mixture)
    for rows in (16_384, 1 << 20):
        monkeypatch.setattr(
            sys.modules["pivec.mixtures.source"], "block_rows", lambda _, rows=rows: rows
        )
        got = policy_statistics(states, [0, 70_000], [0, 1], mixture, episode_moments=True)
        np.testing.assert_allclose(got.counts[0], n, rtol=1e-5)
        np.testing.assert_allclose(got.moments.nn[0], n**2, rtol=1e-5)
        np.testing.assert_allclose(got.moments.ff[0], f**2, rtol=1e-3, atol=1e-3 * (f**2).max())


@engines
def test_policies_without_states_have_zeros(engine):
    states = clusters(50, 2)
    mixture = random_mixture(states, 3)
    got = policy_statistics(
        states, [0, 0, 50], [0, 0, 1, 2, 2], mixture, episode_moments=True, device=engine
    )
    assert got.counts[[0, 1, 3]].sum() == 0
    assert got.counts[2].sum() == pytest.approx(50)
    none = policy_statistics(states[:0], [0], [0], mixture, device=engine)
    assert none.counts.shape == (0, 3)


@engines
def test_a_bad_value_is_named_by_its_row_of_all(engine, monkeypatch):
    states = clusters(50_000, 2)
    mixture = random_mixture(states, 3)
    states[44_444, 1] = np.inf
    monkeypatch.setattr(sys.modules["pivec.mixtures.source"], "block_rows", lambda _: 20_000)
    with pytest.raises(BadData, match="row 44444, column 1 is inf"):
        policy_statistics(states, [0, 50_000], [0, 1], mixture, device=engine)


def test_offsets_are_the_adapted_means_minus_the_background():
    states = clusters(2_000, 3)
    mixture = random_mixture(states, 4)
    got = policy_statistics(states, [0, 900, 2_000], [0, 1, 2], mixture, device="numpy")
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
    with pytest.raises(UsageError, match="relevance factor must be positive"):
        map_offsets(np.zeros((1, 3)), np.zeros((1, 3, 2)), mixture, relevance=0)


def test_nearly_equal_policies_keep_the_digits_of_their_difference():
    states = clusters(4_000, 3, dtype=np.float64)
    mixture = random_mixture(states, 3)
    moved = states.copy()
    moved[0, 0] += 1e-6 * mixture.scale[0]
    both = np.concatenate([states, moved])
    got = policy_statistics(both, [0, 4_000, 8_000], [0, 1, 2], mixture, device="numpy")
    offsets = map_offsets(got.counts, got.sums, mixture)
    (n, f, _, _), (m, g, _, _) = (statistics(part, mixture) for part in (states, moved))
    deviations = np.sqrt(mixture.variances)
    expected = deviations * (f / (n[:, None] + 16) - g / (m[:, None] + 16))
    difference = offsets[0] - offsets[1]
    assert np.abs(difference - expected).max() < 1e-3 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("episodes", "policies", "message"),
    [
        ([0, 50], [0, 1], "episode_starts must run from 0 to 100"),
        ([0, 60, 50, 100], [0, 3], "episode_starts must not fall"),
        ([0, 50, 100], [0, 1], "policy_starts must run from 0 to 2"),
    ],
)
def test_cuts_that_do_not_fit_are_refused(episodes, policies, message):
    states = clusters(100, 2)
    with pytest.raises(BadData, match=message):
        policy_statistics(states, episodes, policies, random_mixture(states, 2))


def test_states_with_other_features_are_refused():
    states = clusters(100, 2)
    with pytest.raises(BadData, match="must have 2 features, but have 3"):
        policy_statistics(np.zeros((9, 3)), [0, 9], [0, 1], random_mixture(states, 2))
