"""Maps are repeatable, defined for any number of policies, and true to their neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import BadData, UsageError
from pivec.report import tsne_map
from pivec.report.layout import load_opentsne, nearest, place
from pivec.statistics import nearest_of_rows


def clusters(n_groups=4, n_each=15, n_values=20, spread=0.1, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(n_groups, n_values))
    points = np.repeat(centers, n_each, axis=0)
    return points + spread * rng.normal(size=points.shape), np.repeat(np.arange(n_groups), n_each)


def squared_distances(x):
    return ((x[:, None] - x[None]) ** 2).sum(axis=-1)


def same_group_share(positions, groups):
    d = squared_distances(positions)
    np.fill_diagonal(d, np.inf)
    return np.mean(groups[d.argmin(axis=1)] == groups)


@pytest.mark.parametrize("n_values", [20, 70])
def test_same_picture_each_time_whatever_the_threads(n_values):
    x, _ = clusters(n_values=n_values)
    first = tsne_map(x, n_jobs=1).positions
    assert np.array_equal(first, tsne_map(x, n_jobs=1).positions)
    assert np.array_equal(first, tsne_map(x, n_jobs=2).positions)


def test_same_picture_for_many_policies_reduced_by_principal_components():
    x, groups = clusters(n_groups=6, n_each=200, n_values=60)
    first = tsne_map(x, n_iter=60, n_jobs=1)
    assert np.array_equal(first.positions, tsne_map(x, n_iter=60, n_jobs=2).positions)
    assert first.perplexity == 30
    assert same_group_share(first.positions, groups) > 0.99


def test_interpolated_gradients_repeat_too(monkeypatch):
    monkeypatch.setattr("pivec.report.layout.TREE_ROWS", 50)
    x, groups = clusters()
    first = tsne_map(x, n_iter=100, n_jobs=1).positions
    assert np.array_equal(first, tsne_map(x, n_iter=100, n_jobs=2).positions)
    assert same_group_share(first, groups) == 1


def test_neighbours_by_description_are_neighbours_on_the_map():
    x, groups = clusters()
    result = tsne_map(x)
    assert result.method == "tsne"
    assert result.positions.dtype == np.float64
    assert same_group_share(result.positions, groups) == 1


def test_seed_changes_little_and_is_used():
    x, _ = clusters()
    a, b = (tsne_map(x, random_state=seed).positions for seed in (0, 1))
    assert not np.array_equal(a, b)


def test_single_policy_is_at_the_origin():
    result = tsne_map([[3.0, 4.0]])
    assert result.method == "single"
    assert np.array_equal(result.positions, [[0, 0]])
    assert np.isnan(result.perplexity)
    assert tsne_map([[0.0]], metric="precomputed").method == "single"


@pytest.mark.parametrize("n", [2, 3])
def test_two_or_three_policies_keep_their_distances_exactly(n):
    x = np.random.default_rng(n).normal(size=(n, 9))
    for result, method in (
        (tsne_map(x), "pca"),
        (tsne_map(squared_distances(x), metric="precomputed"), "mds"),
    ):
        assert result.method == method
        assert np.allclose(squared_distances(result.positions), squared_distances(x))


@pytest.mark.parametrize("n", [4, 5, 8, 11, 12, 13, 20])
def test_any_number_of_policies_has_finite_positions_of_modest_size(n):
    x = np.random.default_rng(0).normal(size=(n, 6))
    for result in (tsne_map(x), tsne_map(squared_distances(x), metric="precomputed")):
        assert result.positions.shape == (n, 2)
        assert np.isfinite(result.positions).all()
        assert np.ptp(result.positions) < 60
        assert (result.method == "tsne") == (n > 11)


def test_small_maps_have_settled():
    x, _ = clusters(n_groups=3, n_each=5)
    sizes = [np.ptp(tsne_map(x, n_iter=n).positions) for n in (500, 1000)]
    assert sizes[1] < 1.5 * sizes[0]


def test_perplexity_is_lowered_for_few_policies_and_kept_for_many():
    x, _ = clusters()
    assert tsne_map(x[:21]).perplexity == 10
    assert tsne_map(x, perplexity=7.5).perplexity == 7.5


def test_identical_rows_are_fine():
    x, groups = clusters(n_groups=3, n_each=20, spread=0.0)
    result = tsne_map(x)
    assert np.isfinite(result.positions).all()
    assert same_group_share(result.positions, groups) == 1


@pytest.mark.parametrize("n", [2, 5, 40])
def test_policies_of_one_description_lie_in_one_place(n):
    result = tsne_map(np.full((n, 3), 0.1))
    assert result.method == "identical"
    assert not result.positions.any()
    assert tsne_map(np.zeros((n, n)), metric="precomputed").method == "identical"


def test_distances_alone_give_the_picture_of_the_vectors():
    x, _ = clusters(n_each=8)
    assert np.allclose(
        tsne_map(x).positions,
        tsne_map(squared_distances(x), metric="precomputed").positions,
        atol=1e-6,
    )


def test_scale_of_the_vectors_does_not_matter():
    x, _ = clusters(n_each=8)
    assert np.allclose(tsne_map(x).positions, tsne_map(x * 2.0**-30).positions, atol=1e-6)


def test_float32_and_shifted_input():
    x, groups = clusters()
    result = tsne_map((x + 100).astype(np.float32))
    assert same_group_share(result.positions, groups) == 1


def test_neighbours_are_exact():
    x, _ = clusters()
    full = np.sqrt(squared_distances(x))
    np.fill_diagonal(full, np.inf)
    expected = np.sort(full, axis=1)[:, :9]
    indices, distances = nearest(x, 9)
    assert np.allclose(distances, expected)
    assert np.allclose(np.take_along_axis(full, indices, axis=1), expected)
    same, far = nearest_of_rows(full, 0, 9)
    assert np.array_equal(same, indices)
    assert np.allclose(far, expected)
    indices, distances = nearest(x, 1, x[:5])
    assert np.array_equal(indices[:, 0], np.arange(5))
    assert not distances.any()


def test_map_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match="read-only"):
        tsne_map([[0.0], [1.0]]).positions[0] = 1


@pytest.mark.parametrize("bad", [3.0, np.zeros(3), np.zeros((0, 3)), [["a"]], [[np.nan, 1.0]]])
def test_vectors_that_cannot_be_mapped(bad):
    with pytest.raises(BadData, match="vectors must be"):
        tsne_map(bad)


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (np.zeros((2, 3)), "square"),
        ([[0, np.nan], [np.nan, 0]], "finite"),
        ([[0, -1], [-1, 0]], "negative"),
        ([[0, 1], [2, 0]], "symmetric"),
    ],
)
def test_distances_that_cannot_be_mapped(bad, word):
    with pytest.raises(BadData, match=word):
        tsne_map(bad, metric="precomputed")


@pytest.mark.parametrize("perplexity", [0.5, float("nan")])
def test_perplexity_below_one_is_refused(perplexity):
    with pytest.raises(UsageError, match="perplexity must be a number of at least 1"):
        tsne_map(clusters()[0], perplexity=perplexity)


def test_environment_variables_are_left_alone(monkeypatch):
    import os

    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    before = dict(os.environ)
    load_opentsne()
    assert dict(os.environ) == before
    assert place([[0.0]], [[0.0, 0.0]], [[1.0]]).shape == (1, 2)
