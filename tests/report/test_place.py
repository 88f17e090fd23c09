"""New policies find their place in a map that does not move."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import BadData
from pivec.report import tsne_map
from pivec.report.layout import place, place_by_distances


@pytest.fixture(scope="module")
def reference():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(4, 12))
    vectors = np.repeat(centers, 20, axis=0) + 0.1 * rng.normal(size=(80, 12))
    return vectors, tsne_map(vectors).positions, centers


def test_known_policies_take_their_own_places(reference):
    vectors, positions, _ = reference
    assert np.allclose(place(vectors, positions, vectors), positions)


def test_known_policies_measured_again_land_near_their_own_points(reference):
    vectors, positions, _ = reference
    again = vectors + 0.01 * np.random.default_rng(1).normal(size=vectors.shape)
    moved = np.linalg.norm(place(vectors, positions, again) - positions, axis=1)
    assert np.median(moved) < 0.1 * np.ptp(positions, axis=0).max()
    assert moved.max() < 0.2 * np.ptp(positions, axis=0).max()


def test_new_policies_join_their_group(reference):
    vectors, positions, centers = reference
    new = centers + 0.1 * np.random.default_rng(2).normal(size=centers.shape)
    placed = place(vectors, positions, new)
    nearest = np.linalg.norm(placed[:, None] - positions[None], axis=-1).argmin(axis=1)
    assert np.array_equal(nearest // 20, np.arange(4))


def test_places_repeat_and_do_not_depend_on_company(reference):
    vectors, positions, _ = reference
    new = vectors[::7] + 0.05
    together = place(vectors, positions, new)
    assert np.array_equal(together, place(vectors, positions, new, n_jobs=2))
    alone = np.concatenate([place(vectors, positions, row[None]) for row in new])
    assert np.allclose(alone, together, atol=1e-9)


def test_large_maps_place_by_interpolation_alike(reference, monkeypatch):
    vectors, positions, _ = reference
    new = vectors[::7] + 0.05
    tree = place(vectors, positions, new)
    monkeypatch.setattr("pivec.report.layout.TREE_ROWS", 10)
    grid = place(vectors, positions, new)
    assert np.linalg.norm(grid - tree, axis=1).max() < 0.1 * np.ptp(positions, axis=0).max()
    alone = np.concatenate([place(vectors, positions, row[None]) for row in new])
    assert np.allclose(alone, grid, atol=1e-9)


def test_a_map_off_centre_stays_off_centre(reference):
    vectors, positions, _ = reference
    new = vectors[::9] + 0.05
    here = place(vectors, positions, new)
    assert np.allclose(place(vectors, positions + 1000, new) - 1000, here, atol=1e-3)


def test_inputs_are_not_changed(reference):
    vectors, positions, _ = reference
    before = vectors.copy(), positions.copy()
    place(vectors, positions, vectors[:3] + 1)
    assert np.array_equal(vectors, before[0])
    assert np.array_equal(positions, before[1])


def test_few_references_use_weighted_neighbours():
    vectors = np.array([[0.0], [1.0], [10.0]])
    positions = np.array([[0.0, 0.0], [0.0, 1.0], [5.0, 5.0]])
    placed = place(vectors, positions, [[0.25]])
    weights = 1 / (vectors[:, 0] - 0.25) ** 2
    assert np.allclose(placed[0], weights @ positions / weights.sum())


def test_one_reference_holds_everything():
    assert np.array_equal(place([[1.0, 2.0]], [[3.0, 4.0]], np.eye(2)), [[3, 4], [3, 4]])


def test_equal_references_share_a_newcomer():
    placed = place([[1.0], [1.0], [2.0]], [[0.0, 0.0], [4.0, 0.0], [9.0, 9.0]], [[1.0]])
    assert np.allclose(placed, [[2, 0]])


def test_nobody_to_place():
    assert place([[1.0]], [[0.0, 0.0]], np.zeros((0, 1))).shape == (0, 2)
    assert place([[1.0]], [[0.0, 0.0]], []).shape == (0, 2)


@pytest.mark.parametrize(
    ("positions", "new", "word"),
    [
        ([[0.0, 0.0]], [[1.0, 2.0]], "columns"),
        ([[0.0, 0.0, 0.0]], [[1.0]], "reference_positions"),
        ([[0.0, 0.0]], [[np.inf]], "finite"),
    ],
)
def test_arrays_that_do_not_fit(positions, new, word):
    with pytest.raises(BadData, match=word):
        place([[1.0]], positions, new)


@pytest.mark.parametrize("n", [1, 10, 80])
def test_distances_alone_give_the_same_places_as_vectors(reference, n):
    vectors, positions, centers = reference
    new = np.concatenate([centers + 0.1, vectors[:1]])
    distances = np.linalg.norm(new[:, None] - vectors[:n], axis=2)
    expected = place(vectors[:n], positions[:n], new)
    assert np.allclose(place_by_distances(distances, positions[:n]), expected, atol=1e-6)
    assert place_by_distances(np.zeros((0, n)), positions[:n]).shape == (0, 2)
