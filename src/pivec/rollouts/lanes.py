"""Environments side by side (lanes), each reset and stepped under our control.

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
from pivec.rollouts.features import Inputs, PolicyLatent, Values, feature_rows, with_offsets

Outcome = tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]


@dataclass(frozen=True)
class Layout:
    """Number of policies at a time (slots), and number of lanes of each (width)."""

    slots: int
    width: int


class Lanes(ABC):
    """``n`` environments; ``observations`` is the batch of their current observations."""

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

    def inputs(self, rows: slice) -> Inputs:
        """Inputs of features in these lanes."""
        return (spaces.pick(self.observations, rows),)

    def begin(self, slots: list[int], seeds: NDArray[np.int64]) -> None:  # noqa: B027
        """New policies get these slots; ``seeds`` (slots, width) are of their first episodes."""

    def set_policy(self, lanes: range, policy: Any, deterministic: bool) -> None:  # noqa: B027
        """Tell environments that depend on it which policy acts in these lanes."""

    def release(self, slot: int) -> None:  # noqa: B027
        """Forget the policy in ``slot``."""

    def close(self) -> None:  # noqa: B027
        """Close the environments, if any are held."""


class GymnasiumLanes(Lanes):
    """Any Gymnasium environment, stepped one after another."""

    def __init__(self, environment: Environment, n: int) -> None:
        self.n, self.name = n, environment.name
        self._make = environment.make
        self._envs = [environment.make() for _ in range(n)]
        self._acting: list[Any] = [None] * n  # policy, and whether it acts deterministically
        self.observation_space = self._envs[0].observation_space
        self.action_space = self._envs[0].action_space
        # Features never get an environment before its first reset.
        self.observations, self._infos, self._shown = first_inputs(self._envs[0], n, self.name)

    def reset(self, lane: int, seed: int) -> None:
        try:
            if _keeps_traces(self._envs[lane]):
                self._envs[lane].close()
                self._envs[lane] = self._make()
                self._pass_policy(lane)
            observation, self._infos[lane] = self._envs[lane].reset(seed=seed)
            self._shown[lane] = self._envs[lane]
            spaces.assign(self.observations, lane, observation)
        except (Exception, SystemExit) as error:
            raise _failed(self.name, f"reset(seed={seed})", error, lane) from error

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
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
                    room[lane] = observation  # the usual case, without further checks
                else:
                    spaces.assign(self.observations, lane, observation)
            except (Exception, SystemExit) as error:
                raise _failed(self.name, f"step({moves[lane]!r})", error, lane) from error
        return rewards, terminated, truncated

    def set_policy(self, lanes: range, policy: Any, deterministic: bool) -> None:
        """Tell multi-agent environments, whose partners may be the policy itself."""
        for lane in lanes:
            self._acting[lane] = policy, deterministic
            self._pass_policy(lane)

    def _pass_policy(self, lane: int) -> None:
        tell = getattr(self._envs[lane].unwrapped, "set_agent_policy", None)
        if tell is not None and self._acting[lane] is not None:
            tell(*self._acting[lane])

    def inputs(self, rows: slice) -> Inputs:
        return (*super().inputs(rows), self._infos[rows], self._shown[rows])

    def close(self) -> None:
        for env in self._envs:
            close(env, self.name)


def _keeps_traces(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether an episode influences the next one whatever its seed.

    Box2D worlds keep traces of destroyed objects in their trees and contact lists, and
    BipedalWalker has one world for all its episodes. PettingZoo's knights archers zombies keeps
    some state of its own too.
    """
    game = getattr(getattr(env.unwrapped, "game", None), "unwrapped", None)  # of several agents
    places = env.unwrapped, game, getattr(game, "env", None)
    return str((env.metadata or {}).get("name")).startswith("knights_archers_zombies") or any(
        type(getattr(place, "world", None)).__name__ == "b2World" for place in places
    )


def first_inputs(env: gymnasium.Env[Any, Any], n: int, name: str) -> Inputs:
    """A batch of ``n`` observations, infos and environments, all from one reset of ``env``.

    Features then never get an observation that no environment returned.
    """
    batch = spaces.empty_batch(env.observation_space, n)
    try:
        observation, info = env.reset(seed=0)
        for row in range(n):
            spaces.assign(batch, row, observation)
    except (Exception, SystemExit) as error:
        raise _failed(name, "reset(seed=0)", error) from error
    return batch, [info] * n, [env] * n


def _failed(name: str, what: str, error: BaseException, lane: int | None = None) -> PivecError:
    """Error of an environment that raised, or returned what does not fit, with its lane."""
    misfit = isinstance(error, BadData)
    failed = BadData(f"{name} in {what}: {error}") if misfit else failure(name, what, error)
    failed.lane = lane
    return failed


@dataclass(frozen=True)
class Probe:
    """What the first observation of an environment says about its states."""

    space: gymnasium.Space[Any]  # of observations
    features: Features | None  # which know how many numbers they return
    view: Features | None  # the same, minus offsets where states lie far from zero
    width: int
    metadata: Mapping[str, Any]

    @classmethod
    def of(cls, environment: Environment, features: Features | None) -> Probe:
        """Make the environment and look at its first observation."""
        env = environment.make()
        try:
            inputs = first_inputs(env, 1, environment.name)
            if isinstance(features, Values | PolicyLatent):
                features = features.bind(env, inputs[1][0])
            space = env.observation_space
            if features is None:
                width = len(spaces.feature_names(space))
            else:
                width = feature_rows(features, *inputs).shape[1]  # which checks them
            view = with_offsets(space, features, *inputs)
            return cls(space, features, view, width, env.metadata or {})
        finally:
            close(env, environment.name)
