"""Whole episodes out of the steps that Stable-Baselines3 takes while it trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pivec.errors import UsageError
from pivec.rollouts import Episode, EpisodeRecorder
from pivec.states import RecorderOptions, batch_of_one

TOGETHER = 128  # steps that are worked off together, at most


class RolloutWatch:
    """Looks at the steps of a model's environments, and gives ``keep`` the episodes that end.

    Steps are kept as they come and worked off together, since what is done at every single one
    is what training feels. Where training ``goes_on`` in the middle of episodes, those whose
    beginning nobody saw are left out.
    """

    def __init__(
        self, model: Any, recording: RecorderOptions, keep: Callable[[Episode], None], goes_on: bool
    ) -> None:
        env = model.get_env()
        self.normaliser = model.get_vec_normalize_env()
        if self.normaliser is not None and (
            self.normaliser.observation_space != env.observation_space
        ):
            raise UsageError(
                "VecNormalize must be the outermost wrapper around the environments, but another "
                "one changes the observations after it: put VecNormalize around that"
            )
        self._recording, self._keep = recording, keep
        self._newest = model._last_obs
        self._steps: list[tuple[Any, Any, Any]] = []  # observations, rewards, actions
        self._gatherer = EpisodeRecorder(
            env.num_envs, actions=recording.actions, cut_after=recording.cut_after
        )
        known = np.ones(env.num_envs, dtype=bool)
        if goes_on:
            # Only algorithms with a rollout buffer keep up to date which lanes have just begun.
            current = hasattr(model, "rollout_buffer")
            known = np.asarray(model._last_episode_starts, dtype=bool) & current
        first = self._newest if self.normaliser is None else self.normaliser.old_obs
        self._gatherer.start(recording.rows(first), known)

    def saw(self, model: Any) -> bool:
        """Whether the last step that this saw is where the model stands."""
        return self._newest is model._last_obs

    def step(self, variables: dict[str, Any]) -> None:
        """Look at one step, given the variables of the model's loop."""
        seen, rewards = variables["new_obs"], variables["rewards"]
        self._newest = seen
        if self.normaliser is not None:
            seen, rewards = self.normaliser.old_obs, self.normaliser.old_reward
        moves = variables["actions"] if self._recording.actions else None
        self._steps.append((_copied(seen), rewards.copy(), moves))
        if True in variables["dones"].tolist():
            self._end(np.asarray(variables["dones"], dtype=bool), variables["infos"])
        elif len(self._steps) == TOGETHER:
            self.work_off()

    def work_off(self) -> None:
        """Take in the steps that were kept, in which nothing ended."""
        if self._steps:
            self._extend(*self._arrays())

    def _end(self, over: Any, infos: Any) -> None:
        """Take in the steps that were kept, in the last of which episodes ended."""
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
                # The environments did not tell it: the last state is of the next episode.
                episode.states = episode.states[:-1]
                if episode.actions is not None:
                    episode.actions = episode.actions[:-1]
            self._keep(episode)
        self._gatherer.start(rows[-1], over)

    def _arrays(self) -> tuple[Any, Any, Any]:
        """States, rewards and actions of the steps that were kept, (n_steps, n_lanes, ...)."""
        seen, rewards, moves = zip(*self._steps, strict=True)
        rows = self._recording.rows(_together(seen)).reshape(len(seen), self._gatherer.n_lanes, -1)
        self._steps = []
        return rows, np.stack(rewards), np.stack(moves) if self._recording.actions else None

    def _extend(self, rows: Any, rewards: Any, moves: Any) -> None:
        for _, piece in self._gatherer.extend(rows, rewards, moves):
            self._keep(piece)


def _copied(observations: Any) -> Any:
    if isinstance(observations, dict):
        return {key: part.copy() for key, part in observations.items()}
    return observations.copy()


def _together(batches: Sequence[Any]) -> Any:
    """Put batches of observations together into one."""
    if isinstance(batches[0], dict):
        return {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
    return np.concatenate(batches)
