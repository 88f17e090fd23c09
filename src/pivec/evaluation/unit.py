"""One unit of an evaluation: one method on one draw of one store, with what it cost.

A unit may run in a process of its own, so that the peak of memory is its own (`run_alone`). A
finished unit is one .npz file, named by a digest of all it depends on.
"""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pivec.atomic import atomic_write
from pivec.characterizations.base import Characterization
from pivec.characterizations.networks.method import NetworkCharacterization
from pivec.engines.devices import card_allocations
from pivec.engines.engine import Tell
from pivec.evaluation.methods import Candidate
from pivec.evaluation.metrics import checked_distances
from pivec.evaluation.sets import PolicySet, Travelling
from pivec.policies.policy import canonical_order
from pivec.run_log import peak_mb
from pivec.states.derived import held
from pivec.states.visited import VisitedStates


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
    if method.no_intervals or np.diff(drawn.policy_starts).min() < 2:
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
    return compute(unit.method, held(draw(states.data, unit.size, unit.entropy)), unit.is_anchor)


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
