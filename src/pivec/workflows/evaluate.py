"""`evaluate`: every method on the same draws, unit by unit, resumable."""

from __future__ import annotations

import hashlib
import inspect
import json
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pivec.arguments import Count, Seed, checked
from pivec.characterizations import (
    Characterization,
    characterization,
    names,
)
from pivec.errors import PivecError, UsageError
from pivec.files import atomic_write, make_folder
from pivec.parallel import Engine, Tell, WorkFailed, card_allocations, current, on_engine
from pivec.policies import canonical_order
from pivec.run_log import peak_mb
from pivec.states import Store, VisitedStates, without_credentials
from pivec.statistics import (
    FEWEST_POLICIES,
    Evaluation,
    Row,
    checked_distances,
    distance_variance,
    is_significant,
    mean_known,
    pair_errors,
    return_correlation,
)
from pivec.terminal import Progress
from pivec.workflows.collector import write_store

Method = str | tuple[str, Mapping[str, Any]] | Characterization
Given = VisitedStates | str | Path
Problems = dict["Unit", str]  # why a unit has no outcome

ALL = "all"
SIZES = (100, 50, 25, 10)
FAR_OFF = 1000.0  # percent: an error of more than ten times the distance
UNITS, CSV, MARKDOWN = "units", "evaluation.csv", "evaluation.md"


