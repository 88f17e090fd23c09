"""collect: let policies act in an environment, and keep the states they visit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pivec.errors import PivecError, UsageError
from pivec.policies.load import name_policies
from pivec.policies.policy import NamedPolicy
from pivec.progress import Progress
from pivec.rollouts import spaces
from pivec.rollouts.environment import Environment
from pivec.rollouts.episodes import PlayedPolicy
from pivec.rollouts.play import play
from pivec.rollouts.settings import Features, PlaySettings
from pivec.states.record import PolicyRecord, assemble
from pivec.states.store import Store
from pivec.states.visited import VisitedStates


def collect(
    env: str | Environment | Callable[[], Any],
    policies: Any,
    episodes: int = 100,
    seed: int = 0,
    *,
    store: str | Path | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    features: Features | None = None,
    feature_names: Sequence[str] | None = None,
    actions: bool = False,
    keep_policies: bool = False,
    deterministic: bool = False,
    n_envs: int | None = None,
    max_steps: int | None = None,
    progress: bool = False,
) -> VisitedStates:
    """Let every policy play ``episodes`` episodes and return the states it visited.

    Each policy plays exactly that many; which ones does not depend on their length. The seed of an
    episode follows from (seed, label of the policy, number of the episode), so the result is the
    same however many environments run side by side and whichever other policies are there.

    Parameters
    ----------
    env : str or callable
        A Gymnasium id, or a function that makes an environment.
    policies : str, policy, callable, or a list or dict of these
        Paths, globs, ``random``, ``module:object``, `Policy` objects, functions from a batch of
        observations to a batch of actions; a dict gives the labels.
    episodes : int
        Episodes of each policy.
    seed : int
        Everything random follows from it.
    store : path, optional
        A folder to keep the states in. Policies that are in it already are not played again.
    env_kwargs : mapping, optional
        Arguments for `gymnasium.make`.
    features : callable, optional
        Turns a batch of observations into the rows to keep, instead of flattening them.
    feature_names : sequence of str, optional
        Names for what ``features`` gives.
    actions : bool
        Keep the actions too.
    keep_policies : bool
        Keep the policies in the store beside their states, where they are networks: for
        characterizations that look at parameters or ask for actions. In memory they are at hand.
    deterministic : bool
        Let policies take the mode instead of sampling.
    n_envs : int, optional
        Environments side by side; a matter of speed and memory only.
    max_steps : int, optional
        Cut episodes after that many steps.
    progress : bool
        Draw a progress bar.

    Returns
    -------
    VisitedStates

    Examples
    --------
    >>> lean = lambda observations: (observations[:, 2] > 0).astype(int)
    >>> data = collect("CartPole-v1", {"lean": lean, "random": "random"}, episodes=3)
    >>> data.n_episodes
    6
    >>> bool(data["lean"].mean_returns > data["random"].mean_returns)
    True
    """
    if episodes < 1:
        raise UsageError(f"episodes must be at least 1, but is {episodes}")
    if seed < 0:
        raise UsageError(f"seed must not be negative, but is {seed}")
    if n_envs is not None and n_envs < 1:
        raise UsageError(f"n_envs must be at least 1, but is {n_envs}")
    environment = Environment.of(env, env_kwargs)
    named = name_policies(policies)
    if not named:
        raise UsageError("expected at least one policy, but none is given")
    settings = PlaySettings(episodes, seed, deterministic, actions, features, n_envs, max_steps)
    names = _names(environment, features, feature_names)
    if store is None:
        played = _play(environment, named, settings, progress)
        records = [played[i] for i in range(len(named))]
        chunks = [record.arrays for record in records]
        actors = [one.policy for one in named]
        return assemble(records, chunks, names, environment.name, actions, actors)
    identity = _identity(environment, settings) | {"policies": keep_policies}
    kept = Store(store, identity, names)
    with kept.writing():
        missing = [one for one in named if not _is_kept(kept, one)]
        try:
            _play(environment, missing, settings, progress, kept)
        except PivecError as error:
            done = sum(one.info.label in kept for one in named)
            if not done:
                raise
            raise type(error)(
                f"{error} ({done} of {len(named)} policies are kept in {kept.path}; the same "
                "command goes on from there)"
            ) from error
        kept.reorder([one.info.label for one in named])
    return kept.load([one.info.label for one in named])


def _play(
    environment: Environment,
    named: Sequence[NamedPolicy],
    settings: PlaySettings,
    progress: bool,
    store: Store | None = None,
) -> dict[int, PolicyRecord]:
    """Play; give each record to the store, or without one keep it."""
    records: dict[int, PolicyRecord] = {}
    with Progress("collecting", len(named), unit="policies", show=progress) as bar:
        for played in play(environment, named, settings, bar):
            record = _record(played)
            if store is None:
                records[played.index] = record
            else:
                store.add(record)
            bar.advance()
    return records


def _record(played: PlayedPolicy) -> PolicyRecord:
    episodes = played.episodes
    lengths = [len(episode.states) for episode in episodes]
    moves = [episode.actions for episode in episodes if episode.actions is not None]
    return PolicyRecord(
        played.named.info,
        np.concatenate([episode.states for episode in episodes]),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.array([episode.total_reward for episode in episodes]),
        np.array([episode.seed for episode in episodes]),
        np.array([episode.terminated for episode in episodes]),
        np.array([episode.truncated for episode in episodes]),
        np.concatenate(moves) if moves else None,
        played.named.policy,
    )


def _is_kept(store: Store, one: NamedPolicy) -> bool:
    """Whether these very states are there: the label, and the same policy behind it."""
    return one.info.label in store and store.fingerprint(one.info.label) == one.info.fingerprint


def _identity(environment: Environment, settings: PlaySettings) -> dict[str, Any]:
    """Everything that the states of a store depend on, beside the policies."""
    features = settings.features
    return {
        "environment": environment.name,
        "arguments": dict(environment.arguments),
        "backend": "gymnasium",
        "episodes": settings.episodes,
        "seed": settings.seed,
        "deterministic": settings.deterministic,
        "actions": settings.actions,
        "features": None if features is None else getattr(features, "__qualname__", repr(features)),
        "max_steps": settings.max_steps,
    }


def _names(
    environment: Environment, features: Features | None, names: Iterable[str] | None
) -> Sequence[str]:
    """Names of the values of a state, from the environment or from a trial of ``features``."""
    env = environment.make()
    try:
        space = env.observation_space
        if features is None:
            default = spaces.feature_names(space)
        else:
            batch = spaces.empty_batch(space, 1)
            observation, _ = env.reset(seed=0)
            spaces.assign(batch, 0, observation)
            default = tuple(f"f[{i}]" for i in range(np.asarray(features(batch)).shape[-1]))
    finally:
        env.close()
    given = default if names is None else tuple(names)
    if len(given) != len(default):
        raise UsageError(f"feature_names needs {len(default)} names, but has {len(given)}")
    return given
