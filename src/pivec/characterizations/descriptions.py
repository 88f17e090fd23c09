"""What `describe` returns: one row per policy, with what the distance needs.

Rows of different lengths are packed: ``name`` holds all of them one after another, and
``name.starts``, of length n_policies + 1, where each policy's begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies import PolicyInfo
from pivec.results import policies_table
from pivec.states import VisitedStates

_STARTS = ".starts"
STRATA = "strata"
SUMMARY = ("mean_returns", "return_stds", "n_episodes", "n_states")

# Vectors, points and arrays, as `Descriptions` has them.
Description = tuple[
    NDArray[np.float64] | None, NDArray[np.float64] | None, Mapping[str, NDArray[Any]]
]


@dataclass(frozen=True, repr=False)
class Descriptions:
    """Descriptions of policies by one characterization, one row per policy."""

    method: str  # name of the characterization
    policies: tuple[PolicyInfo, ...]
    vectors: NDArray[np.float64] | None  # (n_policies, n_values), if it has vectors
    # (n_policies, n_values): vectors whose squared Euclidean distance is the distance, if there
    # are such; for nearest neighbours, t-SNE and archives of other libraries.
    points: NDArray[np.float64] | None
    arrays: Mapping[str, NDArray[Any]]  # what else the distance needs; some are packed
    mean_returns: NDArray[np.float64]
    return_stds: NDArray[np.float64]
    n_episodes: NDArray[np.int64]
    n_states: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.policies)

    def __repr__(self) -> str:
        width = "" if self.vectors is None else f", {self.vectors.shape[1]} values each"
        return f"Descriptions({len(self)} policies by {self.method}{width})"

    def _repr_html_(self) -> str:
        """Show the first policies in a notebook."""
        counts = self.n_episodes, self.n_states, self.mean_returns
        return policies_table(repr(self), self.policies, *counts, ".policies")

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the policies."""
        return tuple(info.label for info in self.policies)

    @property
    def groups(self) -> tuple[str, ...]:
        """Training runs of the policies."""
        return tuple(info.group for info in self.policies)

    @property
    def steps(self) -> tuple[int | None, ...]:
        """Training steps of the policies."""
        return tuple(info.step for info in self.policies)

    def values(self, *names: str) -> list[NDArray[Any]]:
        """Return vectors, points or arrays by name."""
        known = {"vectors": self.vectors, "points": self.points} | dict(self.arrays)
        chosen = [known.get(name) for name in names]
        if any(array is None for array in chosen):
            raise UsageError(
                f"these descriptions by {self.method} have no {' or '.join(names)}: they were made "
                "with other arguments"
            )
        return [array for array in chosen if array is not None]

    def rows(self, name: str) -> list[NDArray[Any]]:
        """Return what is packed under ``name``, one array per policy, without copying."""
        starts = self.arrays[name + _STARTS].tolist()
        return [self.arrays[name][i:j] for i, j in pairwise(starts)]

    @property
    def influences(self) -> Influences:
        """Influences of the episodes of each policy, (n_episodes, n_values) float32 arrays."""
        values, starts, scale = self.values(*Influences.names)
        return Influences(values, starts, scale, np.arange(len(self)))

    def stratified(self, strata: NDArray[np.int64]) -> Descriptions:
        """The same with the strata of episodes, which are those of all policies, in this order."""
        rows = np.tile(strata, (len(self), 1))
        return replace(self, arrays={**self.arrays, STRATA: rows})

    def select(self, rows: Sequence[int] | NDArray[Any]) -> Descriptions:
        """Select policies by number."""
        index = np.asarray(rows, dtype=np.intp)
        if np.array_equal(index, np.arange(len(self))):
            return self  # no copy
        arrays: dict[str, NDArray[Any]] = {}
        for name, values in self.arrays.items():
            if name + _STARTS in self.arrays:
                starts = self.arrays[name + _STARTS]
                ends = zip(starts[:-1][index], starts[1:][index], strict=True)
                # The empty array determines type and width if no policy is selected.
                packed = pack(name, [values[:0], *(values[i:j] for i, j in ends)])
                arrays |= packed | {name + _STARTS: packed[name + _STARTS][1:]}
            elif not self._is_starts(name):
                arrays[name] = values[index]
        return Descriptions(
            self.method,
            tuple(self.policies[i] for i in index),
            None if self.vectors is None else self.vectors[index],
            None if self.points is None else self.points[index],
            arrays,
            *(getattr(self, name)[index] for name in SUMMARY),
        )

    def without_influences(self) -> Descriptions:
        """The same without influences, which are the largest part."""
        kept = {name: a for name, a in self.arrays.items() if not name.startswith("influences")}
        return replace(self, arrays=kept)

    def __add__(self, other: Descriptions) -> Descriptions:
        """Concatenate descriptions in the same space; what only one has is left out."""
        if self.method != other.method:
            raise UsageError(f"cannot join descriptions by {self.method} and by {other.method}")
        arrays = {
            name: _join(a, a[-1] + b[1:] if self._is_starts(name) else b)
            for name, a in self.arrays.items()
            if (b := other.arrays.get(name)) is not None
        }
        return Descriptions(
            self.method,
            self.policies + other.policies,
            _join(self.vectors, other.vectors),
            _join(self.points, other.points),
            arrays,
            *(_join(getattr(self, name), getattr(other, name)) for name in SUMMARY),
        )

    def _is_starts(self, name: str) -> bool:
        return name.endswith(_STARTS) and name.removesuffix(_STARTS) in self.arrays


def summarise(data: VisitedStates) -> list[NDArray[Any]]:
    """Compute the fields named in ``SUMMARY``."""
    starts = data.policy_starts
    counts = np.diff(starts)
    means = data.mean_returns
    deviations = data.returns - np.repeat(means, counts)
    deviation = np.sqrt(np.add.reduceat(deviations**2, starts[:-1]) / counts)
    return [means, deviation, counts, np.diff(data.state_starts)]


def pack(name: str, rows: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Pack one array per policy, which differ only in length, under ``name``."""
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
    return {name: np.concatenate(rows), name + _STARTS: starts}


_MOST = np.iinfo(np.int16).max


@dataclass(frozen=True, repr=False)
class Influences(Sequence[NDArray[np.float32]]):
    """Influences of the episodes of each policy, stored as 16-bit multiples of its ``scale``.

    They are by far the largest part of descriptions, and rounding them adds less than a millionth
    to the variances that they are used for. Policies are converted, and sorted, when used.
    """

    names: ClassVar = ("influences", "influences.starts", "influences.scale")
    values: NDArray[np.int16]
    starts: NDArray[np.int64]
    scale: NDArray[np.float64]
    order: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, policy: Any) -> Any:
        if isinstance(policy, slice):
            return [self[p] for p in range(*policy.indices(len(self)))]
        p = self.order[policy]
        rows = self.values[self.starts[p] : self.starts[p + 1]]
        return rows * np.float32(self.scale[p])


def encode_influences(
    rows: NDArray[np.floating], starts: NDArray[np.int64]
) -> tuple[NDArray[np.int16], NDArray[np.float64]]:
    """Return influences as multiples of a scale, and the scale of each policy."""
    codes, scale = np.empty(rows.shape, np.int16), np.ones(len(starts) - 1)
    for p, (i, j) in enumerate(pairwise(starts.tolist())):
        if largest := max(rows[i:j].max(), -rows[i:j].min()):
            scale[p] = largest / _MOST
        codes[i:j] = np.rint(rows[i:j] / scale[p])
    return codes, scale


def _join(a: Any, b: Any) -> Any:
    return None if a is None or b is None else np.concatenate([a, b])
