"""Fitting the background model: a good start on a subsample, then EM on everything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, UsageError
from pivec.mixtures.accumulate import kernel as kernel_of
from pivec.mixtures.em import EMRun, Reseeder, run_em
from pivec.mixtures.mixture import Mixture
from pivec.mixtures.passes import Overview, Passes, overview
from pivec.mixtures.source import ArraySource, StateSource, as_source
from pivec.mixtures.start import first_mixture
from pivec.progress import Progress

_SEEDING = 16_384
"""States among which k-means++ looks for seeds."""
_LLOYD = 10
"""Lloyd steps of a quick start."""
_TRIAL = 10
"""Passes of EM over the subsample after which starts are compared."""
_WARM_TOL, _WARM_PASSES = 1e-4, 200
"""Stopping rule of EM on the subsample."""


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted mixture and how the fit went.

    Attributes
    ----------
    mixture : Mixture
        After the last M-step.
    history : tuple of float
        Mean log-likelihood (nats a state, standardised) before each M-step over all states.
    n_iter : int
        Passes over all states.
    converged : bool
        Whether the change of the mean log-likelihood fell under ``tol``.
    warm_iter : int
        Passes over the subsample before that, 0 without a warm start.
    reseeded : int
        Components that died and were placed anew.
    interrupted : bool
        Whether Ctrl-C ended the fit early.
    engine : str
        What did the work, as `pivec.mixtures.engine_name` calls it.
    """

    mixture: Mixture
    history: tuple[float, ...]
    n_iter: int
    converged: bool
    warm_iter: int
    reseeded: int
    interrupted: bool
    engine: str


@dataclass
class _Settings:
    """What the stages of a fit share."""

    n_components: int
    variance_floor: float
    reseeder: Reseeder
    look: Overview
    rng: np.random.Generator


def fit_mixture(
    states: StateSource | NDArray[Any],
    n_components: int = 64,
    *,
    random_state: int | np.random.Generator = 0,
    init: Literal["kmeans++", "kmeans"] = "kmeans++",
    warm_start: bool = True,
    n_init: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 100,
    variance_floor: float = 1e-6,
    subsample: int = 50_000,
    device: str = "auto",
    progress: bool = False,
    on_interrupt: Literal["raise", "return"] = "raise",
) -> FitResult:
    """Fit a mixture of diagonal Gaussians to all states of a source.

    Parameters
    ----------
    states : StateSource or array of shape (n, D)
        Raw states; they are standardised with their pooled mean and deviation on the way.
    n_components : int
        Number of Gaussians, K.
    random_state : int or numpy.random.Generator
        Everything random comes from it.
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
        See `pivec.mixtures.engine_name`.
    progress : bool
        Draw a bar of passes with the log-likelihood.
    on_interrupt : {"raise", "return"}
        What Ctrl-C does between passes: raise, or return the mixture so far.

    Returns
    -------
    FitResult
        The mixture and how the fit went.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> states = np.concatenate([rng.normal(-3, 1, (500, 2)), rng.normal(3, 1, (500, 2))])
    >>> result = fit_mixture(states, 2, device="numpy")
    >>> result.mixture.weights.round(2)
    array([0.5, 0.5])
    """
    source = as_source(states)
    n_init = (4 if warm_start else 1) if n_init is None else n_init
    _check(source, n_components, init, n_init, tol, max_iter, variance_floor, subsample)
    if on_interrupt not in ("raise", "return"):
        raise UsageError(f'on_interrupt must be "raise" or "return", but is {on_interrupt!r}.')
    kernel = kernel_of(device)
    rng = np.random.default_rng(random_state)
    passes = Passes(source, kernel)
    look = overview(passes, max(subsample, n_components), rng)
    settings = _Settings(n_components, variance_floor, Reseeder(look.subsample, rng), look, rng)
    with Progress("fitting", total=max_iter, unit="passes", show=progress) as bar:

        def report(run: EMRun) -> None:
            bar.advance(1, f"{run.history[-1]:.4f} nats a state")

        warm: list[EMRun] = []
        runs: list[EMRun] = []
        interrupted = False
        try:
            if warm_start:
                small = Passes(ArraySource(look.subsample), kernel)
                _warm_up(warm, small, settings, init, n_init, bar)
                runs.append(_continued(_best(warm)))
                _run(runs[0], passes, settings, tol, max_iter, report)
            else:
                for _ in range(n_init):
                    runs.append(EMRun(_start(passes, settings, init)))
                    _run(runs[-1], passes, settings, tol, max_iter, report)
        except KeyboardInterrupt:
            if on_interrupt == "raise" or not (runs or warm):
                raise
            interrupted = True
    run = _best(runs) if runs else _continued(_best(warm))
    return FitResult(
        mixture=run.mixture,
        history=tuple(run.history),
        n_iter=len(run.history),
        converged=run.converged,
        warm_iter=len(_best(warm).history) if warm else 0,
        reseeded=run.reseeded,
        interrupted=interrupted,
        engine=kernel.name,
    )


