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
from pivec.engines.engine import Tell
from pivec.evaluation.methods import Candidate
from pivec.evaluation.metrics import checked_distances
from pivec.evaluation.sets import PolicySet, Travelling
from pivec.policies.policy import canonical_order
from pivec.run_log import peak_mb
from pivec.states.visited import VisitedStates


class Outcome(NamedTuple):
    """Distances of one unit, seconds for fit and distances, and the peak of memory.

    That is the most that its process held, in millions of bytes; NaN where it shared one.
    """

    distances: NDArray[np.float64]
    seconds: float
    peak_mb: float = float("nan")


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

    def __str__(self) -> str:
        return f"{self.label}, {self.size} of {self.store}"

    def write(self, outcome: Outcome) -> None:
        """Keep the outcome; the file appears when it is whole."""
        with atomic_write(self.file) as file:
            np.savez_compressed(file, **outcome._asdict())


Request = tuple[Unit, Travelling]


def make_unit(
    policies: PolicySet,
    candidate: Candidate,
    size: int,
    repetition: int,
    seed: int,
    folder: Path,
    isolated: bool,
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
    return Unit(policies.label, candidate.label, method, size, repetition, entropy, file)


def draw(data: VisitedStates, size: int, entropy: tuple[int, ...]) -> VisitedStates:
    """Draw ``size`` trajectories of every policy; the same ones for the same ``entropy``.

    Policies come in the canonical order, whatever the store's is.
    """
    ordered = data.select(canonical_order(data.policies))
    return ordered.sample_episodes(size, np.random.default_rng(entropy))


def compute(method: Characterization, drawn: VisitedStates) -> Outcome:
    """Fit a fresh copy on the draw and measure all distances in it, by the clock."""
    fresh: Characterization = clone(method)
    start = time.perf_counter()
    distances = fresh.fit(drawn).distances(drawn)
    seconds = time.perf_counter() - start
    return Outcome(checked_distances(distances), seconds)


def run_unit(request: Request, _tell: Tell) -> Outcome:
    """Run a unit in this process."""
    unit, states = request
    return compute(unit.method, draw(states.data, unit.size, unit.entropy))


def run_alone(request: Request, tell: Tell) -> Outcome:
    """Run a unit in this process, which is its own."""
    return run_unit(request, tell)._replace(peak_mb=peak_mb())


def read_outcome(path: Path) -> Outcome | None:
    """Read a finished unit; None if there is none, or its file is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            return Outcome(kept["distances"], float(kept["seconds"]), float(kept["peak_mb"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
