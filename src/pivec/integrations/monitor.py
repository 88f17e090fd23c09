"""BehaviourMonitor: describes a policy repeatedly while it is trained, in one fixed space."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Seed, checked
from pivec.characterizations import Characterization, Descriptions, Space, characterization
from pivec.errors import UsageError
from pivec.report import LandmarkMap, place
from pivec.states import VisitedStates, joined, regrouped
from pivec.statistics import ConvergenceRule, Intervals, sampled_travel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LANDMARKS = 4  # of each description that a space is fitted on
_TOGETHER = 64  # descriptions whose path is measured at once
Compared = Descriptions | VisitedStates  # what distances are measured between
Log = Callable[[dict[str, float], int, Any], None]  # gets values, step and the map


class Change(NamedTuple):
    """One description of a run and its distances from others, NaN if there is no other.

    Distances are debiased and at least 0; intervals have a level of 95 %.
    """

    label: str
    step: int | None  # of training
    to_previous: float
    to_first: float
    to_expert: float
    path_length: float  # sum of the distances from each description to the next, up to here
    noise: float  # sampling noise, subtracted from to_previous
    standard_error: float  # of to_previous
    previous_interval: tuple[float, float]
    first_interval: tuple[float, float]
    expert_interval: tuple[float, float]
    path_interval: tuple[float, float]
    position: tuple[float, float]  # on the map of the space, which is fixed
    mean_return: float
    n_episodes: int
    n_states: int

    def values(self) -> dict[str, float]:
        """Return the values to log by name, without those that are NaN."""
        values: dict[str, float] = {
            "noise": self.noise,
            "map_x": self.position[0],
            "map_y": self.position[1],
            "mean_return": self.mean_return,
            "episodes": self.n_episodes,
        }
        for name, value, (low, high) in (
            ("distance_to_previous", self.to_previous, self.previous_interval),
            ("distance_to_first", self.to_first, self.first_interval),
            ("distance_to_expert", self.to_expert, self.expert_interval),
            ("path_length", self.path_length, self.path_interval),
        ):
            values |= {name: value, f"{name}_low": low, f"{name}_high": high}
        return {f"behaviour/{k}": value for k, value in values.items() if not math.isnan(value)}


class BehaviourMonitor:
    """Describes a policy repeatedly while it is trained, and measures how its behaviour changes.

    All descriptions use the same space, so that distances are comparable: a given space, or one
    that is fitted on the states of the first ``fit_on`` descriptions and then stays fixed.

    Parameters
    ----------
    method, parameters
        Name of the characterization and its arguments; its random_state is ``seed`` by default.
    space : Space or path, optional
        A fitted space, instead of ``method`` and ``parameters``.
    fit_on : int
        Number of descriptions to fit the space on, if none is given.
    expert : VisitedStates, optional
        The states of one policy to measure the distance to.
    intervals : bool
        Debias distances and compute their intervals, if the method has any. Without influences
        this keeps all states in memory.
    seed : int
    log : callable, optional
        Called with ``log(values, step, figure)`` for each description: numbers by name
        (``behaviour/path_length``, see `Change.values`), the training step (or the number of
        descriptions before), and a matplotlib figure of the map so far.

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
    >>> bool(change.to_first > 10), bool(abs(change.to_previous) < 3 * change.standard_error)
    (True, True)
    """

    @checked
    def __init__(
        self,
        method: str = "visitation",
        parameters: Mapping[str, Any] | None = None,
        *,
        space: Space | str | Path | None = None,
        fit_on: Count = 3,
        expert: VisitedStates | None = None,
        intervals: bool = True,
        seed: Seed = 0,
        log: Log | None = None,
    ) -> None:
        self.changes: list[Change] = []
        self._log, self.expert = log, expert
        self._given = Space.load(space) if isinstance(space, str | Path) else space
        if self._given is not None:
            self.method: Characterization = self._given.method
        else:
            seeded = "random_state" in characterization(method).get_params()
            arguments = {"random_state": seed} if seeded else {}
            self.method = characterization(method, **{**arguments, **(parameters or {})})
        traits = self.method.traits
        self._fit_on = 0 if self._given is not None else fit_on
        self._intervals = intervals and not (traits.exact or traits.no_intervals)
        self._waiting: list[VisitedStates] = []
        self._described: list[Descriptions] = []
        self._compared: list[Compared] = []
        self._expert_compared: Compared | None = None
        self._path_length = self._path_variance = 0.0
        self._landmarks: Descriptions | None = None

    @property
    def expert(self) -> VisitedStates | None:
        """The policy to measure the distance to; may be set before the first description."""
        return self._expert

    @expert.setter
    def expert(self, data: VisitedStates | None) -> None:
        if data is not None and len(data) != 1:
            raise UsageError(
                f"expert must be one policy, but {len(data)} are given: select one, data[label]"
            )
        self._expert = data

    @property
    def space(self) -> Space:
        """The space with all descriptions of this run."""
        if not self._described:
            raise UsageError("nothing is described yet")
        return Space(self.method, self.descriptions)

    @property
    def descriptions(self) -> Descriptions:
        """All descriptions so far."""
        return reduce(add, self._described)

    def add(self, data: VisitedStates) -> Change | None:
        """Describe a policy by states; returns None until there is enough to fit the space."""
        if len(data) != 1:
            raise UsageError(f"expected the states of one policy, but got {len(data)}")
        self._waiting.append(data.in_memory())  # a store that is still written may change
        if self._landmarks is None:
            if len(self._waiting) < self._fit_on:
                return None
            self._landmarks = self._prepare()
            self._map = LandmarkMap(self.method.distances(self._landmarks))
            if self._expert is not None:
                self._expert_compared = self._describe(self._expert)[1]
        for window in self._waiting:
            change = self._change(window, self._landmarks)
            self.changes.append(change)
            if self._log is not None:
                step = len(self.changes) - 1 if change.step is None else change.step
                self._log(change.values(), step, self.map_figure())
        self._waiting = []
        return change

    def map_figure(self) -> Figure:
        """Draw the run so far on the map, in a small figure."""
        from pivec.report import PolicyRow, PolicyTable, map_figure

        rows = [
            PolicyRow(
                label=change.label,
                group="run",
                step=change.step,
                x=change.position[0],
                y=change.position[1],
                mean_return=change.mean_return,
                episodes=change.n_episodes,
                states=change.n_states,
                source="",
            )
            for change in self.changes
        ]
        colour = "return" if self.changes[0].step is None else "step"
        return map_figure(PolicyTable(rows), self.method.name, colour=colour)

    def has_settled(self, rule: ConvergenceRule) -> bool:
        """Whether behaviour has settled, see `ConvergenceRule`."""
        n = len(self.changes)
        if n <= rule.checkpoints:
            return False
        before = n - rule.checkpoints - 1
        recent = self._measure(self._compared[before], _together(self._compared[before + 1 :]))
        errors = np.nan_to_num(recent.standard_error[0])
        return rule.unchanged(recent.distance[0], errors, [c.to_first for c in self.changes])

    def _prepare(self) -> Descriptions:
        """Fit the space, if it is not given; return descriptions of the landmarks of its map."""
        if self._given is not None:
            return self._given.descriptions
        data = joined(self._waiting)
        self.method.fit(data)
        if "policies" not in self.method.traits.needs:  # parts of each, in the order of episodes
            parts, first = [], 0
            for window in self._waiting:
                numbers = np.arange(first, first + window.n_episodes)
                parts += np.array_split(numbers, min(_LANDMARKS, len(numbers)))
                first += len(numbers)
            data = regrouped(self._waiting, parts)
        return self.method.describe(data)

    def _describe(self, data: VisitedStates) -> tuple[Descriptions, Compared]:
        """Describe one policy; return also what its distances are measured with."""
        influences = self._intervals and self.method.traits.influences
        described = self.method.describe(data, influences=influences)
        return described, described if influences or not self._intervals else data

    def _change(self, data: VisitedStates, landmarks: Descriptions) -> Change:
        described, compared = self._describe(data)
        others = (self._compared[-1], self._compared[0]) if self._compared else (None, None)
        measured = [self._measure(compared, other) for other in (*others, self._expert_compared)]
        self._described.append(described)
        self._compared.append(compared)
        previous = measured[0]
        length, path_interval = self._path(previous)
        distances = [float(np.maximum(found.distance[0, 0], 0.0)) for found in measured]
        bounds = [(float(found.low[0, 0]), float(found.high[0, 0])) for found in measured]
        return Change(
            data.labels[0],
            data.steps[0],
            distances[0],
            distances[1],
            distances[2],
            length,
            float(previous.noise[0, 0]),
            float(previous.standard_error[0, 0]),
            bounds[0],
            bounds[1],
            bounds[2],
            path_interval,
            self._place(described, landmarks),
            float(data.mean_returns[0]),
            data.n_episodes,
            data.n_states,
        )

    def _path(self, leg: Intervals) -> tuple[float, tuple[float, float]]:
        """Return the length of the path with its newest leg, and its interval.

        Only neighbouring legs share a description and its error, so a leg adds to the variance of
        a long path what it adds to that of its last part.
        """
        from scipy.stats import t

        if not self.changes:
            return 0.0, (0.0, 0.0)
        # Legs may be slightly below 0, which makes their sum unbiased.
        self._path_length = length = self._path_length + float(leg.distance[0, 0])
        variance = self._path_variance + float(leg.standard_error[0, 0]) ** 2
        last = self._described[-_TOGETHER:]
        sampled = all("influences" in stop.arrays and stop.n_episodes[0] > 1 for stop in last)
        if self.method.traits.squared and sampled:
            points = np.concatenate([stop.values("points")[0] for stop in last])
            errors = sampled_travel(points, [stop.influences[0] for stop in last])[1]
            variance = errors[-1] ** 2
            if len(last) < len(self._described):
                variance += self._path_variance - errors[-2] ** 2
        self._path_variance = max(variance, 0.0)
        fewest = min(
            stop.arrays.get("effective_episodes", stop.n_episodes)[0] for stop in self._described
        )
        quantile = t.ppf((1.0 + leg.level) / 2.0, max(fewest - 1.0, 1.0))
        reach = float(quantile * np.sqrt(self._path_variance))
        return max(length, 0.0), tuple(np.maximum([length - reach, length + reach], 0.0).tolist())

    def _measure(self, a: Compared, b: Compared | None) -> Intervals:
        """Measure distances, with intervals if there are any; NaN if there is no other."""
        if b is None:
            return _unmeasured(np.full((1, 1), np.nan))
        if self._intervals:
            return self.method.intervals(a, b)
        return _unmeasured(self.method.distances(a, b))

    def _place(self, described: Descriptions, landmarks: Descriptions) -> tuple[float, float]:
        known, points = landmarks.points, described.points
        positions = None if self._given is None else self._given.positions
        if positions is not None and known is not None and points is not None:
            x, y = place(known, positions, points)[0]
        else:
            x, y = self._map.place(self.method.distances(described, landmarks))[0]
        return float(x), float(y)


def _unmeasured(distances: NDArray[np.float64]) -> Intervals:
    """Return distances without intervals."""
    unknown = np.full_like(distances, np.nan)
    names = [field.name for field in fields(Intervals) if field.name not in ("distance", "level")]
    return Intervals(distance=distances, level=float("nan"), **dict.fromkeys(names, unknown))


def _together(compared: list[Compared]) -> Compared:
    states = [part for part in compared if isinstance(part, VisitedStates)]
    return joined(states) if states else reduce(add, compared)
