"""The evaluation: every method on the same draws, unit by unit, from where it was stopped."""

from __future__ import annotations

import hashlib
import inspect
import json
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
    NetworkCharacterization,
    characterization,
    names,
)
from pivec.errors import PivecError, UsageError
from pivec.files import atomic_write, make_folder
from pivec.parallel import Engine, Tell, WorkFailed, card_allocations, current, on_engine
from pivec.policies import canonical_order
from pivec.run_log import peak_mb
from pivec.states import Store, VisitedStates, load, without_credentials
from pivec.statistics import (
    FEWEST_POLICIES,
    Evaluation,
    Row,
    checked_distances,
    distance_variance,
    mean_known,
    pair_errors,
    return_correlation,
    told_apart,
)
from pivec.terminal import Progress

# -----------------------------------------------------------------------------
# What is to be compared: characterizations by name, with parameters, or ready ones, labelled.


Method = str | tuple[str, Mapping[str, Any]] | Characterization
ALL = "all"


@dataclass(frozen=True)
class Candidate:
    """A characterization to evaluate, with its name in tables and figures.

    The template is never fitted itself; ``seeded``: its random_state follows from the seed of the
    evaluation and the repetition.
    """

    label: str
    template: Characterization
    seeded: bool

    def make(self, random_state: int) -> Characterization:
        """Make a fresh one for one draw of the data."""
        made: Characterization = clone(self.template)
        known = made.get_params(deep=False)
        if "progress" in known:  # units draw no bars of their own
            made.set_params(progress=False)
        if self.seeded and "random_state" in known:
            made.set_params(random_state=random_state)
        return made


def candidates(
    methods: str | Sequence[Method] | Mapping[str, Method],
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Candidate]:
    """Make every characterization that `evaluate` is asked for, with labels that differ.

    Examples
    --------
    >>> sweep = [("supervector", {"n_components": k}) for k in (4, 8)]
    >>> [candidate.label for candidate in candidates(["gaussian", *sweep])]
    ['gaussian', 'supervector n_components=4', 'supervector n_components=8']
    """
    if isinstance(methods, Mapping):
        labelled = {str(label): method for label, method in methods.items()}
        labels, given = list(labelled), list(labelled.values())
    else:
        wanted = [methods] if isinstance(methods, str | Characterization) else methods
        given = [method for item in wanted for method in (names() if item == ALL else (item,))]
        labels = [""] * len(given)
    if not given:
        raise UsageError("expected at least one characterization to evaluate, but got none")
    made = [_made(method, parameters or {}) for method in given]
    all_names = [template.name for template, _ in made]
    unused = sorted(set(parameters or {}) - set(all_names))
    if unused:
        raise UsageError(
            f"parameters are given for {unused[0]!r}, which is not among the methods "
            f"{', '.join(dict.fromkeys(all_names))}"
        )
    result = []
    for method, label, (template, chosen) in zip(given, labels, made, strict=True):
        name = template.name
        if all_names.count(name) > 1:
            name = " ".join([name, *(f"{key}={value}" for key, value in chosen.items())])
        # A ready characterization keeps the random_state it came with.
        seeded = "random_state" not in chosen and not isinstance(method, Characterization)
        result.append(Candidate(label or name, template, seeded))
    used = [candidate.label for candidate in result]
    for label in used:
        if used.count(label) > 1:
            raise UsageError(
                f"two methods are called {label!r}: leave one out, give them other parameters, or "
                "name them by a mapping from labels to methods"
            )
    return result


def _made(
    method: Any, shared: Mapping[str, Mapping[str, Any]]
) -> tuple[Characterization, Mapping[str, Any]]:
    """Make a characterization; return also the parameters that were chosen."""
    if isinstance(method, Characterization):
        defaults = inspect.signature(type(method)).parameters
        changed = {
            key: value
            for key, value in method.get_params(deep=False).items()
            if key not in defaults or defaults[key].default != value
        }
        return clone(method), changed
    match method:
        case str(name):
            own: Mapping[str, Any] = {}
        case (str(name), own):
            pass
        case _:
            raise UsageError(
                "a method is a name, (name, parameters) or a characterization, but got "
                f"{type(method).__name__}"
            )
    chosen = {**shared.get(name, {}), **own}
    return characterization(name, **chosen), chosen


# -----------------------------------------------------------------------------
# The sets of policies that characterizations are tried on, and what tells one from another.


Given = VisitedStates | str | Path


