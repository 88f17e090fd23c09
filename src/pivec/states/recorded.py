"""Recorded states beside policies, or alone: files, ``npz:DIR``, ``minari:NAME``, ``store:DIR``.

They stand where a policy may, and are put into the store as they are; nobody acts.
"""

from __future__ import annotations

import contextlib
import glob
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pivec.errors import BadData, BadPolicyFile, PivecError, PivecWarning, UsageError
from pivec.files import digest_of, is_uri, naming
from pivec.options import Features, TableOptions
from pivec.policies import PolicyInfo, is_policy_file, natural_key
from pivec.rollouts import PolicyEpisodes, feature_rows
from pivec.rollouts import observations as spaces
from pivec.states.arrays import content_digest, lost_offsets
from pivec.states.hdf5 import recorded_hdf5
from pivec.states.minari import datasets_in, find_minari
from pivec.states.npz import recorded_npy, recorded_npz
from pivec.states.record import (
    PolicyRecord,
    Recorded,
    check_finite,
    check_unique,
    feature_called,
    names_of,
    record_of,
)
from pivec.states.store import Store, shown_place, sum_of
from pivec.states.tables import TABLES, is_frame, open_table, recorded_of
from pivec.states.visited import VisitedStates

# -----------------------------------------------------------------------------
# Files of recorded states: found by path, folder or glob, and read by their extension.


_ARRAYS = {
    ".npz": recorded_npz,
    ".npy": recorded_npy,
    ".hdf5": recorded_hdf5,
    ".h5": recorded_hdf5,
}  # one policy a file
SUFFIXES = frozenset(_ARRAYS) | TABLES


def is_recording(path: Path) -> bool:
    """Tell whether a file is one of recorded states, by its extension, and no policy."""
    suffix = path.suffix.lower()
    return suffix in SUFFIXES and not is_policy_file(path, named=False)


def find_files(
    where: str, options: TableOptions | None = None, suffixes: frozenset[str] = SUFFIXES
) -> list[Recorded]:
    """Find what a file, the files of a folder or a glob hold; each has one policy or more.

    A policy that its file does not name is called after the file.
    """
    home = Path(where).expanduser()
    kinds = " or ".join(sorted(suffixes))
    if home.is_dir():
        paths = [path for path in home.rglob("*") if not path.name.startswith(".")]
    elif home.exists():
        paths, suffixes = [home], suffixes | {home.suffix.lower()}
    elif glob.has_magic(str(home)):
        paths = [Path(path) for path in glob.glob(str(home), recursive=True)]
    else:
        raise UsageError(f"{home} is not a folder or file of recorded states: check the path")
    paths = [path for path in paths if path.suffix.lower() in suffixes]
    if not paths:
        raise UsageError(
            f"{home} holds no {kinds} file that may be read: expected at least one policy"
        )
    paths.sort(key=lambda path: [natural_key(part) for part in path.parts])
    return told_apart(
        [
            source
            for path in paths
            for source in _recorded(path, home if home.is_dir() else path.parent, options)
        ]
    )


def _recorded(path: Path, home: Path, options: TableOptions | None) -> list[Recorded]:
    """Find the policies of one file below the folder ``home``."""
    inner = path.relative_to(home)
    label = inner.with_suffix("").as_posix()
    group = inner.parent.as_posix() if inner.parent != Path() else home.resolve().name
    suffix, chosen = path.suffix.lower(), options or TableOptions()
    if suffix not in SUFFIXES:
        raise UsageError(
            f"{path} has the extension {suffix or '(none)'}, which no reader of recorded states "
            f"knows: expected one of {', '.join(sorted(SUFFIXES))}"
        )
    with _about(path):
        digest = digest_of(path)
        source = f"{'npz' if suffix == '.npz' else 'table'}:{path}"
        if suffix in TABLES:
            return recorded_of(open_table(path), chosen, label, source, digest)
        fingerprint = digest if suffix == ".npz" else sum_of([digest, label, vars(chosen)])
        info = PolicyInfo(label, group, None, source, {}, fingerprint)
        return [_ARRAYS[suffix](path, info, chosen)]


