"""Characterizations of episodes: their returns, their last states, or all of them step by step."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from pivec.arguments import Count
from pivec.characterizations.base import Array, Traits
from pivec.characterizations.descriptions import Description, Descriptions, pack
from pivec.characterizations.rows import Averaged, Scaled, local_starts
from pivec.errors import BadData
from pivec.states import VisitedStates
from pivec.statistics import euclidean


class Returns(Averaged):
    """The mean return over a policy's episodes; the distance is the absolute difference.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0]]], [[[0.0]]]], returns=[3.0, 5.0])
    >>> Returns().fit(data).distances(data)
    array([[0., 2.],
           [2., 0.]])
    """

    name = "returns"
    layout: ClassVar[dict[str, str]] = {"described.returns": "f8 P"}
    traits = Traits(
        "Each policy is described by its mean return alone. The distance between two policies is "
        "the absolute difference of their mean returns: 0 for policies that do equally well, "
        "however differently they behave.",
        "d(p, q) = |R(p) − R(q)|",
        squared=False,
        by_state=False,
        additive=True,
        influences=True,
        needs=frozenset({"returns"}),
    )

    def _statistics(self, data: VisitedStates) -> Array:
        return np.column_stack([np.ones(data.n_episodes), data.returns])

    def _of_means(self, means: Array) -> Description:
        return means, None, {"returns": means[:, 0]}

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        gaps = np.subtract.outer(a.arrays["returns"], b.arrays["returns"])
        return np.asarray(np.abs(gaps))


class TerminalState(Scaled, Averaged):
    """The mean of the last states of a policy's episodes; the distance is Euclidean.

    As in Conti 2018, where the state is a robot's position. For states of mixed units use
    ``standardise=True``, or collect with ``features=`` that select the coordinates that matter. A
    truncated episode ends in its last recorded state.

    Examples
    --------
    >>> walks = [[np.zeros((5, 2)), np.ones((3, 2))], [np.full((4, 2), 3.5)]]
    >>> data = VisitedStates.from_arrays(walks)
    >>> TerminalState().fit(data).distances(data).round(3)
    array([[0.   , 4.243],
           [4.243, 0.   ]])
    """

    name = "terminal-state"
    layout = Scaled.layout | {"described.ends": "f8 P F"}
    traits = Traits(
        "Each policy is described by the mean of the states in which its episodes ended. The "
        "distance between two policies is the Euclidean distance of these means: 0 for policies "
        "that end in the same place, however they got there.",
        "d(p, q) = ‖s_end(p) − s_end(q)‖",
        squared=False,
        by_state=False,
        additive=True,
        influences=True,
    )

    def _statistics(self, data: VisitedStates) -> Array:
        last = data.take(data.episode_starts[1:] - 1)
        return np.column_stack([np.ones(len(last)), last])

    def _of_means(self, means: Array) -> Description:
        ends = means / self.scale_
        return ends, None, {"ends": ends}

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        return euclidean(a.arrays["ends"], b.arrays["ends"])


@dataclass(eq=False, repr=False)
class Trajectories(Scaled):
    """Episodes step by step, the shorter one continued with its last state (Conti 2018).

    The distance of two episodes is the sum over time of the Euclidean distances of their states.
    That of two policies is the mean over pairs of episodes of equal number, as many as both have.

    Parameters
    ----------
    max_episodes : int or None
        Number of episodes of each policy to compare, the first ones.
    max_steps : int or None
        Number of states of each episode to compare, the first ones.
    standardise : bool
        Divide each feature by its deviation ``scale_`` over all states of the fit.

    Examples
    --------
    >>> walks = [[np.array([[0.0], [1.0], [2.0]])], [np.array([[0.0], [3.0]])]]
    >>> data = VisitedStates.from_arrays(walks)
    >>> Trajectories().fit(data).distances(data)
    array([[0., 3.],
           [3., 0.]])
    """

    name = "trajectories"
    layout = Scaled.layout | {
        "described.states": "f4 *N F",
        "described.lengths": "i8>0 *M",
        "described.every": "i8>0 P",
    }
    traits = Traits(
        "Episodes of two policies are compared step by step, the shorter one continued with its "
        "last state, and the Euclidean distances of their states are summed over time. The "
        "distance between the policies is the mean over their episodes. If every episode starts "
        "differently, two episodes of the same policy are also far apart.",
        "d(p, q) = mean over e of Σₜ ‖sₑₜ(p) − sₑₜ(q)‖",
        squared=False,
        by_state=False,
        no_intervals="it compares single episodes, so that a policy is far from itself, too, "
        "however many there are; use `test` to find out whether two policies differ",
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
        arrays = pack("states", kept) | pack("lengths", lengths)
        return None, None, arrays | {"every": np.array([r.every for r in data.records])}

    def check_descriptions(self, described: Descriptions) -> None:
        sums = [row.sum() for row in described.rows("lengths")]
        if sums != np.diff(described.arrays["states.starts"]).tolist():
            raise ValueError("lengths of episodes do not match their states")

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        every = [*a.arrays["every"].tolist(), *b.arrays["every"].tolist()]
        thinned = dict(zip(every, (*a.labels, *b.labels), strict=True))
        if len(thinned) > 1:
            (k, one), (other_k, other), *_ = thinned.items()
            raise BadData(
                f"trajectories are compared step by step, but the states of {one!r} are thinned by "
                f"{k} and those of {other!r} by {other_k}: collect without --max-states-per-policy"
            )
        counts = [np.array([len(row) for row in described.rows("lengths")]) for described in (a, b)]
        sums = np.zeros((len(a), len(b)))
        for number in range(min(count.max(initial=0) for count in counts)):
            _add_episodes(sums, _Episodes(a, number), _Episodes(b, number))
        matched: Array = np.minimum.outer(*counts)
        return sums / matched


class _Episodes:
    """The episode with a given number of each policy that has it, longest first."""

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

    def at(self, t: int) -> tuple[Array, int]:
        """State of each episode at time t, or its last one; and how many (the first) continue."""
        rows = self.begins + np.minimum(t, self.lengths - 1)
        going = int(np.searchsorted(-self.lengths, -t, side="left"))
        return self.states[rows].astype(np.float64), going


def _add_episodes(sums: Array, left: _Episodes, right: _Episodes) -> None:
    """Add Σₜ ‖sₜ − s′ₜ‖ for all pairs of one episode per policy.

    One time step at a time for all pairs, so that memory is that of the result. A pair counts as
    long as one of its two episodes continues.
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
