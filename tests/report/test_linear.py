"""Linear layouts agree with the obvious singular value decomposition."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.report import layout as linear
from pivec.report.layout import classical_scaling, principal_components


def obvious_scores(x, k):
    centred = x - x.mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    scores = (u * s)[:, :k]
    return scores * np.sign(scores[np.abs(scores).argmax(axis=0), np.arange(scores.shape[1])])


@pytest.mark.parametrize("shape", [(40, 7), (7, 40), (9, 9), (300, 5)])
def test_principal_components_are_those_of_the_svd(shape, monkeypatch):
    monkeypatch.setattr(linear, "BLOCK_ROWS", 64)
    x = np.random.default_rng(0).normal(size=shape) + 5
    assert np.allclose(principal_components(x, 3), obvious_scores(x, 3))


def test_components_beyond_the_rank_are_zero():
    x = np.array([[0.0], [1.0], [3.0]])
    scores = principal_components(x, 3)
    assert np.allclose(np.abs(scores[:, 0]), np.abs(x[:, 0] - x.mean()))
    assert not scores[:, 1:].any()


def test_no_columns_give_zeros():
    assert not principal_components(np.zeros((3, 0)), 2).any()


@pytest.mark.parametrize("dense_rows", [2000, 10])
def test_classical_scaling_is_principal_components_of_the_vectors(dense_rows, monkeypatch):
    monkeypatch.setattr(linear, "DENSE_ROWS", dense_rows)
    x = np.random.default_rng(1).normal(size=(30, 6)) * [4, 3, 1, 1, 1, 1]
    d = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    assert np.allclose(classical_scaling(d), obvious_scores(x, 2), atol=1e-6)


def test_distances_of_no_space_still_have_a_layout():
    d = np.array([[0, 1, 9.0], [1, 0, 1], [9, 1, 0]])
    assert np.isfinite(classical_scaling(d**2)).all()
