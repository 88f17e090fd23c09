"""The evaluation: every method on the same draws, unit by unit, from where it was stopped."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pivec.atomic import atomic_write, make_folder
from pivec.characterizations.base import Characterization
from pivec.engines.processes import ProcessFailed, map_processes
from pivec.errors import PivecError, UsageError
from pivec.evaluation.methods import Candidate, Method, candidates
from pivec.evaluation.metrics import distance_error, distance_variance, return_correlation
from pivec.evaluation.result import NAN, Evaluation, Row
from pivec.evaluation.sets import Given, PolicySet, policy_sets, write_set
from pivec.evaluation.unit import (
    Outcome,
    UnitRequest,
    compute,
    draw,
    explained,
    file_name,
    identity_of,
    read_outcome,
    run_unit,
    write_outcome,
)
from pivec.progress import Progress

SIZES = (100, 50, 25, 10)
UNITS, CSV, MARKDOWN = "units", "evaluation.csv", "evaluation.md"


def evaluate(
    stores: Given | Sequence[Given] | Mapping[str, Given],
    methods: str | Sequence[Method] | Mapping[str, Method] = "all",
    sizes: Iterable[int] = SIZES,
    repetitions: int = 3,
    seed: int = 0,
    out: str | Path | None = None,
    *,
    progress: bool = False,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    isolate: bool = True,
    jobs: int = 1,
) -> Evaluation:
    """Compare characterizations by the paper's three metrics (Section 6.2).

    For each store, size and repetition so many trajectories of every policy are drawn from all
    it has, the same ones for all methods; each method is fitted on them and measures the
    distances. A method that fails does not stop the others: its rows say why.

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
        Gets ``units/``, evaluation.csv and evaluation.md. Run again with the same folder,
        finished units are not computed again.
    progress : bool
        Draw a bar.
    parameters : mapping, optional
        For each name, arguments of the methods given by name.
    isolate : bool
        Run each unit in a process of its own, so that its peak of memory can be told. Otherwise
        units run here, and their memory is NaN.
    jobs : int
        Units side by side, each in its share of the cores, which makes each of them slower.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> from pivec.states import VisitedStates
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(place, 1, (20, 2)) for _ in range(8)] for place in range(5)]
    >>> data = VisitedStates.from_arrays(walks, returns=[0, 1, 2, 3, 4])
    >>> found = evaluate(data, ["gaussian"], sizes=(4, 2), isolate=False)
    >>> [bool(row.correlation.mean > 0.8) for row in found.summary()]
    [True, True]
    """
    wanted = _checked_sizes(sizes, repetitions, jobs, isolate)
    chosen = candidates(methods, parameters)
    sets = policy_sets(stores, wanted[0])
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory()) if out is None else Path(out)
        )
        make_folder(folder / UNITS)
        units = [
            _unit(one, method, size, repetition, seed, folder / UNITS, isolate)
            for one in sets
            for method in chosen
            for size in wanted
            for repetition in range(1, repetitions + 1)
        ]
        waiting = [unit for unit in units if read_outcome(unit.file) is None]
        if isolate:
            problems = _run_in_processes(waiting, jobs, progress)
        else:
            problems = _run_here(waiting, progress)
        rows = [row for one in sets for m in chosen for row in _rows(one, m.label, units, problems)]
    result = Evaluation(tuple(rows), _notes(sets, wanted), len(waiting) - len(problems))
    if out is not None:
        result.to_csv(folder / CSV)
        with atomic_write(folder / MARKDOWN, "w") as file:
            file.write(result.to_markdown())
    if all(row.problem for row in rows):
        method, store, why = result.problems[0]
        raise PivecError(f"no method gave a result; {method} on {store}: {why}")
    return result


Key = tuple[str, str, int, int]
Problems = dict[Key, str]


@dataclass(frozen=True)
class _Unit:
    """One method on one draw."""

    policies: PolicySet
    label: str
    method: Characterization
    size: int
    repetition: int
    entropy: tuple[int, ...]
    identity: str
    file: Path

    @property
    def key(self) -> Key:
        return (self.policies.label, self.label, self.size, self.repetition)


def _unit(
    policies: PolicySet,
    candidate: Candidate,
    size: int,
    repetition: int,
    seed: int,
    folder: Path,
    isolate: bool,
) -> _Unit:
    # By the store's data, not by its place in the list, nor by the method: all see the same draw.
    entropy = (seed, int(policies.visited[:15], 16), size, repetition)
    state = np.random.SeedSequence(entropy, spawn_key=(1,)).generate_state(1)[0]
    method = candidate.make(int(state) >> 1)
    identity = identity_of(method, policies.identity, size, entropy, isolate)
    file = folder / file_name(identity)
    return _Unit(policies, candidate.label, method, size, repetition, entropy, identity, file)


class _Refusals:
    """Methods that refused a store: their other units there need not be tried."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def of(self, unit: _Unit) -> str:
        return self._known.get((unit.label, unit.policies.label), "")

    def add(self, unit: _Unit, why: str) -> None:
        self._known.setdefault((unit.label, unit.policies.label), why)


