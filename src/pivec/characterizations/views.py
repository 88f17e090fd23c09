"""What a policy is described by: its states, its (state, action) pairs or its transitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, UsageError
from pivec.states.visited import VisitedStates

Of = Literal["states", "state-actions", "transitions"]


@dataclass(frozen=True)
class View:
    """How to make one row of numbers of each state, (state, action) or (state, next state).

    Attributes
    ----------
    of : str
        "states", "state-actions" or "transitions".
    n_actions : int
        Discrete actions become so many columns of zeros and one; 0 where actions are numbers.

    Examples
    --------
    >>> walks = [[np.array([[0.0], [1.0], [2.0]])]]
    >>> data = VisitedStates.from_arrays(walks, actions=[[np.array([1, 0])]])
    >>> View.of_data(data, "transitions").rows(data, 0)
    array([[0., 1.],
           [1., 2.]], dtype=float32)
    >>> View.of_data(data, "state-actions").rows(data, 0)
    array([[0., 0., 1.],
           [1., 1., 0.]], dtype=float32)
    """

    of: Of
    n_actions: int = 0

    @classmethod
    def of_data(cls, data: VisitedStates, of: Of) -> Self:
        """Make the view that fits the actions of ``data``."""
        check_of(of)
        if of != "state-actions":
            return cls(of)
        largest = -1
        for policy in range(len(data)):  # one policy's actions at a time
            actions = data[policy].actions
            if actions is None:
                raise UsageError("pairs of states and actions need data that has actions")
            if not _is_discrete(actions):
                return cls(of)
            if len(actions) and actions.min() < 0:
                raise BadData(f"discrete actions count from 0, but the smallest is {actions.min()}")
            largest = max(largest, int(actions.max(initial=-1)))
        return cls(of, largest + 1)

    def rows(self, data: VisitedStates, policy: int) -> NDArray[np.float32]:
        """Rows of one policy, (n, n_columns); states themselves are not copied."""
        states = data.policy_states(policy)
        if self.of == "states":
            return states
        starts = local_starts(data, policy)
        follows = np.ones(len(states), dtype=bool)
        follows[starts[1:] - 1] = False  # after the last state of an episode comes nothing
        now = np.flatnonzero(follows)
        if not len(now):
            raise BadData(
                f"{data.labels[policy]!r} has no {self.of}: every one of its episodes is a single "
                "state; collect longer ones, or leave it out"
            )
        if self.of == "transitions":
            return np.concatenate([states[now], states[now + 1]], axis=1)
        return np.concatenate([states[now], self._actions(data, policy)], axis=1)

    def _actions(self, data: VisitedStates, policy: int) -> NDArray[np.float32]:
        actions = data[policy].actions
        if actions is None:
            raise UsageError("pairs of states and actions need data that has actions")
        if bool(self.n_actions) != _is_discrete(actions):
            raise BadData(
                f"actions of {data.labels[policy]!r} are "
                f"{'numbers' if self.n_actions else 'discrete'}, but this was fitted on "
                f"{'discrete ones' if self.n_actions else 'numbers'}: compare policies of one "
                "environment"
            )
        if not self.n_actions:
            return actions.reshape(len(actions), -1).astype(np.float32)
        if actions.min() < 0 or actions.max() >= self.n_actions:
            raise BadData(
                f"actions of {data.labels[policy]!r} run from {actions.min()} to {actions.max()}, "
                f"but those of the fit from 0 to {self.n_actions - 1}: fit with all actions"
            )
        columns = np.zeros((len(actions), self.n_actions), dtype=np.float32)
        columns[np.arange(len(actions)), actions] = 1.0
        return columns

    def all_rows(self, data: VisitedStates) -> Iterator[NDArray[np.float32]]:
        """Go through the rows of one policy after another."""
        for policy in range(len(data)):
            yield self.rows(data, policy)


def check_of(of: str) -> None:
    """Refuse what no view is called."""
    if of not in get_args(Of):
        raise UsageError(f"of must be one of {', '.join(map(repr, get_args(Of)))}, but is {of!r}")


def local_starts(data: VisitedStates, policy: int) -> NDArray[np.int64]:
    """Where the episodes of one policy begin in its own states; the last is their number."""
    first, last = data.policy_starts[policy : policy + 2]
    starts = data.episode_starts[first : last + 1]
    return np.asarray(starts - starts[0])


def center_and_scale(
    view: View, data: VisitedStates
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pooled mean and deviation of each column, in float64; 1 where a column never changes.

    Policies are added one by one by the parallel formula of Chan, which does not cancel.
    """
    count, mean, squares = 0, np.zeros(1), np.zeros(1)
    for rows in view.all_rows(data):
        here = rows.mean(axis=0, dtype=np.float64)
        spread = ((rows - here) ** 2).sum(axis=0)
        gap, total = here - mean, count + len(rows)
        mean = mean + gap * (len(rows) / total)
        squares = squares + spread + gap**2 * (count * len(rows) / total)
        count = total
    deviation = np.sqrt(squares / count)
    # A mean of float32 values is off by their rounding: such a deviation is none.
    constant = deviation <= 1e-7 * np.abs(mean)
    return mean, np.where(constant | (deviation == 0), 1.0, deviation)


def draw_rows(
    view: View, data: VisitedStates, n: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """At most about ``n`` rows, as many of every policy where it has them, in float64."""
    share = -(-n // len(data))
    some = []
    for rows in view.all_rows(data):
        chosen = np.sort(rng.choice(len(rows), size=min(share, len(rows)), replace=False))
        some.append(rows[chosen].astype(np.float64))
    drawn = np.concatenate(some)
    if len(drawn) > n:
        drawn = drawn[np.sort(rng.choice(len(drawn), size=n, replace=False))]
    return drawn


def restored_view(of: Of, arrays: Mapping[str, NDArray[Any]]) -> View:
    """Make the view again from what a fitted characterization kept."""
    return View(of, int(arrays["n_actions"]))


def _is_discrete(actions: NDArray[Any]) -> bool:
    return actions.ndim == 1 and actions.dtype.kind in "iub"
