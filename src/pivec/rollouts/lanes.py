"""Environments side by side, each of them reset and stepped under our control.

Gymnasium's SyncVectorEnv resets by itself and steps lanes that have nothing left to do; here a
lane is reset with the seed of its episode, and a finished lane costs nothing
(benchmarks/rollouts.py compares the two).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, PivecError
from pivec.options import Features
from pivec.rollouts import observations as spaces
from pivec.rollouts.environment import Environment, close, failure
from pivec.rollouts.features import PolicyLatent, feature_rows
from pivec.rollouts.quirks import keeps_traces
from pivec.rollouts.seen import Seen, Values

Outcome = tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]


class Lanes(ABC):
    """``n`` environments; ``observations`` is the batch of what each of them shows now."""

    n: int
    observations: Any
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]

    @abstractmethod
    def __init__(self, environment: Environment, n: int) -> None: ...

    @abstractmethod
    def reset(self, lane: int, seed: int) -> None:
        """Start an episode in ``lane``."""

    @abstractmethod
    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step the given lanes; ``actions`` has a row for every lane.

        Returns rewards, terminated and truncated, one for each of the given lanes.
        """

    def seen(self, rows: slice) -> Seen:
        """Give what features may see of these lanes."""
        return (spaces.pick(self.observations, rows),)

    def take(self, slots: list[int], seeds: NDArray[np.int64]) -> None:  # noqa: B027
        """Policies take these slots; ``seeds`` (slots, width) are those of their first episodes."""

    def seat(self, lanes: range, policy: Any, deterministic: bool) -> None:  # noqa: B027
        """Tell environments that want to know which policy acts in these lanes."""

    def vacate(self, slot: int) -> None:  # noqa: B027
        """Forget the policy that played in ``slot``; another may take its lanes."""

    def close(self) -> None:  # noqa: B027
        """Close the environments, if any are held."""


class SteppedLanes(Lanes):
    """Any Gymnasium environment, stepped one after another."""

    def __init__(self, environment: Environment, n: int) -> None:
        self.n, self.name = n, environment.name
        self._make = environment.make
        self._envs = [environment.make() for _ in range(n)]
        self._seated: list[Any] = [None] * n  # who acts, and whether deterministically
        self.observation_space = self._envs[0].observation_space
        self.action_space = self._envs[0].action_space
        # Features never see an environment before its first reset.
        self.observations, self._infos, self._shown = first_seen(self._envs[0], n, self.name)

    def reset(self, lane: int, seed: int) -> None:
        """Start an episode in ``lane``."""
        try:
            if keeps_traces(self._envs[lane]):
                self._envs[lane].close()
                self._envs[lane] = self._make()
                self._tell(lane)
            observation, self._infos[lane] = self._envs[lane].reset(seed=seed)
            self._shown[lane] = self._envs[lane]
            spaces.assign(self.observations, lane, observation)
        except (Exception, SystemExit) as error:
            raise _failed(self.name, f"reset(seed={seed})", error, lane) from error

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step the given lanes."""
        rewards, (terminated, truncated) = np.zeros(len(lanes)), np.zeros((2, len(lanes)), bool)
        room = self.observations if isinstance(self.observations, np.ndarray) else None
        moves = actions.tolist() if actions.ndim == 1 else actions
        for i, lane in enumerate(lanes.tolist()):
            try:
                observation, rewards[i], terminated[i], truncated[i], self._infos[lane] = (
                    self._envs[lane].step(moves[lane])
                )
                if (
                    room is not None
                    and type(observation) is np.ndarray
                    and observation.dtype == room.dtype
                    and observation.shape == room.shape[1:]
                ):
                    room[lane] = observation  # as most are: nothing more is to be looked at
                else:
                    spaces.assign(self.observations, lane, observation)
            except (Exception, SystemExit) as error:
                raise _failed(self.name, f"step({moves[lane]!r})", error, lane) from error
        return rewards, terminated, truncated

    def seat(self, lanes: range, policy: Any, deterministic: bool) -> None:
        """Tell games of several agents, whose partners may be the policy itself."""
        for lane in lanes:
            self._seated[lane] = policy, deterministic
            self._tell(lane)

    def _tell(self, lane: int) -> None:
        tell = getattr(self._envs[lane].unwrapped, "seat_policy", None)
        if tell is not None and self._seated[lane] is not None:
            tell(*self._seated[lane])

    def seen(self, rows: slice) -> Seen:
        """Give observations, infos and environments."""
        return (*super().seen(rows), self._infos[rows], self._shown[rows])

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            close(env, self.name)


def first_seen(env: gymnasium.Env[Any, Any], n: int, name: str) -> Seen:
    """Make room for ``n`` observations of ``env``, filled with one that it shows; infos too.

    Functions of observations then never see what no environment showed.
    """
    batch = spaces.empty_batch(env.observation_space, n)
    try:
        observation, info = env.reset(seed=0)
        for row in range(n):
            spaces.assign(batch, row, observation)
    except (Exception, SystemExit) as error:
        raise _failed(name, "reset(seed=0)", error) from error
    return batch, [info] * n, [env] * n


@dataclass(frozen=True)
class Probe:
    """What a first look at an environment tells of its states."""

    space: gymnasium.Space[Any]  # of observations
    features: Features | None  # which know how many numbers they give
    view: Features | None  # the same, where states lie far from zero less offsets
    width: int
    metadata: Mapping[str, Any]

    @classmethod
    def of(cls, environment: Environment, features: Features | None) -> Probe:
        """Make the environment, and look at what it shows first."""
        env = environment.make()
        try:
            seen = first_seen(env, 1, environment.name)
            if isinstance(features, Values):
                features = features.settled(env, seen[1][0])
            space = env.observation_space
            if isinstance(features, PolicyLatent):
                features = features.settled(space, env.action_space)
            if features is None:
                width = len(spaces.feature_names(space))
            else:
                width = feature_rows(features, *seen).shape[1]  # which says what is wrong
            view = spaces.centred(space, features, *seen)
            return cls(space, features, view, width, env.metadata or {})
        finally:
            close(env, environment.name)


def _failed(name: str, what: str, error: BaseException, lane: int | None = None) -> PivecError:
    """Say which environment raised, or showed what does not fit, in what, and in which lane."""
    misfit = isinstance(error, BadData)
    failed = BadData(f"{name} in {what}: {error}") if misfit else failure(name, what, error)
    failed.lane = lane
    return failed
