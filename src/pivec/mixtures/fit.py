"""Estimating mixtures: EM with a good start on a subsample, and MAP adaptation.

A Lloyd step of the start is one pass of the kernel with hard assignments and unit variances, so
k-means runs wherever EM does, also out of core. MAP adaptation is Reynolds 2000, equations 11 to
14, in centred form: nothing large cancels, and nothing is divided by a count that may be zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, checked
from pivec.errors import BadData, UsageError
from pivec.mixtures.model import ArraySource, Floats, Mixture, StateSource, Statistics, as_source
from pivec.mixtures.passes import Kernel, Passes, PolicyStatistics
from pivec.parallel import single_threaded_blas
from pivec.states import Moments
from pivec.terminal import Progress

Array = NDArray[np.float64]
Relevance = float | NDArray[Any]
"""The relevance factor ρ: one for all policies, or one for each, (P, 1)."""

_DEAD = 0.5  # a component with fewer expected states has died


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


def reseed(
    mixture: Mixture, counts: Array, states: Floats, rng: np.random.Generator
) -> tuple[Mixture, int]:
    """Move dead components to raw states from the percent with the lowest density; count them."""
    dead = np.flatnonzero(counts < _DEAD)
    if not len(dead) or len(dead) == mixture.n_components:
        return mixture, 0
    density = mixture.log_density(states)
    worst = np.argsort(density, kind="stable")[: max(len(dead), len(density) // 100)]
    chosen = rng.choice(worst, size=len(dead), replace=len(worst) < len(dead))
    weights, means = mixture.weights.copy(), mixture.means.copy()
    variances = mixture.variances.copy()
    means[dead] = mixture.standardise(states[chosen])
    variances[dead] = mixture.weights @ mixture.variances
    # Light at first: the likelihood falls by at most the weight taken from the rest.
    weights[dead] = 0.1 / mixture.n_components
    weights /= weights.sum()
    return replace(mixture, weights=weights, means=means, variances=variances), len(dead)


@dataclass
class EMRun:
    """The state of a run of EM, updated after every pass."""

    mixture: Mixture  # after the last M-step
    # Mean log-likelihood (nats per state, standardized) before each M-step; falls only after a
    # reseeding.
    history: list[float] = field(default_factory=list)
    converged: bool = False  # whether the last change was smaller than the tolerance
    reseeded: int = 0  # how many dead components were moved

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
    reseeding: tuple[Floats, np.random.Generator] | None = None,
    on_pass: Callable[[EMRun], None] | None = None,
) -> EMRun:
    """Iterate to scikit-learn's rule: stop when the mean log-likelihood changes by under ``tol``.

    ``run`` is changed in place, one pass at a time, so that an interruption leaves it usable.
    ``reseeding`` has the last two arguments of `reseed`.
    """
    previous = run.history[-1] if run.history else -np.inf
    while run.n_iter < max_iter and not run.converged:
        statistics = passes(run.mixture)
        value = statistics.mean_log_likelihood
        mixture, placed = maximise(statistics, run.mixture, variance_floor), 0
        if reseeding is not None:
            mixture, placed = reseed(mixture, statistics.counts, *reseeding)
        run.mixture = mixture
        run.history.append(value)
        run.reseeded += placed
        run.converged = not placed and abs(value - previous) < tol
        previous = value
        if on_pass is not None:
            on_pass(run)
    return run


_SEEDING = 16_384  # states among which k-means++ chooses seeds


def plus_plus(points: Array, n_clusters: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Row numbers of k-means++ seeds, the best of a few candidates each.

    Arthur and Vassilvitskii 2007: a seed is drawn with probability proportional to the squared
    distance to the nearest seed so far; of 2 + log K candidates the one that lowers the sum most is
    kept, as in their section 5 and in scikit-learn, which draws from another kind of generator.
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
            if cumulative[-1] <= 0:  # every state is a seed already
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
    """Lloyd's algorithm until the centres move by less than ``tol`` (mean square per feature).

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


class Overview(NamedTuple):
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


_LLOYD = {"kmeans++": 10, "kmeans": 300}  # maximum number of Lloyd steps of each kind of start
_TRIAL = 10  # passes of EM over the subsample after which starts are compared
_WARM_TOL, _WARM_PASSES = 1e-4, 200  # stopping rule of EM on the subsample


