"""collect: let policies act in an environment, and keep the states they visit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pivec.atomic import check_folder
from pivec.errors import PivecError, UsageError
from pivec.policies.load import name_policies
from pivec.policies.policy import NamedPolicy
from pivec.progress import Progress
from pivec.rollouts import spaces
from pivec.rollouts.backends import BACKENDS, choose_backend
from pivec.rollouts.centring import Centred, centred, moved_names
from pivec.rollouts.environment import Environment, Wrapper, close
from pivec.rollouts.features import feature_rows, load_features
from pivec.rollouts.lanes import first_batch
from pivec.rollouts.play import play
from pivec.rollouts.settings import Features, PlaySettings
from pivec.rollouts.trained_in import environment_of
from pivec.states.record import PolicyRecord, Recorded, record_of
from pivec.states.recorded import check_unique, read_recorded, split_recorded
from pivec.states.store import Store
from pivec.states.visited import VisitedStates

_MOST_EPISODES = 10**9


def collect(
    env: str | Environment | Callable[[], Any] | None,
    policies: Any,
    episodes: int = 100,
    seed: int = 0,
    *,
    store: str | Path | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    features: Features | str | None = None,
    feature_names: Sequence[str] | None = None,
    actions: bool = False,
    keep_policies: bool = False,
    deterministic: bool = False,
    n_envs: int | None = None,
    max_steps: int | None = None,
    max_states_per_policy: int | None = None,
    backend: str = "auto",
    jobs: int = 1,
    wrappers: Sequence[Wrapper] = (),
    imports: Sequence[str] = (),
    trust: bool = False,
    without_normaliser: bool = False,
    progress: bool = False,
) -> VisitedStates:
    """Let every policy play ``episodes`` episodes and return the states it visited.

    Each policy plays exactly that many; which ones does not depend on their length. The seed of an
    episode follows from (seed, fingerprint of the policy, number of the episode), so the result is
    the same however many environments run side by side, whichever other policies are there, and
    whatever it is called. Copies of a policy are left out with a warning, see
    `pivec.policies.name_policies`.

    Parameters
    ----------
    env : str, callable or None
        A Gymnasium id, or a function that makes an environment; None takes the environment that
        the policies' files tell, as those of RL Zoo and of pivec do.
    policies : str, policy, callable, or a list or dict of these
        Paths, globs, ``random``, ``module:object``, `Policy` objects, functions from a batch of
        observations to a batch of actions; a dict gives the labels. Recorded states stand beside
        them as ``npz:DIR``, ``minari:NAME`` or ``store:DIR``.
    episodes : int
        Episodes of each policy.
    seed : int
        Everything random follows from it.
    store : path, optional
        A folder to keep the states in. Policies that are in it already, under any name, are not
        played again.
    env_kwargs : mapping, optional
        Arguments for `gymnasium.make`; they come before those that the policies' files tell.
    features : callable or str, optional
        Turns a batch of observations into the rows to keep, instead of flattening them; or the
        name of such a function, see `pivec.rollouts.features.load_features`.
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
    max_states_per_policy : int, optional
        Thin very long runs: of all episodes of a policy every k-th state and the terminal one is
        kept, k the smallest power of two that is enough (kept in its metadata as ``kept_every``).
        Actions are those taken in the states that are kept.
    backend : str
        ``gymnasium``, ``envpool``, or ``auto``: EnvPool where it is installed and known to visit
        the same states. A store goes on with the backend it was begun with.
    jobs : int
        Processes to play in; a matter of speed only. What is to be sent to them must be picklable.
    wrappers : sequence of str or callable
        Put around the environment: ``module:Class``, ``module:Class{"argument": 1}``; instead of
        those that the policies' files tell.
    imports : sequence of str
        Modules to import first, which register the environment.
    trust : bool
        Allow policies and ``features`` in files that can run code when they are loaded.
    without_normaliser : bool
        Let policies act whose files tell that statistics which normalise observations are missing.
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
    _check_numbers(episodes, seed, n_envs, jobs, max_states_per_policy)
    if store is not None:
        check_folder(store)
    see = load_features(features, trust=trust) if isinstance(features, str) else features
    acting, recorded = split_recorded(policies)
    named: list[NamedPolicy] = []
    if not recorded or _is_any(acting):
        named = name_policies(acting, trust, without_normaliser)
    if not named and not recorded:
        raise UsageError("expected at least one policy, but none is given")
    told = [one.info for one in named]
    environment = environment_of(env, told, env_kwargs, wrappers, imports, trust)
    labels = [one.info.label for one in named] + [one.info.label for one in recorded]
    check_unique(labels)
    if backend == "auto" and store is not None and Store.exists(store):
        begun = Store(store)
        if len(begun) and begun.settings.get("backend") in BACKENDS:
            backend = str(begun.settings["backend"])
    space, see, names = _space_and_names(environment, see, feature_names)
    settings = PlaySettings(
        episodes,
        seed,
        deterministic,
        actions,
        see,
        n_envs,
        max_steps,
        choose_backend(backend, environment),
        max_states_per_policy,
    )

    def read(one: Recorded) -> PolicyRecord:
        return read_recorded(one, space, see, actions, max_states_per_policy, len(names))

    if store is None:
        played = _play(environment, named, settings, progress, jobs)
        records = [*(played[i] for i in range(len(named))), *map(read, recorded)]
        return VisitedStates(records, names, environment.name, has_actions=actions)
    identity = _identity(environment, settings) | {"policies": keep_policies}
    kept = Store(store, identity, names)
    with kept.writing():
        kept.claim([one.info for one in named] + [one.info for one in recorded])
        try:
            for one in recorded:
                if not kept.holds(one.info):
                    kept.add(read(one))
            missing = [one for one in named if not kept.holds(one.info)]
            _play(environment, missing, settings, progress, jobs, kept)
        except PivecError as error:
            done = sum(label in kept for label in labels)
            if not done:
                raise
            raise type(error)(
                f"{error} ({done} of {len(labels)} policies are kept in {kept.path}; the same "
                "command goes on from there)"
            ) from error
        kept.reorder(labels)
    return kept.load(labels)


