"""Behaviour while Stable-Baselines3 trains: BehaviourCallback and StopWhenBehaviourSettles.

```python
model.learn(1_000_000, callback=pivec.integrations.sb3.BehaviourCallback(every=20_000))
```
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pivec.arguments import Count, checked
from pivec.characterizations import Space
from pivec.errors import MissingExtra, PivecWarning, UsageError
from pivec.integrations.monitor import BehaviourMonitor, Change, Log
from pivec.options import Features
from pivec.policies import PolicyInfo, convert_sb3
from pivec.rollouts import Environment, Episode, EpisodeRecorder
from pivec.states import Store, VisitedStates, check_finite, record_of
from pivec.states.recorder import LOCK_SECONDS, RecorderOptions, batch_of_one, identity_of
from pivec.statistics import ConvergenceRule
from pivec.text import interval, rounded
from pivec.workflows import collect, find_store

if find_spec("stable_baselines3") is None:
    raise MissingExtra("pivec.integrations.sb3", "sb3")

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import DISABLED, Figure

STEP, MAP = "time/total_timesteps", "behaviour/map"  # the first is as the library calls it
NO_PICTURES = ("stdout", "log", "json", "csv")  # outputs of the logger that cannot show one
_BATCH = 128  # steps that are processed together


class BehaviourCallback(BaseCallback):  # type: ignore[misc]  # the library has no types here
    """Describes the policy at regular intervals, and logs how its behaviour changes.

    It uses the rollouts that training collects anyway, including exploration: the last ``episodes``
    complete episodes since the previous description. The first description is of the first
    rollout, before any learning. Observations are those of the environment: `VecNormalize` is
    undone. It works with every algorithm of Stable-Baselines3 that learns from steps of a `VecEnv`.

    Under ``behaviour/``, the model's logger (TensorBoard, CSV, ...) receives
    ``distance_to_previous``, ``distance_to_first``, ``distance_to_expert`` and ``path_length``,
    with the ends of their 95 % intervals as ``_low`` and ``_high``; ``noise``, ``map_x``,
    ``map_y``, ``episodes`` and ``mean_return``; and ``map``, a picture of the run on the map.

    Parameters
    ----------
    every : int
        Number of environment steps between descriptions.
    method, parameters, space, fit_on, intervals, seed
        As for `pivec.integrations.BehaviourMonitor`.
    expert : VisitedStates, path or policy, optional
        A policy to measure the distance to: its states, a store of them, or anything that
        `pivec.collect` accepts, which then plays ``expert_episodes`` episodes before training.
    expert_episodes : int
    store : path, optional
        The folder to save the states in, one policy per description; compare them afterwards with
        `pivec compare STORE`.
    group : str, optional
        Name of the run, by default the algorithm and the seed, such as ``ppo-0``.
    episodes, min_episodes : int
        Maximum and minimum number of episodes of a description.
    features, feature_names
        A function from a batch of observations to the rows to describe, and names for these.
    actions, keep_policies : bool
        Also store actions, and the policy's network; implied if the method needs them.
    cut_after : int, optional
        Cut episodes into pieces of that many steps, for tasks that never end.
    log : callable, optional
        Called with ``log(values, step, figure)`` instead of the model's logger.
    verbose : int
        1 prints one line per description.

    Attributes
    ----------
    monitor : BehaviourMonitor
        Contains all descriptions; ``monitor.space.save(folder)`` saves the space for other runs.
    changes : list of Change
        What was logged, from the first description on.

    Examples
    --------
    >>> from stable_baselines3 import PPO
    >>> behaviour = BehaviourCallback(every=200, parameters={"n_components": 4})
    >>> model = PPO("MlpPolicy", "CartPole-v1", n_steps=200, batch_size=200, seed=0, device="cpu")
    >>> _ = model.learn(800, callback=behaviour)
    >>> [change.step for change in behaviour.changes]
    [200, 400, 600, 800]
    """

    @checked
    def __init__(
        self,
        every: Count = 10_000,
        *,
        method: str = "visitation",
        parameters: Mapping[str, Any] | None = None,
        space: Space | str | Path | None = None,
        fit_on: int = 3,
        intervals: bool = True,
        seed: int = 0,
        expert: Any = None,
        expert_episodes: Count = 20,
        store: str | Path | None = None,
        group: str | None = None,
        episodes: int = 100,
        min_episodes: int = 5,
        features: Features | None = None,
        feature_names: Sequence[str] | None = None,
        actions: bool = False,
        keep_policies: bool = False,
        cut_after: int | None = None,
        log: Log | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        if not 2 <= min_episodes <= episodes:
            raise UsageError(
                f"min_episodes must be from 2 to episodes, which is {episodes}, but is "
                f"{min_episodes}"
            )
        self.monitor = BehaviourMonitor(
            method,
            parameters,
            space=space,
            fit_on=fit_on,
            intervals=intervals,
            seed=seed,
            log=log or self._record,
        )
        needs = self.monitor.method.traits.needs
        self.every, self.min_episodes = every, min_episodes
        self._expert, self._expert_episodes, self._seed = expert, expert_episodes, seed
        self._store, self._group = store, group
        self._rows: dict[str, Any] = {"features": features, "feature_names": feature_names}
        self._rows["actions"] = actions or "actions" in needs
        self._keep_policies = keep_policies or "policies" in needs
        self._cut_after = cut_after
        self._episodes: deque[Episode] = deque(maxlen=episodes)
        self._begun = 0  # the step after which the next description begins
        self._untrained = True  # the first rollout is not described yet
        self._recorder: _RolloutRecorder | None = None

    @property
    def changes(self) -> list[Change]:
        """One entry for each description."""
        return self.monitor.changes

    def _on_training_start(self) -> None:
        name, arguments = identity_of(self._spec(), "")
        space = self.training_env.observation_space
        self._recording = RecorderOptions(
            self._store or "", space, name, arguments, cut_after=self._cut_after, **self._rows
        )
        if self._group is None:
            algorithm, seed = type(self.model).__name__.lower(), self.model.seed
            self._group = algorithm if seed is None else f"{algorithm}-{seed}"
        resumes = not self.locals.get("reset_num_timesteps", True) and self.num_timesteps > 0
        self._untrained = self._untrained or not resumes
        if self._recorder is None or not resumes or not self._recorder.is_current(self.model):
            self._recorder = _RolloutRecorder(self.model, self._recording, self._keep, resumes)
        if self._store is not None and Store.exists(self._store):  # which must not mix two runs
            for label, row in Store(self._store).rows.items():
                if row["group"] == self._group and (row["step"] or 0) > self.num_timesteps:
                    raise UsageError(
                        f"{self._store} contains {label!r} from an earlier run, but this one "
                        f"starts at step {self.num_timesteps}: use another folder or group"
                    )
        if self._expert is not None and self.monitor.expert is None:
            self.monitor.expert = self._find_expert()
        self._begun = min(self._begun if self.changes else np.inf, self.num_timesteps)

    def _on_step(self) -> bool:
        if self._recorder is None:
            raise UsageError("the callback was not started: give it to model.learn(callback=...)")
        self._recorder.step(self.locals)
        if self.num_timesteps - self._begun >= self.every:
            self._describe()
        return True

    def _on_rollout_end(self) -> None:
        if self._untrained:
            self._describe()

    def _on_training_end(self) -> None:
        self._describe()
        if not self.changes:
            warnings.warn(
                f"{self._group} ended before its behaviour could be described, which needs fit_on "
                f"descriptions of min_episodes ({self.min_episodes}) episodes each: lower fit_on, "
                "min_episodes or every, or train longer",
                PivecWarning,
                stacklevel=2,
            )

    def _keep(self, episode: Episode) -> None:
        check_finite(episode.states, f"an episode of {self._group}")
        self._episodes.append(episode)

    def _spec(self) -> Any:
        """Return the Gymnasium specification of the environment, if it has one."""
        try:
            return self.training_env.get_attr("spec", 0)[0]
        except (AttributeError, NotImplementedError):
            return None

    def _describe(self) -> None:
        """Describe the policy if enough episodes have ended."""
        if self._recorder is not None:
            self._recorder.process()
        if len(self._episodes) < self.min_episodes:
            return
        self._untrained = False
        step = self.num_timesteps
        kind = type(self.model).__name__
        info = PolicyInfo(
            f"{self._group}/step_{step}", str(self._group), step, f"stable-baselines3:{kind}"
        )
        policy = convert_sb3(self.model) if self._keep_policies else None
        record = record_of(info, list(self._episodes), policy=policy)
        names = self._recording.names(self._episodes[0].states.shape[1])
        data = VisitedStates([record], names, self._recording.environment)
        self._episodes.clear()
        self._begun = step - (step - self._begun) % self.every  # a late one delays no other
        if self._store is not None:
            store = self._recording.open(len(names), policies=self._keep_policies)
            with store.writing(LOCK_SECONDS):
                store.add(record)
        known = len(self.changes)
        self.monitor.add(data)
        for change in self.changes[known:] if self.verbose else ():
            print(  # noqa: T201  # what verbose asks for
                f"{change.label}: {rounded(change.to_previous, 3)} from the previous "
                f"({interval(*change.previous_interval)}), {rounded(change.to_first, 3)} from the "
                "first"
            )

    def _record(self, values: dict[str, float], step: int, figure: Any) -> None:
        """Write to the model's logger at once, with the step of the description."""
        shown = {**values, STEP: step, MAP: Figure(figure, close=False)}
        hidden = dict.fromkeys(values, ()) | {STEP: ("tensorboard",), MAP: NO_PICTURES}
        if self.logger.level != DISABLED:
            for output in self.logger.output_formats:
                output.write(shown, hidden, step)

    def _find_expert(self) -> VisitedStates:
        """Return the states of the expert."""
        expert = self._expert
        if isinstance(expert, VisitedStates):
            return expert
        if (store := find_store(expert)) is not None:
            return store.load()
        if self._spec() is None:
            raise UsageError(
                "an expert policy needs an environment that was made by its Gymnasium id: give its "
                "states instead, expert=pivec.collect(...)"
            )
        where = Environment(self._recording.environment, dict(self._recording.arguments or {}))
        return collect(where, expert, self._expert_episodes, self._seed, **self._rows)


