"""BehaviourMonitor: follows one training run, description by description, in one fixed space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from pivec.arguments import Count, Range, Seed, checked
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.registry import characterization
from pivec.characterizations.space import Space
from pivec.distances.noise import Noise, chance_distance
from pivec.distances.settling import SettlingRule
from pivec.errors import UsageError
from pivec.maps.landmarks import LandmarkMap
from pivec.maps.place import place
from pivec.states.derived import joined, regrouped
from pivec.states.visited import VisitedStates

_PARTS = 4  # landmarks of each description that a space is fitted on


class Change(NamedTuple):
    """One description of a run, and how far it is from others; NaN where there is no other."""

    label: str
    step: int | None  # of training
    to_previous: float
    to_first: float
    to_expert: float
    path_length: float  # sum of the distances from each description to the next, up to here
    noise: Noise  # what to_previous would be by chance, had behaviour not changed
    position: tuple[float, float]  # on the map of the space, which does not move
    mean_return: float
    n_episodes: int
    n_states: int


class BehaviourMonitor:
    """Describes a policy again and again while it is trained, and says how it moves.

    All descriptions are made in one space: a given one, or one that is fitted on the states of
    the first ``fit_on`` descriptions and then stays as it is, so that numbers of different times
    can be compared. The first ones are described when the space is there.

    Parameters
    ----------
    method, parameters
        Name of the characterization, and its arguments; its random_state is ``seed`` unless given.
    space : Space or path, optional
        A fitted space, instead of ``method`` and ``parameters``.
    fit_on : int
        How many descriptions to fit the space on, where none is given.
    expert : VisitedStates, optional
        The states of one policy to measure the distance to.
    divisions : int
        Random divisions of the episodes to measure the noise with, see `chance_distance`; 0
        leaves it out.
    seed : int

    Attributes
    ----------
    changes : list of Change
        One for each description so far.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> monitor = BehaviourMonitor("gaussian", fit_on=1)
    >>> for step, place in enumerate([0.0, 3.0, 3.0]):
    ...     walks = [[rng.normal(place, 1, (30, 2)) for _ in range(10)]]
    ...     data = VisitedStates.from_arrays(walks, labels=[f"step_{step}"], steps=[step])
    ...     change = monitor.add(data)
    >>> bool(change.to_first > 10), bool(change.to_previous < 2 * change.noise.mean)
    (True, True)
    """

    @checked
    def __init__(
        self,
        method: str = "supervector",
        parameters: Mapping[str, Any] | None = None,
        *,
        space: Space | str | Path | None = None,
        fit_on: Count = 3,
        expert: VisitedStates | None = None,
        divisions: Annotated[int, Range(0)] = 10,
        seed: Seed = 0,
    ) -> None:
        if divisions == 1:
            raise UsageError(f"divisions must be 0, or 2 at least, but is {divisions}")
        self.changes: list[Change] = []
        self._given = space if isinstance(space, Space) or space is None else Space.load(space)
        if self._given is not None:
            self.method: Characterization = self._given.method
        else:
            seeded = "random_state" in characterization(method).get_params()
            arguments = {"random_state": seed} if seeded else {}
            self.method = characterization(method, **{**arguments, **(parameters or {})})
        self._fit_on = 0 if self._given is not None else fit_on
        self._divisions = 0 if "policies" in self.method.needs else divisions
        self._rng = np.random.default_rng(seed)
        self.expert = expert
        self._expert_described: Descriptions | None = None
        self._waiting: list[VisitedStates] = []
        self._described: list[Descriptions] = []
        self._last: VisitedStates | None = None
        self._landmarks: Descriptions | None = None

    @property
    def expert(self) -> VisitedStates | None:
        """The policy to measure the distance to; may be set before the first description."""
        return self._expert

    @expert.setter
    def expert(self, data: VisitedStates | None) -> None:
        if data is not None and len(data) != 1:
            raise UsageError(
                f"the expert must be one policy, but {len(data)} are given: choose one, data[label]"
            )
        self._expert = data

    @property
    def space(self) -> Space:
        """The space with all descriptions of this run, to save, and to place others in."""
        if not self._described:
            raise UsageError("nothing is described yet")
        return Space(self.method, self.descriptions)

    @property
    def descriptions(self) -> Descriptions:
        """All descriptions so far."""
        return reduce(add, self._described)

    def add(self, data: VisitedStates) -> Change | None:
        """Describe one policy by the states it has visited lately.

        Returns None while more data is needed to fit the space.
        """
        if len(data) != 1:
            raise UsageError(f"expected the states of one policy, but got {len(data)}")
        self._waiting.append(data)
        if self._landmarks is None:
            if len(self._waiting) < self._fit_on:
                return None
            self._landmarks = self._prepare()
            self._map = LandmarkMap(self.method.distances(self._landmarks))
            if self._expert is not None:
                self._expert_described = self.method.describe(self._expert)
        for window in self._waiting:
            self.changes.append(self._change(window, self._landmarks))
        self._waiting = []
        return self.changes[-1]

    def has_settled(self, rule: SettlingRule) -> bool:
        """Tell whether behaviour has settled, see `SettlingRule`."""
        n = len(self.changes)
        if n <= rule.checkpoints:
            return False
        first = n - rule.checkpoints
        before, last = self._described[first - 1], reduce(add, self._described[first:])
        recent = self.method.distances(before, last)[0]
        noise = np.zeros((n, 2))
        if self._divisions:
            noise = np.array([astuple(change.noise) for change in self.changes])
        reach = max(np.array([change.to_first for change in self.changes])[1:] - noise[1:, 0])
        return rule.unchanged(recent, noise[first:, 0], noise[first:, 1], reach)

    def _prepare(self) -> Descriptions:
        """Fit the space, if it is not given; describe what its map is laid out by."""
        if self._given is not None:
            return self._given.descriptions
        data = joined(self._waiting)
        self.method.fit(data)
        if "policies" not in self.method.needs:
            data = _parts(self._waiting, _PARTS)
        return self.method.describe(data)

    def _change(self, data: VisitedStates, landmarks: Descriptions) -> Change:
        described, expert = self.method.describe(data), self._expert_described
        self._described.append(described)
        leg = to_first = float("nan")
        noise, length = Noise(np.nan, np.nan), 0.0
        if self._last is not None:
            leg = self._distance(described, self._described[-2])
            to_first = self._distance(described, self._described[0])
            length = self.changes[-1].path_length + leg
            if self._divisions:
                noise = chance_distance(self.method, self._last, data, self._rng, self._divisions)
        self._last = data
        return Change(
            data.labels[0],
            data.steps[0],
            leg,
            to_first,
            float("nan") if expert is None else self._distance(described, expert),
            length,
            noise,
            self._place(described, landmarks),
            float(data.mean_returns[0]),
            data.n_episodes,
            data.n_states,
        )

    def _distance(self, described: Descriptions, other: Descriptions) -> float:
        return float(self.method.distances(described, other)[0, 0])

    def _place(self, described: Descriptions, landmarks: Descriptions) -> tuple[float, float]:
        known, points = landmarks.points, described.points
        positions = None if self._given is None else self._given.positions
        if positions is not None and known is not None and points is not None:
            # The very map that `pivec compare` drew of the space.
            x, y = place(known, positions, points)[0]
        else:
            x, y = self._map.place(self.method.distances(described, landmarks))[0]
        return float(x), float(y)


def _parts(windows: list[VisitedStates], n: int) -> VisitedStates:
    """Cut each window into parts, in the order in which its episodes were played."""
    groups, first = [], 0
    for window in windows:
        numbers = np.arange(first, first + window.n_episodes)
        groups += np.array_split(numbers, min(n, len(numbers)))
        first += len(numbers)
    return regrouped(windows, groups)
