"""collect: run policies in an environment and keep the states they visit."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Unpack

from pivec.errors import EnvironmentFailure, PivecError, PivecWarning, UsageError
from pivec.files import is_uri
from pivec.options import CollectKeywords, CollectOptions, Features, takes_options
from pivec.parallel import using
from pivec.policies import NamedPolicy, PolicyInfo, name_policies, split_environment
from pivec.rollouts import (
    BACKENDS,
    Environment,
    OffsetFeatures,
    PlayedPolicy,
    Probe,
    Quota,
    Values,
    callable_to_json,
    choose_backend,
    environments_of,
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
from pivec.terminal import Progress, shortened


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
    parallel environments nor on labels or the other policies. ``info["is_success"]`` of the last
    step of an episode is stored as the outcome ``success``. Copies of a policy are left out with
    a warning.

    Parameters
    ----------
    env : str, callable or None
        A Gymnasium id, or a function that creates an environment; None uses the environment that
        the policy files name, as those of RL Zoo do.
    policies : str, policy, callable, or a list or dict of these
        Paths, globs, ``random``, ``module:object``, `Policy` objects, or functions from a batch of
        observations to a batch of actions; the keys of a dict are labels. ``POLICY@ENV``, or a pair
        (policy, environment), has an environment of its own: a Gymnasium id with arguments,
        ``Pendulum-v1,g=5``, only arguments, or in a pair a function. Recorded states can be
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
        self._kept: dict[str, PolicyRecord] = {}  # what was played, without a store
        begun: Mapping[str, Any] = {}  # the settings of a store that grows, which stay
        if store is not None:
            check_store_path(store)
            if Store.exists(store) and len(known := Store(store)):
                begun = known.settings
        acting, self._recorded = split_recorded(policies)
        if progress:
            print_readings(self._recorded)
        nobody = isinstance(acting, list | dict) and not acting
        named: list[NamedPolicy] = []
        if not (nobody and self._recorded):
            named = name_by_environment(acting, options)
        if not named and not self._recorded:
            raise UsageError("expected at least one policy, but none is given")
        backend = options.backend
        if backend == "auto" and begun.get("backend") in BACKENDS:
            backend = begun["backend"]
        environment, self._named, backend = environments_of(
            env, named, replace(options, backend=backend), rename=not isinstance(acting, Mapping)
        )
        infos = [each.info for each in self._named]
        self.acting = tuple(info.label for info in infos)
        features = options.features
        if isinstance(features, str):
            trusting: dict[str, Any] = {"policies": self._named, "trust": options.trust}
            find = functools.partial(find_reference, **trusting)
            kept = begun.get("features")
            features = find_features_again(features, kept, find_policy=find, **trusting)
        if options.joint and features is None:
            features = Values.joint(environment)
        self._infos = [*infos, *(recorded.info for recorded in self._recorded)]
        own: dict[str, str] = {}
        for info in (info for info in infos if info.own_environment):
            if (other := own.get(info.fingerprint)) is not None:
                raise UsageError(
                    f"{other} and {info.label} are the same policy in environments of the same "
                    "name and arguments: give one, or functions of different names"
                )
            own[info.fingerprint] = info.label
        check_unique([info.label for info in self._infos])
        self._space, features, self._names = _space_and_names(
            environment, features, options.feature_names
        )
        self.environment = replace(environment, one_by_one=n_inputs(features) > 1)
        backend = choose_backend(backend, self.environment)
        self.options = replace(options, features=features, backend=backend)
        self._check_own_environments()
        self.settings = {
            **self.environment.to_json(),
            "features": features_to_json(self.options.view),
            "policies": options.keep_policies,
        } | {
            field.name: getattr(self.options, field.name)
            for field in fields(options)
            if field.name not in _NAMED_ABOVE | _NO_PART
        }
        if options.same_seeds:  # stores of earlier versions do not have these settings
            self.settings["same_seeds"] = True
        if options.outcomes:
            made = {name: callable_to_json(f) for name, f in options.outcomes.items()}
            self.settings["outcomes"] = made

    def _check_own_environments(self) -> None:
        """Refuse policies whose environments of their own have other observations."""
        view = self.options.view
        inner = view.inner if isinstance(view, OffsetFeatures) else view
        own = {id(n.environment): n for n in self._named if n.environment is not None}
        for named in own.values():
            choose_backend(named.info.own_environment["backend"], self._environment_of(named))
            given = named.environment, inner, self.options.feature_names
            space, found, names = _space_and_names(*given)
            same = names == self._names and features_to_json(found) == features_to_json(view)
            if inner is None:  # names may be the user's
                same &= spaces.feature_names(space) == spaces.feature_names(self._space)
            here, there = (shortened(f"{s}", 200) for s in (space, self._space))
            what = (
                f"{named.info.label} observes {here} in {named.environment.name}, and others "
                f"observe {there} in {self.environment.name}"
            )
            if not same:
                raise UsageError(f"{what}: policies can only be compared by the same features")
            if inner is None and space != self._space:
                warnings.warn(f"{what}: differences may come from that", PivecWarning, stacklevel=3)

    def _environment_of(self, named: NamedPolicy) -> Environment:
        own = named.environment or self.environment
        return replace(own, one_by_one=self.environment.one_by_one)

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
            kept = self._kept

            def known(info: PolicyInfo) -> int:
                return len(kept[info.label].episodes) if info.label in kept else 0

            self._grow(wanted, known, kept.__getitem__, lambda r: kept.update({r.info.label: r}))
            records = [kept[label].first(wanted[label]) for label in self.acting]
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
                # Finding a record verifies its file.
                self._grow(wanted, store.n_episodes, lambda i: store[i].records[0], store.add)
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

    def _grow(
        self,
        wanted: Mapping[str, int],
        known: Callable[[PolicyInfo], int],
        find: Callable[[str], PolicyRecord],
        keep: Callable[[PolicyRecord], None],
    ) -> None:
        """Play what is missing; a policy's longer record takes the place of the shorter one.

        ``known`` is how many episodes there are, and ``find`` returns those of a label.
        """
        missing = [n for n in self._named if known(n.info) < wanted[n.info.label]]
        kept: dict[str, PolicyRecord] = {}
        quotas = [Quota(wanted[named.info.label]) for named in missing]
        for i, info in enumerate(named.info for named in missing):
            # An environment of EnvPool draws its episodes one after another: it plays all again.
            if self._backend_of(info) != "envpool" and known(info):
                record = kept[info.label] = find(info.label)
                quotas[i] = replace(
                    quotas[i], lengths=record.episodes["length"], every=record.every
                )

        def add(played: PlayedPolicy) -> None:
            record = record_of_played(played)
            earlier = kept.get(record.info.label)
            keep(record if earlier is None else earlier.extended(record))

        self._play(missing, quotas, add)

    def _play(
        self,
        policies: Sequence[NamedPolicy],
        quotas: Sequence[Quota],
        keep: Callable[[PlayedPolicy], None],
    ) -> None:
        """Run policies, those of one environment together; ``keep`` gets what they played."""

        def keep_and_count(_: int, played: PlayedPolicy) -> None:
            keep(played)
            bar.advance()

        bar = Progress("collecting", len(policies), unit="policies", show=self._progress)
        groups: dict[int, list[tuple[NamedPolicy, Quota]]] = {}
        for named, quota in zip(policies, quotas, strict=True):
            groups.setdefault(id(named.environment), []).append((named, quota))
        failed: list[EnvironmentFailure] = []
        with using(self.options.engine, self.options.jobs), bar:
            for group in groups.values():
                own, own_quotas = map(list, zip(*group, strict=True))
                world, backend = self._environment_of(own[0]), self._backend_of(own[0].info)
                options = replace(self.options, backend=backend)
                try:
                    play_policies(world, own, options, keep_and_count, bar, own_quotas)
                except EnvironmentFailure as error:  # the others are played
                    failed.append(error)
        if failed:
            raise failed[0]

    def _backend_of(self, info: PolicyInfo) -> str:
        return str(info.own_environment.get("backend", self.options.backend))

    def _read(self, recorded: RecordedPolicy) -> PolicyRecord:
        chosen, width = self.options, len(self._names)
        limits = chosen.actions, chosen.max_states_per_policy, width
        return read_recorded(recorded, self._space, chosen.view, *limits)


# Every other option is one that the states depend on, also a new one until it is listed here.
_NAMED_ABOVE = {"env_kwargs", "wrappers", "atari", "imports", "features", "keep_policies"}
_NAMED_ABOVE |= {"same_seeds", "outcomes"}
# Which are among the arguments, and the wrappers.
_NAMED_ABOVE |= {"agent", "partners", "joint", "frame_skip"}
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


def name_by_environment(policies: Any, options: CollectOptions) -> list[NamedPolicy]:
    """Name policies; those given with an environment of their own have it unresolved."""
    allowed = options.trust, options.without_normaliser, options.skip_unreadable
    is_mapping = isinstance(policies, Mapping)
    listed = policies if isinstance(policies, Mapping | list | tuple) else [policies]
    groups: dict[Any, tuple[Any, dict[Any, Any]]] = {}
    for key in listed if is_mapping else range(len(listed)):
        thing, own = split_environment(listed[key])
        place = own if isinstance(own, str | None) else id(own)
        groups.setdefault(place, (own, {}))[1][key] = thing
    if not groups.keys() - {None}:
        return name_policies(policies, *allowed)
    result = []
    for own, things in groups.values():
        named = name_policies(things if is_mapping else list(things.values()), *allowed)
        result += [n if own is None else replace(n, environment=own) for n in named]
    return result


def find_store(source: Any) -> Store | None:
    """Open the store, or the states of a comparison, that a path or URI names; None otherwise."""
    if not isinstance(source, str | os.PathLike):
        return None
    text = os.fspath(source).removeprefix("store:")
    if is_uri(Path(text)) and not is_uri(text):  # such as lerobot:/data/demos
        return None
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
