"""collect: run policies in an environment and keep the states they visit."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Unpack

from pivec.errors import PivecError, PivecWarning, UsageError
from pivec.files import is_uri
from pivec.options import CollectKeywords, CollectOptions, Features, takes_options
from pivec.parallel import using
from pivec.policies import NamedPolicy, name_policies
from pivec.rollouts import (
    BACKENDS,
    Environment,
    OffsetFeatures,
    PlayedPolicy,
    Probe,
    Quota,
    Values,
    choose_backend,
    environment_of,
    features_to_json,
    find_features_again,
    find_reference,
    n_inputs,
    offset_names,
    play_policies,
)
from pivec.rollouts import observations as spaces
from pivec.states import (
    PolicyRecord,
    RecordedPolicy,
    Store,
    VisitedStates,
    check_store_path,
    check_unique,
    content_digest,
    print_readings,
    read_recorded,
    record_of_played,
    split_recorded,
    without_credentials,
)
from pivec.terminal import Progress


@takes_options(CollectOptions)
def collect(
    env: str | Environment | Callable[[], Any] | None,
    policies: Any,
    episodes: int = 100,
    seed: int = 0,
    *,
    store: str | Path | None = None,
    progress: bool = False,
    **options: Unpack[CollectKeywords],
) -> VisitedStates:
    """Run every policy for ``episodes`` episodes and return the states it visited.

    Every policy plays exactly that many episodes. The seed of an episode derives from the seed, the
    policy's fingerprint and the episode's number, so results depend neither on the number of
    parallel environments nor on labels or the other policies. Copies of a policy are left out with
    a warning.

    Parameters
    ----------
    env : str, callable or None
        A Gymnasium id, or a function that creates an environment; None uses the environment that
        the policy files name, as those of RL Zoo do.
    policies : str, policy, callable, or a list or dict of these
        Paths, globs, ``random``, ``module:object``, `Policy` objects, or functions from a batch of
        observations to a batch of actions; the keys of a dict are labels. Recorded states can be
        included as ``npz:DIR``, ``minari:NAME`` or ``store:DIR``.
    episodes, seed : int
        Episodes per policy, and the random seed.
    store : path or URI, optional
        The folder to save the states in, local or remote (``s3://...``). Stored episodes are not
        played again: with more ``episodes``, new ones are added to the store; with fewer, the
        first ones are returned.
    progress : bool
        Show a progress bar.

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
    chosen = CollectOptions(episodes=episodes, seed=seed, **options)
    return Collector(env, policies, chosen, store, progress).run()


class Collector:
    """Policies, recorded states and the environment of one `collect`, all checked.

    Attributes
    ----------
    settings : mapping
        Everything that the states depend on beside the policies, as a store keeps it.
    acting : tuple of str
        Labels of the policies that act; others are recorded.
    """

    def __init__(
        self,
        env: str | Environment | Callable[[], Any] | None,
        policies: Any,
        options: CollectOptions,
        store: str | Path | None = None,
        progress: bool = False,
    ) -> None:
        self._store, self._progress = store, progress
        begun: Mapping[str, Any] = {}  # the settings of a store that grows, which stay
        if store is not None:
            check_store_path(store)
            if Store.exists(store) and len(known := Store(store)):
                begun = known.settings
        acting, self._recorded = split_recorded(policies)
        if progress:
            print_readings(self._recorded)
        nobody = isinstance(acting, list | dict) and not acting
        self._named: list[NamedPolicy] = []
        if not (nobody and self._recorded):
            allowed = options.trust, options.without_normaliser, options.skip_unreadable
            self._named = name_policies(acting, *allowed)
        if not self._named and not self._recorded:
            raise UsageError("expected at least one policy, but none is given")
        infos = [named.info for named in self._named]
        self.acting = tuple(info.label for info in infos)
        environment = environment_of(env, infos, options, [n.policy for n in self._named])
        features = options.features
        if isinstance(features, str):
            trusting: dict[str, Any] = {"policies": self._named, "trust": options.trust}
            find = functools.partial(find_reference, **trusting)
            kept = begun.get("features")
            features = find_features_again(features, kept, find_policy=find, **trusting)
        if options.joint and features is None:
            features = Values.joint(environment)
        self._infos = [*infos, *(recorded.info for recorded in self._recorded)]
        check_unique([info.label for info in self._infos])
        self._space, features, self._names = _space_and_names(
            environment, features, options.feature_names
        )
        self.environment = replace(environment, one_by_one=n_inputs(features) > 1)
        backend = options.backend
        if backend == "auto" and begun.get("backend") in BACKENDS:
            backend = begun["backend"]
        backend = choose_backend(backend, self.environment)
        self.options = replace(options, features=features, backend=backend)
        self.settings = {
            **self.environment.to_json(),
            "features": features_to_json(self.options.view),
            "policies": options.keep_policies,
        } | {
            field.name: getattr(self.options, field.name)
            for field in fields(options)
            if field.name not in _NAMED_ABOVE | _NO_PART
        }

    def run(self, episodes: Mapping[str, int] | None = None) -> VisitedStates:
        """Play the episodes that are not kept yet, and return the states of all policies.

        ``episodes`` has the numbers of episodes, by label, of policies that play others than
        ``options.episodes``. Of those that have more in the store the first ones are returned.
        """
        wanted = dict.fromkeys(self.acting, self.options.episodes) | dict(episodes or {})
        if self._store is not None:
            stored = self._run_into(Store(self._store, self.settings, self._names), wanted)
            records = [record.first(wanted.get(record.info.label, _ALL)) for record in stored]
            if episodes is None:
                _warn_of_more(stored, records, without_credentials(self._store))
        else:
            played: dict[int, PlayedPolicy] = {}
            quotas = [Quota(wanted[label]) for label in self.acting]
            self._play(self._named, quotas, played.__setitem__)
            records = [record_of_played(played[i]) for i in range(len(self._named))]
            records += map(self._read, self._recorded)
        return VisitedStates(records, self._names, self.environment.name)

    def _run_into(self, store: Store, wanted: Mapping[str, int]) -> Sequence[PolicyRecord]:
        labels = [info.label for info in self._infos]
        with store.writing():
            store.relabel(self._infos)
            try:
                for recorded in self._recorded:
                    if not store.n_episodes(recorded.info):
                        store.add(self._read(recorded))
                self._grow(store, wanted)
            except PivecError as error:
                done = sum(label in store for label in labels)
                if not done:
                    raise
                raise type(error)(
                    f"{error} ({done} of {len(labels)} policies are kept in {store.path}; run the "
                    "same command to resume)"
                ) from error
            store.reorder(labels)
        return store.load(labels).records

    def _grow(self, store: Store, wanted: Mapping[str, int]) -> None:
        """Play what is missing; a policy's longer file takes the place of the shorter one."""
        missing = [n for n in self._named if store.n_episodes(n.info) < wanted[n.info.label]]
        kept: dict[str, PolicyRecord] = {}
        quotas = [Quota(wanted[named.info.label]) for named in missing]
        # An environment of EnvPool draws its episodes one after another: it plays all again.
        if self.options.backend != "envpool":
            for i, label in enumerate(named.info.label for named in missing):
                if store.n_episodes(missing[i].info):
                    [kept[label]] = store[label].records  # which verifies the file
                    lengths = kept[label].episodes["length"]
                    quotas[i] = replace(quotas[i], lengths=lengths, every=kept[label].every)

        def add(_: int, played: PlayedPolicy) -> None:
            record, label = record_of_played(played), played.named.info.label
            store.add(kept[label].extended(record) if label in kept else record)

        self._play(missing, quotas, add)

    def _play(
        self,
        policies: Sequence[NamedPolicy],
        quotas: Sequence[Quota],
        keep: Callable[[int, PlayedPolicy], None],
    ) -> None:
        """Run policies; ``keep`` gets their numbers in the list and what they played."""

        def keep_and_count(number: int, played: PlayedPolicy) -> None:
            keep(number, played)
            bar.advance()

        bar = Progress("collecting", len(policies), unit="policies", show=self._progress)
        with using(self.options.engine, self.options.jobs), bar:
            play_policies(self.environment, policies, self.options, keep_and_count, bar, quotas)

    def _read(self, recorded: RecordedPolicy) -> PolicyRecord:
        chosen, width = self.options, len(self._names)
        limits = chosen.actions, chosen.max_states_per_policy, width
        return read_recorded(recorded, self._space, chosen.view, *limits)


# Every other option is one that the states depend on, also a new one until it is listed here.
_NAMED_ABOVE = {"env_kwargs", "wrappers", "atari", "imports", "features", "keep_policies"}
_NAMED_ABOVE |= {"agent", "partners", "joint"}  # which are among the arguments
_NO_PART = {"episodes", "feature_names", "n_envs", "threads", "trust"}
_NO_PART |= {"engine", "jobs", "retries", "without_normaliser", "skip_unreadable"}

_ALL = 10**9  # more episodes than any policy has


def _warn_of_more(kept: Sequence[PolicyRecord], used: Sequence[PolicyRecord], store: str) -> None:
    """Say that a store has more than is asked for, as after another command."""
    more = [a for a, b in zip(kept, used, strict=True) if len(b.episodes) < len(a.episodes)]
    if not more:
        return
    most = max(len(record.episodes) for record in more)
    thinned = sum(record.every > 1 for record in more)
    warnings.warn(
        f"{store} holds up to {most} episodes per policy, more than requested: only the first "
        f"episodes of {len(more)} policies are used (--episodes {most} uses all)"
        + f"; {thinned} of these are thinned as if all their episodes were used"
        * (thinned > 0),
        PivecWarning,
        stacklevel=3,
    )


def _space_and_names(
    environment: Environment, features: Features | None, names: Iterable[str] | None
) -> tuple[Any, Features | None, Sequence[str]]:
    """Space of the observations, features to use, and names of the values of a state.

    Names come from the environment, from ``features`` if it has ``names``, or from a trial of it.
    States far from zero need features of their own, see `pivec.rollouts.observations`.
    """
    probe = Probe.of(environment, features)
    if probe.ignores_seed:
        warnings.warn(
            f"{environment.name} ignores its seed (two resets with seed 0 returned different "
            "observations), so results are not reproducible: draw all random numbers in it from "
            "self.np_random, after super().reset(seed=seed)",
            PivecWarning,
            stacklevel=3,
        )
    if features is None:
        default = spaces.feature_names(probe.space)
        if not default:
            raise UsageError(
                f"observations of the kind {probe.space} hold no numbers: make some with features="
            )
        if texts := spaces.text_parts(probe.space):
            warnings.warn(
                f"states cannot contain text, so {', '.join(texts)} of the observations is left "
                "out: use --features (in Python features=) to convert it to numbers",
                PivecWarning,
                stacklevel=3,
            )
    else:
        own = getattr(probe.features, "names", None) or ()
        fits = len(own) == probe.width
        default = tuple(own if fits else (f"f[{i}]" for i in range(probe.width)))
    given = default if names is None else tuple(names)
    if len(given) != len(default):
        raise UsageError(f"feature_names needs {len(default)} names, but has {len(given)}")
    if isinstance(probe.view, OffsetFeatures):
        given = offset_names(given, dict(probe.view.offsets))
    return probe.space, probe.view, given


def find_store(source: Any) -> Store | None:
    """Open the store, or the states of a comparison, that a path or URI names; None otherwise."""
    if not isinstance(source, str | os.PathLike):
        return None
    text = os.fspath(source).removeprefix("store:")
    place: Any = text if is_uri(text) else Path(text).expanduser()
    within = f"{text.rstrip('/')}/states" if is_uri(text) else Path(place) / "states"
    return Store.find(place) if Store.exists(place) or Store.exists(within) else None


def write_store(
    data: VisitedStates, folder: str | Path, settings: Mapping[str, Any]
) -> VisitedStates:
    """Write the policies of ``data`` that a store does not have; return all as stored."""
    store = Store(folder, settings, data.feature_names)
    with store.writing():
        for record in data.records:
            label = record.info.label
            if label not in store or _digest(store[label].records[0]) != _digest(record):
                store.add(record)
        store.reorder(data.labels)
    return store.load(data.labels)


def _digest(record: PolicyRecord) -> str:
    return content_digest(record.episodes, *record.read_arrays())
