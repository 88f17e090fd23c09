"""Behaviour has settled when nothing changes beyond noise, and not a checkpoint earlier."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import UsageError
from pivec.statistics import ConvergenceRule


def run(rng, places, noise=0.05, values=8):
    """Squared distances of noisy places on a line, without the noise, and their errors."""
    points = np.zeros((len(places), values))
    points[:, 0] = places
    true = ((points[:, None] - points) ** 2).sum(axis=2)
    points += rng.normal(0, noise, points.shape)
    d = ((points[:, None] - points) ** 2).sum(axis=2) - 2 * noise**2 * values
    # Var = 4 Δᵀ(C + C)Δ + 2 ‖C + C‖²
    errors = np.sqrt(8 * noise**2 * true + 8 * noise**4 * values)
    np.fill_diagonal(d, 0.0)
    np.fill_diagonal(errors, 0.0)
    return d, errors


def test_a_run_that_stands_still_has_settled(rng):
    d, errors = run(rng, [0, 1, 2, 3, 3, 3, 3, 3, 3])
    assert ConvergenceRule(5, tolerance=0.0, deviations=5).converged(d, errors)
    assert not ConvergenceRule(6, tolerance=0.0, deviations=5).converged(d, errors)
    assert ConvergenceRule(3, tolerance=0.0, deviations=5).converged_at(d, errors) == 6


def test_slow_drift_is_a_change_although_no_step_is(rng):
    steps = 0.06 * np.arange(12)  # each about as long as the noise
    d, errors = run(rng, [-5, *steps])
    rule = ConvergenceRule(10, tolerance=0.0, deviations=3)
    assert rule.converged(np.diagonal(d, 1), np.diagonal(errors, 1))
    assert not rule.converged(d, errors)


def test_going_away_and_coming_back_is_a_change(rng):
    d, errors = run(rng, [0, 3, 3, 3, 5, 3])
    assert not ConvergenceRule(4).converged(d, errors)
    assert ConvergenceRule(1, tolerance=0.1).converged_at(d[:3, :3], errors[:3, :3]) == 2


def test_tolerance_is_a_share_of_the_way_the_run_has_come(rng):
    d, errors = run(rng, [0, 10, 10.5, 10.5], noise=1e-6)
    assert ConvergenceRule(2, tolerance=0.003).converged(d, errors)  # 0.25 of 110
    assert not ConvergenceRule(2, tolerance=0.002).converged(d, errors)


def test_legs_alone_are_judged_against_the_largest():
    legs = [5.0, 4.0, 0.04, 0.03]
    assert ConvergenceRule(2).converged(legs)
    assert not ConvergenceRule(3).converged(legs)
    assert not ConvergenceRule(2, tolerance=0.0).converged(legs)
    assert ConvergenceRule(2, tolerance=0.0).converged(legs, 0.014)  # three of these
    assert not ConvergenceRule(2, tolerance=0.0).converged(legs, 0.013)


def test_what_is_not_known_is_no_standstill_and_no_reach():
    legs = [5.0, np.nan, 0.04, 0.03]
    assert ConvergenceRule(2).converged(legs)
    assert not ConvergenceRule(3, tolerance=9.0).converged(legs)


def test_nothing_is_said_before_there_are_enough():
    assert not ConvergenceRule(3).converged(np.zeros((3, 3)))
    assert ConvergenceRule(3).converged(np.zeros((4, 4)))
    assert ConvergenceRule(3).converged_at(np.zeros((2, 2))) is None


def test_mistakes_are_named():
    for bad in ({"checkpoints": 0}, {"tolerance": -1.0}, {"deviations": -1.0}):
        with pytest.raises(UsageError):
            ConvergenceRule(**bad)
    with pytest.raises(UsageError, match="shape"):
        ConvergenceRule().converged(np.zeros((2, 3)))
    with pytest.raises(UsageError, match="standard errors"):
        ConvergenceRule(2).converged(np.zeros((4, 4)), np.zeros(3))