@dataclass(frozen=True)
class PolicySet:
    """The policies of one store.

    Draws follow from ``visited``, a digest of states, actions and returns: not of the files, which
    tell where policies came from, and when, nor of what they are called. ``identity`` is a digest
    of that and of the policies, which some methods look at.
    """

    label: str  # in tables: the path, or a number
    environment: str  # sets of one are averaged; the label where it is not known
    visited: str
    identity: str
    data: VisitedStates  # in the canonical order of the policies
    on_disk: bool = False  # whether the states are mapped from a store

    @property
    def fewest(self) -> int:
        """Trajectories of the policy that has the fewest."""
        return int(np.diff(self.data.policy_starts).min())

    def travelling(self, folder: Path) -> Travelling:
        """Make what units are computed on; those in memory go to a new store in ``folder``."""
        return Travelling(self.data, None if self.on_disk else folder / self.identity)


@dataclass
class Travelling:
    """States that come to another process as files of a store, which it maps."""

    data: VisitedStates
    folder: Path | None  # for a store, unless they have one

    def __reduce__(self) -> tuple[Any, ...]:
        if self.folder is not None:
            self.data = load(write_set(self.data, self.folder), verify=False)
            self.folder = None
        return Travelling, (self.data, None)


def policy_sets(
    stores: Given | Sequence[Given] | Mapping[str, Given], largest: int
) -> list[PolicySet]:
    """Open all stores; each must have ``largest`` trajectories of every policy."""
    if isinstance(stores, Mapping):
        given = [(str(label), store) for label, store in stores.items()]
    else:
        listed = [stores] if isinstance(stores, VisitedStates | str | Path) else stores
        given = [
            (
                f"set {number}" if isinstance(store, VisitedStates) else without_credentials(store),
                store,
            )
            for number, store in enumerate(listed, start=1)
        ]
    if not given:
        raise UsageError("expected at least one store of states to evaluate on, but got none")
    sets = [_opened(label, store) for label, store in given]
    for i, policies in enumerate(sets):
        for other in sets[:i]:
            if policies.label == other.label or policies.identity == other.identity:
                raise UsageError(
                    f"the stores {other.label!r} and {policies.label!r} are the same: give each "
                    "set of policies once"
                )
        _check_size(policies, largest)
    return sets


def write_set(data: VisitedStates, folder: Path) -> Path:
    """Write states in memory as a store, so that another process can map them."""
    settings = {"environment": data.environment, "actions": data.has_actions, "policies": True}
    store = Store(folder, settings, data.feature_names)
    with store.writing():
        for record in data.records:
            store.add(record)
    return folder


def _opened(label: str, given: Given) -> PolicySet:
    if isinstance(given, VisitedStates):
        data = given
    elif isinstance(given, str | Path):
        data = Store.find(given).load()
    else:
        raise UsageError(
            f"a store is a path or VisitedStates, but got {type(given).__name__}: use "
            "`pivec.collect` or `pivec.load`"
        )
    ordered = data.select(canonical_order(data.policies))
    digests, on_disk = _digests_of(ordered), data is not given
    return PolicySet(label, data.environment or label, *digests, ordered, on_disk)


def _digests_of(data: VisitedStates) -> tuple[str, str]:
    """Digest what was visited, and that with the policies themselves."""
    digest = hashlib.sha256()
    arrays = [
        data.episode_starts, data.policy_starts, data.returns, data.terminated, data.truncated,
    ]  # fmt: skip
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    for number in range(data.n_policies):
        digest.update(np.ascontiguousarray(data.policy_states(number)).data)
        if data.has_actions and (actions := data[number].actions) is not None:
            digest.update(np.ascontiguousarray(actions).data)
    visited = digest.hexdigest()
    for info in data.policies:
        for part in (info.group, info.step, info.fingerprint):
            digest.update(f"{part}\0".encode("utf-8", "backslashreplace"))
    return visited, digest.hexdigest()


def _check_size(policies: PolicySet, largest: int) -> None:
    n, fewest = policies.data.n_policies, policies.fewest
    if n < FEWEST_POLICIES:
        raise UsageError(
            f"{policies.label} holds {n} {'policy' if n == 1 else 'policies'}, but an evaluation "
            f"compares distances of at least {FEWEST_POLICIES}: collect more policies"
        )
    if fewest < largest:
        policy = policies.data.labels[int(np.diff(policies.data.policy_starts).argmin())]
        raise UsageError(
            f"{policies.label} has {fewest} trajectories of {policy!r}, but {largest} are to be "
            f"drawn of every policy: collect more, best {2 * largest} (`pivec collect ENV "
            f"POLICY... --episodes {2 * largest} --out STORE`), or ask for sizes up to {fewest}"
        )


# -----------------------------------------------------------------------------
# One unit of an evaluation: one method on one draw of one store, with what it cost.
#
# A unit may run in a process of its own, so that the peak of memory is its own (`run_alone`). A
# finished unit is one .npz file, named by a digest of all it depends on.


