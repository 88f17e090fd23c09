"""StateRecorder: a store that grows while somebody else's loop runs.

What is on disk is whole at every moment: a policy's file is written anew beside the old one, which
goes when the index names the new one.
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
from pivec.states.record import check_finite, names_of, record_of
from pivec.states.store import Store, shown_place

LOCK_SECONDS = 30.0  # others that write to the same store hold it for a moment only
_SHARE = 20  # writing may take one part in that many of the time


@dataclass(frozen=True)
class Recording:
    """What is recorded, and where; parameters as for `pivec.integrations.gymnasium.RecordStates`."""

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
        """Turn a batch of observations into states."""
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
        """Open the store, or make it; one that holds other states is refused."""
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
    """Records what happens in some lanes into a store, for one policy after another.

    `pivec.integrations.gymnasium.RecordStates` puts one around an environment. Used by hand: `set_policy`,
    `start` when episodes begin, `step` after each step, `close` in the end.
    """

    def __init__(self, recording: Recording, n_lanes: int = 1) -> None:
        self.recording = recording
        self._due = 0.0
        self._gatherer = EpisodeRecorder(
            n_lanes, actions=recording.actions, cut_after=recording.cut_after
        )
        self._owners: list[str] = [""] * n_lanes
        self._open: dict[str, _Policy] = {}
        self._mine: set[str] = set()  # labels that this recorder has written to
        self._store: Store | None = None
        self._label = ""

    def set_policy(self, label: str, *, group: str = "", step: int | None = None) -> None:
        """Say who acts from now on; a running episode stays with the policy that began it."""
        if not label:
            raise UsageError("a policy needs a label that is not empty")
        known = Store.exists(self.recording.store) and label in Store(self.recording.store)
        if known and label not in self._mine and self.recording.existing == "error":
            raise UsageError(
                f"{shown_place(self.recording.store)} holds states of {label!r} from an earlier "
                'time: choose another label or folder, or say existing="append" or "replace"'
            )
        info = PolicyInfo(label, group, None if step is None else int(step))
        if label in self._open:
            self._open[label].info = info
        else:
            kept = PolicyEpisodes(self.recording.max_states_per_policy)
            if known and (label in self._mine or self.recording.existing == "append"):
                kept = _reopened(Store(self.recording.store), label, kept)
            self._open[label] = _Policy(info, kept)
        self._label = label
        self._mine.add(label)
        if any(name not in (label, *self._running()) for name in self._open):
            self.flush()

    def start(
        self, observations: Any, lanes: ArrayLike | None = None, seeds: ArrayLike = -1
    ) -> None:
        """Begin an episode in all lanes, or in these (a mask); what ran there was cut."""
        if not self._label:
            raise UsageError("nobody acts yet: call set_policy(label) before the first reset")
        rows = self.recording.rows(observations)
        if self._store is None:
            self._store = self.recording.open(rows.shape[1])
        self.cut(lanes)
        self._gatherer.start(rows, lanes, seeds)
        chosen = range(self._gatherer.n_lanes) if lanes is None else np.flatnonzero(lanes)
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
        """Take in one step of all lanes; see `pivec.rollouts.episodes.EpisodeRecorder.step`.

        ``terminal`` maps lanes to observations where ``observations`` has the first ones of the
        next episodes already; those then begin.
        """
        rows = self.recording.rows(observations)
        last = {
            lane: self.recording.rows(batch_of_one(self.recording.space, observation))[0]
            for lane, observation in (terminal or {}).items()
        }
        ended = self._gatherer.step(rows, rewards, terminated, truncated, actions, last)
        if ended:
            self._keep(ended)
        if last:
            mask = np.zeros(self._gatherer.n_lanes, dtype=bool)
            mask[list(last)] = True
            self.start(observations, mask)

    def cut(self, lanes: ArrayLike | None = None) -> None:
        """End what is running in all lanes, or in these (a mask)."""
        ended = self._gatherer.cut(lanes)
        if ended and self.recording.keep_cut:
            self._keep(ended)

    def flush(self) -> None:
        """Write everything that has come in since the last time."""
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
        seconds = self.recording.flush_seconds
        self._due = now + (max(seconds, _SHARE * (now - begun)) if seconds else 0.0)

    def close(self) -> None:
        """Keep what is running, if that is wanted, and write everything."""
        self.cut()
        self.flush()

    @property
    def is_idle(self) -> NDArray[np.bool_]:
        """Tell for each lane whether no episode is running there."""
        return np.asarray(~self._gatherer.active)

    def _running(self) -> set[str]:
        return {self._owners[lane] for lane in np.flatnonzero(self._gatherer.active)}

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
    """A policy whose episodes still come in."""

    info: PolicyInfo
    kept: PolicyEpisodes
    is_new: bool = False


def identity_of(spec: Any, otherwise: str) -> tuple[str, dict[str, Any]]:
    """Id and arguments of an environment by its specification, if it has one.

    Arguments that change nothing about the states are left out.
    """
    if spec is None:
        return otherwise, {}
    plain = {"render_mode", "num_envs", "vectorization_mode", "vector_kwargs"}
    arguments = {key: value for key, value in spec.kwargs.items() if key not in plain}
    if arguments.get("max_episode_steps") == spec.max_episode_steps:
        arguments.pop("max_episode_steps", None)
    return spec.id, arguments


def batch_of_one(space: Any, observation: Any) -> Any:
    """Make a batch of one observation."""
    batch = spaces.empty_batch(space, 1)
    spaces.assign(batch, 0, observation)
    return batch


def _reopened(store: Store, label: str, kept: PolicyEpisodes) -> PolicyEpisodes:
    """Take a policy's episodes back from disk."""
    [record] = store.load([label], verify=False).records
    kept.every = int(record.info.metadata.get("kept_every", 1))
    for number, episode in enumerate(record.as_episodes()):
        kept.put(number, episode)
    return kept
