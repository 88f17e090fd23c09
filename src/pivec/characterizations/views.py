"""What a policy is described by: its states, its (state, action) pairs or its transitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.base import Characterization
from pivec.errors import BadData, UsageError
from pivec.states import Moments, VisitedStates, moments_of, over_policies

Array = NDArray[np.float64]
Of = Literal["states", "state-actions", "transitions"]


@dataclass(frozen=True)
class View:
    """How to make one row of numbers of each state, (state, action) or (state, next state).

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
    n_actions: int = 0  # discrete ones become so many columns of zeros and one; 0 for numbers

    @classmethod
    def of_data(cls, data: VisitedStates, of: Of) -> Self:
        """Make the view that fits the actions of ``data``."""
        if of != "state-actions":
            return cls(of)
        largest = -1
        for policy in range(len(data)):  # one policy's actions at a time
            actions = _actions(data, policy)
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
        follows = np.ones(len(states), dtype=bool)
        follows[local_starts(data, policy)[1:] - 1] = (
            False  # after the last state of an episode comes nothing
        )
        now = np.flatnonzero(follows)
        if not len(now):
            raise BadData(
                f"{data.labels[policy]!r} has no {self.of}: every one of its episodes is a single "
                "state; collect longer ones, or leave it out"
            )
        if self.of == "transitions":
            return np.concatenate([states[now], states[now + 1]], axis=1)
        return np.concatenate([states[now], self._columns(data, policy)], axis=1)

    def _columns(self, data: VisitedStates, policy: int) -> NDArray[np.float32]:
        """Actions of one policy as numbers, (n, n_columns)."""
        actions = _actions(data, policy)
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
        columns[np.arange(len(actions)), actions.astype(np.intp)] = 1.0
        return columns

    def cuts(self, data: VisitedStates, policy: int) -> NDArray[np.int64]:
        """Where the episodes of one policy begin in its rows; the last is their number."""
        starts = local_starts(data, policy)
        # One action or transition fewer than states, in every episode.
        return starts if self.of == "states" else starts - np.arange(len(starts))

    def all_rows(self, data: VisitedStates) -> Iterator[NDArray[np.float32]]:
        """Go through the rows of one policy after another."""
        for policy in range(len(data)):
            yield self.rows(data, policy)


def local_starts(data: VisitedStates, policy: int) -> NDArray[np.int64]:
    """Where the episodes of one policy begin in its own states; the last is their number."""
    first, last = data.policy_starts[policy : policy + 2]
    starts = data.episode_starts[first : last + 1]
    return np.asarray(starts - starts[0])


def center_and_scale(view: View, data: VisitedStates) -> tuple[Array, Array]:
    """Pooled mean and deviation of each column of the rows of all policies; see `Moments`."""
    pooled = Moments()
    for policies in over_policies(_moments, data, view):
        for moments in policies:
            pooled.add(*moments)
    return pooled.mean, pooled.scale


def _moments(run: VisitedStates, view: View) -> list[tuple[int, Array, Array]]:
    return list(map(moments_of, view.all_rows(run)))


def draw_rows(
    view: View, data: VisitedStates, n: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """At most about ``n`` rows, as many of every policy where it has them, in float64."""
    share = -(-n // len(data))
    parts = []
    for rows in view.all_rows(data):
        chosen = np.sort(rng.choice(len(rows), size=min(share, len(rows)), replace=False))
        parts.append(rows[chosen].astype(np.float64))
    drawn = np.concatenate(parts)
    if len(drawn) > n:
        drawn = drawn[np.sort(rng.choice(len(drawn), size=n, replace=False))]
    return drawn


def _actions(data: VisitedStates, policy: int) -> NDArray[Any]:
    actions = data[policy].actions
    if actions is None:
        raise UsageError("pairs of states and actions need data that has actions")
    return actions


def _is_discrete(actions: NDArray[Any]) -> bool:
    return actions.ndim == 1 and actions.dtype.kind in "iub"


@dataclass(eq=False, repr=False)
class Scaled(Characterization):
    """A characterization of states in raw units, as in Conti 2018, or divided by their deviation.

    Parameters
    ----------
    standardise : bool
        Divide each feature by its deviation over all states of the fit; without, one with large
        values outweighs the others.

    Attributes
    ----------
    scale_ : (n_features,) array
        What features are divided by.
    """

    learned = ("scale",)

    _: KW_ONLY
    standardise: bool = False

    def _fit(self, data: VisitedStates) -> None:
        self.scale_ = np.ones(data.n_features)
        if self.standardise:
            _, self.scale_ = center_and_scale(View("states"), data)


class Standardised(Characterization):
    """A characterization of rows that `fit` standardises: (row - center_) / scale_.

    Subclasses say what the rows are ``of`` and extend ``learned`` by what else they learn.
    """

    of: Of = "states"
    learned: ClassVar[tuple[str, ...]] = ("center", "scale")
    n_actions_ = 0

    @property
    def needs(self) -> frozenset[str]:
        """Actions, for pairs of states and actions."""
        return frozenset({"actions"} if self.of == "state-actions" else ())

    @property
    def view_(self) -> View:
        """What the rows are."""
        return View(self.of, self.n_actions_)

    def _fit(self, data: VisitedStates) -> None:
        view = View.of_data(data, self.of)
        self.n_actions_ = view.n_actions
        self.center_, self.scale_ = center_and_scale(view, data)

    def _standardise(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        # The centre goes in float64: float32 would lose the digits beside a large one.
        return np.asarray((rows - self.center_) / self.scale_, dtype=np.float32)

    def _standardised(self, data: VisitedStates) -> Iterator[NDArray[np.float32]]:
        """Go through the standardised rows of one policy after another."""
        return map(self._standardise, self.view_.all_rows(data))