class Outcome(NamedTuple):
    """Distances of one unit, and what they cost."""

    distances: NDArray[np.float64]
    seconds: float  # for fit and distances
    peak_mb: float = float("nan")  # the most that its process held; NaN where it shared one
    card: bool | None = None  # whether a graphics card had a part in it; None: not known
    # Of an anchor: between two halves of each policy's trajectories, see `half_distances`.
    halves: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class Unit:
    """One method on one draw of the policies of a store, by the names of both."""

    store: str
    label: str
    method: Characterization
    size: int
    repetition: int
    entropy: tuple[int, ...]  # what the draw follows from
    file: Path  # keeps the outcome
    is_anchor: bool = False  # whether others are compared with it

    @property
    def effort(self) -> tuple[bool, int]:
        """What takes long has more of it: networks, then many trajectories."""
        return isinstance(self.method, NetworkCharacterization), self.size

    def __str__(self) -> str:
        return f"{self.label}, {self.size} of {self.store}"

    def write(self, outcome: Outcome) -> None:
        """Keep the outcome; the file appears when it is whole."""
        known = {key: value for key, value in outcome._asdict().items() if value is not None}
        with atomic_write(self.file) as file:
            np.savez_compressed(file, **known)

    def outcome(self) -> Outcome | None:
        """Read what was kept; None if there is nothing, or less than is needed."""
        outcome = read_outcome(self.file)
        missing = outcome is None or (self.is_anchor and outcome.halves is None)
        return None if missing else outcome


Request = tuple[Unit, Travelling]


def make_unit(
    policies: PolicySet,
    candidate: Candidate,
    size: int,
    repetition: int,
    seed: int,
    folder: Path,
    isolated: bool,
    is_anchor: bool = False,
) -> Unit:
    """Make a unit whose file is in ``folder``, under a name by what its numbers depend on."""
    # By the store's data, not by its place in the list, nor by the method: all see the same draw.
    entropy = (seed, int(policies.visited[:15], 16), size, repetition)
    state = np.random.SeedSequence(entropy, spawn_key=(1,)).generate_state(1)[0]
    method = candidate.make(int(state) >> 1)
    parameters = json.loads(method.parameters_json())
    parameters.pop("progress", None)
    kind = type(method)
    facts = {
        # By name: the package's own front imports all layers, which this one lies below.
        "version": import_module("pivec").__version__,
        "method": method.name,
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "parameters": parameters,
        "store": policies.identity,
        "size": size,
        "draw": entropy,
        "isolated": isolated,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    file = folder / f"{digest[:32]}.npz"
    return Unit(policies.label, candidate.label, method, size, repetition, entropy, file, is_anchor)


def draw(data: VisitedStates, size: int, entropy: tuple[int, ...]) -> VisitedStates:
    """Draw ``size`` trajectories of every policy; the same ones for the same ``entropy``.

    Policies come in the canonical order, whatever the store's is.
    """
    ordered = data.select(canonical_order(data.policies))
    return ordered.sample_episodes(size, np.random.default_rng(entropy))


def compute(method: Characterization, drawn: VisitedStates, is_anchor: bool = False) -> Outcome:
    """Fit a fresh copy on the draw and measure all distances in it, by the clock."""
    fresh: Characterization = clone(method)
    start, on_card = time.perf_counter(), card_allocations()
    distances = fresh.fit(drawn).distances(drawn)
    seconds, card = time.perf_counter() - start, card_allocations() > on_card
    halves = half_distances(fresh, drawn) if is_anchor else None
    return Outcome(checked_distances(distances), seconds, card=card, halves=halves)


def half_distances(method: Characterization, drawn: VisitedStates) -> NDArray[np.float64]:
    """Distance between each policy's trajectories of even and of odd number.

    NaN where that is not for the asking: a single trajectory has no halves, and where there are no
    intervals, samples of a policy are not compared with each other either.
    """
    if method.traits.no_intervals or np.diff(drawn.policy_starts).min() < 2:
        return np.full(len(drawn), np.nan)
    halves = []
    for first in (0, 1):
        records = [
            record.only(np.arange(first, len(record.episodes), 2)) for record in drawn.records
        ]
        halves.append(VisitedStates(records, drawn.feature_names, drawn.environment))
    return np.diag(method.distances(*halves)).copy()


def run_unit(request: Request, _tell: Tell) -> Outcome:
    """Run a unit in this process, on states that are read once."""
    unit, states = request
    return compute(
        unit.method, draw(states.data, unit.size, unit.entropy).in_memory(), unit.is_anchor
    )


def run_alone(request: Request, _tell: Tell) -> Outcome:
    """Run a unit in this process, which is its own; memory is for the method."""
    unit, states = request
    drawn = draw(states.data, unit.size, unit.entropy)
    return compute(unit.method, drawn, unit.is_anchor)._replace(peak_mb=peak_mb())


def read_outcome(path: Path) -> Outcome | None:
    """Read a finished unit; None if there is none, or its file is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            return Outcome(
                kept["distances"],
                float(kept["seconds"]),
                float(kept["peak_mb"]),
                bool(kept["card"]) if "card" in kept else None,
                kept.get("halves"),
            )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


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