def _best(runs: list[EMRun]) -> EMRun:
    """Give the run with the best likelihood."""
    return max(runs, key=lambda run: run.history[-1] if run.history else -np.inf)


def _continued(run: EMRun) -> EMRun:
    """Give a run that goes on from where another one ended, on other states."""
    return EMRun(run.mixture, reseeded=run.reseeded)


def _run(
    run: EMRun,
    passes: Passes,
    settings: _Settings,
    tol: float,
    max_iter: int,
    report: Callable[[EMRun], None] | None = None,
) -> EMRun:
    return run_em(
        run,
        passes,
        tol=tol,
        max_iter=max_iter,
        variance_floor=settings.variance_floor,
        reseed=settings.reseeder,
        on_pass=report,
    )


def _start(passes: Passes, settings: _Settings, init: str) -> Mixture:
    """One first mixture, from k-means over ``passes``."""
    states = settings.look.subsample
    if len(states) > _SEEDING:
        rows = np.sort(settings.rng.choice(len(states), _SEEDING, replace=False))
        states = states[rows]
    return first_mixture(
        passes,
        states,
        settings.n_components,
        settings.look.center,
        settings.look.scale,
        settings.rng,
        lloyd_steps=_LLOYD if init == "kmeans++" else 300,
        variance_floor=settings.variance_floor,
    )


def _warm_up(
    runs: list[EMRun], passes: Passes, settings: _Settings, init: str, n_init: int, bar: Progress
) -> None:
    """Run EM on the subsample: shortly from each start, to a tight tolerance from the best.

    ``runs`` receives them as they begin, for the case of an interruption.
    """
    for i in range(n_init):
        bar.note(f"start {i + 1} of {n_init}")
        runs.append(EMRun(_start(passes, settings, init)))
        if n_init > 1:
            _run(runs[-1], passes, settings, _WARM_TOL, _TRIAL)
    bar.note("the best start, on the subsample")
    _run(_best(runs), passes, settings, _WARM_TOL, _WARM_PASSES)


def _check(
    source: StateSource,
    n_components: int,
    init: str,
    n_init: int,
    tol: float,
    max_iter: int,
    variance_floor: float,
    subsample: int,
) -> None:
    """Refuse settings that cannot be meant."""
    if init not in ("kmeans++", "kmeans"):
        raise UsageError(f'init must be "kmeans++" or "kmeans", but is {init!r}.')
    for what, value in (
        ("n_components", n_components),
        ("n_init", n_init),
        ("max_iter", max_iter),
        ("subsample", subsample),
    ):
        if value < 1:
            raise UsageError(f"{what} must be at least 1, but is {value}.")
    for what, number in (("tol", tol), ("variance_floor", variance_floor)):
        if not number > 0:
            raise UsageError(f"{what} must be positive, but is {number}.")
    if source.n_states < n_components:
        raise BadData(
            f"a mixture of {n_components} components needs at least as many states, but there are "
            f"{source.n_states}; lower n_components or collect more episodes."
        )
