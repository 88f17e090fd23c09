"""Rows of numbers that policies are described by: states, (state, action) pairs or transitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.base import Array, Characterization
from pivec.characterizations.descriptions import Description
from pivec.errors import BadData, UsageError
from pivec.states import Moments, VisitedStates, moments_of, move_rows, over_policies, starts_of

Of = Literal["states", "state-actions", "transitions"]
Floats = NDArray[np.float32]
Cuts = NDArray[np.int64]


@dataclass(frozen=True)
class View:
    """How to make one row of numbers from each state, (state, action) or (state, next state)."""

    of: Of
    n_actions: int = 0  # columns of one-hot encoded discrete actions; 0 for continuous ones

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
                raise BadData(
                    f"discrete actions must start at 0, but the smallest is {actions.min()}"
                )
            largest = max(largest, int(actions.max(initial=-1)))
        return cls(of, largest + 1)

    def rows(self, data: VisitedStates, policy: int) -> Floats:
        """Rows of one policy, (n, n_columns); states themselves are not copied."""
        states = data.policy_states(policy)
        if self.of == "states":
            return states
        follows = np.ones(len(states), dtype=bool)
        follows[local_starts(data, policy)[1:] - 1] = False  # nothing follows the last state
        now = np.flatnonzero(follows)
        if self.of == "transitions":
            rows = move_rows(data.records[policy])
            now = rows[follows[rows]]
        if not len(now):
            raise BadData(
                f"{data.labels[policy]!r} has no {self.of}: each of its episodes has a single "
                "state; collect longer episodes, or leave it out"
            )
        if self.of == "transitions":
            return np.concatenate([states[now], states[now + 1]], axis=1)
        return np.concatenate([states[now], self._action_columns(data, policy)], axis=1)

    def _action_columns(self, data: VisitedStates, policy: int) -> Floats:
        """Actions of one policy as numbers, (n, n_columns)."""
        actions, label = _actions(data, policy), data.labels[policy]
        if bool(self.n_actions) != _is_discrete(actions):
            kinds = ("continuous", "discrete") if self.n_actions else ("discrete", "continuous")
            raise BadData(
                f"actions of {label!r} are {kinds[0]}, but this was fitted on {kinds[1]} ones: "
                "compare policies of one environment"
            )
        if not self.n_actions:
            return actions.reshape(len(actions), -1).astype(np.float32)
        if actions.min() < 0 or actions.max() >= self.n_actions:
            raise BadData(
                f"actions of {label!r} run from {actions.min()} to {actions.max()}, "
                f"but those of the fit from 0 to {self.n_actions - 1}: fit with all actions"
            )
        columns = np.zeros((len(actions), self.n_actions), dtype=np.float32)
        columns[np.arange(len(actions)), actions.astype(np.intp)] = 1.0
        return columns

    def cuts(self, data: VisitedStates, policy: int) -> Cuts:
        """Where the episodes of one policy begin in its rows, then the number of rows."""
        starts = local_starts(data, policy)
        if self.of == "transitions":
            moves = np.diff(np.searchsorted(move_rows(data.records[policy]), starts))
            return starts_of(np.where(np.diff(starts) == 1, 0, moves))
        # One action fewer than states in every episode.
        return starts if self.of == "states" else starts - np.arange(len(starts))

    def all_rows(self, data: VisitedStates) -> Iterator[Floats]:
        """Yield the rows of each policy."""
        for policy in range(len(data)):
            yield self.rows(data, policy)


def local_starts(data: VisitedStates, policy: int) -> Cuts:
    """Where the episodes of one policy begin in its own states, then the number of states."""
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


def draw_rows(view: View, data: VisitedStates, n: int, rng: np.random.Generator) -> Array:
    """At most about ``n`` rows in float64, equally many per policy where it has them."""
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
        Divide each feature by its deviation ``scale_`` over all states of the fit; otherwise
        features with large values dominate.
    """

    layout: ClassVar[dict[str, str]] = {"learned.scale": "f8>0 F"}

    _: KW_ONLY
    standardise: bool = False

    def _fit(self, data: VisitedStates) -> None:
        self.scale_ = np.ones(data.n_features)
        if self.standardise:
            _, self.scale_ = center_and_scale(View("states"), data)


class Standardised(Characterization):
    """A characterization of rows that `fit` standardizes: (row - center_) / scale_."""

    layout: ClassVar[dict[str, str]] = {
        "learned.n_actions": "i8>=0",
        "learned.center": "f8 D",
        "learned.scale": "f8>0 D",
    }
    of: Of = "states"

    def array_sizes(self) -> dict[str, int]:
        sizes = super().array_sizes()
        own, n_actions = sizes["F"], self.n_actions_
        if self.of != "state-actions" or n_actions:  # the width of continuous ones is not known
            more = {"states": 0, "transitions": own, "state-actions": n_actions}
            sizes["D"] = own + more[self.of]
        return sizes

    @property
    def view_(self) -> View:
        """What the rows are."""
        return View(self.of, self.n_actions_)

    def _fit(self, data: VisitedStates) -> None:
        view = View.of_data(data, self.of)
        self.n_actions_ = view.n_actions
        self.center_, self.scale_ = center_and_scale(view, data)

    def _standardise(self, rows: NDArray[Any]) -> Floats:
        # The centre is subtracted in float64: float32 would lose the digits beside a large one.
        return np.asarray((rows - self.center_) / self.scale_, dtype=np.float32)

    def _standardised(self, data: VisitedStates) -> Iterator[Floats]:
        """Yield the standardized rows of each policy."""
        return map(self._standardise, self.view_.all_rows(data))


class Averaged(Characterization):
    """A characterization by means over episodes, or over the rows of episodes.

    The statistics of an episode are the number of its rows and their sum.
    """

    # Vectors, points and arrays of policies with these means, (P, n_values).
    _of_means: Callable[[Array], Description]

    def _from_statistics(self, sums: Array) -> Description:
        with np.errstate(invalid="ignore"):  # nothing is known of a policy without any row
            return self._of_means(sums[:, 1:] / sums[:, :1])


class RowMeans(Averaged):
    """A characterization by means over the rows of a `View`: states, pairs or transitions."""

    # Sums of what is averaged over the rows between one cut and the next, (n, n_values).
    _sums: Callable[[Floats, Cuts], Array]

    @property
    def view_(self) -> View:
        """What the rows are."""
        return View("states")

    def _statistics(self, data: VisitedStates) -> Array:
        return np.concatenate(
            [
                self._counted(rows, self.view_.cuts(data, i))
                for i, rows in enumerate(self.view_.all_rows(data))
            ]
        )

    def _policy_sums(self, data: VisitedStates) -> Array:
        return np.concatenate(list(over_policies(_policy_sums, data, self)))

    def _counted(self, rows: Floats, cuts: Cuts) -> Array:
        return np.column_stack([np.diff(cuts), self._sums(rows, cuts)])


def _policy_sums(run: VisitedStates, method: RowMeans) -> Array:
    """Statistics of whole policies at once: episodes may be short."""
    rows = method.view_.all_rows(run)
    return np.concatenate([method._counted(own, np.array([0, len(own)])) for own in rows])


def segment_sums(values: NDArray[np.floating], cuts: Cuts) -> Array:
    """Sums of the rows between one cut and the next, in float64; 0 where there are none."""
    sums = np.zeros((len(cuts) - 1, values.shape[1]))
    filled = np.diff(cuts) > 0
    sums[filled] = np.add.reduceat(values, cuts[:-1][filled], axis=0, dtype=np.float64)
    return sums
