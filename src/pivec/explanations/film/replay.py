"""Episodes played again: those that are kept, bit for bit, and policies on seeds of others.

An episode follows from its seed and its policy alone, so a store need not keep what was done in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.errors import PivecError
from pivec.explanations.film.drawing import Studio
from pivec.explanations.film.sources import find_again
from pivec.explanations.film.takes import CannotReplay, Take
from pivec.options import CollectOptions
from pivec.policies.load import name_policies
from pivec.policies.policy import NamedPolicy, PolicyInfo
from pivec.policies.travelling import packed
from pivec.rollouts.environment import ENVIRONMENT, ID, Environment, environment_of
from pivec.rollouts.episodes import Episode, Quota
from pivec.rollouts.features import find_features, name_of
from pivec.rollouts.games import GAME
from pivec.rollouts.lanes import Probe
from pivec.rollouts.play import bind, play_here
from pivec.rollouts.seen import sees
from pivec.states.record import PolicyRecord
from pivec.states.store import Store

if TYPE_CHECKING:
    from pivec.explanations.folder import Findings

__all__ = ["CannotReplay", "Replayer", "Take"]

_MOST_STEPS = 100_000  # of an episode on a new seed: what limits it may be a stranger's


class Replayer:
    """Plays episodes of a comparison again.

    Where the actions come from: the store, if they are kept; the policy in the store; ``policies``;
    the policy's file, as the store names it.

    Parameters
    ----------
    findings : Findings or Store
        The states, and how they were collected.
    env : str, callable or None
        The environment, where the store does not tell it, as of one that a function makes.
    policies : as in `pivec.collect`, optional
        Those that acted, where the store does not tell where they are.
    options : CollectOptions
        Arguments of the environment, ``wrappers``, ``imports``, ``features`` and ``trust``; all
        else is as it was when the states were collected.

    Examples
    --------
    >>> import tempfile, pivec
    >>> where = tempfile.mkdtemp()
    >>> data = pivec.collect("CartPole-v1", "random", episodes=3, store=where)
    >>> take = Replayer(Store(where)).stored("random", 2)
    >>> bool((take.states == list(data.episodes())[2]).all()), len(take.actions) == take.last
    (True, True)
    >>> Replayer(Store(where)).on_seed("random", 5).states.shape[1]
    4
    """

    def __init__(
        self,
        findings: Findings | Store,
        env: Any = None,
        policies: Any = None,
        options: CollectOptions | None = None,
    ) -> None:
        self._env, self._options = env, options or CollectOptions()
        if isinstance(findings, Store):
            self._folder, self._collected = findings.folder.home, dict(findings.settings)
            data = findings.load() if len(findings) else None
            infos: Sequence[PolicyInfo] = () if data is None else data.policies
        else:
            self._folder, self._collected = findings.folder, dict(findings.space.collected)
            data, infos = findings.data, findings.policies
        self._records = {} if data is None else {r.info.label: r for r in data.records}
        self._width = 0 if data is None else data.n_features
        self._infos = {info.label: info for info in infos}
        # The states are those of whom the store names: a label may have changed hands since.
        self._infos |= {label: record.info for label, record in self._records.items()}
        self._given: dict[str, NamedPolicy] = {}
        if policies is not None:
            trust, without = self._options.trust, self._options.without_normaliser
            named = name_policies(policies, trust, without)
            self._given = {policy.info.fingerprint: policy for policy in named}
        self._bound: dict[str, NamedPolicy] = {}

    def stored(self, label: str, episode: int) -> Take:
        """Play an episode that is kept again; what differs by a bit is a `CannotReplay`."""
        return _single(self.stored_many([(label, episode)]))

    def stored_many(self, wanted: Sequence[tuple[str, int]]) -> list[Take | CannotReplay]:
        """Play many (label, number of the episode) again; those that fail are returned as such."""
        kept = [_attempt(self._kept, label, number) for label, number in wanted]
        missing = {
            place: mine
            for place, mine in enumerate(kept)
            if isinstance(mine, _Kept) and (mine.every > 1 or mine.episode.actions is None)
        }
        # No more than was kept: what goes on for longer is not the same.
        most = max((k.every * len(k.episode.states) for k in missing.values()), default=1)
        jobs = [(wanted[place][0], mine.episode.seed) for place, mine in missing.items()]
        played = dict(zip(missing, self._play(jobs, most), strict=True))
        result: list[Take | CannotReplay] = []
        for place, (label, number) in enumerate(wanted):
            mine = kept[place]
            if isinstance(mine, _Kept):
                again = played.get(place, mine.episode)
                mine = _attempt(self._checked, label, number, mine, again)
            result.append(mine)
        return result

    def on_seed(self, label: str, seed: int) -> Take:
        """Let a policy play the episode of any seed, as of another policy's episode.

        In Gymnasium, and for at most 100 000 steps.
        """
        return _single(self.on_seeds([(label, seed)]))

    def on_seeds(self, wanted: Sequence[tuple[str, int]]) -> list[Take | CannotReplay]:
        """Let policies play many (label, seed); those that fail are returned as such."""
        played = self._play(wanted, _MOST_STEPS)
        return [
            again if isinstance(again, CannotReplay) else self._take(label, again, None)
            for (label, _), again in zip(wanted, played, strict=True)
        ]

    # ---- what the states depend on ----

    @cached_property
    def environment(self) -> Environment:
        """The environment that the states were collected in."""
        telling = PolicyInfo("", source=str(self._folder), metadata=self._collected)
        name = str(self._collected.get(ENVIRONMENT, ""))
        if self._env is None and name and ":" not in name and not ID.search(name):
            raise CannotReplay(
                f"the states were collected in an environment that the function {name} makes: pass "
                "it from Python (env=)"
            )
        with _as_reason("the environment is not known again"):
            return environment_of(self._env, [telling], self._options)

    @cached_property
    def studio(self) -> Studio:
        """What episodes are drawn with: the environment, and what makes states of what it shows."""
        kept, world = self._collected.get("features"), self.environment
        kept = None if kept is None else str(kept)
        with _as_reason("what makes a state of an observation is not known again"):
            features = find_features(
                self._options.features,
                kept,
                self._width,
                trust=self._options.trust,
                policies=[*self._given.values()],
                seek=self._reference,
            )
        with _as_reason(f"{world.name} cannot be made again"):
            probe = Probe.of(world, features)
        view, rate = probe.view, probe.metadata.get("render_fps")
        if name_of(view) != kept:
            raise CannotReplay(
                f"the states of {self._folder} are made by features = {kept}, but here by "
                f"{name_of(view)}: give the same with --features (from Python features=)"
            )
        world = replace(world, watched=sees(view) > 1)
        return Studio(world, view, float(rate) if rate and 0 < rate < np.inf else 30.0)

    def problem(self) -> str:
        """Say why nothing can be drawn; empty if it can."""
        reason = _attempt(lambda: self.studio)
        return str(reason) if isinstance(reason, CannotReplay) else ""

    # ---- playing ----

    def _kept(self, label: str, number: int) -> _Kept:
        if self._collected.get("backend") == "envpool":
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
        if not 1 <= record.every <= _MOST_STEPS:
            raise CannotReplay(f"{label} says that every {record.every}th state is kept")
        (episode,) = record.as_episodes([number])
        if episode.seed < 0:
            raise CannotReplay(
                f"{label} was recorded elsewhere, and the seed of its episode {number} is not known"
            )
        return _Kept(episode, record.every)

    def _reference(self, source: str, fingerprint: str) -> NamedPolicy:
        """Find the policy again whose eyes the states were seen with."""
        info = next(
            (info for info in self._infos.values() if info.fingerprint == fingerprint),
            PolicyInfo(source, source=source, fingerprint=fingerprint),
        )
        record = self._records.get(info.label)
        return find_again(info, record, self._given, self._folder, self._options)

    def _policy(self, label: str) -> NamedPolicy:
        if label not in self._bound:
            if label not in self._infos:
                raise CannotReplay(f"{self._folder} has no policy {label}")
            record: PolicyRecord | None = self._records.get(label)
            info, options = self._infos[label], self._options
            named = find_again(info, record, self._given, self._folder, options)
            (self._bound[label],) = bind(self.environment, [named])
        return self._bound[label]

    def _play(self, wanted: Sequence[tuple[str, int]], most: int) -> list[Episode | CannotReplay]:
        """Let policies play (label, seed), all side by side; where that fails by themselves."""
        results: dict[tuple[str, int], Episode | CannotReplay] = {}
        seeds: dict[str, list[int]] = {}
        for label, seed in dict.fromkeys(wanted):
            policy = _attempt(self._policy, label)
            if isinstance(policy, CannotReplay):
                results[label, seed] = policy
            else:
                seeds.setdefault(label, []).append(seed)
        together = _attempt(self._play_all, seeds, most) if seeds else {}
        if isinstance(together, CannotReplay):
            for label, mine in seeds.items():
                for seed in mine:
                    alone = _attempt(self._play_all, {label: [seed]}, most)
                    failed = isinstance(alone, CannotReplay)
                    results[label, seed] = alone if failed else alone[label, seed]
        else:
            results |= together
        return [results[pair] for pair in wanted]

    def _play_all(self, seeds: dict[str, list[int]], most: int) -> dict[tuple[str, int], Episode]:
        collected = self._collected
        limit = collected.get("max_steps")
        most = min(most, limit) if isinstance(limit, int) and limit > 0 else most
        options = CollectOptions(
            deterministic=bool(collected.get("deterministic")),
            max_steps=most,
            actions=True,
            features=self.studio.view,
            backend="gymnasium",
        )
        policies = [self._policy(label) for label in seeds]
        quotas = [Quota(len(mine), seeds=np.array(mine)) for mine in seeds.values()]
        return {
            (played.named.info.label, episode.seed): episode
            for played in play_here(self.studio.world, policies, options, quotas=quotas)
            for episode in played.episodes
        }

    def _checked(self, label: str, number: int, kept: _Kept, again: Any) -> Take:
        if isinstance(again, CannotReplay):
            raise again
        thin = np.concatenate([again.states[: -1 : kept.every], again.states[-1:]])
        stored = kept.episode.states
        if again is not kept.episode and thin.tobytes() != stored.tobytes():
            pairs = zip(thin, stored, strict=False)
            same = [here.tobytes() == there.tobytes() for here, there in pairs]
            step = kept.every * [*same, False].index(False)
            raise CannotReplay(
                f"episode {number} of {label} is another when it is played again, from about step "
                f"{step} on: the environment does not repeat itself from a seed, or has changed"
            )
        return self._take(label, again, number)

    def _take(self, label: str, episode: Episode, number: int | None) -> Take:
        actions = episode.actions
        if actions is None:
            raise CannotReplay(f"the actions of {label} are not known")
        info = self._infos[label]
        seated = None
        # Partners in a game may be the policy itself.
        if str(self._collected.get(ENVIRONMENT, "")).startswith(GAME):
            named = _attempt(self._policy, label)
            if not isinstance(named, CannotReplay):
                seated = packed(named), bool(self._collected.get("deterministic"))
        return Take(label, info.identity, episode.seed, actions, episode.states, number, seated)


@dataclass(frozen=True)
class _Kept:
    """An episode as the store has it, thinned to every k-th state."""

    episode: Episode
    every: int


def _attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function gives, or why it does not."""
    try:
        return function(*arguments)
    except CannotReplay as error:
        return error
    except PivecError as error:
        return CannotReplay(str(error))


@contextmanager
def _as_reason(what: str) -> Any:
    try:
        yield
    except CannotReplay:
        raise
    except PivecError as error:
        raise CannotReplay(f"{what}: {error}") from error


def _single(results: list[Take | CannotReplay]) -> Take:
    (result,) = results
    if isinstance(result, CannotReplay):
        raise result
    return result
