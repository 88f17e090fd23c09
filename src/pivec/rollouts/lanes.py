"""Environments side by side (lanes), and the choice of what steps them.

Gymnasium is the reference: its environments are stepped one after another, each reset with the seed
of its episode. (SyncVectorEnv resets by itself and steps lanes that have nothing left to do;
benchmarks/rollouts.py compares the two.) Lanes on arrays repeat Gymnasium to the last bit:
vectorised environments that step chosen lanes, Gymnasium's own CartPole, and the equations of
Pendulum and Acrobot. EnvPool (an optional dependency) is a different implementation: ``auto`` uses
it only where trained policies visit the same distribution of states in both, see ``backends.json``.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray

from pivec.errors import (
    BadData,
    EnvironmentFailure,
    MissingExtra,
    PivecError,
    UsageError,
    did_you_mean,
)
from pivec.options import CollectOptions, Features
from pivec.parallel import usable_cores
from pivec.rollouts import observations as spaces
from pivec.rollouts.environment import BACKENDS, Environment, close, failure, retried
from pivec.rollouts.features import Inputs, PolicyLatent, Values, feature_rows, with_offsets

Outcome = tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]
Moved = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]

# A policy's episodes in EnvPool are divided among this many lanes, each with one environment that
# plays its episodes one after another; independent of n_envs, since results depend on it.
ENVPOOL_LANES = 32
_OF_MAKE = {"disable_env_checker", "max_episode_steps"}  # arguments of gymnasium.make alone


@dataclass(frozen=True)
class Layout:
    """Number of policies at a time (slots), and number of lanes of each (width)."""

    slots: int
    width: int


class Lanes(ABC):
    """``n`` environments; ``observations`` is the batch of their current observations."""

    observations: Any
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]

    def __init__(self, name: str, n: int) -> None:
        self.name, self.n = name, n  # of the environment, and of lanes
        # Lanes that failed in a step, for callers that repeat their episodes; others get an error.
        self.failed: dict[int, EnvironmentFailure] | None = None

    @abstractmethod
    def reset(self, lane: int, seed: int) -> None:
        """Start an episode in ``lane``."""

    @abstractmethod
    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step the given lanes, in ascending order; ``actions`` has a row for every lane.

        Returns rewards, terminated and truncated, one for each of the given lanes. Lanes whose
        environment raised are added to `failed`, if it is set; their next episode starts in a
        fresh one.
        """

    def inputs(self, rows: slice) -> Inputs:
        """Inputs of features in these lanes."""
        return (spaces.pick(self.observations, rows),)

    def final_info(self, lane: int) -> Mapping[str, Any]:  # noqa: ARG002
        """Info of the last step in a lane, if its environment returns any."""
        return {}

    def begin(self, slots: list[int], seeds: NDArray[np.int64]) -> None:  # noqa: B027
        """New policies get these slots; ``seeds`` (slots, width) are of their first episodes."""

    def set_policy(self, lanes: range, policy: Any, deterministic: bool) -> None:  # noqa: B027
        """Tell environments that depend on it which policy acts in these lanes."""

    def release(self, slot: int) -> None:  # noqa: B027
        """Forget the policy in ``slot``."""

    def close(self) -> None:  # noqa: B027
        """Close the environments, if any are held."""


# ---- which lanes ----


def choose_backend(asked: str, environment: Environment) -> str:
    """Choose the backend for what the user asks for: ``auto`` or one of `BACKENDS`."""
    if asked not in ("auto", *BACKENDS):
        raise UsageError(f"backend must be auto, gymnasium or envpool, but is {asked!r}")
    if asked == "gymnasium":
        return asked
    installed = importlib.util.find_spec("envpool") is not None
    changed = environment.factory or environment.wrappers or environment.arguments
    plain = not (changed or environment.one_by_one)
    if asked == "auto":
        fast = plain and installed and choose_array_lanes(environment) is None
        return "envpool" if fast and environment.name in approved() else "gymnasium"
    if not installed:
        raise MissingExtra("the backend envpool", "fast")
    if not plain:
        raise UsageError(
            "the backend envpool supports neither factories, wrappers and arguments nor features "
            "of info: use --backend gymnasium"
        )
    known = _import_envpool().list_all_envs()
    if environment.name not in known:
        hint = did_you_mean(environment.name, known)
        raise UsageError(f"EnvPool has no {environment.name!r}{hint}: use --backend gymnasium")
    return asked


