"""Whole episodes, compared state by state: what is visited, and when."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count
from pivec.characterizations.descriptions import Description, Descriptions, pack
from pivec.characterizations.views import Scaled, local_starts
from pivec.states import VisitedStates


@dataclass(eq=False, repr=False)
class Trajectories(Scaled):
    """Episodes element by element, the shorter one continued with its last state (Conti 2018).

    The distance of two episodes is the sum over time of the Euclidean distances of their states.
    That of two policies is the mean over pairs of episodes of equal number, as many as both have.

    Parameters
    ----------
    max_episodes : int or None
        Episodes of each policy that are kept and compared, its first ones.
    max_steps : int or None
        States of each episode that are kept and compared, its first ones.
    standardise
        As of `pivec.characterizations.views.Scaled`, which also has the attribute ``scale_``.

    Examples
    --------
    >>> walks = [[np.array([[0.0], [1.0], [2.0]])], [np.array([[0.0], [3.0]])]]
    >>> data = VisitedStates.from_arrays(walks)
    >>> Trajectories().fit(data).distances(data)
    array([[0., 3.],
           [3., 0.]])
    """

    name = "trajectories"
    explanation = (
        "Episodes of two policies are laid side by side, the shorter one continued with its last "
        "state, and the Euclidean distances of their states are added up over time. The distance "
        "of the policies is the mean over their episodes. Where every episode starts differently, "
        "two episodes of one policy are far apart, too."
    )
    formula = "d(p, q) = mean over e of Σₜ ‖sₑₜ(p) − sₑₜ(q)‖"
    squared, by_state = False, False
    no_intervals = (
        "it compares single episodes, so that a policy is far from itself, too, however many there "
        "are; `test` tells whether two policies differ"
    )

    _: KW_ONLY
    max_episodes: Count | None = 10
    max_steps: Count | None = 1000

    def _describe(self, data: VisitedStates) -> Description:
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

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        counts = [np.array([len(row) for row in described.rows("lengths")]) for described in (a, b)]
        sums = np.zeros((len(a), len(b)))
        for number in range(min(count.max(initial=0) for count in counts)):
            _add_episodes(sums, _Episodes(a, number), _Episodes(b, number))
        matched: NDArray[np.float64] = np.minimum.outer(*counts)
        return sums / matched


class _Episodes:
    """One episode, by its number, of each policy that has it: the longest first."""

    def __init__(self, described: Descriptions, number: int) -> None:
        begins, lengths = described.arrays["states.starts"], described.rows("lengths")
        of_number = [
            (begins[i] + own[:number].sum(), own[number], i)
            for i, own in enumerate(lengths)
            if len(own) > number
        ]
        begins, lengths, owners = np.array(of_number).T
        order = np.argsort(-lengths, kind="stable")
        self.states = described.arrays["states"]
        self.begins, self.lengths, self.owners = begins[order], lengths[order], owners[order]

    def at(self, t: int) -> tuple[NDArray[np.float64], int]:
        """State of each episode at time t, or its last one; and how many, the first, go on."""
        rows = self.begins + np.minimum(t, self.lengths - 1)
        going = int(np.searchsorted(-self.lengths, -t, side="left"))
        return self.states[rows].astype(np.float64), going


def _add_episodes(sums: NDArray[np.float64], left: _Episodes, right: _Episodes) -> None:
    """Add Σₜ ‖sₜ − s′ₜ‖ for all pairs of one episode a policy.

    One moment at a time for all pairs: memory is that of the result. A pair counts as long as
    one of its two episodes goes on.
    """
    from scipy.spatial.distance import cdist

    part = np.zeros((len(left.owners), len(right.owners)))
    for t in range(max(left.lengths[0], right.lengths[0])):
        (x, n), (y, m) = left.at(t), right.at(t)
        if n:
            part[:n] += cdist(x[:n], y)
        if m and n < len(x):
            part[n:, :m] += cdist(x[n:], y[:m])
    sums[np.ix_(left.owners, right.owners)] += part
