"""The evaluation: every method on the same draws, unit by unit, from where it was stopped."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Seed, checked
from pivec.atomic import atomic_write, make_folder
from pivec.engines.engine import Engine, WorkFailed, current, on_engine
from pivec.errors import PivecError, UsageError
from pivec.evaluation.methods import Method, candidates
from pivec.evaluation.metrics import (
    distance_variance,
    mean_known,
    pair_errors,
    return_correlation,
    told_apart,
)
from pivec.evaluation.result import Evaluation, Row
from pivec.evaluation.sets import Given, PolicySet, policy_sets
from pivec.evaluation.unit import Outcome, Request, Unit, make_unit, run_alone, run_unit
from pivec.progress import Progress

SIZES = (100, 50, 25, 10)
FAR_OFF = 1000.0  # percent: an error of more than ten times the distance
UNITS, CSV, MARKDOWN = "units", "evaluation.csv", "evaluation.md"

Problems = dict[Unit, str]  # why it has no outcome


@on_engine
@checked
def evaluate(
    stores: Given | Sequence[Given] | Mapping[str, Given],
    methods: str | Sequence[Method] | Mapping[str, Method] = "all",
    sizes: Iterable[int] = SIZES,
    repetitions: Count = 3,
    seed: Seed = 0,
    out: str | Path | None = None,
    *,
    progress: bool = False,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    isolate: bool = True,
    engine: str | Engine = "auto",  # noqa: ARG001  (as the next, of `on_engine`)
    jobs: Count | None = None,  # noqa: ARG001
) -> Evaluation:
    """Compare characterizations by the paper's three metrics (Section 6.2).

    For each store, size and repetition so many trajectories of every policy are drawn from all it
    has, the same for all methods; each is fitted on them and measures the distances. One that
    fails does not stop the others: its rows say why.

    Parameters
    ----------
    stores : paths or VisitedStates
        One a set of policies, or a mapping from labels to them. Sets of one environment are
        averaged.
    methods : sequence, or mapping from labels
        Names, (name, parameters), or ready characterizations; ``"all"`` is every name there is.
        Those made by name get another random_state for each repetition, unless one is given.
    sizes : sequence of int
        Trajectories of each policy; the paper drew 100, 50, 25 and 10 from 200.
    repetitions : int
        Draws at each size.
    seed : int
        Everything random follows from it.
    out : path, optional
        Gets ``units/``, evaluation.csv and evaluation.md; what is there is not computed again.
    parameters : mapping, optional
        For each name, arguments of the methods given by name.
    isolate : bool
        Run each unit in a process of its own, which tells its peak of memory; otherwise NaN.
    engine, jobs : optional
        Where units run, as `pivec.using` takes it. Several share the cores, so each is slower.

    Examples
    --------
    >>> from pivec.states import VisitedStates
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(place, 1, (20, 2)) for _ in range(8)] for place in range(5)]
    >>> data = VisitedStates.from_arrays(walks, returns=[0, 1, 2, 3, 4])
    >>> result = evaluate(data, ["gaussian"], sizes=(4, 2), isolate=False)
    >>> [bool(row.correlation.mean > 0.8) for row in result.summary()]
    [True, True]
    """
    wanted = _checked_sizes(sizes)
    chosen, sets = candidates(methods, parameters), policy_sets(stores, wanted[0])
    draws = list(product(wanted, range(1, repetitions + 1)))
    with tempfile.TemporaryDirectory(prefix="pivec-") as temporary:
        folder = make_folder(Path(temporary if out is None else out) / UNITS)
        unit = partial(make_unit, seed=seed, folder=folder, isolated=isolate)
        groups = [
            (policies, [unit(policies, method, *d, is_anchor=d == draws[0]) for d in draws])
            for policies, method in product(sets, chosen)
        ]
        waiting = _longest_first(u for _, units in groups for u in units if u.outcome() is None)
        sent = {policies.label: policies.travelling(Path(temporary)) for policies in sets}
        problems = _run([(unit, sent[unit.store]) for unit in waiting], isolate, progress)
        rows = [row for policies, units in groups for row in _rows(policies, units, problems)]
    files = () if out is None else tuple(u.file for _, units in groups for u in units)
    notes, computed = _notes(sets, wanted[0]), len(waiting) - len(problems)
    return _finished(Evaluation(tuple(rows), notes, computed, files), out)


def _longest_first(units: Iterable[Unit]) -> list[Unit]:
    """Sort units so that workers end at about the same time."""
    return sorted(units, key=lambda unit: unit.effort, reverse=True)


def _checked_sizes(sizes: Iterable[int]) -> list[int]:
    """Sort the sizes, the largest first."""
    wanted = sorted({int(size) for size in sizes}, reverse=True)
    if not wanted or wanted[-1] < 1:
        raise UsageError(f"sizes must be one or more whole numbers from 1 on, but are {wanted}")
    return wanted


def _run(requests: Sequence[Request], isolate: bool, progress: bool) -> Problems:
    """Run units and keep what comes of them; what goes wrong with one stops no other."""
    problems: Problems = {}
    refused: dict[tuple[str, str], str] = {}  # by store and method

    def tried() -> Iterator[Request]:
        """Leave out other units of a method that refused a store."""
        for unit, data in requests:
            if why := refused.get((unit.store, unit.label)):
                problems[unit] = why
                bar.advance(1, str(unit))
            else:
                bar.note(str(unit))
                yield unit, data

    with Progress("evaluate", len(requests), unit="units", show=progress) as bar:
        for reply in current().map(
            run_alone if isolate else run_unit,
            tried(),
            name=lambda request: str(request[0]),
            apart=isolate,
            parts=lambda request: [(type(request[0].method).__qualname__, request[0].method)],
            remedy=", or evaluate with isolate=False" if isolate else ", or use one job",
            pinned=True,
        ):
            unit, failure = reply.item[0], reply.failure
            if failure is None:
                unit.write(reply.content)
            else:
                problems[unit] = str(failure)
                if not isinstance(failure, WorkFailed):
                    refused.setdefault((unit.store, unit.label), str(failure))
            bar.advance(1, str(unit))
    return problems


def _rows(policies: PolicySet, units: Sequence[Unit], problems: Problems) -> list[Row]:
    """Score all units of one method on one set of policies."""
    outcomes = [None if unit in problems else unit.outcome() for unit in units]
    by_size: dict[int, list[NDArray[np.float64]]] = {}
    for unit, outcome in zip(units, outcomes, strict=True):
        by_size.setdefault(unit.size, [])
        if outcome is not None:
            by_size[unit.size].append(outcome.distances)
    variances = {size: distance_variance(matrices) for size, matrices in by_size.items()}
    anchor = outcomes[0]  # the first repetition with the most data
    rows = []
    for unit, outcome in zip(units, outcomes, strict=True):
        row = Row(policies.environment, unit.label, unit.store, unit.size, unit.repetition)
        if outcome is None:
            row = replace(row, problem=problems.get(unit, "its result was removed"))
        else:
            row = replace(
                row,
                correlation=return_correlation(outcome.distances, policies.data.mean_returns),
                variance=variances[unit.size],
                seconds=outcome.seconds,
                peak_mb=outcome.peak_mb,
                card=outcome.card,
            )
            if anchor is not None and outcome is not anchor:
                row = replace(row, **_errors(outcome, anchor))
        rows.append(row)
    return rows


def _errors(outcome: Outcome, anchor: Outcome) -> dict[str, Any]:
    """Summarise the errors of all pairs, and of those that are told apart."""
    errors = pair_errors(outcome.distances, anchor.distances)
    known = ~np.isnan(errors)
    if not known.any():
        return {}
    far = {
        "error": mean_known(errors),
        "median_error": float(np.median(errors[known])),
        "share_far_off": float(np.mean(errors[known] > FAR_OFF)),
    }
    if anchor.halves is None or np.isnan(anchor.halves).any():
        return far
    apart = told_apart(anchor.distances, anchor.halves)
    return far | {"share_apart": float(apart.mean()), "error_apart": mean_known(errors[apart])}


def _notes(sets: Sequence[PolicySet], largest: int) -> tuple[str, ...]:
    notes = []
    for policies in sets:
        if largest == policies.fewest:
            notes.append(
                f"{policies.label}: {largest} are all the trajectories a policy has, so "
                "repetitions at that size differ only by the randomness of the method itself."
            )
        if np.isnan(policies.data.mean_returns).any():
            notes.append(f"{policies.label}: returns are not known, so there is no correlation.")
    return tuple(notes)


def _finished(result: Evaluation, out: str | Path | None) -> Evaluation:
    """Write the tables; refuse a result without any number."""
    if out is not None:
        result.to_csv(Path(out) / CSV)
        with atomic_write(Path(out) / MARKDOWN, "w") as file:
            file.write(result.to_markdown())
    if all(row.problem for row in result.rows):
        method, store, why = result.problems[0]
        raise PivecError(f"no method gave a result; {method} on {store}: {why}")
    return result
