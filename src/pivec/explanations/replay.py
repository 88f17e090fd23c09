"""Replays episodes: stored ones bit for bit, and policies on the seeds of others.

An episode follows from its seed and its policy alone, so a store need not keep the actions.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.errors import PivecError, PivecWarning
from pivec.explanations.clips import CannotReplay, Replay, Scene
from pivec.explanations.folder import ComparisonFolder
from pivec.options import CollectOptions, ReplayOptions
from pivec.policies import IMPORTABLE, NamedPolicy, PolicyInfo, UniformPolicy, name_policies
from pivec.rollouts import (
    ENVIRONMENT,
    GAME,
    ID,
    Environment,
    Episode,
    Probe,
    Quota,
    bind,
    environment_of,
    features_to_json,
    find_features_again,
    kept_lengths,
    kept_rows,
    n_inputs,
    play_here,
    row_times,
)
from pivec.states import Store, dataset_episode, is_filmed, is_recorded

if TYPE_CHECKING:
    from pivec.states.robots import Film

_MAX_STEPS = 100_000  # per episode on a new seed: the environment may have no limit of its own
_NAME_IT = "name the policy with --policies (from Python policies=)"
_KEEP_ACTIONS = "collect with --actions, which stores the actions"


class Replayer:
    """Replays episodes of a comparison or a store.

    Actions come from the store if they are there; otherwise from the policy, which is looked for
    in the store, in ``options.policies``, and in the file that the store names.

    Parameters
    ----------
    source : ComparisonFolder or Store
        The states, and how they were collected.
    options : ReplayOptions, optional
        The environment and the policies, where the store does not say.

    Examples
    --------
    >>> import tempfile, pivec
    >>> where = tempfile.mkdtemp()
    >>> data = pivec.collect("CartPole-v1", "random", episodes=3, store=where)
    >>> replay = Replayer(Store(where)).stored("random", 2)
    >>> bool((replay.states == list(data.episodes())[2]).all()), len(replay.actions) == replay.last
    (True, True)
    >>> Replayer(Store(where)).on_seed("random", 5).states.shape[1]
    4
    """

    def __init__(
        self, source: ComparisonFolder | Store, options: ReplayOptions | None = None
    ) -> None:
        options = options or ReplayOptions()
        self._env, self._options = options.env, options.collecting
        if isinstance(source, Store):
            self._folder, self._collected = Path(source.path), dict(source.settings)
            data = source.load() if len(source) else None
            infos: Sequence[PolicyInfo] = ()
        else:
            self._folder, self._collected = source.folder, dict(source.space.collected)
            data, infos = source.data, source.policies
        self._records = {} if data is None else {r.info.label: r for r in data.records}
        # States belong to the policies that the store names: a label may have been reused since.
        self._infos = {info.label: info for info in infos}
        self._infos |= {label: record.info for label, record in self._records.items()}
        self._given: dict[str, NamedPolicy] = {}
        if options.policies:
            named = name_policies(options.policies, options.trust, options.without_normaliser)
            self._given = {policy.info.fingerprint: policy for policy in named}
        self._bound: dict[str, NamedPolicy] = {}
        self._films: dict[str, dict[int, Film] | CannotReplay] = {}

    def stored(self, label: str, episode: int) -> Replay:
        """Replay a stored episode; a single different bit is a `CannotReplay`."""
        (result,) = self.stored_many([(label, episode)])
        if isinstance(result, CannotReplay):
            raise result
        return result

    def stored_many(self, wanted: Sequence[tuple[str, int]]) -> list[Replay | CannotReplay]:
        """Replay many (label, episode number); failures are returned, not raised."""
        stored = [_attempt(self._stored_episode, *pair) for pair in wanted]
        incomplete = {
            place: found
            for place, found in enumerate(stored)
            if isinstance(found, tuple) and (found[1] > 1 or found[0].actions is None)
        }
        # An episode that goes on for longer than the stored one is not the same.
        most = max((e.n_steps + 1 for e, _ in incomplete.values()), default=1)
        jobs = [(wanted[place][0], e.seed) for place, (e, _) in incomplete.items()]
        played = dict(zip(incomplete, self._play(jobs, most), strict=True))
        return [
            found
            if isinstance(found, CannotReplay | Replay)
            else _attempt(self._verified, *wanted[place], *found, played.get(place, found[0]))
            for place, found in enumerate(stored)
        ]

    def on_seed(self, label: str, seed: int) -> Replay:
        """Let a policy play the episode of any seed, in Gymnasium and at most 100,000 steps."""
        (played,) = self._play([(label, seed)], _MAX_STEPS)
        return self._replay(label, played, None)

    @cached_property
    def environment(self) -> Environment:
        """The environment that the states were collected in."""
        info = PolicyInfo("", source=str(self._folder), metadata=self._collected)
        if self._env is None and (name := _function_in(self._collected)):
            raise CannotReplay(
                f"the states were collected in an environment made by the function {name}: pass it "
                "from Python (env=)"
            )
        with _as_reason("the environment cannot be found again"):
            return environment_of(self._env, [info], self._options)

    @cached_property
    def scene(self) -> Scene:
        """What episodes are rendered with."""
        stored, world = self._collected.get("features"), self.environment
        with _as_reason("the features of the states cannot be found again"):
            features = find_features_again(
                self._options.features,
                stored,
                trust=self._options.trust,
                policies=[*self._given.values()],
                find_policy=self._feature_policy,
            )
        with _as_reason(f"{world.name} cannot be created again"):
            probe = Probe.of(world, features)
        view, fps = probe.view, probe.metadata.get("render_fps")
        if (found := features_to_json(view)) != stored:
            raise CannotReplay(
                f"the states of {self._folder} have features = {stored}, but here {found}: pass "
                "the same with --features (from Python features=)"
            )
        world = replace(world, one_by_one=n_inputs(view) > 1)
        return Scene(world, view, float(fps) if fps and 0 < fps < np.inf else 30.0)

    def scene_of(self, label: str) -> Scene:
        """What episodes of a policy are rendered with: `scene`, its own environment or films."""
        info = self._infos.get(label)
        if info is not None and is_filmed(info):
            film = next(iter(self._films_of(info).values()))
            return Scene(Environment("the video"), None, film.fps)
        if info is None or not info.own_environment:
            return self.scene
        if name := _function_in(info.own_environment):
            raise CannotReplay(
                f"{label} ran in an environment made by the function {name}, which cannot be found "
                "again: use POLICY@module:function"
            )
        own = PolicyInfo("", source=str(self._folder), metadata=info.own_environment)
        with _as_reason(f"the environment of {label} cannot be found again"):
            world = environment_of(None, [own], replace(self._options, env_kwargs=None))
        world = replace(world, one_by_one=self.scene.environment.one_by_one)
        return replace(self.scene, environment=world)

    def problem(self, labels: Sequence[str] = ()) -> str:
        """Say why nothing, or nothing of these policies, can be rendered; empty if it can."""
        reasons = [_attempt(self.scene_of, label) for label in labels or [""]]
        return next((str(found) for found in reasons if isinstance(found, CannotReplay)), "")

    def _how(self, label: str, key: str) -> Any:
        """How the states of a policy were collected."""
        info = self._infos.get(label)
        return (info.own_environment if info else {}).get(key, self._collected.get(key))

    def _feature_policy(self, source: str, fingerprint: str) -> NamedPolicy:
        """Find the policy whose hidden layer made the states."""
        info = next(
            (info for info in self._infos.values() if info.policy_fingerprint == fingerprint),
            PolicyInfo(source, source=source, fingerprint=fingerprint),
        )
        return self._recover(info)

    def _stored_episode(self, label: str, number: int) -> tuple[Episode, int] | Replay:
        """Read an episode, and k if one state in k is stored; a film needs no more."""
        if self._how(label, "backend") == "envpool":
            raise CannotReplay(
                "the states were collected with EnvPool, whose episodes Gymnasium does not repeat "
                "bit for bit: collect with --backend gymnasium"
            )
        if label not in self._records:
            raise CannotReplay(f"{self._folder} holds no states of {label}, so none can be shown")
        record = self._records[label]
        if not 0 <= number < len(record.episodes):
            raise CannotReplay(
                f"{label} has no episode {number}: expected 0 to {len(record.episodes) - 1}"
            )
        (episode,) = record.as_episodes([number])
        every, n_kept = record.every, len(episode.states)
        is_known = 1 <= every <= _MAX_STEPS and episode.n_steps < 1 << 40
        if not is_known or kept_lengths(episode.n_steps + 1, every) != n_kept:
            raise CannotReplay(
                f"{label} is damaged: it has {n_kept} states of {episode.n_steps} steps, thinned "
                f"by {every}"
            )
        if is_filmed(record.info):
            none = np.empty((episode.n_steps, 0))
            actions, films = episode.actions, self._films_of(record.info)
            film = films.get(dataset_episode(record.info, number))
            if film is None:
                raise CannotReplay(f"the dataset of {label} has no video of episode {number}")
            moves = none if actions is None or every > 1 else actions
            known = label, record.info.identity, episode.seed, moves, episode.states, number
            return Replay(*known, film=film)
        if episode.seed < 0:
            raise CannotReplay(
                f"{label} was recorded elsewhere, and the seed of its episode {number} is not known"
            )
        return episode, every

    def _films_of(self, info: PolicyInfo) -> dict[int, Film]:
        """Find the films of a dataset's episodes, by their numbers there."""
        from pivec.states.robots import films_of

        if info.label not in self._films:
            home = Path(info.source.partition(":")[2]).expanduser()
            places = [home, *(above / home for above in self._folder.resolve().parents)]
            digest = str(info.metadata.get("dataset"))
            self._films[info.label] = _attempt(films_of, places, digest)
        films = self._films[info.label]
        if isinstance(films, CannotReplay):
            raise films
        return films

    def _policy(self, label: str) -> NamedPolicy:
        if label not in self._bound:
            if label not in self._infos:
                raise CannotReplay(f"{self._folder} has no policy {label}")
            named = self._recover(self._infos[label])
            (self._bound[label],) = bind(self.scene_of(label).environment, [named])
        return self._bound[label]

    def _play(self, wanted: Sequence[tuple[str, int]], most: int) -> list[Episode | CannotReplay]:
        """Let policies play (label, seed), the episodes of each policy together."""
        seeds: dict[str, list[int]] = {}
        for label, seed in dict.fromkeys(wanted):
            seeds.setdefault(label, []).append(seed)
        results: dict[tuple[str, int], Episode | CannotReplay] = {}
        for label, own in seeds.items():
            played = _attempt(self._play_policy, label, own, most)
            failed = isinstance(played, CannotReplay)
            results |= {(label, seed): played if failed else played[seed] for seed in own}
        return [results[pair] for pair in wanted]

    def _play_policy(self, label: str, seeds: Sequence[int], most: int) -> dict[int, Episode]:
        limit = self._collected.get("max_steps")
        policy, quota = self._policy(label), Quota(len(seeds), seeds=np.array(seeds))
        options = CollectOptions(
            deterministic=bool(self._collected.get("deterministic")),
            max_steps=min(most, limit) if isinstance(limit, int) and limit > 0 else most,
            actions=True,
            features=self.scene.features,
            backend="gymnasium",
        )
        world = self.scene_of(label).environment
        [played] = play_here(world, [policy], options, quotas=[quota])
        return {episode.seed: episode for episode in played.episodes}

    def _verified(
        self, label: str, number: int, stored: Episode, every: int, again: Episode | CannotReplay
    ) -> Replay:
        """Compare what was played with what is stored."""
        if isinstance(again, CannotReplay):
            raise again
        thin = again.states[kept_rows(len(again.states), every)]
        if again is not stored and thin.tobytes() != stored.states.tobytes():
            pairs = zip(thin, stored.states, strict=False)
            same = [here.tobytes() == there.tobytes() for here, there in pairs]
            row = [*same, False].index(False)
            step = row_times(row, len(stored.states), stored.n_steps, every)
            raise CannotReplay(
                f"episode {number} of {label} differs when it is replayed, from about step {step} "
                "on: the environment is not deterministic given a seed, or has changed"
            )
        return self._replay(label, again, number)

    def _replay(self, label: str, episode: Episode | CannotReplay, number: int | None) -> Replay:
        if isinstance(episode, CannotReplay):
            raise episode
        if episode.actions is None:
            raise CannotReplay(f"the actions of {label} are not known")
        seat = None
        if str(self._how(label, ENVIRONMENT) or "").startswith(GAME):
            # The policy may play the other agents of a game as well.
            named = _attempt(self._policy, label)
            if not isinstance(named, CannotReplay):
                seat = named.policy, bool(self._collected.get("deterministic"))
        identity = self._infos[label].identity
        return Replay(label, identity, episode.seed, episode.actions, episode.states, number, seat)

    def _recover(self, info: PolicyInfo) -> NamedPolicy:
        """Find a policy again: in the store, among those given (by fingerprint), or in its file.

        A folder's files are trusted as little as a policy's: importing a module needs ``trust``.
        """
        record, failed = self._records.get(info.label), f"{info.label} cannot be run again"
        with _as_reason(failed):
            stored = None if record is None else record.read_policy()
            if stored is not None:
                return NamedPolicy(stored, info)
            if info.fingerprint and info.policy_fingerprint in self._given:
                return NamedPolicy(self._given[info.policy_fingerprint].policy, info)
            if info.source == "random":
                return NamedPolicy(UniformPolicy(), info)
            if is_recorded(info.source):
                raise CannotReplay(
                    f"{info.label} was recorded elsewhere ({info.source}), so its policy is not "
                    "known"
                )
            return NamedPolicy(self._read_policy(info, failed).policy, info)

    def _read_policy(self, info: PolicyInfo, failed: str) -> NamedPolicy:
        """Load a policy from its source; it must be identical."""
        source, options = info.source, self._options
        # Paths are relative to the current folder, or to one above the results. os.path, unlike a
        # Path, accepts names that no file can have.
        here = Path(os.path.expanduser(source))
        places = [here, *(above / source for above in self._folder.resolve().parents)]
        file = next((place for place in places if os.path.isfile(place)), None)
        if file is None and not IMPORTABLE.fullmatch(source):
            why = f"its file {source} is missing" if source else "its source is not known"
            raise CannotReplay(f"{failed}, since {why}: {_NAME_IT}, or {_KEEP_ACTIONS}")
        if file is None and not options.trust:
            raise CannotReplay(
                f"{failed}, since it is the Python object {source}: {_NAME_IT}, allow importing it "
                f"with --trust, or {_KEEP_ACTIONS}"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PivecWarning)  # they were shown when it was collected
            named, *_ = name_policies([file or source], options.trust, options.without_normaliser)
        if named.info.fingerprint != info.policy_fingerprint:
            raise CannotReplay(
                f"{failed}, since {file or source} has changed since its states were collected: "
                f"{_NAME_IT} as it was then, or compare again"
            )
        return named


def _function_in(collected: Mapping[str, Any]) -> str:
    """Name of the Python function that made the environment; empty if it was made by an id."""
    name = str(collected.get(ENVIRONMENT, ""))
    return "" if ":" in name or ID.search(name) else name


def _attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function, or why there is none."""
    try:
        return function(*arguments)
    except CannotReplay as error:
        return error
    except PivecError as error:
        return CannotReplay(str(error))


@contextmanager
def _as_reason(what: str) -> Iterator[None]:
    try:
        yield
    except CannotReplay:
        raise
    except PivecError as error:
        raise CannotReplay(f"{what}: {error}") from error