class StopWhenBehaviourSettles(BaseCallback):  # type: ignore[misc]  # the library has no types here
    """Stops training when behaviour has stopped changing.

    Pass it after the `BehaviourCallback` that it uses:
    ``model.learn(..., callback=[behaviour, StopWhenBehaviourSettles(behaviour)])``.
    ``checkpoints``, ``tolerance`` and ``deviations`` are those of
    `pivec.statistics.ConvergenceRule`; ``stopped_at`` is the training step at which it stopped.
    """

    def __init__(
        self,
        behaviour: BehaviourCallback,
        checkpoints: int = 10,
        tolerance: float = 0.01,
        deviations: float = 3.0,
        *,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        self.behaviour = behaviour
        self.rule = ConvergenceRule(checkpoints, tolerance, deviations)
        self.stopped_at: int | None = None
        self._judged = 0

    def _on_step(self) -> bool:
        described = len(self.behaviour.changes)
        if described == self._judged:
            return True
        self._judged = described
        if not self.behaviour.monitor.has_settled(self.rule):
            return True
        self.stopped_at = self.num_timesteps
        if self.verbose:
            print(  # noqa: T201  # what verbose asks for
                f"Stopped at step {self.stopped_at}: behaviour has not changed for "
                f"{self.rule.checkpoints} descriptions"
            )
        return False


class _RolloutRecorder:
    """Makes whole episodes of a model's training steps, and passes them to ``keep``.

    Steps are processed in batches, which hardly slows training. If training ``resumes`` in the
    middle of episodes, those whose start was not recorded are left out.
    """

    def __init__(
        self, model: Any, recording: RecorderOptions, keep: Callable[[Episode], None], resumes: bool
    ) -> None:
        env = model.get_env()
        self.normaliser = model.get_vec_normalize_env()
        if self.normaliser is not None and (
            self.normaliser.observation_space != env.observation_space
        ):
            raise UsageError(
                "VecNormalize must be the outermost wrapper, but another one changes observations "
                "after it"
            )
        self._recording, self._keep = recording, keep
        self._newest = model._last_obs
        self._steps: list[tuple[Any, Any, Any]] = []  # observations, rewards, actions
        self._gatherer = EpisodeRecorder(
            env.num_envs, actions=recording.actions, cut_after=recording.cut_after
        )
        known = np.ones(env.num_envs, dtype=bool)
        if resumes:
            # Only algorithms with a rollout buffer update which environments were just reset.
            current = hasattr(model, "rollout_buffer")
            known = np.asarray(model._last_episode_starts, dtype=bool) & current
        first = self._newest if self.normaliser is None else self.normaliser.old_obs
        self._gatherer.start(recording.rows(first), known)

    def is_current(self, model: Any) -> bool:
        """Whether the last recorded step is the model's last."""
        return self._newest is model._last_obs

    def step(self, variables: dict[str, Any]) -> None:
        """Record one step, given the variables of the model's loop."""
        seen, rewards = variables["new_obs"], variables["rewards"]
        self._newest = seen
        if self.normaliser is not None:
            seen, rewards = self.normaliser.old_obs, self.normaliser.old_reward
        moves = variables["actions"] if self._recording.actions else None
        self._steps.append((_copied(seen), rewards.copy(), moves))
        if True in variables["dones"].tolist():
            self._end(np.asarray(variables["dones"], dtype=bool), variables["infos"])
        elif len(self._steps) == _BATCH:
            self.process()

    def process(self) -> None:
        """Process recorded steps in which no episode ended."""
        if self._steps:
            self._extend(*self._arrays())

    def _end(self, over: Any, infos: Any) -> None:
        """Process recorded steps, in the last of which episodes ended."""
        rows, rewards, moves = self._arrays()
        if len(rows) > 1:
            self._extend(rows[:-1], rewards[:-1], None if moves is None else moves[:-1])
        cut, terminal = np.zeros(len(over), dtype=bool), {}
        for lane in np.flatnonzero(over).tolist():
            cut[lane] = infos[lane].get("TimeLimit.truncated", False)
            last = infos[lane].get("terminal_observation")
            if last is not None:
                if self.normaliser is not None:
                    last = self.normaliser.unnormalize_obs(last)
                single = batch_of_one(self._recording.space, last)
                terminal[lane] = self._recording.rows(single)[0]
        move = None if moves is None else moves[-1]
        for lane, episode in self._gatherer.step(
            rows[-1], rewards[-1], over & ~cut, cut, move, terminal
        ):
            if over[lane] and lane not in terminal:
                # Without a terminal observation the last state is that of the next episode.
                episode.states = episode.states[:-1]
                if episode.actions is not None:
                    episode.actions = episode.actions[:-1]
            self._keep(episode)
        self._gatherer.start(rows[-1], over)

    def _arrays(self) -> tuple[Any, Any, Any]:
        """Return states, rewards and actions of recorded steps, (n_steps, n_envs, ...)."""
        seen, rewards, moves = zip(*self._steps, strict=True)
        rows = self._recording.rows(_concatenated(seen)).reshape(
            len(seen), self._gatherer.n_lanes, -1
        )
        self._steps = []
        return rows, np.stack(rewards), np.stack(moves) if self._recording.actions else None

    def _extend(self, rows: Any, rewards: Any, moves: Any) -> None:
        for _, piece in self._gatherer.extend(rows, rewards, moves):
            self._keep(piece)


def _copied(observations: Any) -> Any:
    if isinstance(observations, dict):
        return {key: part.copy() for key, part in observations.items()}
    return observations.copy()


def _concatenated(batches: Sequence[Any]) -> Any:
    """Concatenate batches of observations."""
    if isinstance(batches[0], dict):
        return {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
    return np.concatenate(batches)
