"""The way to a first mixture: a look at all states, k-means++ seeds, Lloyd steps, their Gaussians.

A Lloyd step is one pass of the kernel with hard assignments and unit variances, so k-means runs
wherever EM does, also out of core. scikit-learn's k-means++ draws from another kind of generator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.engines.workers import single_threaded_blas
from pivec.mixtures.accumulate import Kernel, Passes
from pivec.mixtures.em import maximise
from pivec.mixtures.mixture import Mixture
from pivec.mixtures.source import Floats
from pivec.mixtures.statistics import Statistics
from pivec.states.moments import Moments

Array = NDArray[np.float64]

_SEEDING = 16_384
"""States among which k-means++ looks for seeds."""


def plus_plus(points: Array, n_clusters: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Row numbers of k-means++ seeds, the best of a few candidates each.

    Arthur and Vassilvitskii 2007: a seed is drawn with probability in proportion to the squared
    distance to the nearest seed so far; of 2 + log K candidates the one that lowers the sum most
    is kept, as in their section 5 and in scikit-learn.
    """
    n = len(points)
    trials = 2 + int(np.log(n_clusters))
    norms = np.einsum("ij,ij->i", points, points)[:, None]
    ones = np.ones((n, 1))
    # ‖a − b‖² = [−2a, 1, ‖a‖²] · [b, ‖b‖², 1], one product for all points.
    left = np.hstack([-2 * points, ones, norms])
    right = np.ascontiguousarray(np.hstack([points, norms, ones]).T)
    seeds = np.empty(n_clusters, dtype=np.int64)
    seeds[0] = rng.integers(n)
    with single_threaded_blas():
        nearest = np.maximum(left[seeds[0]] @ right, 0)
        for k in range(1, n_clusters):
            cumulative = np.cumsum(nearest)
            draws = rng.random(trials)
            if cumulative[-1] <= 0:  # every state lies on a seed already
                seeds[k] = rng.integers(n)
                continue
            candidates = np.searchsorted(cumulative, draws * cumulative[-1], side="right")
            candidates = np.minimum(candidates, n - 1)
            reduced = left[candidates] @ right
            np.minimum(reduced, nearest, out=reduced)
            best = int(reduced.sum(axis=1).argmin())
            seeds[k], nearest = candidates[best], np.maximum(reduced[best], 0)
    return seeds


def lloyd(
    passes: Callable[[Mixture, bool], Statistics], clusters: Mixture, max_iter: int, tol: float
) -> Mixture:
    """Lloyd's algorithm until the centres move by less than ``tol`` (mean square a feature).

    ``clusters`` has unit variances and equal weights, so the best component of a state is the
    nearest centre. An empty cluster keeps its centre.
    """
    for _ in range(max_iter):
        statistics = passes(clusters, True)
        n = np.maximum(statistics.counts, 1e-300)[:, None]
        step = np.where(statistics.counts[:, None] > 0, statistics.sums / n, 0.0)
        clusters = replace(clusters, means=clusters.means + step)
        if (step**2).sum() <= tol * clusters.n_features:
            break
    return clusters


@dataclass(frozen=True, eq=False)
class Overview:
    """Pooled mean and deviation of all states, and a subsample of them."""

    center: Array  # mean and standard deviation in float64; a constant feature has scale 1
    scale: Array
    subsample: Floats  # raw states, in the order of the source, drawn without replacement


def overview(passes: Passes, subsample: int, rng: np.random.Generator) -> Overview:
    """One pass that checks every state, pools moments and draws the subsample."""
    n = passes.source.n_states
    chosen = np.sort(rng.choice(n, size=min(subsample, n), replace=False, shuffle=False))
    parts = [(*span, chosen[slice(*np.searchsorted(chosen, span))]) for span in passes.spans]
    drawn: list[Floats] = []
    pooled = Moments()
    for (first, last, _), (moments, rows) in zip(parts, passes.in_order(_look, parts), strict=True):
        pooled.add(last - first, *moments)
        drawn.append(rows)
    return Overview(pooled.mean, pooled.scale, np.concatenate(drawn))


def _look(
    kernel: Kernel, block: Any, part: tuple[int, int, NDArray[np.int64]]
) -> tuple[tuple[Array, Array], Floats]:
    """Moments of a block, and the rows of it that were drawn."""
    first, _, drawn = part
    return kernel.moments(block, first), kernel.take(block, drawn - first)


def first_mixture(
    passes: Passes,
    look: Overview,
    n_components: int,
    rng: np.random.Generator,
    *,
    lloyd_steps: int,
    variance_floor: float,
) -> Mixture:
    """Seed among the subsample, run Lloyd steps through ``passes``, and fit the clusters."""
    states = look.subsample
    if len(states) > _SEEDING:
        states = states[np.sort(rng.choice(len(states), _SEEDING, replace=False))]
    points = (states.astype(np.float64) - look.center) / look.scale
    seeds = points[plus_plus(points, n_components, rng)]
    weights = np.full(n_components, 1 / n_components)
    clusters = Mixture(weights, seeds, np.ones_like(seeds), look.center, look.scale)
    clusters = lloyd(passes, clusters, lloyd_steps, tol=1e-4)
    return maximise(passes(clusters, True), clusters, variance_floor)
