"""Every kernel against the float64 formulas, on easy and on nasty data."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
from mixture_reference import (
    ENGINES,
    assert_statistics_match,
    clusters,
    random_mixture,
    responsibilities,
    spiky,
    statistics,
)

from pivec.errors import BadData, MissingExtra, UsageError
from pivec.mixtures import (
    Mixture,
    accumulate,
    kernel,
    numba_kernel,
    numpy_kernel,
    policy_statistics,
)
from pivec.parallel import threads

TOLERANCE = {"numpy": 1e-9, "numba": 3e-6, "torch-cpu": 1e-9, "cuda": 1e-6}
engines = pytest.mark.parametrize("engine", ENGINES)


@engines
@pytest.mark.parametrize(
    ("n_components", "n_features"), [(1, 1), (5, 3), (64, 24), (7, 4), (16, 9)]
)
def test_statistics_are_those_of_the_formula(engine, n_components, n_features):
    states = clusters(3000, n_features)
    mixture = random_mixture(states, n_components)
    got = accumulate(states, mixture, device=engine)
    assert got.n_states == 3000
    assert_statistics_match(got, statistics(states, mixture), TOLERANCE[engine])


@engines
def test_spikes_with_the_smallest_variances_keep_their_digits(engine):
    states = spiky(20_000)
    mixture = random_mixture(states, 12, narrow=True)
    got = accumulate(states, mixture, device=engine)
    assert_statistics_match(got, statistics(states, mixture), max(1e-7, TOLERANCE[engine]))


@pytest.mark.bits
@engines
def test_narrow_components_far_from_the_centre_keep_their_digits(engine):
    # |μ|/σ of about 10⁵: a float32 state is rounded by 1 % of such a deviation.
    rng = np.random.default_rng(0)
    states = np.concatenate([rng.normal(size=(900, 6)), 100 + 1e-3 * rng.normal(size=(100, 6))])
    center, scale = np.zeros(6), np.ones(6)
    mixture = Mixture(
        [0.9, 0.05, 0.05],
        [[0.0] * 6, [100.0] * 6, [100.0005] * 6],
        np.array([[1.0] * 6, [1e-6] * 6, [1e-6] * 6]),
        center,
        scale,
    )
    got = accumulate(states, mixture, device=engine)
    # From [x², x, 1], Σ r x² of n 10⁴ comes within √100 × 1.1e-16 of itself and is told in units
    # of 10⁻⁶: 1.1e-5 n, which was seen. Numba's squares are of x − μ and lose nothing.
    tolerance = 1e-5 if engine == "numba" else 6e-5
    assert_statistics_match(got, statistics(states, mixture), tolerance)


@engines
def test_states_far_from_every_component_are_shared_rightly(engine):
    rng = np.random.default_rng(0)
    states = (rng.normal(size=(500, 5)) * np.logspace(0, 4, 500)[:, None]).astype(np.float32)
    mixture = Mixture(
        [0.3, 0.3, 0.4],
        rng.normal(size=(3, 5)),
        [[1.0] * 5, [1.0 + 1e-7] * 5, [1.0] * 5],
        np.zeros(5),
        np.ones(5),
    )
    got = accumulate(states, mixture, device=engine)
    assert_statistics_match(got, statistics(states, mixture), 1e-5)


@engines
def test_values_beyond_all_bounds_give_finite_statistics(engine):
    states = np.array([[3e38, 0.0], [-3e38, 1.0], [0.0, 0.0]], dtype=np.float32)
    mixture = Mixture([0.5, 0.5], [[0.0, 0.0], [1.0, 1.0]], np.full((2, 2), 1e-6), [0, 0], [1, 1])
    got = accumulate(states, mixture, device=engine)
    assert np.isfinite(got.sums).all()
    assert np.isfinite(got.squares).all()
    assert got.counts.sum() == pytest.approx(3)


@engines
def test_float64_states_enter_in_full(engine):
    states = clusters(2000, 5, dtype=np.float64) + 1e6
    mixture = random_mixture(states, 6)
    got = accumulate(states, mixture, device=engine)
    assert_statistics_match(got, statistics(states, mixture), TOLERANCE[engine])


@engines
def test_columns_of_any_scale_give_the_same_statistics(engine):
    states = clusters(3000, 6, dtype=np.float64)
    factors = np.logspace(-6, 6, 6)
    plain = random_mixture(states, 5)
    scaled = Mixture(
        plain.weights,
        plain.means,
        plain.variances,
        plain.center * factors,
        plain.scale * factors,
    )
    a = accumulate(states, plain, device=engine)
    b = accumulate(states * factors, scaled, device=engine)
    expected = (a.counts, a.sums, a.squares, a.log_likelihood)
    assert_statistics_match(b, expected, TOLERANCE[engine])


@engines
def test_parts_add_up_to_the_whole_and_order_does_not_matter(engine):
    states = clusters(9000, 5)
    mixture = random_mixture(states, 8)
    whole = accumulate(states, mixture, device=engine)
    expected = (whole.counts, whole.sums, whole.squares, whole.log_likelihood)
    parts = [states[:1], states[1:4097], states[4097:8999], states[8999:]]
    total = sum(
        (accumulate(part, mixture, device=engine) for part in parts[1:]),
        start=accumulate(parts[0], mixture, device=engine),
    )
    assert total.n_states == 9000
    assert_statistics_match(total, expected, TOLERANCE[engine])
    shuffled = np.random.default_rng(1).permutation(states)
    assert_statistics_match(
        accumulate(shuffled, mixture, device=engine), expected, TOLERANCE[engine]
    )


@pytest.mark.bits
@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_number_of_threads_changes_no_bit(engine):
    states = clusters(30_000, 5)
    mixture = random_mixture(states, 8)
    starts = np.arange(0, 30_001, 75)
    results = []
    for n in (1, 2, 3):
        with threads(n):
            got = accumulate(states, mixture, device=engine)
            segments = policy_statistics(states, starts, mixture, device=engine)
        all_of_it = (got.counts, got.sums, got.squares, got.log_likelihood)
        results.append((*all_of_it, segments.counts, segments.sums))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@engines
def test_memory_layout_does_not_matter(engine):
    states = clusters(2000, 8)
    mixture = random_mixture(states[:, ::2], 4)
    got = accumulate(states[:, ::2], mixture, device=engine)
    assert_statistics_match(got, statistics(states[:, ::2], mixture), TOLERANCE[engine])
    frozen = states[:, ::2].copy(order="F")
    frozen.flags.writeable = False
    got = accumulate(frozen, mixture, device=engine)
    assert_statistics_match(got, statistics(states[:, ::2], mixture), TOLERANCE[engine])


@engines
def test_a_component_without_weight_gets_nothing(engine):
    states = clusters(500, 3)
    some = random_mixture(states, 3)
    mixture = Mixture([0.5, 0.5, 0.0], some.means, some.variances, some.center, some.scale)
    got = accumulate(states, mixture, device=engine)
    assert got.counts[2] == 0
    assert_statistics_match(got, statistics(states, mixture), TOLERANCE[engine])


@engines
def test_no_states_have_no_statistics(engine):
    mixture = random_mixture(clusters(100, 3), 2)
    got = accumulate(np.zeros((0, 3), dtype=np.float32), mixture, device=engine)
    assert got.n_states == 0
    assert got.counts.tolist() == [0, 0]
    assert got.log_likelihood == 0


@engines
def test_hard_assignments_count_each_state_once_and_share_ties(engine):
    states = clusters(2000, 4)
    mixture = random_mixture(states, 6)
    r, _ = responsibilities(states, mixture)
    got = kernel(engine).accumulate(states, mixture, hard=True)
    np.testing.assert_allclose(got.counts, np.bincount(r.argmax(axis=1), minlength=6))
    twins = Mixture([0.5, 0.5], np.zeros((2, 4)), np.ones((2, 4)), np.zeros(4), np.ones(4))
    got = kernel(engine).accumulate(states, twins, hard=True)
    np.testing.assert_allclose(got.counts, [1000, 1000])


@engines
def test_each_segment_has_the_statistics_of_its_rows(engine):
    states = spiky(5000)
    mixture = random_mixture(states, 9, narrow=True)
    starts = np.array([0, 0, 1, 20, 21, 21, 300, 4097, 5000, 5000])
    got = policy_statistics(states, starts, mixture, device=engine)
    for s in range(len(starts) - 1):
        expected = statistics(states[starts[s] : starts[s + 1]], mixture)
        np.testing.assert_allclose(got.counts[s], expected[0], rtol=1e-5, atol=1e-5)
        scale = np.maximum(1, np.sqrt(expected[0][:, None] * expected[2]))
        assert (np.abs(got.sums[s] - expected[1]) <= 3e-6 * scale).all()


@engines
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_named(engine, bad):
    states = clusters(9000, 3)
    mixture = random_mixture(states, 2)
    states[5001, 2] = bad
    with pytest.raises(BadData, match="row 5001, column 2 is"):
        accumulate(states, mixture, device=engine)
    with pytest.raises(BadData, match="row 5001, column 2 is"):
        policy_statistics(states, [0, 9000], mixture, device=engine)


def test_states_of_another_shape_or_type_are_refused():
    mixture = random_mixture(clusters(100, 3), 2)
    with pytest.raises(BadData, match=r"\(n, 3\).*\(5, 4\)"):
        accumulate(np.zeros((5, 4)), mixture)
    with pytest.raises(BadData, match="int64"):
        accumulate(np.zeros((5, 3), dtype=np.int64), mixture)


def test_kernels_have_names():
    assert kernel() is kernel("cpu") is kernel("numba") is numba_kernel
    assert kernel("numpy") is numpy_kernel
    assert kernel("torch-cpu").device.type == "cpu"
    with pytest.raises(UsageError, match="'tpu'"):
        kernel("tpu")


def test_a_missing_package_is_named(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        sys.modules["pivec.mixtures.passes"],
        "find_spec",
        lambda name: None if name == "torch" else find_spec(name),
    )
    with pytest.raises(MissingExtra, match=r"pivec\[torch\]"):
        kernel("cuda")


@pytest.mark.skipif("cuda" in ENGINES, reason="there is a graphics card")
def test_a_missing_card_is_told():
    with pytest.raises(UsageError, match='use device="cpu"'):
        kernel("cuda")