def _play(
    environment: Environment,
    named: Sequence[NamedPolicy],
    settings: PlaySettings,
    progress: bool,
    jobs: int,
    store: Store | None = None,
) -> dict[int, PolicyRecord]:
    """Play; give each record to the store, or without one keep it."""
    records: dict[int, PolicyRecord] = {}
    with Progress("collecting", len(named), unit="policies", show=progress) as bar:
        for played in play(environment, named, settings, bar, jobs):
            one = played.named
            record = record_of(one.info, played.episodes, played.every, one.policy)
            if store is None:
                records[played.index] = record
            else:
                store.add(record)
            bar.advance()
    return records


def _is_any(policies: Any) -> bool:
    """Whether anything is left after recorded states were taken out."""
    return not (isinstance(policies, list | dict) and not policies)


def _check_numbers(
    episodes: int, seed: int, n_envs: int | None, jobs: int, max_states: int | None
) -> None:
    if not 1 <= episodes <= _MOST_EPISODES:
        raise UsageError(f"episodes must be from 1 to {_MOST_EPISODES:,}, but is {episodes}")
    if seed < 0:
        raise UsageError(f"seed must not be negative, but is {seed}")
    if n_envs is not None and n_envs < 1:
        raise UsageError(f"n_envs must be at least 1, but is {n_envs}")
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, but is {jobs}")
    if max_states is not None and max_states < 2 * episodes:
        raise UsageError(
            f"max_states_per_policy is {max_states}, but {episodes} episodes keep at least their "
            f"first and terminal states: ask for {2 * episodes} or more"
        )


def _identity(environment: Environment, settings: PlaySettings) -> dict[str, Any]:
    """Everything that the states of a store depend on, beside the policies."""
    features = settings.features
    return {
        "environment": environment.name,
        "arguments": dict(environment.arguments),
        "wrappers": environment.wrapper_names or None,
        "imports": list(environment.imports) or None,
        "backend": settings.backend,
        "episodes": settings.episodes,
        "seed": settings.seed,
        "deterministic": settings.deterministic,
        "actions": settings.actions,
        "features": None if features is None else getattr(features, "__qualname__", repr(features)),
        "max_steps": settings.max_steps,
        "max_states_per_policy": settings.max_states,
    }


def _space_and_names(
    environment: Environment, features: Features | None, names: Iterable[str] | None
) -> tuple[Any, Features | None, Sequence[str]]:
    """Space of the observations, features to use, and names of the values of a state.

    Names come from the environment, from ``features`` if it has ``names``, or from a trial of it.
    States far from zero need features of their own, see `pivec.rollouts.centring`.
    """
    env = environment.make()
    try:
        space = env.observation_space
        default = spaces.feature_names(space) if features is None else ()
        batch = first_batch(env, 1, environment.name)
    finally:
        close(env, environment.name)
    if features is not None:
        width = feature_rows(features, batch).shape[1]
        default = tuple(f"f[{i}]" for i in range(width))
        own = getattr(features, "names", None)
        if own is not None and len(own) == width:
            default = tuple(own)
    given = default if names is None else tuple(names)
    if len(given) != len(default):
        raise UsageError(f"feature_names needs {len(default)} names, but has {len(given)}")
    see = centred(space, features, batch)
    if isinstance(see, Centred):
        given = moved_names(given, dict(see.offsets))
    return space, see, given
