"""Fitting the background model: a good start on a subsample, then EM on everything."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, checked
from pivec.errors import BadData
from pivec.mixtures.accumulate import Passes
from pivec.mixtures.em import EMRun, Reseeder, run_em
from pivec.mixtures.mixture import Mixture
from pivec.mixtures.source import ArraySource, StateSource, as_source
from pivec.mixtures.start import first_mixture, overview
from pivec.progress import Progress

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
