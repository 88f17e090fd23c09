"""StateRecorder: a store that grows while a user's own loop runs.

The store is complete at every moment: a policy's file is rewritten beside the old one, which is
removed after the index names the new one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.arguments import Count, NotNegative, check_arguments
from pivec.errors import UsageError
from pivec.options import Features
from pivec.policies import PolicyInfo
from pivec.rollouts import Episode, EpisodeRecorder, PolicyEpisodes, feature_rows, features_to_json
from pivec.rollouts import observations as spaces
from pivec.states.folders import without_credentials
from pivec.states.store import Store
from pivec.states.visited import check_finite, names_of, record_of

LOCK_SECONDS = 30.0  # other writers of the same store hold it only for a moment
_TIME_SHARE = 20  # writing may take one part in that many of the time


@dataclass(frozen=True)
class RecorderOptions:
    """What is recorded, and where; see `pivec.integrations.gymnasium.RecordStates`."""

    store: str | Path
    space: Any  # of one observation
    environment: str = ""  # the Gymnasium id
    arguments: Mapping[str, Any] | None = None  # those of `gymnasium.make`
    features: Features | None = None
    feature_names: Sequence[str] | None = None
    actions: bool = False
    max_states_per_policy: Count | None = None
    cut_after: Count | None = None
    keep_cut: bool = True
    existing: Literal["error", "append", "replace"] = "error"
    flush_seconds: NotNegative = 10.0

    def __post_init__(self) -> None:
        check_arguments(self)

    def rows(self, observations: Any) -> NDArray[np.float32]:
        """Convert a batch of observations to states."""
        if self.features is None:
            return spaces.flatten(self.space, observations)
        return feature_rows(self.features, observations)

    def names(self, width: int) -> tuple[str, ...]:
        """Name the values of a state."""
        own = self.feature_names or getattr(self.features, "names", None)
        if own is None and self.features is None:
            own = spaces.feature_names(self.space)
        return names_of(own, width, "f")

    def open(self, width: int, **more: Any) -> Store:
        """Open or create the store; one that holds other states is refused."""
        settings = {
            "environment": self.environment,
            "arguments": dict(self.arguments or {}),
            "backend": "recorded",
            "actions": self.actions,
            "features": features_to_json(self.features),
            "max_states_per_policy": self.max_states_per_policy,
            **more,
        }
        return Store(self.store, settings, self.names(width))


class StateRecorder:
    """Records the episodes of parallel environments (lanes) into a store, policy by policy.

    `pivec.integrations.gymnasium.RecordStates` wraps an environment with one. In your own loop,
    call `set_policy`, `start` when episodes start, `step` after each step, and `close` at the end.
    """

    def __init__(self, options: RecorderOptions, n_lanes: int = 1) -> None:
        self.options = options
        self._due = 0.0  # when to write next
        self._recorder = EpisodeRecorder(
            n_lanes, actions=options.actions, cut_after=options.cut_after
        )
        self._owners: list[str] = [""] * n_lanes
        self._open: dict[str, _Policy] = {}
        self._mine: set[str] = set()  # labels that this recorder has written to
        self._store: Store | None = None
        self._label = ""

    def set_policy(self, label: str, *, group: str = "", step: int | None = None) -> None:
        """Set the acting policy; running episodes stay with the one that started them."""
        if not label:
            raise UsageError("the label of a policy must not be empty")
        known = Store.exists(self.options.store) and label in Store(self.options.store)
        if known and label not in self._mine and self.options.existing == "error":
            raise UsageError(
                f"{without_credentials(self.options.store)} holds states of {label!r} already: "
                'choose another label or folder, or existing="append" or "replace"'
            )
        info = PolicyInfo(label, group, None if step is None else int(step))
        if label in self._open:
            self._open[label].info = info
        else:
            kept = PolicyEpisodes(self.options.max_states_per_policy)
            if known and (label in self._mine or self.options.existing == "append"):
                [record] = Store(self.options.store).load([label], verify=False).records
                kept.every = record.every
                for number, episode in enumerate(record.as_episodes()):
                    kept.put(number, episode)
            self._open[label] = _Policy(info, kept)
        self._label = label
        self._mine.add(label)
        if any(name not in (label, *self._running()) for name in self._open):
            self.flush()

    def start(
        self, observations: Any, lanes: ArrayLike | None = None, seeds: ArrayLike = -1
    ) -> None:
        """Start an episode in all lanes, or in those of a mask; running ones are cut."""
        if not self._label:
            raise UsageError("no policy is set: call set_policy(label) before the first reset")
        rows = self.options.rows(observations)
        if self._store is None:
            self._store = self.options.open(rows.shape[1])
        self.cut(lanes)
        self._recorder.start(rows, lanes, seeds)
        chosen = range(self._recorder.n_lanes) if lanes is None else np.flatnonzero(lanes)
        for lane in chosen:
            self._owners[lane] = self._label

    def step(
        self,
        observations: Any,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        actions: ArrayLike | None = None,
        terminal: Mapping[int, Any] | None = None,
    ) -> None:
        """Record one step of all lanes; see `pivec.rollouts.EpisodeRecorder.step`.

        ``terminal`` maps lanes to their terminal observations where ``observations`` already has
        the first ones of the next episodes, which then start.
        """
        rows = self.options.rows(observations)
        last = {
            lane: self.options.rows(batch_of_one(self.options.space, observation))[0]
            for lane, observation in (terminal or {}).items()
        }
        ended = self._recorder.step(rows, rewards, terminated, truncated, actions, last)
        if ended:
            self._keep(ended)
        if last:
            mask = np.zeros(self._recorder.n_lanes, dtype=bool)
            mask[list(last)] = True
            self.start(observations, mask)

    def cut(self, lanes: ArrayLike | None = None) -> None:
        """End the running episodes in all lanes, or in those of a mask."""
        ended = self._recorder.cut(lanes)
        if ended and self.options.keep_cut:
            self._keep(ended)

    def flush(self) -> None:
        """Write all new episodes."""
        begun = time.monotonic()
        fresh = [policy for policy in self._open.values() if policy.is_new]
        if fresh and self._store is not None:
            with self._store.writing(LOCK_SECONDS):
                for policy in fresh:
                    self._store.add(record_of(policy.info, policy.kept.all(), policy.kept.every))
                    policy.is_new = False
        running = self._running()
        for label in [name for name in self._open if name != self._label and name not in running]:
            del self._open[label]  # all of it is on disk
        now = time.monotonic()
        seconds = self.options.flush_seconds
        self._due = now + (max(seconds, _TIME_SHARE * (now - begun)) if seconds else 0.0)

    def close(self) -> None:
        """End the running episodes and write everything."""
        self.cut()
        self.flush()

    @property
    def is_idle(self) -> NDArray[np.bool_]:
        """Whether no episode is running, per lane."""
        return np.asarray(~self._recorder.active)

    def _running(self) -> set[str]:
        return {self._owners[lane] for lane in np.flatnonzero(self._recorder.active)}

    def _keep(self, ended: Sequence[tuple[int, Episode]]) -> None:
        for lane, episode in ended:
            policy = self._open[self._owners[lane]]
            check_finite(episode.states, f"an episode of {policy.info.label}")
            policy.kept.append(episode)
            policy.is_new = True
        if time.monotonic() >= self._due:
            self.flush()


@dataclass
class _Policy:
    """A policy that is being recorded."""

    info: PolicyInfo
    kept: PolicyEpisodes
    is_new: bool = False


def identity_of(spec: Any, otherwise: str) -> tuple[str, dict[str, Any]]:
    """Return id and arguments of an environment from its specification, if it has one.

    Arguments that do not change the states are omitted.
    """
    if spec is None:
        return otherwise, {}
    plain = {"render_mode", "num_envs", "vectorization_mode", "vector_kwargs"}
    arguments = {key: value for key, value in spec.kwargs.items() if key not in plain}
    if arguments.get("max_episode_steps") == spec.max_episode_steps:
        arguments.pop("max_episode_steps", None)
    return spec.id, arguments


def batch_of_one(space: Any, observation: Any) -> Any:
    """Return a batch of one observation."""
    batch = spaces.empty_batch(space, 1)
    spaces.assign(batch, 0, observation)
    return batch