def approved() -> Set[str]:
    """Environments in which the installed version of EnvPool passed benchmarks/backends.py."""
    text = (files("pivec.rollouts") / "backends.json").read_text(encoding="utf-8")
    known, installed = json.loads(text)["environments"], version("envpool")
    return {name for name, e in known.items() if e["same"] and e["envpool"] == installed}


def choose_array_lanes(environment: Environment) -> type[EquationLanes | VectorLanes] | None:
    """Choose lanes on arrays for the environment, if there are any and it has no wrappers."""
    spec, given = environment.spec, set(environment.arguments)
    if environment.wrappers or environment.one_by_one or spec is None or spec.additional_wrappers:
        return None
    if spec.max_episode_steps is None:
        return None
    package, _, entry = str(spec.entry_point).rpartition(":")
    is_classic = package.startswith("gymnasium.envs.classic_control.")
    if entry in _ARRAY_LANES and is_classic and not spec.kwargs:
        lanes, arguments = _ARRAY_LANES[entry]
        # Other arguments, or other equations, change what it does.
        return lanes if given <= arguments and not _has_other_equations(entry) else None
    made: Any = spec.vector_entry_point
    if isinstance(made, str):
        made = load_env_creator(made)
    by_lane = hasattr(made, "reset_lanes") and hasattr(made, "step_lanes")
    return ArrayLanes if by_lane and not _OF_MAKE & given else None


def _has_other_equations(entry: str) -> bool:
    """Whether class attributes of Acrobot were changed to other equations."""
    if entry != "AcrobotEnv":
        return False
    from gymnasium.envs.classic_control.acrobot import AcrobotEnv

    return AcrobotEnv.book_or_nips != "book" or AcrobotEnv.torque_noise_max != 0.0


