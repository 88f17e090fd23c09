"""Measuring one characterization in a process of its own: seconds, and the peak of memory."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.registry import characterization
from pivec.engines.child import Tell
from pivec.engines.processes import ask
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
    request = (method, dict(parameters), store.resolve(), policies)
    measured: Measured = ask(_measure, request, failed=f"{method} could not be measured")
    return measured


def _measure(request: tuple[str, dict[str, Any], Path, Sequence[int]], _tell: Tell) -> Measured:
    """Measure what is asked for; runs in a process of its own."""
    method, parameters, store, policies = request
    data = load(store, verify=False)
    few = data[:3].sample_episodes(1, np.random.default_rng(0))
    characterization(method, **parameters).fit(few).distances(few)  # loads and compiles
    before, seconds, peaks = peak_mb(), [], []
    for count in policies:
        part = data.select(np.linspace(0, len(data) - 1, count).round().astype(int))
        measured = characterization(method, **parameters)
        times = [time.perf_counter()]
        measured.fit(part)
        times.append(time.perf_counter())
        described = measured.describe(part)
        times.append(time.perf_counter())
        measured.distances(described)
        times.append(time.perf_counter())
        seconds.append(np.diff(times))
        peaks.append(peak_mb())
    return Measured(method, np.array(seconds), np.array(peaks), before)
