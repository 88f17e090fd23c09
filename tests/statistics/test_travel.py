"""The distance travelled: noise taken off, and standard errors that know of shared checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.statistics import Travel, sampled_travel

CHECKPOINTS, VALUES, EPISODES = 5, 3, 12


@pytest.fixture
def way(rng):
    """Make points of checkpoints, and influences of unlike scatter."""
    points = np.cumsum(rng.normal(size=(CHECKPOINTS, VALUES)), axis=0)
    counts = EPISODES + np.arange(CHECKPOINTS)
    rows = [rng.normal(size=(m, VALUES)) @ rng.normal(size=(VALUES, VALUES)) for m in counts]
    return points, [part - part.mean(axis=0) for part in rows]


def test_it_is_the_variance_of_a_quadratic_form(way):
    points, influences = way
    legs, deviations = sampled_travel(points, influences)
    covariances = [rows.T @ rows / (len(rows) * (len(rows) - 1)) for rows in influences]
    noise = [np.trace(c) for c in covariances]
    for k, leg in enumerate(legs):
        square = np.sum((points[k + 1] - points[k]) ** 2)
        assert np.isclose(leg, square - noise[k] - noise[k + 1])
    for n in range(2, CHECKPOINTS + 1):
        laplacian = np.diag([1.0] + [2.0] * (n - 2) + [1.0]) - np.eye(n, k=1) - np.eye(n, k=-1)
        whole = np.zeros((n * VALUES, n * VALUES))
        for i in range(n):
            whole[i * VALUES : (i + 1) * VALUES, i * VALUES : (i + 1) * VALUES] = covariances[i]
        form = np.kron(laplacian, np.eye(VALUES))
        pull = form @ points[:n].ravel()
        second = 2 * np.trace(form @ whole @ form @ whole)
        first = 4 * pull @ whole @ pull
        assert np.isclose(deviations[n - 1] ** 2, max(first - second, second))
    assert deviations[0] == 0


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_totals_scatter_as_told_and_a_run_that_stays_has_travelled_nothing(scale, rng):
    points = scale * np.cumsum(rng.normal(size=(CHECKPOINTS, VALUES)), axis=0)
    mixing = rng.normal(size=(CHECKPOINTS, VALUES, VALUES))
    true = np.sum(np.diff(points, axis=0) ** 2)
    totals, variances = [], []
    for _ in range(500):
        episodes = points[:, None] + rng.normal(size=(CHECKPOINTS, EPISODES, VALUES)) @ mixing
        means = episodes.mean(axis=1)
        legs, deviations = sampled_travel(means, list(episodes - means[:, None]))
        totals.append(legs.sum())
        variances.append(deviations[-1] ** 2)
    error = np.std(totals) / np.sqrt(len(totals))
    assert abs(np.mean(totals) - true) < 4 * error
    # A standard error that is too small is a defect; at 0 it is somewhat too large.
    assert 0.87 < np.sqrt(np.mean(variances)) / np.std(totals) < (1.5 if scale == 0 else 1.2)


def test_noise_that_was_taken_off_makes_no_sum_negative():
    run = Travel("r", (0, 1, 2), (1, 2, 3), np.array([0.5, -0.7]))
    assert run.cumulative.tolist() == [0.0, 0.5, 0.0]
    assert run.half_widths is None
