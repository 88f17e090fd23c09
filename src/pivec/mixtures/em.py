"""Expectation maximisation on top of additive statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pivec.mixtures.mixture import Mixture
from pivec.mixtures.source import Floats
from pivec.mixtures.statistics import Statistics

_DEAD = 0.5
"""A component with fewer (expected) states than this has died."""


def maximise(statistics: Statistics, mixture: Mixture, variance_floor: float) -> Mixture:
    """M-step with variances of at least the floor, which is the constrained maximum.

    Components without states keep their mean and variance.
    """
    n = np.maximum(statistics.counts, np.finfo(np.float64).tiny)[:, None]
    alive = statistics.counts[:, None] > 10 * np.finfo(np.float64).eps
    shift = np.where(alive, statistics.sums / n, 0.0)
    spread = np.where(alive, statistics.squares / n - shift**2, 1.0)
    return replace(
        mixture,
        weights=statistics.counts / statistics.counts.sum(),
        means=mixture.means + np.sqrt(mixture.variances) * shift,
        variances=np.maximum(mixture.variances * spread, variance_floor),
    )


@dataclass(frozen=True, eq=False)
class Reseeder:
    """Puts components that died on raw states, (m, D), among the percent explained worst."""

    states: Floats
    rng: np.random.Generator

    def __call__(self, mixture: Mixture, counts: NDArray[np.float64]) -> tuple[Mixture, int]:
        """Give the mixture with its dead components reseeded, and how many there were."""
        dead = np.flatnonzero(counts < _DEAD)
        if not len(dead) or len(dead) == mixture.n_components:
            return mixture, 0
        density = mixture.log_density(self.states)
        worst = np.argsort(density, kind="stable")[: max(len(dead), len(density) // 100)]
        chosen = self.rng.choice(worst, size=len(dead), replace=len(worst) < len(dead))
        weights, means = mixture.weights.copy(), mixture.means.copy()
        variances = mixture.variances.copy()
        means[dead] = mixture.standardise(self.states[chosen])
        variances[dead] = mixture.weights @ mixture.variances
        # Light at first: the likelihood can fall by no more than the weight taken from the rest.
        weights[dead] = 0.1 / mixture.n_components
        weights /= weights.sum()
        reseeded = replace(mixture, weights=weights, means=means, variances=variances)
        return reseeded, len(dead)


@dataclass
class EMRun:
    """Where a run of EM stands; kept up to date after every pass."""

    mixture: Mixture  # after the last M-step
    # Mean log-likelihood (nats a state, standardised) before each M-step. Never falls, except after
    # a reseeding.
    history: list[float] = field(default_factory=list)
    converged: bool = False  # whether the last change was smaller than the tolerance
    reseeded: int = 0  # how many components had died and were placed anew

    @property
    def n_iter(self) -> int:
        """Passes over the states."""
        return len(self.history)


def run_em(
    run: EMRun,
    passes: Callable[[Mixture], Statistics],
    *,
    tol: float,
    max_iter: int,
    variance_floor: float,
    reseed: Reseeder | None = None,
    on_pass: Callable[[EMRun], None] | None = None,
) -> EMRun:
    """Iterate to scikit-learn's rule: stop when the mean log-likelihood changes by under ``tol``.

    ``run`` is changed in place, one whole pass at a time, so that an interruption leaves it
    usable.
    """
    previous = run.history[-1] if run.history else -np.inf
    while run.n_iter < max_iter and not run.converged:
        statistics = passes(run.mixture)
        value = statistics.mean_log_likelihood
        mixture, placed = maximise(statistics, run.mixture, variance_floor), 0
        if reseed is not None:
            mixture, placed = reseed(mixture, statistics.counts)
        run.mixture = mixture
        run.history.append(value)
        run.reseeded += placed
        run.converged = not placed and abs(value - previous) < tol
        previous = value
        if on_pass is not None:
            on_pass(run)
    return run
