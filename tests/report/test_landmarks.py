"""A map of landmarks: the principal components of vectors, and a place for everybody."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import BadData
from pivec.report import LandmarkMap


def squared(a, b):
    return ((a[:, None] - b) ** 2).sum(axis=2)


def test_it_projects_on_the_principal_components(rng):
    known, new = rng.normal(size=(20, 6)), rng.normal(size=(7, 6))
    landmarks = LandmarkMap(squared(known, known), 3)
    center = known.mean(axis=0)
    axes = np.linalg.svd(known - center)[2][:3].T
    signs = np.sign(np.sum(((known - center) @ axes) * landmarks.positions, axis=0))
    assert np.allclose(landmarks.positions, (known - center) @ axes * signs)
    assert np.allclose(landmarks.place(squared(new, known)), (new - center) @ axes * signs)


def test_landmarks_stay_where_they_are_and_nobody_moves_the_others(rng):
    known, new = rng.normal(size=(9, 4)), rng.normal(size=(5, 4))
    landmarks = LandmarkMap(squared(known, known))
    assert np.allclose(landmarks.place(squared(known, known)), landmarks.positions)
    alone = np.concatenate([landmarks.place(squared(row[None], known)) for row in new])
    assert np.allclose(alone, landmarks.place(squared(new, known)))


def test_directions_that_do_not_exist_are_zero():
    landmarks = LandmarkMap(np.zeros((3, 3)))
    assert np.array_equal(landmarks.place(np.ones((2, 3))), np.zeros((2, 2)))


def test_wrong_shapes_are_named():
    with pytest.raises(BadData, match="shape"):
        LandmarkMap(np.zeros((2, 3)))
    with pytest.raises(BadData, match=r"m, 3"):
        LandmarkMap(np.zeros((3, 3))).place(np.zeros((2, 2)))
