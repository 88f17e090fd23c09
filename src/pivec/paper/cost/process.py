"""Measuring one characterization in a process of its own: seconds, and the peak of memory."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.registry import characterization
from pivec.engines.children import ask, telling
from pivec.evaluation.unit import peak_mb
from pivec.states.store import load


@dataclass(frozen=True, eq=False)
class Measured:
    """What one characterization takes.

    Attributes
    ----------
    method : str
    seconds : (n, 3) array
        Of fit, describe and distances, for each number of policies.
    peak_mb : (n,) array
        The most memory that the process had held by then, in millions of bytes.
    before_mb : float
        The same before the first of them, with all libraries loaded.
    """

    method: Any
    seconds: NDArray[np.float64]
    peak_mb: NDArray[np.float64]
    before_mb: Any


def measure_in_process(
    method: str, parameters: Mapping[str, Any], store: Path, policies: Sequence[int]
) -> Measured:
    """Let a process describe and compare the first so many policies of a store, few first."""
    request = (method, dict(parameters), str(store.resolve()), list(policies))
    entry = "pivec.paper.cost.process:answer"
    answer = ask(entry, request, failed=f"{method} could not be measured")
    return Measured(
        method, np.array(answer["seconds"]), np.array(answer["peaks"]), answer["before"]
    )


def answer(requests: IO[bytes]) -> None:
    """Measure what is asked for; runs in a process of its own."""
    with telling() as told:
        method, parameters, store, policies = pickle.load(requests)  # noqa: S301  (our parent's)
        data = load(store, verify=False)
        few = data[:3].sample_episodes(1, np.random.default_rng(0))
        characterization(method, **parameters).fit(few).distances(few)  # loads and compiles
        before, seconds, peaks = peak_mb(), [], []
        for count in policies:
            some = data.select(np.linspace(0, len(data) - 1, count).round().astype(int))
            made = characterization(method, **parameters)
            times = [time.perf_counter()]
            made.fit(some)
            times.append(time.perf_counter())
            described = made.describe(some)
            times.append(time.perf_counter())
            made.distances(described)
            times.append(time.perf_counter())
            seconds.append(np.diff(times).tolist())
            peaks.append(peak_mb())
        json.dump({"seconds": seconds, "peaks": peaks, "before": before}, told)