def layout(
    environment: Environment, options: CollectOptions, policies: int, episodes: int
) -> Layout:
    """Assign lanes to policies that play at most ``episodes`` each; only EnvPool depends on it."""
    on_arrays = choose_array_lanes(environment) is not None
    is_envpool = options.backend == "envpool"
    lanes = options.n_envs or (2048 if on_arrays or is_envpool else 128)
    width = min(episodes, ENVPOOL_LANES)
    if not is_envpool:
        # Networks compute in tiles of 16 rows: a partly filled tile costs as much as a full one.
        width = min(episodes, 128 if on_arrays else 16, lanes)
        width -= width % 16 if width > 16 else 0
    return Layout(max(1, min(policies, lanes // width)), width)


def make_lanes(
    environment: Environment, backend: str, shape: Layout, threads: int | None = None
) -> Lanes:
    """Make lanes of the fastest kind for this environment and backend."""
    if backend == "envpool":
        return EnvPoolLanes(environment, shape, threads)
    kind = choose_array_lanes(environment) or GymnasiumLanes
    return kind(environment, shape.slots * shape.width)


# ---- Gymnasium's environments, one by one ----


class GymnasiumLanes(Lanes):
    """Any Gymnasium environment, stepped one after another."""

    def __init__(self, environment: Environment, n: int) -> None:
        super().__init__(environment.name, n)
        self._make = environment.make
        # Features never get an environment before its first reset.
        self.observations, self._infos, self._shown = first_inputs(environment, n)
        others = [retried(environment, environment.make) for _ in range(n - 1)]
        self._envs = [self._shown[0], *others]
        self._discarded: set[int] = set()
        self._acting: list[Any] = [None] * n  # policy, and whether it acts deterministically
        self.observation_space = self._envs[0].observation_space
        self.action_space = self._envs[0].action_space

    def reset(self, lane: int, seed: int) -> None:
        try:
            if lane in self._discarded or _keeps_traces(self._envs[lane]):
                with contextlib.suppress(Exception, SystemExit):  # it may be broken
                    self._envs[lane].close()
                self._envs[lane] = self._make()
                self._pass_policy(lane)
                self._discarded.discard(lane)
            observation, self._infos[lane] = self._envs[lane].reset(seed=seed)
            self._shown[lane] = self._envs[lane]
            spaces.assign(self.observations, lane, observation)
        except (Exception, SystemExit) as error:
            self._discard(lane)
            raise _failed(self.name, f"reset(seed={seed})", error, lane) from error

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        rewards, terminated, truncated = np.zeros(len(lanes)), [], []
        batch, envs, infos = self.observations, self._envs, self._infos
        usual = (batch.dtype, batch.shape[1:]) if isinstance(batch, np.ndarray) else None
        moves = actions.tolist() if actions.ndim == 1 else actions
        for i, lane in enumerate(lanes.tolist()):
            try:
                shown, reward, over, cut, infos[lane] = envs[lane].step(moves[lane])
                rewards[i] = reward if type(reward) in _NUMBERS else _scalar(reward)
                terminated.append(bool(over))
                truncated.append(bool(cut))
                if type(shown) is np.ndarray and usual == (shown.dtype, shown.shape):
                    batch[lane] = shown  # without further checks
                else:
                    spaces.assign(batch, lane, shown)
            except (Exception, SystemExit) as error:
                failed = _failed(self.name, f"step({moves[lane]!r})", error, lane)
                if self.failed is None or not isinstance(failed, EnvironmentFailure):
                    raise failed from error
                self._discard(lane)
                failed.__cause__, self.failed[lane] = error, failed
                rewards[i], terminated[i:], truncated[i:] = 0.0, [False], [False]
        return rewards, np.array(terminated), np.array(truncated)

    def _discard(self, lane: int) -> None:
        """Start the next episode of a lane in a fresh environment.

        Features must not get the broken one, not even in an idle lane.
        """
        self._discarded.add(lane)
        whole = (i for i in range(self.n) if i not in self._discarded)
        other = next((i for i in whole if self._shown[i] is self._envs[i]), lane)
        for i in range(self.n):
            if self._shown[i] is self._envs[lane]:
                self._infos[i], self._shown[i] = self._infos[other], self._shown[other]

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

    def final_info(self, lane: int) -> Mapping[str, Any]:
        return self._infos[lane] or {}

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


def first_inputs(environment: Environment, n: int) -> Inputs:
    """A batch of ``n`` observations, infos and environments, all from one reset of a new one.

    Features then never get an observation that no environment returned.
    """
    return retried(environment, lambda: _first_inputs(environment, n))


def _first_inputs(environment: Environment, n: int) -> Inputs:
    env = environment.make()
    batch = spaces.empty_batch(env.observation_space, n)
    try:
        observation, info = env.reset(seed=0)
        for row in range(n):
            spaces.assign(batch, row, observation)
    except (Exception, SystemExit) as error:
        with contextlib.suppress(Exception, SystemExit):
            env.close()
        raise _failed(environment.name, "reset(seed=0)", error) from error
    return batch, [info] * n, [env] * n


def _failed(name: str, what: str, error: BaseException, lane: int | None = None) -> PivecError:
    """Error of an environment that raised, or returned what does not fit, with its lane.

    Errors that pivec raises itself would occur again, so they are not an `EnvironmentFailure`.
    """
    failed: PivecError = failure(name, what, error)
    if isinstance(error, EnvironmentFailure):  # it could not be made
        failed = EnvironmentFailure(str(error))
    elif isinstance(error, PivecError):
        kind = BadData if isinstance(error, BadData) else UsageError
        failed = kind(f"{name} in {what}: {error}")
    failed.lane = lane
    return failed


_NUMBERS = frozenset({float, int, bool, np.float64, np.float32, np.int64})  # usual rewards


def _scalar(reward: Any) -> float:
    """Read a reward of another type, such as an array without dimensions."""
    value = np.asarray(reward)
    if value.shape or value.dtype.kind not in "biuf":
        found = f"an array of shape {value.shape}" if value.shape else f"{reward!r:.80}"
        raise BadData(f"the reward must be a number, but is {found}")
    return float(value)


@dataclass(frozen=True)
class Probe:
    """What the first observation of an environment says about its states."""

    space: gymnasium.Space[Any]  # of observations
    features: Features | None  # which know how many numbers they return
    view: Features | None  # the same, minus offsets where states lie far from zero
    width: int
    metadata: Mapping[str, Any]
    ignores_seed: bool  # whether another reset with the same seed returned something else

    @classmethod
    def of(cls, environment: Environment, features: Features | None) -> Probe:
        """Make the environment and look at its first observation."""
        return retried(environment, lambda: cls._of(environment, features))

    @classmethod
    def _of(cls, environment: Environment, features: Features | None) -> Probe:
        inputs = _first_inputs(environment, 1)
        env = inputs[2][0]
        try:
            if isinstance(features, Values | PolicyLatent):
                try:
                    features = features.bind(env, inputs[1][0])  # which may take a step
                except PivecError:
                    raise
                except (Exception, SystemExit) as error:
                    raise failure(environment.name, "step", error) from error
            space = env.observation_space
            if features is None:
                width = len(spaces.feature_names(space))
            else:
                width = feature_rows(features, *inputs).shape[1]  # which checks them
            view = with_offsets(space, features, *inputs)
            ignores = not _keeps_traces(env) and not _repeats(env, inputs[0])
            return cls(space, features, view, width, env.metadata or {}, ignores)
        finally:
            close(env, environment.name)


def _repeats(env: gymnasium.Env[Any, Any], first: Any) -> bool:
    """Whether a reset returns the observation in the batch ``first``, of the same seed, again."""
    again = spaces.empty_batch(env.observation_space, 1)
    try:
        spaces.assign(again, 0, env.reset(seed=0)[0])
    except (Exception, SystemExit):
        return True  # not known
    return spaces.equal(first, again)


# ---- lanes on arrays ----


class VectorLanes(Lanes):
    """``n`` environments in the vectorised version that is registered for them."""

    def __init__(self, environment: Environment, n: int) -> None:
        super().__init__(environment.name, n)
        self._env: Any = gymnasium.make_vec(
            environment.name,
            num_envs=n,
            vectorization_mode="vector_entry_point",
            **environment.arguments,
        ).unwrapped
        self.observations, _ = self._env.reset(seed=0)
        self.observation_space = self._env.single_observation_space
        self.action_space = self._env.single_action_space

    def close(self) -> None:
        self._env.close()


class ArrayLanes(VectorLanes):
    """Lanes of a vectorised environment that can reset and step chosen lanes."""

    def __init__(self, environment: Environment, n: int) -> None:
        super().__init__(environment, n)
        self.observations = self._env.observations

    def reset(self, lane: int, seed: int) -> None:
        try:
            self._env.reset_lanes(np.array([lane]), [seed])
        except (Exception, SystemExit) as error:
            raise _failed(self.name, f"reset_lanes(seed={seed})", error, lane) from error

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        try:
            outcome: Outcome = self._env.step_lanes(lanes, actions[lanes])
        except (Exception, SystemExit) as error:
            raise _failed(self.name, "step_lanes", error) from error
        return outcome


class CartPoleLanes(VectorLanes):
    """Gymnasium's vectorised CartPole, with episodes started as CartPole-v1 starts them."""

    def reset(self, lane: int, seed: int) -> None:
        start = np_random(seed)[0].uniform(low=-0.05, high=0.05, size=(4,))
        self._env.state[:, lane] = start
        self._env.steps[lane] = 0
        self._env.prev_done[lane] = False
        self.observations[lane] = start

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step all lanes; idle ones reset themselves and are ignored."""
        self.observations, rewards, terminated, truncated, _ = self._env.step(actions)
        self._env.prev_done[lanes] = False
        return rewards[lanes].astype(np.float64), terminated[lanes], truncated[lanes]


class EquationLanes(Lanes):
    """``n`` environments whose states are the columns of an array, stepped by equations.

    The order of operations is Gymnasium's, and squares are libm's pow as for single numbers there,
    which is not always x * x.
    """

    def __init__(self, environment: Environment, n: int) -> None:
        super().__init__(environment.name, n)
        self.observations: NDArray[np.float32]
        self.observations, _, (env, *_) = first_inputs(environment, n)
        self.env = env.unwrapped
        self.observation_space, self.action_space = env.observation_space, env.action_space
        env.close()
        self._limit = int(env.spec.max_episode_steps)
        self._states = np.zeros((len(self._first_state(np.random.default_rng(0))), n))
        self._steps = np.zeros(n, dtype=np.int64)

    @abstractmethod
    def _first_state(self, generator: np.random.Generator) -> NDArray[Any]:
        """Draw the first state of an episode."""

    @abstractmethod
    def _move(self, states: NDArray[np.float64], actions: NDArray[Any]) -> Moved:
        """Return the next states, rewards, and whether an environment terminated."""

    @abstractmethod
    def _observe(self, states: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Return the columns of the observations."""

    def reset(self, lane: int, seed: int) -> None:
        start = self._first_state(np_random(seed)[0])
        self._states[:, lane] = start
        self._steps[lane] = 0
        self.observations[lane] = self._observe(start)

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        states, rewards, terminated = self._move(self._states[:, lanes], actions[lanes])
        self._states[:, lanes] = states
        self._steps[lanes] += 1
        rows = np.empty((len(lanes), self.observations.shape[1]), np.float32)
        for column, values in enumerate(self._observe(states)):
            rows[:, column] = values
        self.observations[lanes] = rows
        return rewards, terminated, self._steps[lanes] >= self._limit


class PendulumLanes(EquationLanes):
    """Pendulum: angle and speed. Rewards equal Gymnasium's to float32's last bit."""

    def _first_state(self, generator: np.random.Generator) -> NDArray[Any]:
        farthest = np.array([np.pi, 1.0])
        return generator.uniform(low=-farthest, high=farthest)

    def _move(self, states: NDArray[np.float64], actions: NDArray[Any]) -> Moved:
        angle, speed = states
        torque = np.clip(actions[:, 0], -2.0, 2.0)
        from_top = (angle + np.pi) % (2 * np.pi) - np.pi
        costs = np.float_power(from_top, 2) + 0.1 * np.float_power(speed, 2) + 0.001 * torque**2
        push = 3 * self.env.g / 2 * np.sin(angle) + 3.0 * torque
        speed = np.clip(speed + push * 0.05, -8, 8)
        return np.stack([angle + speed * 0.05, speed]), -costs, np.zeros(len(costs), dtype=bool)

    def _observe(self, states: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        angle, speed = states
        return np.cos(angle), np.sin(angle), speed


class AcrobotLanes(EquationLanes):
    """Acrobot by the equations of the book: two angles and two speeds."""

    def _first_state(self, generator: np.random.Generator) -> NDArray[Any]:
        # Gymnasium keeps it, and the sines of its observation, in float32.
        return generator.uniform(low=-0.1, high=0.1, size=(4,)).astype(np.float32)

    def _move(self, states: NDArray[np.float64], actions: NDArray[Any]) -> Moved:
        """Take one step of the fourth-order Runge-Kutta method."""
        torque, whole, half = actions - 1.0, 0.2, 0.1
        k1 = _acrobot_slope(states, torque)
        k2 = _acrobot_slope(states + half * k1, torque)
        k3 = _acrobot_slope(states + half * k2, torque)
        k4 = _acrobot_slope(states + whole * k3, torque)
        states = states + whole / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)
        for angle in states[:2]:
            while (far := angle > np.pi).any():
                angle[far] -= 2 * np.pi
            while (far := angle < -np.pi).any():
                angle[far] += 2 * np.pi
        for speed, fastest in zip(states[2:], (4 * np.pi, 9 * np.pi), strict=True):
            np.clip(speed, -fastest, fastest, out=speed)
        terminated = -np.cos(states[0]) - np.cos(states[1] + states[0]) > 1.0
        return states, np.where(terminated, 0.0, -1.0), terminated

    def _observe(self, states: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        first, second, *speeds = states
        return np.cos(first), np.sin(first), np.cos(second), np.sin(second), *speeds


def _acrobot_slope(states: NDArray[np.float64], torque: NDArray[Any]) -> NDArray[np.float64]:
    """Speeds and accelerations of both links (Sutton and Barto 2018, section 11.3 of edition 1).

    Masses, lengths and moments of inertia are 1, the centres of mass lie at 0.5, gravity is 9.8.
    """
    angle1, angle2, speed1, speed2 = states
    sine2, cosine2 = np.sin(angle2), np.cos(angle2)
    d1 = 0.25 + (1.25 + cosine2) + 1.0 + 1.0
    d2 = (0.25 + 0.5 * cosine2) + 1.0
    phi2 = 0.5 * 9.8 * np.cos(angle1 + angle2 - np.pi / 2.0)
    phi1 = (
        -0.5 * np.float_power(speed2, 2) * sine2
        - speed2 * speed1 * sine2
        + 1.5 * 9.8 * np.cos(angle1 - np.pi / 2)
        + phi2
    )
    push = torque + d2 / d1 * phi1 - 0.5 * np.float_power(speed1, 2) * sine2 - phi2
    slope = np.empty_like(states)
    slope[:2] = states[2:]
    slope[3] = push / (1.25 - np.float_power(d2, 2) / d1)
    slope[2] = -(d2 * slope[3] + phi1) / d1
    return slope


# By the class of the environment; with the arguments that the lanes support.
_ARRAY_LANES: dict[str, tuple[type[EquationLanes | VectorLanes], set[str]]] = {
    "CartPoleEnv": (CartPoleLanes, {"sutton_barto_reward"}),
    "PendulumEnv": (PendulumLanes, {"g"}),
    "AcrobotEnv": (AcrobotLanes, set()),
}


# ---- EnvPool ----


def _import_envpool() -> Any:
    """Import EnvPool, after Box2D: in the other order importing Box2D crashes the process."""
    with contextlib.suppress(ImportError):
        importlib.import_module("Box2D")
    return importlib.import_module("envpool")


class EnvPoolLanes(Lanes):
    """Environments of EnvPool, stepped in its threads.

    EnvPool sets the seed of an environment when it is made, and draws all its episodes from that
    one stream. So a policy gets environments of its own, with seeds that follow from what it is;
    episode number e of the policy is the (e // width)-th of environment e % width. That does not
    depend on how many policies play side by side, nor on which pool they share. Spaces are
    Gymnasium's, since EnvPool's bounds differ for some environments.
    """

    def __init__(self, environment: Environment, shape: Layout, threads: int | None = None) -> None:
        super().__init__(environment.name, shape.slots * shape.width)
        self._width, self._threads = shape.width, threads or usable_cores()
        self.observations, _, (env, *_) = first_inputs(environment, self.n)
        self.observation_space, self.action_space = env.observation_space, env.action_space
        close(env, environment.name)
        self._pools: dict[int, tuple[Any, NDArray[np.intp]]] = {}  # by number, with their lanes
        self._made = 0
        self._owner = np.full(self.n, -1)  # the number of the pool of each lane
        self._number = np.zeros(self.n, dtype=np.int32)  # of the environment in its pool
        self._begun = np.zeros(self.n, dtype=bool)

    def begin(self, slots: list[int], seeds: NDArray[np.int64]) -> None:
        """Make one pool of environments for policies that begin together, and reset them all."""
        lanes = (np.array(slots)[:, None] * self._width + np.arange(self._width)).ravel()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its own spaces, which are not used
            pool = _import_envpool().make_gymnasium(
                self.name,
                num_envs=seeds.size,
                env_seed=seeds.ravel().tolist(),
                num_threads=min(self._threads, max(1, seeds.size // 64)),
            )
            observations, _ = pool.reset()
        self._pools[self._made] = pool, lanes
        self._owner[lanes] = self._made
        self._number[lanes] = np.arange(len(lanes))
        self._begun[lanes] = False
        self._made += 1
        self._show(lanes, observations)

    def release(self, slot: int) -> None:
        """Close a pool when the last of its policies is done."""
        number = int(self._owner[slot * self._width])
        self._owner[slot * self._width : (slot + 1) * self._width] = -1
        if number in self._pools and number not in self._owner:
            self._pools.pop(number)[0].close()

    def reset(self, lane: int, seed: int) -> None:  # noqa: ARG002  (set when it was made)
        """Start the next episode of ``lane``; the first one began with the pool."""
        if self._begun[lane]:
            pool, _ = self._pools[int(self._owner[lane])]
            observations, _ = pool.reset(self._number[lane : lane + 1])
            self._show(np.array([lane]), observations)
        self._begun[lane] = True

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        owners = self._owner[lanes]
        rewards, (terminated, truncated) = np.zeros(len(lanes)), np.zeros((2, len(lanes)), bool)
        busy = np.unique(owners).tolist()
        try:
            for number in busy:
                mine = lanes if len(busy) == 1 else lanes[owners == number]
                self._pools[number][0].send(actions[mine], self._number[mine])
            for number in busy:
                pool, theirs = self._pools[number]
                observations, reward, over, cut, info = pool.recv()
                back = theirs[info["env_id"]]
                rows = np.searchsorted(lanes, back)
                self._show(back, observations)
                rewards[rows], terminated[rows], truncated[rows] = reward, over, cut
        except RuntimeError as error:
            raise failure(f"EnvPool's {self.name}", "step", error) from error
        return rewards, terminated, truncated

    def close(self) -> None:
        for pool, _ in self._pools.values():
            pool.close()
        self._pools.clear()

    def _show(self, lanes: NDArray[Any], observations: Any) -> None:
        if isinstance(self.observations, np.ndarray):
            self.observations[lanes] = observations
        else:
            for row, lane in enumerate(lanes.tolist()):
                spaces.assign(self.observations, lane, spaces.pick(observations, row))
