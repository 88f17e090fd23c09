"""BehaviourMonitor: follows one training run, description by description, in one fixed space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


@dataclass(frozen=True)
class Change:
    """One description of a run, and how far it is from others.

    Attributes
    ----------
    label : str
    step : int or None
        The training step.
    to_previous, to_first : float
        Distances to the description before and to the first; NaN for the first.
    to_expert : float
        NaN if there is no expert.
    path_length : float
        Sum of the distances from each description to the next, up to here.
    noise : Noise
        What the distance to the previous one would be by chance, had behaviour not changed; NaN
        if that is not measured.
    position : (float, float)
        On the map of the space, which does not move.
    mean_return : float
    n_episodes, n_states : int
    """

    label: str
    step: int | None
    to_previous: float
    to_first: float
    to_expert: float
    path_length: float
    noise: Noise
    position: tuple[float, float]
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
    method : str
        Name of the characterization.
    parameters : mapping, optional
        Its arguments; its random_state is ``seed`` unless given.
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

    def __init__(
        self,
        method: str = "supervector",
        parameters: Mapping[str, Any] | None = None,
        *,
        space: Space | str | Path | None = None,
        fit_on: int = 3,
        expert: VisitedStates | None = None,
        divisions: int = 10,
        seed: int = 0,
    ) -> None:
        if fit_on < 1:
            raise UsageError(f"fit_on must be at least 1, but is {fit_on}")
        if divisions < 0 or divisions == 1:
            raise UsageError(f"divisions must be 0, or 2 at least, but is {divisions}")
        self.changes: list[Change] = []
        self.given = space if isinstance(space, Space) or space is None else Space.load(space)
        if self.given is not None:
            self.method: Characterization = self.given.method
        else:
            chosen = dict(parameters or {})
            if "random_state" in characterization(method).get_params():
                chosen = {"random_state": seed, **chosen}
            self.method = characterization(method, **chosen)
        self._fit_on = 0 if self.given is not None else fit_on
        self._divisions = 0 if "policies" in self.method.needs else divisions
        self._rng = np.random.default_rng(seed)
        self._expert: VisitedStates | None = None
        self.expert = expert
        self._expert_described: Descriptions | None = None
        self._waiting: list[VisitedStates] = []
        self._described: list[Descriptions] = []
        self._last: VisitedStates | None = None
        self._map: LandmarkMap | None = None
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
    def is_ready(self) -> bool:
        """Whether there is a space to describe in."""
        return self._landmarks is not None

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
        """Describe the policy by the states it has visited lately.

        Parameters
        ----------
        data : VisitedStates
            Of one policy.

        Returns
        -------
        Change or None
            None while more data is needed to fit the space.
        """
        if len(data) != 1:
            raise UsageError(f"expected the states of one policy, but got {len(data)}")
        if not self.is_ready:
            self._waiting.append(data)
            if len(self._waiting) < self._fit_on:
                return None
            self._prepare()
            for one in self._waiting:
                self._add(one)
            self._waiting = []
        else:
            self._add(data)
        return self.changes[-1]

    def has_settled(self, rule: SettlingRule) -> bool:
        """Tell whether behaviour has settled, see `SettlingRule`."""
        n = len(self.changes)
        if n <= rule.checkpoints:
            return False
        before, last = (
            self._described[n - rule.checkpoints - 1],
            self._described[-rule.checkpoints :],
        )
        recent = self.method.distances(before, reduce(add, last))[0]
        noises = [change.noise if self._divisions else Noise(0.0, 0.0) for change in self.changes]
        reach = max(
            change.to_first - noise.mean
            for change, noise in zip(self.changes[1:], noises[1:], strict=True)
        )
        mine = noises[-rule.checkpoints :]
        return rule.unchanged(
            recent, [each.mean for each in mine], [each.deviation for each in mine], reach
        )

    def _prepare(self) -> None:
        """Fit the space, if it is not given, and lay its map out."""
        if self.given is not None:
            self._landmarks = self.given.descriptions
        else:
            data = joined(self._waiting)
            self.method.fit(data)
            if "policies" not in self.method.needs:
                data = _parts(self._waiting, _PARTS)
            self._landmarks = self.method.describe(data)
        self._map = LandmarkMap(self.method.distances(self._landmarks))
        if self._expert is not None:
            self._expert_described = self.method.describe(self._expert)

    def _add(self, data: VisitedStates) -> None:
        described = self.method.describe(data)
        expert = self._expert_described
        previous, first = (self._described[i] if self._described else None for i in (-1, 0))
        leg = self._distance(described, previous)
        noise = Noise(np.nan, np.nan)
        if self._last is not None and self._divisions:
            noise = chance_distance(self.method, self._last, data, self._rng, self._divisions)
        length = self.changes[-1].path_length if self.changes else 0.0
        x, y = self._place(described)
        self.changes.append(
            Change(
                data.labels[0],
                data.steps[0],
                leg,
                self._distance(described, first),
                self._distance(described, expert),
                length if previous is None else length + leg,
                noise,
                (float(x), float(y)),
                float(data.mean_returns[0]),
                data.n_episodes,
                data.n_states,
            )
        )
        self._described.append(described)
        self._last = data

    def _distance(self, described: Descriptions, other: Descriptions | None) -> float:
        if other is None:
            return float("nan")
        return float(self.method.distances(described, other)[0, 0])

    def _place(self, described: Descriptions) -> NDArray[np.float64]:
        if self._landmarks is None or self._map is None:
            raise RuntimeError("the space is not there yet")
        known, points = self._landmarks.points, described.points
        positions = None if self.given is None else self.given.positions
        if positions is not None and known is not None and points is not None:
            # The very map that `pivec compare` drew of the space.
            return np.asarray(place(known, positions, points)[0])
        return np.asarray(self._map.place(self.method.distances(described, self._landmarks))[0])


def _parts(windows: list[VisitedStates], n: int) -> VisitedStates:
    """Cut each window into parts, in the order in which its episodes were played."""
    groups, first = [], 0
    for window in windows:
        numbers = np.arange(first, first + window.n_episodes)
        groups += np.array_split(numbers, min(n, len(numbers)))
        first += len(numbers)
    return regrouped(windows, groups)
