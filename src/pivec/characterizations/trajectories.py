"""Whole episodes, compared state by state: what is visited, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.ragged import pack, unpack
from pivec.characterizations.views import View, center_and_scale, local_starts
from pivec.states.visited import VisitedStates


class Trajectories(Characterization):
    """Episodes element by element, the shorter one continued with its last state (Conti 2018).

    The distance of two episodes is the sum over time of the Euclidean distances of their states.
    That of two policies is the mean over pairs of episodes of equal number, as many as both have.
    As in Conti 2018 in raw units, so that a feature with large values outweighs the others.

    Parameters
    ----------
    max_episodes : int or None
        Episodes of each policy that are kept and compared, its first ones.
    max_steps : int or None
        States of each episode that are kept and compared, its first ones.
    standardise : bool
        Divide each feature by its deviation over all states of the fit.

    Attributes
    ----------
    scale_ : (n_features,) array
        What features are divided by.

    Examples
    --------
    >>> walks = [[np.array([[0.0], [1.0], [2.0]])], [np.array([[0.0], [3.0]])]]
    >>> data = VisitedStates.from_arrays(walks)
    >>> Trajectories().fit(data).distances(data)
    array([[0., 3.],
           [3., 0.]])
    """

    name: ClassVar[str] = "trajectories"
    explanation: ClassVar[str] = (
        "Episodes of two policies are laid side by side, the shorter one continued with its last "
        "state, and the Euclidean distances of their states are added up over time. The distance "
        "of the policies is the mean over their episodes. Where every episode starts differently, "
        "two episodes of one policy are far apart, too."
    )
    formula: ClassVar[str] = "d(p, q) = mean over e of Σₜ ‖sₑₜ(p) − sₑₜ(q)‖"

    def __init__(
        self,
        *,
        max_episodes: Count | None = 10,
        max_steps: Count | None = 1000,
        standardise: bool = False,
    ) -> None:
        self.max_episodes = max_episodes
        self.max_steps = max_steps
        self.standardise = standardise

    def _fit(self, data: VisitedStates) -> None:
        self.scale_ = np.ones(data.n_features)
        if self.standardise:
            _, self.scale_ = center_and_scale(View("states"), data)

    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        kept, lengths = [], []
        for i in range(len(data)):
            states, starts = data.policy_states(i), local_starts(data, i)
            if self.max_episodes is not None:
                starts = starts[: self.max_episodes + 1]
            ends = starts[1:]
            if self.max_steps is not None:
                ends = np.minimum(ends, starts[:-1] + self.max_steps)
            pieces = [states[a:b] for a, b in zip(starts[:-1], ends, strict=True)]
            kept.append((np.concatenate(pieces) / self.scale_).astype(np.float32))
            lengths.append(ends - starts[:-1])
        return None, None, pack("states", kept) | pack("lengths", lengths)

    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]:
        left = _Episodes(a)
        right = left if b is None else _Episodes(b)
        sums = np.zeros((len(a), len(a if b is None else b)))
        for number in range(min(left.most, right.most)):
            _add_episode(sums, left.of_number(number), right.of_number(number))
        matched: NDArray[np.float64] = np.minimum.outer(left.counts, right.counts)
        return sums / matched

    def _learned(self) -> dict[str, NDArray[Any]]:
        return {"scale": self.scale_}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.scale_ = arrays["scale"]


class _Episodes:
    """The episodes of described policies, by their number."""

    def __init__(self, described: Descriptions) -> None:
        self.states = described.arrays["states"]
        self._begins = described.arrays["states.starts"][:-1]
        self._lengths = unpack(described.arrays, "lengths")
        self.counts = np.array([len(lengths) for lengths in self._lengths])
        self.most = int(self.counts.max(initial=0))

    def of_number(self, number: int) -> _Episode:
        """Episodes of this number, the longest first."""
        owners = np.flatnonzero(self.counts > number)
        lengths = np.array([self._lengths[i][number] for i in owners.tolist()])
        before = np.array([self._lengths[i][:number].sum() for i in owners.tolist()])
        order = np.argsort(-lengths, kind="stable")
        begins = (self._begins[owners] + before)[order]
        return _Episode(owners[order], self.states, begins, lengths[order])


@dataclass(frozen=True)
class _Episode:
    """One episode of each policy that has it, the longest first."""

    owners: NDArray[np.intp]
    states: NDArray[np.float32]
    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def at(self, t: int) -> NDArray[np.float64]:
        """State of each episode at time t, or its last one."""
        rows = self.begins + np.minimum(t, self.lengths - 1)
        return self.states[rows].astype(np.float64)

    def going(self, t: int) -> int:
        """Count the episodes that have a state at time t: the first so many."""
        return int(np.searchsorted(-self.lengths, -t, side="left"))


def _add_episode(sums: NDArray[np.float64], left: _Episode, right: _Episode) -> None:
    """Add Σₜ ‖sₜ − s′ₜ‖ for all pairs of one episode a policy.

    One moment at a time for all pairs: memory is that of the result. A pair counts as long as
    one of its two episodes goes on.
    """
    from scipy.spatial.distance import cdist

    part = np.zeros((len(left.owners), len(right.owners)))
    for t in range(max(left.lengths[0], right.lengths[0])):
        x, y, n, m = left.at(t), right.at(t), left.going(t), right.going(t)
        if n:
            part[:n] += cdist(x[:n], y)
        if m and n < len(x):
            part[n:, :m] += cdist(x[n:], y[:m])
    sums[np.ix_(left.owners, right.owners)] += part
