"""Rounded points keep distances, in as many letters as there is room for."""

from __future__ import annotations

import numpy as np
import pytest

import pivec.report.script_data as module
from packed import unpacked
from pivec.report.script_data import TOLERANCE, rounded_points


def squares(rows):
    """Squared distances of all rows, the slow way."""
    rows = np.asarray(rows, np.float64)
    return np.array([[((a - b) ** 2).sum() for b in rows] for a in rows])


def unknown(points):
    """No nearest others are known."""
    return np.empty((len(points), 0), int)


def drawn_points(n, d, seed=0):
    """Points of policies: most vary little, columns have scales of their own."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) * rng.random(d) ** 3 + rng.normal(
        scale=0.01, size=(n, d)
    )


def test_small_sets_have_sixteen_bits():
    points = drawn_points(40, 24)
    rounded = rounded_points(points, unknown(points), 1e6)
    assert rounded.codes.max() == 65535
    assert rounded.codes.min(axis=0).tolist() == [0] * 24
    assert (
        np.abs(points.min(axis=0) + rounded.step * rounded.codes - points).max()
        <= 0.51 * rounded.step
    )
    upper = np.triu_indices(40, 1)
    exact = squares(points)[upper]
    error = np.abs(rounded.step**2 * squares(rounded.codes)[upper] / exact - 1.0)
    assert np.allclose(rounded.error, error, rtol=1e-6, atol=1e-9)
    assert error.max() < 1e-3


def test_a_step_is_as_fine_as_distances_need_and_no_finer(monkeypatch):
    monkeypatch.setattr(module, "SMALL", 0)
    points = drawn_points(60, 30)
    rounded = rounded_points(points, unknown(points), 1e9)
    assert rounded.error.max() <= TOLERANCE
    assert 255 < rounded.codes.max() < 65535
    coarser = np.rint((points - points.min(axis=0)) / (3 * rounded.step))
    exact = squares(points)[np.triu_indices(60, 1)]
    worse = (3 * rounded.step) ** 2 * squares(coarser)[np.triu_indices(60, 1)]
    assert np.abs(worse / exact - 1.0).max() > TOLERANCE


def test_a_nearest_pair_asks_for_a_finer_step(monkeypatch):
    monkeypatch.setattr(module, "SMALL", 0)
    monkeypatch.setattr(module, "_MOST_PAIRS", 40)  # of the random pairs none is the close one
    points = drawn_points(60, 30)
    points[1] = points[0] + 1e-2
    near = np.full((60, 1), 5)
    near[5] = 4
    coarse = rounded_points(points, near, 1e9)
    near[0] = 1
    monkeypatch.setattr(module, "_MOST_PAIRS", 60)
    fine = rounded_points(points, near, 1e9)
    assert fine.step < 0.6 * coarse.step
    difference = fine.codes[0].astype(float) - fine.codes[1]
    assert fine.step**2 * (difference**2).sum() == pytest.approx(30e-4, rel=TOLERANCE)


def test_room_decides_where_there_is_little(monkeypatch):
    monkeypatch.setattr(module, "SMALL", 0)
    points = drawn_points(150, 40)
    points[1] = points[0] + 1e-9  # no step is fine enough for these two
    steps = []
    for room in (14e3, 10e3, 6e3):
        rounded = rounded_points(points, unknown(points), room)
        assert 0.85 * room < len(rounded.content()["codes"]["data"]) <= room + 4
        assert np.median(rounded.error) <= TOLERANCE
        steps.append(rounded.step)
    assert steps == sorted(steps)


def test_points_are_left_out_where_distances_would_not_be_kept():
    points = drawn_points(150, 40)
    assert rounded_points(points, unknown(points), 3e3) is None
    assert rounded_points(points, unknown(points), -1.0) is None
    for strange in (np.nan, np.inf):
        points[3, 4] = strange
        assert rounded_points(points, unknown(points), 1e9) is None


def test_sizes_of_many_are_estimated_from_some(monkeypatch):
    points = drawn_points(600, 40)
    points[1] = points[0] + 1e-9
    monkeypatch.setattr(module, "SMALL", 0)
    monkeypatch.setattr(module, "_SAMPLE", 200)
    rounded = rounded_points(points, np.roll(np.arange(600), 1)[:, None], 30e3)
    assert 0.7 * 30e3 < len(rounded.content()["codes"]["data"]) < 1.1 * 30e3


def test_columns_that_do_not_vary_are_left_out():
    points = np.array([[1.0, 2.0, 0.0], [1.0, 2.5, 0.0], [1.0, 3.0, 0.0], [1.0, 2.0, 0.0]])
    rounded = rounded_points(points, unknown(points), 1e6)
    blob = rounded.content()
    assert rounded.kept.tolist() == [1]
    assert unpacked(blob["codes"]).tolist() == [0, 32768, 65535, 0]  # equal policies stay equal
    assert unpacked(blob["kept"]).tolist() == [1]


@pytest.mark.parametrize("n", [1, 3])
def test_policies_that_are_all_equal(n):
    blob = rounded_points(np.ones((n, 4)), unknown(np.ones((n, 4))), 1e6).content()
    assert not len(unpacked(blob["codes"]))
    assert not len(unpacked(blob["kept"]))
    assert blob["error"] == 0.0


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_the_scale_of_points_does_not_matter(scale):
    points = drawn_points(20, 6)
    rounded = rounded_points(points * scale, unknown(points), 1e6)
    assert np.array_equal(rounded.codes, rounded_points(points, unknown(points), 1e6).codes)
    assert rounded.step == pytest.approx(scale * np.ptp(points, axis=0).max() / 65535)
