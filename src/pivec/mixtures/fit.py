"""Fitting the background model: a good start on a subsample, then EM on everything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, checked
from pivec.errors import BadData
from pivec.mixtures.accumulate import Kernel, Passes
from pivec.mixtures.model import Mixture, Statistics
from pivec.mixtures.source import ArraySource, Floats, StateSource, as_source
from pivec.parallel import single_threaded_blas
from pivec.states import Moments
from pivec.terminal import Progress

# -----------------------------------------------------------------------------
# Expectation maximisation on top of additive statistics.


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


# -----------------------------------------------------------------------------
# The way to a first mixture: a look at all states, k-means++ seeds, Lloyd steps, their Gaussians.
#
# A Lloyd step is one pass of the kernel with hard assignments and unit variances, so k-means runs
# wherever EM does, also out of core. scikit-learn's k-means++ draws from another kind of generator.


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


_LLOYD = {"kmeans++": 10, "kmeans": 300}
"""Most Lloyd steps of each kind of start."""
_TRIAL = 10
"""Passes of EM over the subsample after which starts are compared."""
_WARM_TOL, _WARM_PASSES = 1e-4, 200
"""Stopping rule of EM on the subsample."""


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

    States are raw; they are standardised with their pooled mean and deviation on the way.

    Parameters
    ----------
    n_components : int
        Number of Gaussians, K.
    init : {"kmeans++", "kmeans"}
        k-means++ and a few Lloyd steps, or k-means to convergence.
    warm_start : bool
        Start, and run EM, on a subsample before the passes over everything. Without it k-means
        and EM see all states from the first step, as in the paper (with ``init="kmeans"``).
    n_init : int or None
        Starts, 4 with a warm start and 1 without unless said otherwise. With a warm start each
        has ten passes of EM on the subsample, and the best is continued; without, the best of
        that many whole fits is returned.
    tol, max_iter : float, int
        Passes over all states end when the mean log-likelihood changes by less than ``tol``.
    variance_floor : float
        Least variance of a component, relative to the pooled variance of the feature. At 1e-6,
        which is what scikit-learn adds, every kernel is right to 1e-5 also on features with
        spikes; a larger one makes components on such spikes wider, and distances there smaller.
    subsample : int
        States drawn for the start.
    device : str
        See `pivec.mixtures.accumulate.kernel`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> states = np.concatenate([rng.normal(-3, 1, (500, 2)), rng.normal(3, 1, (500, 2))])
    >>> fit_mixture(states, 2, device="numpy").mixture.weights.round(2)
    array([0.5, 0.5])
    """
    passes = Passes(_large_enough(as_source(states), n_components), device)
    rng = np.random.default_rng(random_state)
    look = overview(passes, max(subsample, n_components), rng)
    start = partial(
        first_mixture, look=look, n_components=n_components, rng=rng,
        lloyd_steps=_LLOYD[init], variance_floor=variance_floor,
    )  # fmt: skip
    improve = partial(run_em, variance_floor=variance_floor, reseed=Reseeder(look.subsample, rng))
    with Progress("fitting", total=max_iter, unit="passes", show=progress) as bar:
        improve_all = partial(
            improve, passes=passes, tol=tol, max_iter=max_iter,
            on_pass=lambda run: bar.advance(1, f"{run.history[-1]:.4f} nats a state"),
        )  # fmt: skip
        if not warm_start:
            return _best([improve_all(EMRun(start(passes))) for _ in range(n_init or 1)])
        few = Passes(ArraySource(look.subsample), device)
        return improve_all(_warm_start(few, start, improve, n_init or 4, bar))


def _large_enough(source: StateSource, n_components: int) -> StateSource:
    if source.n_states < n_components:
        raise BadData(
            f"a mixture of {n_components} components needs at least as many states, but there are "
            f"{source.n_states}; lower n_components or collect more episodes"
        )
    return source


def _best(runs: list[EMRun]) -> EMRun:
    """Give the run with the best likelihood."""
    return max(runs, key=lambda run: run.history[-1] if run.history else -np.inf)


def _warm_start(
    passes: Passes,
    start: Callable[..., Mixture],
    improve: Callable[..., EMRun],
    n: int,
    bar: Progress,
) -> EMRun:
    """Run EM on a subsample: shortly from each of n starts, to a tight tolerance from the best."""
    runs = []
    for i in range(n):
        bar.note(f"start {i + 1} of {n}")
        runs.append(EMRun(start(passes)))
        if n > 1:
            improve(runs[-1], passes, tol=_WARM_TOL, max_iter=_TRIAL)
    bar.note("the best start, on the subsample")
    best = improve(_best(runs), passes, tol=_WARM_TOL, max_iter=_WARM_PASSES)
    return EMRun(best.mixture, reseeded=best.reseeded)
