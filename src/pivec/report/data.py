"""What a report shows, as plain arrays: one entry a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.maps import group_order
from pivec.notices import Notice

Array = NDArray[np.float64]

METHOD_NAMES = {
    "tsne": "t-SNE",
    "pca": "principal components",
    "mds": "classical scaling",
    "single": "a single policy",
    "identical": "identical policies",
}


@dataclass(frozen=True)
class MapRows:
    """The policies of a map, one entry each.

    Attributes
    ----------
    labels, groups : sequence of str
        An empty group means that a policy belongs to no run.
    steps : sequence of int or None
        Training step of a checkpoint.
    positions : (n, 2) array
    mean_returns : (n,) array
        NaN where returns are not known.
    n_episodes, n_states : sequence of int
    sources : sequence of str
    is_reference : sequence of bool
        Policies of an earlier space, shown as context.

    Examples
    --------
    >>> rows = MapRows(
    ...     ["a", "b"], ["run", "run"], [1, 2], np.zeros((2, 2)), np.array([0.0, 1.0]),
    ...     [10, 10], [500, 700], ["a.zip", "b.zip"], [False, False])
    >>> rows.runs()
    {'run': [0, 1]}
    """

    labels: Sequence[str]
    groups: Sequence[str]
    steps: Sequence[int | None]
    positions: Array
    mean_returns: Array
    n_episodes: Sequence[int] | NDArray[np.integer[Any]]
    n_states: Sequence[int] | NDArray[np.integer[Any]]
    sources: Sequence[str]
    is_reference: Sequence[bool]

    def __post_init__(self) -> None:
        n = len(self.labels)
        object.__setattr__(self, "positions", np.asarray(self.positions, dtype=np.float64))
        object.__setattr__(self, "mean_returns", np.asarray(self.mean_returns, dtype=np.float64))
        if self.positions.shape != (n, 2):
            raise UsageError(
                f"positions must have shape ({n}, 2), one row a label, not {self.positions.shape}."
            )
        _check_lengths(
            n,
            groups=self.groups,
            steps=self.steps,
            mean_returns=self.mean_returns,
            n_episodes=self.n_episodes,
            n_states=self.n_states,
            sources=self.sources,
            is_reference=self.is_reference,
        )

    def __len__(self) -> int:
        return len(self.labels)

    def group_names(self) -> list[str]:
        """Name the groups of the policies compared, in order, without the empty one."""
        order = group_order(self.groups, self.steps)
        return list(
            dict.fromkeys(
                self.groups[i] for i in order if self.groups[i] and not self.is_reference[i]
            )
        )

    def runs(self) -> dict[str, list[int]]:
        """Find the rows of each training run in order of step: groups with two steps or more."""
        found: dict[str, list[int]] = {}
        for i in group_order(self.groups, self.steps):
            if self.groups[i] and self.steps[i] is not None and not self.is_reference[i]:
                found.setdefault(self.groups[i], []).append(int(i))
        return {name: rows for name, rows in found.items() if len(rows) > 1}


@dataclass(frozen=True, kw_only=True)
class ReportData(MapRows):
    """Everything that `write_report` shows: a map, and what was measured beside it.

    Attributes
    ----------
    title, environment : str
    return_stds : (n,) array
        Standard deviation of the returns of a policy's episodes; NaN where not known.
    map_method : str
        How the map was made: the method of a `PolicyMap`, or other words.
    distances : (n, n) array or None
        None where there are too many policies to show.
    nearest, farthest : sequence of (i, j, distance)
        Pairs of rows, most notable first.
    travel : sequence of (group, steps, cumulative distances)
        One entry a run.
    settings, versions : mapping of str to str
    timings : mapping of str to float
        Seconds for each stage.
    command : str
    notices : sequence of Notice
        Warnings that were raised on the way.
    method : str
        How policies were described and compared, in plain words; blank lines part paragraphs.
    formula : str
        The distance as one line of text; empty for none.
    """

    title: str
    environment: str
    return_stds: Array
    map_method: str
    distances: Array | None = None
    nearest: Sequence[tuple[int, int, float]] = ()
    farthest: Sequence[tuple[int, int, float]] = ()
    travel: Sequence[tuple[str, Sequence[int], Sequence[float]]] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    notices: Sequence[Notice] = ()
    method: str = ""
    formula: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self)
        object.__setattr__(self, "return_stds", np.asarray(self.return_stds, dtype=np.float64))
        _check_lengths(n, return_stds=self.return_stds)
        if self.distances is not None and np.shape(self.distances) != (n, n):
            raise UsageError(
                f"distances must have shape ({n}, {n}), one row a policy, "
                f"not {np.shape(self.distances)}."
            )
        for i, j, _ in (*self.nearest, *self.farthest):
            if not (0 <= i < n and 0 <= j < n):
                raise UsageError(f"a pair must name two of the {n} rows, not {i} and {j}.")
        for group, steps, distances in self.travel:
            if len(steps) != len(distances):
                raise UsageError(
                    f"travel of {group!r} must have one distance a step, "
                    f"not {len(distances)} for {len(steps)}."
                )

    def method_name(self) -> str:
        """Name the method of the map as a reader knows it."""
        return METHOD_NAMES.get(self.map_method, self.map_method)


def _check_lengths(n: int, **columns: Sequence[object] | NDArray[Any]) -> None:
    for name, column in columns.items():
        if len(column) != n:
            raise UsageError(f"{name} must have one entry a policy, {n}, not {len(column)}.")