@checked
def fit_mixture(
    states: StateSource | NDArray[Any],
    n_components: Count = 64,
    *,
    random_state: int | np.random.Generator = 0,
    init: Literal["kmeans++", "kmeans"] = "kmeans++",
    warm_start: bool = True,
    n_init: Count | None = None,
    tol: Positive = 1e-3,
    max_iter: Count = 100,
    variance_floor: Positive = 1e-6,
    subsample: Count = 50_000,
    device: str = "auto",
    progress: bool = False,
) -> EMRun:
    """Fit a mixture of diagonal Gaussians to all states of a source, or of an array (n, D).

    States are raw; they are standardized with their pooled mean and deviation.

    Parameters
    ----------
    n_components : int
        Number of Gaussians, K.
    init : {"kmeans++", "kmeans"}
        k-means++ and a few Lloyd steps, or k-means to convergence.
    warm_start : bool
        Start, and run EM, on a subsample before the passes over everything. Otherwise k-means and
        EM use all states from the first step, as in the paper (with ``init="kmeans"``).
    n_init : int or None
        Number of starts; by default 4 with a warm start, else 1. With a warm start each has ten
        passes of EM on the subsample, and the best is continued; otherwise the best of all
        complete fits is returned.
    tol, max_iter : float, int
        Stop when the mean log-likelihood changes by less than ``tol`` in a pass over all states.
    variance_floor : float
        Minimum variance of a component, relative to the pooled variance of the feature. At 1e-6,
        which is what scikit-learn adds, every kernel is accurate to 1e-5, even on features with
        spikes; a larger value makes components on such spikes wider, and distances there smaller.
    subsample : int
        Number of states drawn for the start.
    device : str
        See `pivec.mixtures.kernel`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> states = np.concatenate([rng.normal(-3, 1, (500, 2)), rng.normal(3, 1, (500, 2))])
    >>> fit_mixture(states, 2, device="numpy").mixture.weights.round(2)
    array([0.5, 0.5])
    """
    source = as_source(states)
    if source.n_states < n_components:
        raise BadData(
            f"a mixture of {n_components} components needs at least as many states, but there are "
            f"{source.n_states}; lower n_components or collect more episodes"
        )
    passes = Passes(source, device)
    rng = np.random.default_rng(random_state)
    look = overview(passes, max(subsample, n_components), rng)
    start = partial(
        first_mixture, look=look, n_components=n_components, rng=rng,
        lloyd_steps=_LLOYD[init], variance_floor=variance_floor,
    )  # fmt: skip
    improve = partial(run_em, variance_floor=variance_floor, reseeding=(look.subsample, rng))
    with Progress("fitting", total=max_iter, unit="passes", show=progress) as bar:
        improve_all = partial(
            improve, passes=passes, tol=tol, max_iter=max_iter,
            on_pass=lambda run: bar.advance(1, f"{run.history[-1]:.4f} nats per state"),
        )  # fmt: skip
        if not warm_start:
            return _best([improve_all(EMRun(start(passes))) for _ in range(n_init or 1)])
        # EM on the subsample: briefly from each start, to a tight tolerance from the best.
        few, runs, n = Passes(ArraySource(look.subsample), device), [], n_init or 4
        for i in range(n):
            bar.note(f"start {i + 1} of {n}")
            runs.append(EMRun(start(few)))
            if n > 1:
                improve(runs[-1], few, tol=_WARM_TOL, max_iter=_TRIAL)
        bar.note("the best start, on the subsample")
        best = improve(_best(runs), few, tol=_WARM_TOL, max_iter=_WARM_PASSES)
        return improve_all(EMRun(best.mixture, reseeded=best.reseeded))


def _best(runs: list[EMRun]) -> EMRun:
    """The run with the best likelihood."""
    return max(runs, key=lambda run: run.history[-1] if run.history else -np.inf)


@checked
def policy_relevance(
    counts: NDArray[Any], relevance: Positive = 16.0, common_total: Positive | None = None
) -> Array:
    """Relevance factors of policies, shape (P, 1), as if all had ``common_total`` states.

    A policy of T states whose counts and sums are rescaled by N/T is adapted as with the factor
    ρ T/N. Without a common total it is ρ for all, as in the paper.
    """
    total = np.asarray(counts, dtype=np.float64).sum(axis=1, keepdims=True)
    if common_total is None:
        return np.full_like(total, relevance)
    return np.where(total > 0, relevance * total / common_total, relevance)


def map_offsets(
    counts: NDArray[Any], sums: NDArray[Any], mixture: Mixture, relevance: Relevance = 16.0
) -> Array:
    """Adapted means minus background means, in standardized units, shape (P, K, D).

    Reynolds 2000, eq. 12 and 14 with α = n / (n + ρ): the offset α σ f/n is σ f / (n + ρ).
    Differences between policies are then differences of small numbers, and keep their digits.
    """
    weight = np.asarray(counts + relevance)[..., None]
    return np.asarray(np.sqrt(mixture.variances) * sums / weight, dtype=np.float64)


def map_weights(counts: NDArray[Any], mixture: Mixture, relevance: Relevance = 16.0) -> Array:
    """Adapted weights of every policy, shape (P, K): positive, with sum 1.

    Reynolds 2000, eq. 11: (α n/T + (1 − α) w) γ, where T is the number of the policy's states and
    γ makes the sum 1.
    """
    n = np.asarray(counts, dtype=np.float64)
    total = n.sum(axis=1, keepdims=True)
    observed = np.divide(n, total, out=np.zeros_like(n), where=total > 0)
    alpha = n / (n + relevance)
    weights = alpha * observed + (1 - alpha) * mixture.weights
    # A component of weight zero has no data either: the smallest number keeps its log finite.
    weights = np.maximum(weights, np.finfo(np.float64).tiny)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def map_variances(
    statistics: PolicyStatistics,
    offsets: Array,
    mixture: Mixture,
    relevance: Relevance = 16.0,
    floor: float = 1e-6,
) -> Array:
    """Adapted variances of every policy in standardized units, at least ``floor``, (P, K, D).

    Reynolds 2000, eq. 13, is α E[x²] + (1 − α)(σ² + μ²) − μ̂². Relative to the background's mean,
    with the centred squares s and the ``offsets`` o = μ̂ − μ of `map_offsets` with the same
    relevance factor, it is σ² (s + ρ)/(n + ρ) − o².
    """
    if statistics.squares is None:
        raise UsageError("variances need statistics with squares=True")
    rho = np.asarray(relevance, dtype=np.float64)[..., None]
    spread = mixture.variances * (statistics.squares + rho) / (statistics.counts[..., None] + rho)
    return np.maximum(spread - offsets**2, floor)