@contextlib.contextmanager
def _about(path: Path) -> Iterator[None]:
    """Let errors name the file."""
    try:
        with naming(path, "recorded states", BadData):
            yield
    except (BadData, BadPolicyFile) as error:
        text = str(error)
        raise BadData(text if str(path) in text else f"{path}: {text}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def told_apart(sources: Sequence[Recorded]) -> list[Recorded]:
    """Put the name of the file, or of its folder, before labels that come twice.

    Examples
    --------
    >>> twice = [PolicyInfo("a", source=f"table:{run}/states.csv") for run in ("one", "two")]
    >>> [recorded.info.label for recorded in told_apart([Recorded(i, iter) for i in twice])]
    ['one/states/a', 'two/states/a']
    """
    result = list(sources)
    for level in range(2):
        counts = Counter(source.info.label for source in result)
        for number, source in enumerate(result):
            label = source.info.label
            path = Path(source.info.source.partition(":")[2])
            names = path.stem, path.parent.name
            if counts[label] > 1 and names[level] not in ("", label):
                info = replace(source.info, label=f"{names[level]}/{label}")
                result[number] = replace(source, info=info)
    return result


EXPECTED = "a table or array file, a folder of them, npz:DIR, minari:NAME or store:DIR"


def _find_store(where: str, _: TableOptions) -> list[Recorded]:
    """The policies of another store, or of a comparison."""
    store = Store.find(where if is_uri(where) else Path(where).expanduser())
    return [replace(x, collected=store.settings) for x in recorded_in(store.load())]


def recorded_in(data: VisitedStates) -> list[Recorded]:
    """Give the policies of data as they are; a fingerprint is the digest of the states.

    That of a policy would stay the same while it plays other episodes.
    """
    return [
        Recorded(
            replace(
                record.info, fingerprint=content_digest(record.episodes, *record.read_arrays())
            ),
            record.as_episodes,
            environment=data.environment,
            names=data.feature_names,
            is_flat=True,
            has_actions=record.has_actions,
        )
        for record in data.records
    ]


_FINDERS: dict[str, Callable[[str, TableOptions], list[Recorded]]] = {
    "npz:": partial(find_files, suffixes=frozenset({".npz"})),
    "table:": find_files,
    "minari:": lambda name, _: find_minari(name),
    "store:": _find_store,
}


def is_recorded(thing: object) -> bool:
    """Tell whether something that a user gives as a policy stands for recorded states."""
    if not isinstance(thing, str | os.PathLike):
        data = VisitedStates | Recorded
        return isinstance(thing, data) or is_frame(thing) or _is_episodes(thing)
    text = os.fspath(thing)
    if text.startswith(tuple(_FINDERS)):
        return True
    if is_uri(text):
        return Store.exists(text)
    path = Path(text).expanduser()
    with contextlib.suppress(OSError, ValueError):  # of names that are no paths
        if path.is_dir():
            return Store.exists(path) or _is_comparison(path)
        files = [path] if path.is_file() else map(Path, glob.glob(str(path), recursive=True))
        kinds = [is_recording(file) for file in files]
        return bool(kinds) and all(kinds)
    return False


def _is_comparison(folder: Path) -> bool:
    """Tell whether a folder holds states of a comparison, and no policies beside them."""
    if not Store.exists(folder / "states"):
        return False
    beside = (path for path in folder.rglob("*") if path.relative_to(folder).parts[0] != "states")
    return not any(is_policy_file(path, named=False) for path in beside if path.is_file())


def _is_episodes(thing: object) -> bool:
    """Tell whether something is episodes of one policy, as arrays."""
    if isinstance(thing, np.ndarray):
        return thing.ndim == 3
    return isinstance(thing, list) and all(isinstance(part, np.ndarray) for part in thing)


def split_recorded(policies: Any) -> tuple[Any, list[Recorded]]:
    """Separate recorded states from the policies that have to act.

    Minari datasets in a folder that is named as policies are found as well.
    """
    if isinstance(policies, Mapping):
        acting: dict[Any, Any] = {}
        recorded: list[Recorded] = []
        for label, thing in policies.items():
            acts, sources = _split(thing)
            if acts:
                acting[label] = thing
            alone = len(sources) == 1 and not acts
            for source in sources:
                name = label if alone else f"{label}/{source.info.label}"
                recorded.append(replace(source, info=replace(source.info, label=name)))
        return acting, recorded
    if isinstance(policies, Sequence) and not isinstance(policies, str):
        parts = [(thing, *_split(thing)) for thing in policies]
        remaining = [thing for thing, acts, _ in parts if acts]
        return remaining, [source for *_, sources in parts for source in sources]
    acts, recorded = _split(policies)
    return (policies if acts else []), recorded


def _split(thing: Any) -> tuple[bool, list[Recorded]]:
    """Whether something a user names holds policies that act, and what recorded states it holds."""
    if is_recorded(thing):
        return False, find_recorded(thing)
    folder = Path(thing).expanduser() if isinstance(thing, str | os.PathLike) else None
    if folder is None or not folder.is_dir():
        return True, []
    recorded = [
        source for path in datasets_in(folder) for source in find_recorded(f"minari:{path}")
    ]
    acts = not recorded or any(
        is_policy_file(path, named=False) for path in folder.rglob("*") if path.is_file()
    )
    return acts, recorded


def find_recorded(spec: Any, options: TableOptions | None = None) -> list[Recorded]:
    """Find what ``npz:DIR``, ``minari:NAME``, ``store:DIR``, a file or data in memory stands for.

    ``options`` tell what the columns of tables mean, where their names do not.
    """
    chosen = options or TableOptions()
    if isinstance(spec, Recorded):
        return [spec]
    if isinstance(spec, VisitedStates):
        return recorded_in(spec)
    if is_frame(spec):
        return recorded_in(VisitedStates.from_pandas(spec, **vars(chosen)))
    if _is_episodes(spec):
        return recorded_in(VisitedStates.from_arrays([spec]))
    text = os.fspath(spec)
    if not text.startswith(tuple(_FINDERS)):
        is_store = Path(text).expanduser().is_dir() and is_recorded(text)
        text = f"{'store' if is_store else 'table'}:{text}"
    kind, colon, where = text.partition(":")
    if not where:
        raise UsageError(f"{spec!r} names no data: expected {EXPECTED}")
    with naming(kind + colon + shown_place(where), "recorded episodes", BadData):
        return _FINDERS[kind + colon](where, chosen)


def read_recorded(
    recorded: Recorded,
    space: Any,
    features: Features | None,
    actions: bool,
    max_states: int | None,
    width: int,
) -> PolicyRecord:
    """Turn recorded episodes into states of ``width`` values.

    ``space`` flattens the observations, or ``features`` turns them into rows; without either they
    are arrays of numbers already. ``actions`` must be there if they are to be kept.
    """
    label = recorded.info.label
    if recorded.is_flat:
        space = features = None
    kept = PolicyEpisodes(max_states)
    for number, episode in enumerate(recorded.episodes()):
        where = f"episode {number} of {label}"
        rows = rows_of(episode.states, space, features, where, recorded.names)
        if rows.shape[1] != width:
            raise BadData(
                f"the recorded states of {label} have {rows.shape[1]} values, but those of the "
                f"environment have {width}: was it recorded in another environment?"
            )
        check_finite(rows, where, recorded.names)
        if actions and episode.actions is None:
            raise UsageError(
                f"the recorded episodes of {label} have no actions: collect without --actions"
            )
        moves = None if episode.actions is None else episode.actions[: len(rows) - 1]
        seed = episode.seed if 0 <= episode.seed < 2**63 else -1
        kept.append(replace(episode, states=rows, actions=moves if actions else None, seed=seed))
    if not len(kept):
        raise BadData(f"{recorded.info.source} holds no episodes of {label}")
    record = record_of(recorded.info, kept.all(), kept.every)
    if record.info.fingerprint:
        return record
    digest = content_digest(record.episodes, *record.read_arrays())
    return replace(record, info=replace(record.info, fingerprint=digest))


def rows_of(
    observations: Any,
    space: Any,
    features: Features | None,
    where: str,
    names: Sequence[str] | None = None,
) -> Any:
    """Turn observations into states, (n_steps, n_values); ``where`` says whose they are."""
    try:
        if features is not None:
            rows = feature_rows(features, observations)
        elif space is not None:
            rows = spaces.flatten(space, observations)
        else:
            array = np.asarray(observations)
            if array.dtype.kind not in "biuf":
                raise BadData(f"states must be numbers, but are {array.dtype}")
            wide = array.reshape(len(array), -1)
            for column, offset in lost_offsets([wide]).items():
                name = feature_called(column, names)
                raise BadData(
                    f"feature {name} lies closer to {offset:.10g} than float32 can tell apart: "
                    "subtract an offset first"
                )
            rows = wide.astype(np.float32)
    except PivecError as error:
        raise type(error)(f"{where}: {error}") from error
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise BadData(f"{where}: the observations do not fit the environment: {error}") from error
    if rows.ndim != 2 or not len(rows):
        raise BadData(f"{where}: expected one row of numbers for each step, got {rows.shape}")
    return rows


# -----------------------------------------------------------------------------
# Recorded states put together with no environment, in memory or in a store.


_WORLD = ("environment", "arguments", "wrappers", "imports", "features")  # that states are of


class Recordings:
    """Recorded states that are put together with no environment, as a `Collector` would.

    Actions are kept if every policy has them. The environment is that of the first source, if not
    given, and so are names of features, which may not differ.

    Attributes
    ----------
    settings : dict
        What a store of them keeps.
    """

    acting: tuple[str, ...] = ()

    def __init__(
        self,
        sources: Sequence[Recorded],
        store: str | Path | None = None,
        environment: str = "",
        max_states_per_policy: int | None = None,
    ) -> None:
        if not sources:
            raise UsageError(f"expected at least one of {EXPECTED}, but none is given")
        self._sources, self._store = told_apart(sources), store
        check_unique([source.info.label for source in self._sources])
        first = self._sources[0]
        known = spaces.feature_names(first.space) if first.space is not None else first.names
        if known is None:
            probe = rows_of(next(first.episodes()).states, first.space, None, first.info.label)
            known = names_of(None, probe.shape[1])
        self._names = tuple(known)
        for source in self._sources:
            if source.names not in (None, self._names):
                raise BadData(
                    f"{source.info.source or source.info.label} has the features "
                    f"{', '.join(source.names or ())[:200]}, but {first.info.label} has "
                    f"{', '.join(self._names)[:200]}: all need the same, in the same order"
                )
        world = dict(first.collected) | {"environment": environment or first.environment}
        self.settings: dict[str, Any] = {
            **{key: world[key] for key in _WORLD if world.get(key)},
            "environment": world["environment"],
            "arguments": world.get("arguments") or {},
            "backend": "recorded",
            "actions": all(map(_has_actions, self._sources)),
            "max_states_per_policy": max_states_per_policy,
        }
        self._warn_of_other_worlds(world)

    def run(self) -> VisitedStates:
        """Read what is not in the store yet, and return the states of all."""
        if self._store is None:
            records = [self._read(source) for source in self._sources]
            return VisitedStates(records, self._names, self.settings["environment"])
        labels = [source.info.label for source in self._sources]
        kept = Store(self._store, self.settings, self._names)
        with kept.writing():
            kept.claim([source.info for source in self._sources])
            for source in self._sources:
                if not kept.holds(source.info):
                    kept.add(self._read(source))
            kept.reorder(labels)
        return kept.load(labels)

    def _warn_of_other_worlds(self, world: Mapping[str, Any]) -> None:
        """Say where states come from something else than the first do."""
        for source in self._sources[1:]:
            theirs = dict(source.collected) | {"environment": source.environment}
            for key in _WORLD:
                if theirs.get(key) and world.get(key) and theirs[key] != world[key]:
                    warnings.warn(
                        f"{source.info.label} was recorded with {key} = {theirs[key]!r}, "
                        f"{self._sources[0].info.label} with {world[key]!r}: what differs may come "
                        "from that",
                        PivecWarning,
                        stacklevel=4,
                    )

    def _read(self, source: Recorded) -> PolicyRecord:
        actions, most = self.settings["actions"], self.settings["max_states_per_policy"]
        return read_recorded(source, source.space, None, actions, most, len(self._names))


def _has_actions(source: Recorded) -> bool:
    if source.has_actions is not None:
        return source.has_actions
    return next(source.episodes()).actions is not None


def import_recorded(
    specs: Sequence[Any],
    store: str | Path,
    *,
    environment: str = "",
    max_states_per_policy: int | None = None,
    options: TableOptions | None = None,
) -> VisitedStates:
    """Put recorded states into a store of their own, with no environment to make.

    ``specs`` are files, folders of files, ``npz:DIR``, ``minari:NAME`` and ``store:DIR``; see
    `Recordings`. ``options`` tell what the columns of tables mean, where their names do not.
    """
    sources = [source for spec in specs for source in find_recorded(spec, options)]
    return Recordings(sources, store, environment, max_states_per_policy).run()