def _run_here(units: Sequence[_Unit], progress: bool) -> Problems:
    problems: Problems = {}
    refusals = _Refusals()
    with Progress("evaluate", len(units), unit="units", show=progress) as bar:
        for unit in units:
            bar.note(_described(unit))
            why = refusals.of(unit)
            try:
                if not why:
                    drawn = draw(unit.policies.data, unit.size, unit.entropy)
                    write_outcome(unit.file, compute(unit.method, drawn), unit.identity)
            except Exception as error:  # one method's failure is not the others'
                why = explained(error)
                if isinstance(error, PivecError):
                    refusals.add(unit, why)
            if why:
                problems[unit.key] = why
            bar.advance(1, _described(unit))
    return problems


def _run_in_processes(units: Sequence[_Unit], jobs: int, progress: bool) -> Problems:
    problems: Problems = {}
    refusals = _Refusals()
    with ExitStack() as stack:
        paths = _stores_on_disk(units, stack)
        bar = stack.enter_context(Progress("evaluate", len(units), unit="units", show=progress))
        asked: list[_Unit] = []

        def requests() -> Iterator[UnitRequest]:
            for unit in units:
                if why := refusals.of(unit):
                    problems[unit.key] = why
                    bar.advance(1, _described(unit))
                else:
                    asked.append(unit)
                    facts = (unit.size, unit.entropy, unit.file, unit.identity)
                    yield UnitRequest(unit.method, paths[unit.policies.label], *facts)

        remedy = ", or evaluate with isolate=False"
        options: dict[str, Any] = {"parts": UnitRequest.parts, "remedy": remedy, "pinned": True}
        for reply in map_processes(run_unit, requests(), jobs=jobs, **options):
            unit = asked[reply.number]
            if reply.failure is not None:
                problems[unit.key] = str(reply.failure)
                if not isinstance(reply.failure, ProcessFailed):
                    refusals.add(unit, str(reply.failure))
            bar.advance(1, _described(unit))
    return problems


def _stores_on_disk(units: Sequence[_Unit], stack: ExitStack) -> dict[str, Path]:
    """Paths of all stores that are needed; those in memory are written for the time being."""
    paths: dict[str, Path] = {}
    for unit in units:
        one = unit.policies
        if one.label in paths:
            continue
        if one.path is not None:
            paths[one.label] = one.path.resolve()
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pivec-"))
            paths[one.label] = write_set(one.data, Path(folder))
    return paths


def _rows(
    policies: PolicySet, method: str, units: Sequence[_Unit], problems: Problems
) -> list[Row]:
    """Score all units of one method on one set of policies."""
    mine = [unit for unit in units if (unit.policies.label, unit.label) == (policies.label, method)]
    found: dict[Key, Outcome] = {}
    for unit in mine:
        if unit.key not in problems and (outcome := read_outcome(unit.file)) is not None:
            found[unit.key] = outcome
    # The anchor: the first repetition with the most data.
    anchor = found.get(mine[0].key)
    variances = {
        size: distance_variance(
            [found[unit.key].distances for unit in mine if unit.size == size and unit.key in found]
        )
        for size in {unit.size for unit in mine}
    }
    rows = []
    for unit in mine:
        facts = (policies.environment, method, policies.label, unit.size, unit.repetition)
        if unit.key not in found:
            rows.append(Row(*facts, problem=problems.get(unit.key, "its result was removed")))
            continue
        outcome = found[unit.key]
        error = NAN
        if anchor is not None and unit is not mine[0]:
            error = distance_error(outcome.distances, anchor.distances)
        rows.append(
            Row(
                *facts,
                correlation=return_correlation(outcome.distances, policies.mean_returns),
                error=error,
                variance=variances[unit.size],
                seconds=outcome.seconds,
                peak_mb=outcome.peak_mb,
            )
        )
    return rows


def _notes(sets: Sequence[PolicySet], sizes: Sequence[int]) -> tuple[str, ...]:
    notes = []
    for one in sets:
        if sizes[0] == one.fewest:
            notes.append(
                f"{one.label}: {sizes[0]} are all the trajectories a policy has, so repetitions "
                "at that size differ only by the randomness of the method itself."
            )
        if np.isnan(one.mean_returns).any():
            notes.append(f"{one.label}: returns are not known, so there is no correlation.")
    return tuple(notes)


def _described(unit: _Unit) -> str:
    return f"{unit.label}, {unit.size} of {unit.policies.label}"


def _checked_sizes(sizes: Iterable[int], repetitions: int, jobs: int, isolate: bool) -> list[int]:
    wanted = sorted({int(size) for size in sizes}, reverse=True)
    if not wanted or wanted[-1] < 1:
        raise UsageError(f"sizes must be one or more whole numbers from 1 on, but are {wanted}")
    if repetitions < 1:
        raise UsageError(f"repetitions must be at least 1, but is {repetitions}")
    if jobs < 1 or (jobs > 1 and not isolate):
        raise UsageError(
            f"jobs must be at least 1, and more than 1 only with isolate=True, but is {jobs}"
        )
    return wanted
