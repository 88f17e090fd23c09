"""What describing gives: one row a policy, with what the distance needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.ragged import join_rows, take_rows
from pivec.errors import UsageError
from pivec.policies.policy import PolicyInfo
from pivec.states.visited import VisitedStates


@dataclass(frozen=True)
class Descriptions:
    """Descriptions of policies by one characterization.

    Attributes
    ----------
    method : str
        Name of the characterization.
    policies : tuple of PolicyInfo
    vectors : (n_policies, n_values) array or None
        One vector a policy, where the characterization has vectors.
    points : (n_policies, n_values) array or None
        Vectors whose squared Euclidean distance is the distance, where there are such: for
        nearest neighbours, t-SNE and archives of other libraries.
    arrays : mapping of arrays with one row a policy
        What the distance needs beside these. Rows of different lengths are packed, see
        `pivec.characterizations.ragged`.
    mean_returns, return_stds : (n_policies,) arrays
    n_episodes, n_states : (n_policies,) int arrays
    """

    method: str
    policies: tuple[PolicyInfo, ...]
    vectors: NDArray[np.float64] | None
    points: NDArray[np.float64] | None
    arrays: Mapping[str, NDArray[Any]]
    mean_returns: NDArray[np.float64] = field(repr=False)
    return_stds: NDArray[np.float64] = field(repr=False)
    n_episodes: NDArray[np.int64] = field(repr=False)
    n_states: NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.policies)

    @property
    def labels(self) -> tuple[str, ...]:
        """The policies' names."""
        return tuple(info.label for info in self.policies)

    @property
    def groups(self) -> tuple[str, ...]:
        """The runs the policies came from."""
        return tuple(info.group for info in self.policies)

    @property
    def steps(self) -> tuple[int | None, ...]:
        """The policies' training steps."""
        return tuple(info.step for info in self.policies)

    def select(self, rows: Sequence[int] | NDArray[Any]) -> Descriptions:
        """Pick policies by number."""
        index = np.asarray(rows, dtype=np.intp)
        if np.array_equal(index, np.arange(len(self))):
            return self  # thousands of policies need not be copied to stay where they are
        return Descriptions(
            self.method,
            tuple(self.policies[i] for i in index),
            None if self.vectors is None else self.vectors[index],
            None if self.points is None else self.points[index],
            take_rows(self.arrays, index),
            *(getattr(self, name)[index] for name in SUMMARY),
        )

    def __add__(self, other: Descriptions) -> Descriptions:
        """Put two sets of descriptions in the same space one after the other."""
        if self.method != other.method:
            raise UsageError(f"cannot join descriptions by {self.method} and by {other.method}")
        return Descriptions(
            self.method,
            self.policies + other.policies,
            _join(self.vectors, other.vectors),
            _join(self.points, other.points),
            join_rows(self.arrays, other.arrays),
            *(np.concatenate([getattr(self, name), getattr(other, name)]) for name in SUMMARY),
        )


SUMMARY = ("mean_returns", "return_stds", "n_episodes", "n_states")


def summarise(data: VisitedStates) -> dict[str, NDArray[Any]]:
    """Compute the fields of `Descriptions` that every characterization fills alike."""
    starts = data.policy_starts
    counts = np.diff(starts)
    means = data.mean_returns
    deviations = data.returns - np.repeat(means, counts)
    return {
        "mean_returns": means,
        "return_stds": np.sqrt(np.add.reduceat(deviations**2, starts[:-1]) / counts),
        "n_episodes": counts,
        "n_states": np.diff(data.state_starts),
    }


def _join(
    a: NDArray[np.float64] | None, b: NDArray[np.float64] | None
) -> NDArray[np.float64] | None:
    return None if a is None or b is None else np.concatenate([a, b])
