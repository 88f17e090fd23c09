"""BehaviourCallback and StopWhenBehaviourSettles: behaviour while Stable-Baselines3 trains.

Nothing is played for it: it looks at the rollouts that training makes anyway.

```python
model.learn(1_000_000, callback=pivec.integrations.sb3.BehaviourCallback(every=20_000))
```
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pivec.arguments import Count, checked
from pivec.characterizations import Space
from pivec.errors import MissingExtra, PivecWarning, UsageError
from pivec.integrations.monitor import BehaviourMonitor, Change, Log
from pivec.integrations.watching import RolloutWatch
from pivec.options import Features
from pivec.policies import PolicyInfo, convert_sb3
from pivec.rollouts import Environment, Episode
from pivec.states import (
    LOCK_SECONDS,
    RecorderOptions,
    Store,
    VisitedStates,
    check_finite,
    identity_of,
    record_of,
)
from pivec.statistics import ConvergenceRule
from pivec.text import interval, rounded
from pivec.workflows.collect import collect

if find_spec("stable_baselines3") is None:
    raise MissingExtra("pivec.integrations.sb3", "sb3")

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import DISABLED, Figure

STEP, MAP = "time/total_timesteps", "behaviour/map"  # the first is as the library calls it
NO_PICTURES = ("stdout", "log", "json", "csv")  # outputs of the logger that cannot show one


class BehaviourCallback(BaseCallback):  # type: ignore[misc]  # the library has no types here
    """Describes the policy every so many steps, and logs how its behaviour moves.

    Under ``behaviour/`` it writes to the model's logger, and so to TensorBoard, CSV and what
    else is set up: ``distance_to_previous``, ``distance_to_first``, ``distance_to_expert`` and
    ``path_length`` (the sum of the steps), each with ``_low`` and ``_high`` of its 95 % interval;
    ``noise`` (what sampling had added to the distance to the previous one, and was taken off),
    ``map_x`` and ``map_y`` (places in a map that does not move), ``episodes`` and
    ``mean_return``; and ``map``, the way of the run on that map as a picture, to outputs that
    show pictures.

    A description is made of whole episodes, the last ``episodes`` that have ended since the one
    before: as they were played, exploration included. One that is still running counts when it
    ends. The first is of the first rollout, before the policy has learnt, and the last of what
    was played up to the end of training, where enough episodes have ended. Observations are the
    environment's own: `VecNormalize` is undone (a terminal observation that it had clipped stays
    clipped).

    Works with every algorithm of Stable-Baselines3 that learns from steps of a `VecEnv`.

    Parameters
    ----------
    every : int
        Steps of the environments from one description to the next.
    method, parameters, space, fit_on, intervals, seed
        What is described, and in which space; see `pivec.integrations.monitor.BehaviourMonitor`.
    expert : VisitedStates, path or policy, optional
        One policy to measure the distance to: its states, a store of them, or anything that
        `pivec.collect` takes, which then plays ``expert_episodes`` episodes before training.
    expert_episodes : int
    store : path, optional
        A folder to keep the states in, one policy a description: `pivec compare ENV store:DIR`
        compares them afterwards, and nothing is collected again.
    group : str, optional
        Name of the run, by default that of the algorithm with the seed, such as ``ppo-0``.
    episodes, min_episodes : int
        Episodes of a description, at most and at least.
    features, feature_names
        Turns a batch of observations (as the model sees them) into the rows to describe, instead
        of flattening them, and what these are called.
    actions, keep_policies : bool
        Keep actions, and the policy's network, too; done anyway if the method needs them.
    cut_after : int, optional
        Cut episodes into pieces of that many steps, for tasks that never end.
    log : callable, optional
        Gets ``log(values, step, figure)`` of each description instead of the model's logger, see
        `pivec.integrations.monitor.BehaviourMonitor`.
    verbose : int
        1 prints a line for each description.

    Attributes
    ----------
    monitor : BehaviourMonitor
        Holds all descriptions; ``monitor.space.save(folder)`` keeps the space for other runs.
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
        self._watch: RolloutWatch | None = None

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
        goes_on = not self.locals.get("reset_num_timesteps", True) and self.num_timesteps > 0
        self._untrained = self._untrained or not goes_on
        if self._watch is None or not goes_on or not self._watch.saw(self.model):
            self._watch = RolloutWatch(self.model, self._recording, self._keep, goes_on)
        self._check_store()
        if self._expert is not None and self.monitor.expert is None:
            self.monitor.expert = self._find_expert()
        self._begun = min(self._begun if self.changes else np.inf, self.num_timesteps)

    def _on_step(self) -> bool:
        if self._watch is None:
            raise UsageError("the callback was not started: give it to model.learn(callback=...)")
        self._watch.step(self.locals)
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
                f"{self._group} ended before its behaviour could be described: that takes fit_on "
                f"descriptions of min_episodes ({self.min_episodes}) episodes each: lower these "
                "or every, or train on",
                PivecWarning,
                stacklevel=2,
            )

    def _keep(self, episode: Episode) -> None:
        check_finite(episode.states, f"an episode of {self._group}")
        self._episodes.append(episode)

    def _spec(self) -> Any:
        """What Gymnasium knows of the environment; None if it was made otherwise."""
        try:
            return self.training_env.get_attr("spec", 0)[0]
        except (AttributeError, NotImplementedError):
            return None  # a vectorised environment of its own kind

    def _describe(self) -> None:
        """Describe the policy by the episodes that have ended, if they are enough."""
        if self._watch is not None:
            self._watch.work_off()
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
        """Write to the model's logger at the step of the description.

        What is only recorded waits for a dump, which comes at a later step, or never.
        """
        shown = {**values, STEP: step, MAP: Figure(figure, close=False)}
        hidden = dict.fromkeys(values, ()) | {STEP: ("tensorboard",), MAP: NO_PICTURES}
        if self.logger.level != DISABLED:
            for output in self.logger.output_formats:
                output.write(shown, hidden, step)

    def _check_store(self) -> None:
        """Refuse to mix two runs before any time is spent."""
        if self._store is None or not Store.exists(self._store):
            return
        for label, row in Store(self._store).rows.items():
            if row["group"] == self._group and (row["step"] or 0) > self.num_timesteps:
                raise UsageError(
                    f"{self._store} holds {label!r} of an earlier run, beyond the step "
                    f"{self.num_timesteps} at which this one begins: use another folder or group"
                )

    def _find_expert(self) -> VisitedStates:
        """The states of the expert; a policy plays for them."""
        expert = self._expert
        if isinstance(expert, VisitedStates):
            return expert
        if isinstance(expert, str | os.PathLike):
            folder = Path(expert)
            if Store.exists(folder) or Store.exists(folder / "states"):
                return Store.find(folder).load()
        if self._spec() is None:
            raise UsageError(
                "an expert that is to act needs an environment that was made by its Gymnasium id: "
                "give its states instead, expert=pivec.collect(...)"
            )
        where = Environment(self._recording.environment, dict(self._recording.arguments or {}))
        return collect(where, expert, self._expert_episodes, self._seed, **self._rows)


class StopWhenBehaviourSettles(BaseCallback):  # type: ignore[misc]  # the library has no types here
    """Stops training when behaviour has not changed for some descriptions.

    Give it behind the `BehaviourCallback` that it looks at:
    ``model.learn(..., callback=[behaviour, StopWhenBehaviourSettles(behaviour)])``.

    ``checkpoints``, ``tolerance`` and ``deviations`` are those of `pivec.statistics.ConvergenceRule`;
    ``stopped_at`` is then the training step at which it stopped, or None.
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
