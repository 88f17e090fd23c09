"""Wrappers that record the states of any loop into a store."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from pivec.options import Features
from pivec.states.recorder import RecorderOptions, StateRecorder, batch_of_one, identity_of

__all__ = ["RecordStates", "RecordVectorStates", "RecorderOptions", "StateRecorder"]


class RecorderKeywords(TypedDict, total=False):
    """Keyword arguments of `RecordStates`, with the defaults of `RecorderOptions`."""

    features: Features | None
    feature_names: Sequence[str] | None
    actions: bool
    max_states_per_policy: int | None
    cut_after: int | None
    keep_cut: bool
    existing: Literal["error", "append", "replace"]
    flush_seconds: float


class _Records:
    """What both wrappers have: a recorder, closed at the latest when Python exits."""

    def _record(
        self, env: Any, store: str | Path, space: Any, n_lanes: int, options: Mapping[str, Any]
    ) -> None:
        name, arguments = identity_of(env.spec, type(env.unwrapped).__name__)
        chosen = RecorderOptions(store, space, name, arguments, **options)
        self.recorder = StateRecorder(chosen, n_lanes)
        self._finish = weakref.finalize(self, self.recorder.close)

    def set_policy(self, label: str, *, group: str = "", step: int | None = None) -> None:
        """Set the policy of episodes that start from now on."""
        self.recorder.set_policy(label, group=group, step=step)


class RecordStates(_Records, gymnasium.Wrapper[Any, Any, Any, Any]):
    """Records the episodes of an environment into a store, for `pivec compare STORE`.

    States are written about every ``flush_seconds``, on `close`, and when Python exits; written
    states stay readable if the loop is killed.

    Parameters
    ----------
    env : gymnasium.Env
    store : path
        The folder to write. Several loops may write to one store, with different labels.
    policy : str
        Label of the first policy; `set_policy` changes it.
    group, step
        Its run and training step.
    features : callable, optional
        A function from a batch of observations to the rows to store.
    feature_names : sequence of str, optional
        Names of the stored values.
    actions : bool
        Store actions too.
    max_states_per_policy : int, optional
        As for `pivec.collect`.
    cut_after : int, optional
        Cut episodes into pieces of that many steps, for tasks that never end.
    keep_cut : bool
        Keep episodes that `reset` or `close` ends, marked as truncated.
    existing : {"error", "append", "replace"}
        What to do if the store already contains the label.
    flush_seconds : float
        A loop that is killed loses about that many seconds at most; 0 writes every episode.

    Examples
    --------
    >>> import tempfile, pivec
    >>> folder = tempfile.mkdtemp()
    >>> env = RecordStates(gymnasium.make("CartPole-v1"), folder, policy="left")
    >>> for episode in range(3):
    ...     _ = env.reset(seed=episode)
    ...     over = False
    ...     while not over:
    ...         _, _, terminated, truncated, _ = env.step(0)
    ...         over = terminated or truncated
    >>> env.close()
    >>> pivec.load(folder)
    VisitedStates(1 policies, 3 episodes, 33 states of CartPole-v1 of 4 features)
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        store: str | Path,
        *,
        policy: str = "policy",
        group: str = "",
        step: int | None = None,
        **options: Unpack[RecorderKeywords],
    ) -> None:
        super().__init__(env)
        self._record(env, store, env.observation_space, 1, options)
        self.set_policy(policy, group=group, step=step)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.recorder.start(
            batch_of_one(self.env.observation_space, observation),
            seeds=-1 if seed is None else seed,
        )
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment, and record it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.recorder.step(
            batch_of_one(self.env.observation_space, observation),
            [float(reward)],
            [terminated],
            [truncated],
            np.asarray(action)[None],
        )
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Write everything, and close the environment."""
        self._finish()
        super().close()


class RecordVectorStates(_Records, gymnasium.vector.VectorWrapper):
    """Records the episodes of a vectorized environment into a store, in any autoreset mode.

    The other parameters are those of `RecordStates`.

    Parameters
    ----------
    env : gymnasium.vector.VectorEnv
    keep_cut : bool
        Keep episodes that are still running at the end.

    Examples
    --------
    >>> import tempfile, pivec
    >>> folder = tempfile.mkdtemp()
    >>> env = RecordVectorStates(gymnasium.make_vec("CartPole-v1", num_envs=2), folder)
    >>> _ = env.reset(seed=0)
    >>> for _ in range(20):
    ...     _ = env.step(np.zeros(2, dtype=int))
    >>> env.close()
    >>> pivec.load(folder).n_episodes
    4
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv[Any, Any, Any],
        store: str | Path,
        *,
        policy: str = "policy",
        group: str = "",
        step: int | None = None,
        **options: Unpack[RecorderKeywords],
    ) -> None:
        super().__init__(env)
        chosen = {"keep_cut": False} | options
        self._record(env, store, env.single_observation_space, env.num_envs, chosen)
        self.set_policy(policy, group=group, step=step)
        self._mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environments, or those of ``options["reset_mask"]``."""
        mask = None if options is None else options.get("reset_mask")
        observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]  # lists too
        if isinstance(seed, int):
            seeds = seed + np.arange(self.num_envs)
        else:
            given = seed if seed is not None else [None] * self.num_envs
            seeds = np.array([-1 if number is None else number for number in given])
        self.recorder.start(observations, mask, seeds)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environments, and record them."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        terminal = began = None
        if self._mode == AutoresetMode.SAME_STEP:
            over = np.flatnonzero(terminated | truncated).tolist()
            terminal = {lane: infos["final_obs"][lane] for lane in over}
        elif self._mode == AutoresetMode.NEXT_STEP:
            began = self.recorder.is_idle
        self.recorder.step(observations, rewards, terminated, truncated, actions, terminal)
        if began is not None and began.any():
            self.recorder.start(observations, began)
        return observations, rewards, terminated, truncated, infos

    def close(self, **arguments: Any) -> None:
        """Write everything, and close the environments."""
        self._finish()
        super().close(**arguments)
