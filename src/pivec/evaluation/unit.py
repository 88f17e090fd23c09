"""One unit of an evaluation: one method on one draw of one store, with what it cost.

A unit may run in a process of its own, so that the peak of memory is its own; `run_unit` is what
that process does. A finished unit is one .npz file, named by a digest of all it depends on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pivec.atomic import atomic_write
from pivec.characterizations.base import Characterization
from pivec.engines.child import Tell
from pivec.errors import BadData, PivecError
from pivec.policies.policy import canonical_order
from pivec.states.store import load
from pivec.states.visited import VisitedStates


@dataclass(frozen=True)
class Outcome:
    """Distances of one unit, and its cost.

    Attributes
    ----------
    distances : (n_policies, n_policies) array
    seconds : float
        Wall time of fit and distances.
    peak_mb : float
        The most memory that the process held, in millions of bytes; NaN where it shared one.
    """

    distances: NDArray[np.float64]
    seconds: float
    peak_mb: float


@dataclass(frozen=True)
class UnitRequest:
    """All that a process needs to run a unit."""

    method: Characterization
    store: Path
    size: int
    entropy: tuple[int, ...]
    target: Path
    identity: str

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Name what may be a user's own."""
        yield type(self.method).__qualname__, self.method


def draw(data: VisitedStates, size: int, entropy: tuple[int, ...]) -> VisitedStates:
    """Draw ``size`` trajectories of every policy; the same ones for the same ``entropy``.

    Policies come in the canonical order, whatever the store's is.
    """
    ordered = data.select(canonical_order(data.policies))
    return ordered.sample_episodes(size, np.random.default_rng(entropy))


def identity_of(
    method: Characterization, store: str, size: int, entropy: tuple[int, ...], isolated: bool
) -> str:
    """Write down everything that a unit's numbers depend on."""
    parameters = json.loads(method.parameters_json())
    parameters.pop("progress", None)
    kind = type(method)
    facts = {
        # By name: the package's own front imports all layers, which this one lies below.
        "version": import_module("pivec").__version__,
        "method": method.name,
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "parameters": parameters,
        "store": store,
        "size": size,
        "draw": entropy,
        "isolated": isolated,
    }
    return json.dumps(facts, sort_keys=True)


def file_name(identity: str) -> str:
    """Name the file of a unit."""
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.npz"


def compute(method: Characterization, drawn: VisitedStates) -> Outcome:
    """Fit a fresh copy on the draw and measure all distances in it, by the clock."""
    fresh: Characterization = clone(method)
    start = time.perf_counter()
    distances = fresh.fit(drawn).distances(drawn)
    seconds = time.perf_counter() - start
    bad = int((~np.isfinite(distances)).sum())
    if bad:
        raise BadData(
            f"{bad} of the {distances.size} distances are not finite: look for policies whose "
            "states are constant or huge"
        )
    return Outcome(distances, seconds, float("nan"))


def write_outcome(path: Path, outcome: Outcome, identity: str) -> None:
    """Keep a finished unit; the file appears when it is whole."""
    with atomic_write(path) as file:
        np.savez_compressed(
            file,
            distances=outcome.distances,
            seconds=outcome.seconds,
            peak_mb=outcome.peak_mb,
            identity=np.array(identity),
        )


def read_outcome(path: Path) -> Outcome | None:
    """Read a finished unit; None if there is none, or its file is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            return Outcome(kept["distances"], float(kept["seconds"]), float(kept["peak_mb"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def explained(error: BaseException) -> str:
    """Say in one line what went wrong."""
    if isinstance(error, PivecError):
        return str(error)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def peak_mb() -> float:
    """Return the most memory this process has held so far, in millions of bytes; NaN if unknown."""
    # Not ru_maxrss on Linux: it survives exec, so a child would inherit its parent's peak.
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return float(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6
    try:
        import resource
    except ImportError:  # Windows has neither
        return float("nan")
    used = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return used / 1e6 if sys.platform == "darwin" else used * 1024 / 1e6


def run_unit(request: UnitRequest, _tell: Tell) -> None:
    """Run a unit in this process, which is its own; it leaves its file."""
    drawn = draw(load(request.store, verify=False), request.size, request.entropy)
    outcome = replace(compute(request.method, drawn), peak_mb=peak_mb())
    write_outcome(request.target, outcome, request.identity)
