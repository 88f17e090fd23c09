"""Parts of a distance: intervals of blocks are those of distances between such points."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.statistics import directional_variances, intervals_of, parts_of, spread_of


@pytest.mark.parametrize("size", [1, 3, 30])
def test_blocks_have_the_intervals_of_points(size):
    rng = np.random.default_rng(size)
    m, n = 12, 4
    a, b = rng.normal(size=(2, n, size))
    moved = [rng.normal(size=(n, m, size)) for _ in range(2)]
    for side in moved:
        side -= side.mean(axis=1, keepdims=True)
    parts = parts_of(a - b, moved, (m - 1.0, m - 1.0), 0.95)
    for k in range(n):
        spreads = [spread_of([side[k]], np.array([float(m)])) for side in moved]
        variance = directional_variances([moved[0][k]], a[k : k + 1], b[k : k + 1])
        variance += directional_variances([moved[1][k]], b[k : k + 1], a[k : k + 1])
        squares = ((a[k] - b[k]) ** 2).sum()[None, None]
        sure = intervals_of(squares, 4.0 * variance, spreads[0].column, spreads[1])
        assert parts.measured[k] == pytest.approx(squares[0, 0])
        assert parts.estimate[k] == pytest.approx(sure.distance[0, 0])
        assert parts.high[k] == pytest.approx(sure.high[0, 0], rel=1e-4)
        assert parts.low[k] == pytest.approx(sure.low[0, 0], rel=1e-4, abs=1e-9)


def test_what_is_not_squared_is_the_size_of_the_difference():
    differences = np.array([[0.5], [-0.2]])
    still = [np.zeros((2, 3, 1))] * 2
    parts = parts_of(differences, still, (2.0, 2.0), 0.95, squared=False)
    np.testing.assert_allclose(parts.measured, [0.5, 0.2])
    np.testing.assert_allclose(parts.low, [0.5, 0.2])
    assert not parts.noise.any()
    shaped = parts.reshaped(2, 1)
    assert shaped.measured.shape == shaped.noise.shape == (2, 1)


def test_without_episodes_nothing_is_known():
    parts = parts_of(np.ones((1, 2)), [np.zeros((1, 0, 2)), np.zeros((1, 5, 2))], (0.0, 4.0), 0.95)
    assert parts.measured[0] == 2.0
    assert np.isnan(parts.low[0])
    assert parts.noise[0]