@on_engine
@checked
def evaluate(
    stores: Given | Sequence[Given] | Mapping[str, Given],
    methods: str | Sequence[Method] | Mapping[str, Method] = ALL,
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

    For each store, size and repetition, trajectories are drawn from those of every policy, the
    same for all methods; each method is fitted on them and measures the distances. A method
    that fails does not stop the others: its rows contain the reason.

    Parameters
    ----------
    stores : paths or VisitedStates
        One set of policies each, or a mapping from labels to them. Sets of one environment are
        averaged.
    methods : sequence, or mapping from labels
        Names, (name, parameters), or characterizations; ``"all"`` is every name there is. Those
        made by name get another random_state for each repetition, unless one is given.
    sizes : sequence of int
        Trajectories per policy; the paper drew 100, 50, 25 and 10 from 200.
    repetitions : int
        Draws at each size.
    seed : int
        Random seed; all randomness derives from it.
    out : path, optional
        Folder for ``units/``, evaluation.csv and evaluation.md; existing units are not computed
        again.
    progress : bool
        Show a progress bar.
    parameters : mapping, optional
        Arguments of the methods given by name, for each name.
    isolate : bool
        Run each unit in a separate process, to measure its peak memory; otherwise NaN.
    engine, jobs : optional
        Where units run, as in `pivec.using`. Several share the cores, so each is slower.

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
    wanted = sorted({int(size) for size in sizes}, reverse=True)
    if not wanted or wanted[-1] < 1:
        raise UsageError(f"sizes must be one or more whole numbers of at least 1, but are {wanted}")
    chosen, sets = candidates(methods, parameters), policy_sets(stores, wanted[0])
    draws = list(product(wanted, range(1, repetitions + 1)))
    with tempfile.TemporaryDirectory(prefix="pivec-") as temporary:
        folder = make_folder(Path(temporary if out is None else out) / UNITS)
        groups = [
            (policies, [make_unit(policies, method, draw, seed, folder, isolate) for draw in draws])
            for policies, method in product(sets, chosen)
        ]
        for _, units in groups:
            units[0] = replace(units[0], is_anchor=True)
        waiting = [u for _, units in groups for u in units if u.outcome() is None]
        # The slowest first, so that workers finish at about the same time.
        waiting.sort(key=lambda unit: unit.effort, reverse=True)
        elsewhere = waiting and (isolate or current().n_workers > 1)
        data = {s.label: s.on_disk(Path(temporary)) if elsewhere else s.data for s in sets}
        problems = _run([(unit, data[unit.store]) for unit in waiting], isolate, progress)
        rows = [row for policies, units in groups for row in _rows(policies, units, problems)]
    files = () if out is None else tuple(u.file for _, units in groups for u in units)
    result = Evaluation(tuple(rows), _notes(sets, wanted[0]), len(waiting) - len(problems), files)
    if out is not None:
        result.to_csv(Path(out) / CSV)
        with atomic_write(Path(out) / MARKDOWN, "w") as file:
            file.write(result.to_markdown())
    if all(row.problem for row in rows):
        method, store, why = result.problems[0]
        raise PivecError(f"no method gave a result; {method} on {store}: {why}")
    return result


# ---- methods ----


@dataclass(frozen=True)
class Candidate:
    """A characterization to evaluate, with its label in tables and figures."""

    label: str
    template: Characterization  # which is never fitted itself
    chosen: Mapping[str, Any]  # the parameters that the user chose
    seeded: bool  # whether its random_state follows from the seed and the repetition

    def make(self, random_state: int) -> Characterization:
        """Make a fresh one for one draw of the data."""
        made: Characterization = clone(self.template)
        changes: dict[str, Any] = {"progress": False}  # units show no bars of their own
        if self.seeded:
            changes["random_state"] = random_state
        known = made.get_params(deep=False)
        made.set_params(**{name: changes[name] for name in changes.keys() & known})
        return made


def candidates(
    methods: str | Sequence[Method] | Mapping[str, Method],
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Candidate]:
    """Make every characterization that `evaluate` is asked for, with different labels.

    Examples
    --------
    >>> sweep = [("supervector", {"n_components": k}) for k in (4, 8)]
    >>> [candidate.label for candidate in candidates(["gaussian", *sweep])]
    ['gaussian', 'supervector n_components=4', 'supervector n_components=8']
    """
    shared = parameters or {}
    if isinstance(methods, Mapping):
        made = [_candidate(str(label), method, shared) for label, method in methods.items()]
    else:
        listed = [methods] if isinstance(methods, str | Characterization) else methods
        given = [method for item in listed for method in (names() if item == ALL else [item])]
        made = [_candidate("", method, shared) for method in given]
    if not made:
        raise UsageError("expected at least one characterization to evaluate, but got none")
    all_names = [one.template.name for one in made]
    if unused := sorted(set(shared) - set(all_names)):
        raise UsageError(
            f"parameters are given for {unused[0]!r}, which is not among the methods "
            f"{', '.join(dict.fromkeys(all_names))}"
        )
    for i, one in enumerate(made):
        if not one.label:
            tells = one.chosen.items() if all_names.count(all_names[i]) > 1 else ()
            label = " ".join([all_names[i], *(f"{key}={value}" for key, value in tells)])
            made[i] = replace(one, label=label)
    labels = [one.label for one in made]
    if double := [label for label in labels if labels.count(label) > 1]:
        raise UsageError(
            f"two methods are called {double[0]!r}: leave one out, give them other parameters, or "
            "name them by a mapping from labels to methods"
        )
    return made


def _candidate(label: str, method: Any, shared: Mapping[str, Mapping[str, Any]]) -> Candidate:
    if isinstance(method, Characterization):  # which keeps the random_state it came with
        defaults = inspect.signature(type(method)).parameters
        changed = {
            key: value
            for key, value in method.get_params(deep=False).items()
            if key not in defaults or defaults[key].default != value
        }
        return Candidate(label, clone(method), changed, seeded=False)
    match (method, {}) if isinstance(method, str) else method:
        case (str(name), own):
            chosen = {**shared.get(name, {}), **own}
        case _:
            raise UsageError(
                "a method is a name, (name, parameters) or a characterization, but got "
                f"{type(method).__name__}"
            )
    seeded = "random_state" not in chosen
    return Candidate(label, characterization(name, **chosen), chosen, seeded)


# ---- sets of policies ----


@dataclass(frozen=True)
class PolicySet:
    """The policies of one store.

    Draws follow from ``visited``, a digest of states, actions and returns, and not of files or
    labels. ``identity`` is a digest of that and of the policies, which some methods look at.
    """

    label: str  # in tables: the path, or a number
    environment: str  # sets of one are averaged; the label if it is not known
    data: VisitedStates  # in the canonical order of the policies
    stored: bool  # whether the states are mapped from a store
    visited: str
    identity: str

    @classmethod
    def open(cls, label: str, given: Given) -> PolicySet:
        """Load states, unless they are in memory already."""
        if not isinstance(given, VisitedStates | str | Path):
            raise UsageError(
                f"a store is a path or VisitedStates, but got {type(given).__name__}: use "
                "`pivec.collect` or `pivec.load`"
            )
        stored = not isinstance(given, VisitedStates)
        data = given if isinstance(given, VisitedStates) else Store.find(given).load()
        data = data.select(canonical_order(data.policies))
        digest = hashlib.sha256()
        for array in (
            data.episode_starts, data.policy_starts, data.returns, data.terminated, data.truncated,
        ):  # fmt: skip
            digest.update(np.ascontiguousarray(array).data)
        for number in range(data.n_policies):
            digest.update(np.ascontiguousarray(data.policy_states(number)).data)
            if data.has_actions and (actions := data[number].actions) is not None:
                digest.update(np.ascontiguousarray(actions).data)
        visited = digest.hexdigest()
        for info in data.policies:
            for part in (info.group, info.step, info.fingerprint):
                digest.update(f"{part}\0".encode("utf-8", "backslashreplace"))
        environment = data.environment or label
        return cls(label, environment, data, stored, visited, digest.hexdigest())

    @property
    def fewest(self) -> int:
        """Trajectories of the policy that has the fewest."""
        return int(np.diff(self.data.policy_starts).min())

    def on_disk(self, folder: Path) -> VisitedStates:
        """Return states that other processes can map: those in memory are written to a store."""
        if self.stored:
            return self.data
        settings = {"environment": self.data.environment, "policies": True}
        settings["actions"] = self.data.has_actions
        return write_store(self.data, folder / self.identity, settings)


def policy_sets(
    stores: Given | Sequence[Given] | Mapping[str, Given], largest: int
) -> list[PolicySet]:
    """Open all stores; each must have ``largest`` trajectories of every policy."""
    if isinstance(stores, Mapping):
        given = [(str(label), store) for label, store in stores.items()]
    else:
        listed = [stores] if isinstance(stores, VisitedStates | str | Path) else stores
        given = [
            (f"set {n}" if isinstance(s, VisitedStates) else without_credentials(s), s)
            for n, s in enumerate(listed, start=1)
        ]
    if not given:
        raise UsageError("expected at least one store of states to evaluate on, but got none")
    sets = [PolicySet.open(label, store) for label, store in given]
    for i, policies in enumerate(sets):
        label, n, fewest = policies.label, policies.data.n_policies, policies.fewest
        for other in sets[:i]:
            if label == other.label or policies.identity == other.identity:
                raise UsageError(
                    f"the stores {other.label!r} and {label!r} are the same: give each set of "
                    "policies once"
                )
        if n < FEWEST_POLICIES:
            raise UsageError(
                f"{label} holds {n} {'policy' if n == 1 else 'policies'}, but an evaluation "
                f"compares distances of at least {FEWEST_POLICIES}: collect more policies"
            )
        if fewest < largest:
            policy = policies.data.labels[int(np.diff(policies.data.policy_starts).argmin())]
            raise UsageError(
                f"{label} has {fewest} trajectories of {policy!r}, but {largest} are drawn from "
                f"every policy: collect more, best {2 * largest} (`pivec collect ENV POLICY... "
                f"--episodes {2 * largest} --out STORE`), or use sizes up to {fewest}"
            )
    return sets


# ---- units: one method on one draw of one set, each with a file ----


class Outcome(NamedTuple):
    """Distances of one unit, and what they cost."""

    distances: NDArray[np.float64]
    seconds: float  # for fit and distances
    peak_mb: float  # of its process; NaN if it shared one
    card: bool  # whether a GPU was used
    halves: NDArray[np.float64] | None = None  # of an anchor, see `half_distances`


@dataclass(frozen=True, eq=False)
class Unit:
    """One method on one draw of a set of policies, by the labels of both."""

    store: str
    label: str
    method: Characterization
    size: int
    repetition: int
    entropy: tuple[int, ...]  # seeds the draw
    file: Path  # of the outcome
    isolated: bool = False  # whether it runs in a process of its own
    is_anchor: bool = False  # whether others are compared with it

    @property
    def effort(self) -> tuple[bool, int]:
        """Sort key of the expected duration: networks, then many trajectories."""
        return self.method.traits.slow, self.size

    def __str__(self) -> str:
        return f"{self.label}, {self.size} of {self.store}"

    def write(self, outcome: Outcome) -> None:
        """Write the outcome; the file appears when it is complete."""
        known = {key: value for key, value in outcome._asdict().items() if value is not None}
        with atomic_write(self.file) as file:
            np.savez_compressed(file, **known)

    def outcome(self) -> Outcome | None:
        """Read the outcome; None if there is none, or less than is needed."""
        outcome = read_outcome(self.file)
        missing = outcome is None or (self.is_anchor and outcome.halves is None)
        return None if missing else outcome


def make_unit(
    policies: PolicySet,
    candidate: Candidate,
    draw: tuple[int, int],
    seed: int,
    folder: Path,
    isolated: bool,
) -> Unit:
    """Make a unit of size and repetition; its file is named by a digest of all it depends on."""
    # Not by the store's position nor by the method: all methods see the same draw.
    entropy = (seed, int(policies.visited[:15], 16), *draw)
    state = np.random.SeedSequence(entropy, spawn_key=(1,)).generate_state(1)[0]
    method = candidate.make(int(state) >> 1)
    parameters = json.loads(method.parameters_json())
    parameters.pop("progress", None)
    kind = type(method)
    facts = {
        "version": import_module("pivec").__version__,
        "method": method.name,
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "parameters": parameters,
        "store": policies.identity,
        "draw": entropy,
        "isolated": isolated,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    file = folder / f"{digest[:32]}.npz"
    return Unit(policies.label, candidate.label, method, *draw, entropy, file, isolated)


def draw(data: VisitedStates, size: int, entropy: tuple[int, ...]) -> VisitedStates:
    """Draw ``size`` trajectories of every policy, in the canonical order of policies."""
    ordered = data.select(canonical_order(data.policies))
    return ordered.sample_episodes(size, np.random.default_rng(entropy))


def run_unit(request: tuple[Unit, VisitedStates], _tell: Tell | None = None) -> Outcome:
    """Fit a fresh copy of the method on the draw, and measure all distances and the time."""
    unit, data = request
    drawn = draw(data, unit.size, unit.entropy)
    if not unit.isolated:  # a process of its own leaves its memory to the method
        drawn = drawn.in_memory()
    fresh: Characterization = clone(unit.method)
    start, on_card = time.perf_counter(), card_allocations()
    distances = fresh.fit(drawn).distances(drawn)
    seconds, card = time.perf_counter() - start, card_allocations() > on_card
    halves = half_distances(fresh, drawn) if unit.is_anchor else None
    peak = peak_mb() if unit.isolated else np.nan
    return Outcome(checked_distances(distances), seconds, peak, card, halves)


def half_distances(method: Characterization, drawn: VisitedStates) -> NDArray[np.float64]:
    """Distance between the trajectories of even and of odd number of each policy.

    NaN with a single trajectory, and if samples of a policy are not comparable (no intervals).
    """
    if method.traits.no_intervals or np.diff(drawn.policy_starts).min() < 2:
        return np.full(len(drawn), np.nan)
    halves = []
    for first in (0, 1):
        records = [one.only(np.arange(first, len(one.episodes), 2)) for one in drawn.records]
        halves.append(VisitedStates(records, drawn.feature_names, drawn.environment))
    return np.diag(method.distances(*halves)).copy()


def read_outcome(path: Path) -> Outcome | None:
    """Read a finished unit; None if there is none, or its file is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            costs = float(stored["seconds"]), float(stored["peak_mb"]), bool(stored["card"])
            return Outcome(stored["distances"], *costs, stored.get("halves"))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _run(requests: Sequence[tuple[Unit, VisitedStates]], isolate: bool, progress: bool) -> Problems:
    """Run units and write their outcomes; a failure of one does not stop the others."""
    problems: Problems = {}
    refused: dict[tuple[str, str], str] = {}  # by store and method

    def remaining() -> Iterator[tuple[Unit, VisitedStates]]:
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
            run_unit, remaining(), name=lambda request: str(request[0]), apart=isolate, pinned=True
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


# ---- scores ----


def _rows(policies: PolicySet, units: Sequence[Unit], problems: Problems) -> list[Row]:
    """Score all units of one method on one set of policies."""
    outcomes = {unit: None if unit in problems else unit.outcome() for unit in units}
    variances = {
        size: distance_variance([o.distances for u, o in outcomes.items() if o and u.size == size])
        for size in {unit.size for unit in units}
    }
    anchor = outcomes[units[0]]  # the first repetition with the most data
    rows = []
    for unit, outcome in outcomes.items():
        if outcome is None:
            scores: dict[str, Any] = {"problem": problems.get(unit, "its result was removed")}
        else:
            scores = {
                "correlation": return_correlation(outcome.distances, policies.data.mean_returns),
                "variance": variances[unit.size],
                "seconds": outcome.seconds,
                "peak_mb": outcome.peak_mb,
                "card": outcome.card,
            }
            if anchor is not None and outcome is not anchor:
                scores |= _errors(outcome.distances, anchor)
        place = policies.environment, unit.label, unit.store, unit.size, unit.repetition
        rows.append(Row(*place, **scores))
    return rows


def _errors(distances: NDArray[np.float64], anchor: Outcome) -> dict[str, float]:
    """Summarize the errors of all pairs, and of those that differ from sampling noise."""
    errors = pair_errors(distances, anchor.distances)
    known = ~np.isnan(errors)
    if not known.any():
        return {}
    scores = {
        "error": mean_known(errors),
        "median_error": float(np.median(errors[known])),
        "share_far_off": float(np.mean(errors[known] > FAR_OFF)),
    }
    if anchor.halves is None or np.isnan(anchor.halves).any():
        return scores
    apart = is_significant(anchor.distances, anchor.halves)
    return scores | {"share_apart": float(apart.mean()), "error_apart": mean_known(errors[apart])}


def _notes(sets: Sequence[PolicySet], largest: int) -> tuple[str, ...]:
    notes = []
    for policies in sets:
        if largest == policies.fewest:
            notes.append(
                f"{policies.label}: {largest} are all the trajectories of a policy, so repetitions "
                "at that size differ only by the randomness of the method itself."
            )
        if np.isnan(policies.data.mean_returns).any():
            notes.append(f"{policies.label}: returns are not known, so there is no correlation.")
    return tuple(notes)
