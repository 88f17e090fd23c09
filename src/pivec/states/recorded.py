"""Recorded states next to policies, or alone: files, datasets, ``minari:NAME``, ``store:DIR``.

They can be given wherever a policy can, and are put into the store as they are; nothing is
simulated.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pivec.errors import BadData, BadPolicyFile, PivecError, PivecWarning, UsageError
from pivec.files import Budget, broken_link, digest_of, file_name, is_uri, naming, read_regular
from pivec.options import Features, TableOptions
from pivec.parallel import confined
from pivec.policies import PolicyInfo, is_policy_file, natural_key
from pivec.rollouts import Episode, PolicyEpisodes, Quota, feature_rows, kept_lengths
from pivec.rollouts import observations as spaces
from pivec.states.folders import without_credentials
from pivec.states.store import Store, json_digest
from pivec.states.visited import (
    PolicyRecord,
    VisitedStates,
    check_finite,
    check_unique,
    content_digest,
    feature_text,
    lost_offsets,
    names_of,
    record_of,
)
from pivec.terminal import say, shortened

_TABLES = frozenset({".parquet", ".feather", ".arrow", ".csv", ".tsv", ".jsonl", ".ndjson"})
_SUFFIXES = _TABLES | {".npz", ".npy", ".hdf5", ".h5"}
_PREFIXES = ("npz:", "table:", "minari:", "lerobot:", "rlds:", "store:")
LEROBOT = Path("meta", "info.json")  # the file by which LeRobot datasets are recognized
_FRAMES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")}
_EXPECTED = (
    "a table or array file, a folder of them, a LeRobot dataset, npz:DIR, minari:NAME, "
    "lerobot:OWNER/NAME, rlds:DIR or store:DIR"
)
_WORLD = ("environment", "arguments", "wrappers", "imports", "features")  # settings that matter


@dataclass(frozen=True)
class RecordedPolicy:
    """Recorded episodes of one policy, read on demand.

    ``read`` yields them; their states are observations as they were found: a batch of arrays, or
    dicts and tuples of them. If ``is_flat``, they are rows of numbers already.
    """

    info: PolicyInfo
    read: Callable[[], Iterator[Episode]]
    space: Any = None  # of the observations, where it is known
    environment: str = ""
    names: tuple[str, ...] | None = None  # of the values of a state
    is_flat: bool = False
    has_actions: bool | None = None  # None if unknown before reading
    collected: Mapping[str, Any] = field(default_factory=dict)  # settings of a store it is in
    clock: str = "steps"  # what the times of states count, if they are recorded: steps or time
    reading: tuple[tuple[str, str], ...] = ()  # which columns or arrays are used for what

    def episodes(self) -> Iterator[Episode]:
        """Read one episode after another."""
        with naming(self.info.source, "recorded episodes", BadData):
            try:
                yield from self.read()
            except (BadData, BadPolicyFile) as error:
                kind, _, path = self.info.source.partition(":")
                name = path if kind in ("npz", "table", "lerobot") else self.info.source
                raise BadData(_named(name, error)) from error

    def renamed(self, label: str) -> RecordedPolicy:
        """Return the same with another label."""
        return replace(self, info=replace(self.info, label=label))


def print_readings(policies: Iterable[RecordedPolicy]) -> None:
    """Print how tables and arrays without names of their own were understood, each once."""
    readings: dict[tuple[tuple[str, str], ...], list[RecordedPolicy]] = {}
    for policy in policies:
        readings.setdefault(policy.reading, []).append(policy)
    for reading, found in readings.items():
        if reading:
            sources = list(dict.fromkeys(policy.info.source.partition(":")[2] for policy in found))
            more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
            labels = shortened(", ".join(policy.info.label for policy in found), 100)
            say(f"{sources[0] or 'The table'}{more}, policies {labels}")
            for what, text in reading:
                say(f"  {what:<9} {shortened(text, 160)}")


def find_recorded(spec: Any, options: TableOptions | None = None) -> list[RecordedPolicy]:
    """Find the policies in ``npz:DIR``, ``minari:NAME``, ``store:DIR``, a file or data in memory.

    ``options`` describe the columns of tables with unusual names.
    """
    chosen = options or TableOptions()
    if isinstance(spec, RecordedPolicy):
        return [spec]
    if _is_frame(spec):
        spec = VisitedStates.from_pandas(spec, **vars(chosen))
    elif _is_episodes(spec):
        spec = VisitedStates.from_arrays([spec])
    if isinstance(spec, VisitedStates):
        return _policies_of(spec, {})
    text = os.fspath(spec)
    if not text.startswith(_PREFIXES):
        path = Path(text).expanduser()
        is_store = is_uri(text) or (_is_store(path) and not is_lerobot(path))
        text = f"{'store' if is_store else 'table'}:{text}"
    kind, _, where = text.partition(":")
    if not where:
        raise UsageError(f"{spec!r} names no data: expected {_EXPECTED}")
    with naming(f"{kind}:{without_credentials(where)}", "recorded episodes", BadData):
        if kind == "minari":
            from pivec.states.minari import find_dataset, find_minari

            folder, size = find_dataset(where.partition("#")[0])
            with naming_it(folder):
                return _find_confined(_Source(find_minari, (folder, where), size))
        if kind == "store":
            store = Store.find(os.path.expanduser(where))
            return _policies_of(store.load(), store.settings)
        if kind == "rlds":
            from pivec.states.robots import find_rlds

            if chosen != TableOptions():
                raise UsageError("options about columns do not apply to RLDS datasets: omit them")
            return find_rlds(Path(where).expanduser())
        if kind == "lerobot":
            from pivec.states.robots import lerobot_folder

            where = str(lerobot_folder(where))
        return _find_files(where, chosen, frozenset({".npz"}) if kind == "npz" else _SUFFIXES)


def _find_files(
    where: str, options: TableOptions, suffixes: frozenset[str]
) -> list[RecordedPolicy]:
    """Find the policies in a file, the files of a folder, or a glob."""
    home = Path(where).expanduser()
    datasets: set[Path] = set()
    if home.is_dir():
        datasets = set(lerobot_datasets(home))
        paths = [path for path in home.rglob("*") if not path.name.startswith(".")]
        paths = [path for path in paths if not datasets.intersection((path, *path.parents))]
    elif home.exists():
        paths, suffixes = [home], suffixes | {home.suffix.lower()}
    elif glob.has_magic(str(home)):
        paths = [Path(path) for path in glob.glob(str(home), recursive=True)]
        datasets = {path for path in paths if is_lerobot(path)}
    else:
        problem = broken_link(home) or f"{home} is not a folder or file of recorded states"
        raise UsageError(f"{problem}: check the path")
    paths = [*(path for path in paths if path.suffix.lower() in suffixes), *datasets]
    if not paths:
        raise UsageError(f"{home} holds no {' or '.join(sorted(suffixes))} file")
    if home.is_dir() and options.episode_length is None and options.episode_starts is None:
        paths = _with_folders(paths)
    paths.sort(key=lambda path: [natural_key(part) for part in path.parts])
    found = [
        policy
        for path in paths
        for policy in _policies_in_file(path, home if home.is_dir() else path.parent, options)
    ]
    return _with_unique_labels(found)


def _with_folders(paths: Sequence[Path]) -> list[Path]:
    """Replace `.npy` files that are one policy together by their folder."""
    from pivec.states.readers import is_one_policy

    folders = []
    for folder in {path.parent for path in paths if path.suffix.lower() == ".npy"}:
        with naming(folder, "recorded states", BadData):
            folders += [folder] * is_one_policy(folder)
    return [
        *folders,
        *(path for path in paths if path.suffix != ".npy" or path.parent not in folders),
    ]


def _policies_in_file(path: Path, home: Path, options: TableOptions) -> list[RecordedPolicy]:
    inner, suffix = path.relative_to(home), path.suffix.lower()
    is_folder = path.is_dir() and suffix not in _SUFFIXES
    if path.is_dir() and is_lerobot(path):
        confined.start("pivec.states.robots")
        from pivec.states.robots import find_lerobot, lerobot_files, lerobot_name

        label = inner.as_posix() if inner.parts else lerobot_name(path)
        with naming_it(path), naming(path, "a LeRobot dataset", BadData):
            digest, size = lerobot_files(path)
            return _find_confined(_Source(find_lerobot, (path, label, options, digest), size))
    if path == home:  # a folder that is one policy
        inner, home = Path(path.resolve().name), path.resolve().parent
    if suffix not in _SUFFIXES and not is_folder:
        raise UsageError(
            f"{path} has the extension {suffix or '(none)'}, which no reader of recorded states "
            f"supports: expected one of {', '.join(sorted(_SUFFIXES))}"
        )
    label = (inner if is_folder else inner.with_suffix("")).as_posix()
    is_bounded = is_folder or suffix in (".npz", ".npy")
    group = inner.parent.as_posix() if inner.parent != Path() else home.resolve().name
    with naming_it(path), naming(path, "recorded states", BadData):
        if not is_bounded:
            confined.start("pivec.states.readers")  # while the digest is computed
        digests = map(digest_of, sorted(path.glob("*.npy")) if is_folder else [path])
        arguments = (
            path,
            label,
            group,
            options,
            json_digest(list(digests)) if is_folder else next(digests),
        )
        if is_bounded:
            return _find_in_file(*arguments)
        return _find_confined(_Source(_find_in_file, arguments, path.stat().st_size))


def _find_in_file(
    path: Path, label: str, group: str, options: TableOptions, digest: str
) -> list[RecordedPolicy]:
    from pivec.states.readers import array_policy, open_hdf5, open_table, table_policies

    is_npz = path.suffix.lower() == ".npz"
    source = f"{'npz' if is_npz else 'table'}:{path}"
    if path.suffix.lower() in _TABLES:
        return table_policies(open_table(path), options, label, source, digest)
    is_cut = options.episode_length is not None or options.episode_starts is not None
    is_whole = is_npz and not is_cut  # other options do not change what is read
    fingerprint = digest if is_whole else json_digest([digest, label, vars(options)])
    info = PolicyInfo(label, group, None, source, {}, fingerprint)
    if path.suffix.lower() in (".hdf5", ".h5"):
        from pivec.states.robots import find_robomimic, is_robomimic

        with open_hdf5(path) as file:
            has_demonstrations = is_robomimic(file)
        if has_demonstrations:
            return find_robomimic(path, info, options)
    return [array_policy(path, info, options)]


@contextlib.contextmanager
def naming_it(path: Path) -> Iterator[None]:
    """Name the file in errors, which may be clauses that refer to it as "it"."""
    try:
        yield
    except (BadData, BadPolicyFile) as error:
        raise BadData(_named(path, error)) from error
    except UsageError as error:
        raise UsageError(_named(path, error)) from error


def _named(path: str | Path, error: Exception) -> str:
    text = str(error)
    if str(path) in text:
        return text
    return f"{path} {text[3:]}" if text.startswith("it ") else f"{path}: {text}"


# ---- reading in a child process ----

_MOST_BYTES = 1 << 34  # that a file may unpack to
_BATCH = 1 << 22  # bytes of episodes that are sent at once
_ONE_HOT = 5 << 20  # added to the size of a file, since its states may be codes of many values


@dataclass(frozen=True)
class _Source:
    """A function that finds policies in files, its arguments (a path first), and their size."""

    find: Callable[..., list[RecordedPolicy]]
    arguments: tuple[Any, ...]
    size: int


def _find_confined(source: _Source) -> list[RecordedPolicy]:
    """Find policies, and later read their episodes, in the child process."""
    found: list[RecordedPolicy] = confined.call(_find, source, source.size, _MOST_BYTES)
    # Episodes of an HDF5 file may be links to the same one.
    read_bytes: dict[int, int] = {}
    return [
        replace(policy, read=functools.partial(_read_confined, source, number, read_bytes))
        for number, policy in enumerate(found)
    ]


def _read_confined(source: _Source, number: int, read_bytes: dict[int, int]) -> Iterator[Episode]:
    count, read_bytes[number], batch = 0, 0, [None]
    while batch:
        with naming_it(source.arguments[0]):
            batch, n_bytes = confined.call(_read, (source, number, count), source.size, _MOST_BYTES)
            read_bytes[number] += n_bytes
            Budget(source.size + _ONE_HOT, "it", _MOST_BYTES).spend(sum(read_bytes.values()))
        yield from batch
        count += len(batch)


@functools.lru_cache(maxsize=32)
def _found(source: _Source) -> list[RecordedPolicy]:
    return source.find(*source.arguments)


def _find(source: _Source) -> list[RecordedPolicy]:
    """Find policies; called in the child process, where what they need to be read stays."""
    for number in range(len(_found(source))):
        _width(source, number)  # within the limits, or the file is refused here
    return [replace(policy, read=list) for policy in _found(source)]  # type: ignore[arg-type]


@functools.lru_cache(maxsize=32)
def _width(source: _Source, number: int) -> int:
    """Count the values of a flattened observation: many, if a space is a choice of so many."""
    space = _found(source)[number].space
    with contextlib.suppress(UsageError):  # of spaces that only ``features`` can flatten
        return 0 if space is None else len(spaces.feature_names(space))
    return 0


# Called in the child process: the episodes that are being read, and where.
_reading: dict[tuple[_Source, int, int], Iterator[Episode]] = {}


def _read(place: tuple[_Source, int, int]) -> tuple[list[Episode], int]:
    """Read some episodes from a number on, and count their bytes; none at the end."""
    source, number, first = place
    episodes = _reading.pop(place, None)
    _reading.clear()
    if episodes is None:
        episodes = islice(_found(source)[number].read(), first, None)
    batch, n_bytes = [], 0
    for episode in episodes:
        batch.append(episode)
        flat = 4 * _width(source, number) * _n_rows(episode.states)
        n_bytes += max(flat, _n_bytes(episode.states)) + _n_bytes(episode.actions)
        if n_bytes >= _BATCH:
            break
    _reading[source, number, first + len(batch)] = episodes
    return batch, n_bytes


def _n_rows(observations: Any) -> int:
    while isinstance(observations, Mapping | tuple) and observations:
        parts = observations.values() if isinstance(observations, Mapping) else observations
        observations = next(iter(parts))
    return len(observations)


def _n_bytes(observations: Any) -> int:
    if isinstance(observations, Mapping):
        observations = list(observations.values())
    if isinstance(observations, list | tuple):
        return sum(map(_n_bytes, observations))
    return getattr(observations, "nbytes", 64)


def npz_path(label: str) -> Path:
    """Return the path of a policy's file; folders in a label stay, but lead nowhere else."""
    return Path("/".join(filter(None, map(file_name, label.split("/")))) + ".npz")


def _with_unique_labels(policies: Sequence[RecordedPolicy]) -> list[RecordedPolicy]:
    """Prefix labels that occur twice with the name of the file, or of its folder."""
    result = list(policies)
    for level in range(2):
        counts = Counter(policy.info.label for policy in result)
        for number, policy in enumerate(result):
            label, path = policy.info.label, Path(policy.info.source.partition(":")[2])
            name = (path.stem, path.parent.name)[level]
            if counts[label] > 1 and name not in ("", label):
                result[number] = policy.renamed(f"{name}/{label}")
    return result


def _policies_of(data: VisitedStates, settings: Mapping[str, Any]) -> list[RecordedPolicy]:
    """Return the policies of data; their fingerprints are digests of the states.

    The fingerprint of a policy would stay the same when it plays other episodes.
    """
    return [
        RecordedPolicy(
            replace(
                record.info, fingerprint=content_digest(record.episodes, *record.read_arrays())
            ),
            record.as_episodes,
            environment=data.environment,
            names=data.feature_names,
            is_flat=True,
            has_actions=record.has_actions,
            collected=settings,
        )
        for record in data.records
    ]


def is_lerobot(folder: Path) -> bool:
    """Return whether a folder is a LeRobot dataset."""
    try:
        info = json.loads(read_regular(folder / LEROBOT, 1 << 24))
        return isinstance(info, dict) and {"codebase_version", "features"} <= info.keys()
    except (OSError, ValueError, RecursionError, PivecError):
        return False


def lerobot_datasets(folder: Path) -> list[Path]:
    """Find the LeRobot datasets in a folder, which may be one itself; none are within others."""
    found: dict[Path, None] = {}
    for home in sorted(path.parents[1] for path in folder.rglob(str(LEROBOT))):
        if found.keys().isdisjoint(home.parents) and is_lerobot(home):
            found[home] = None
    return list(found)


def is_filmed(info: PolicyInfo) -> bool:
    """Return whether a policy is a LeRobot dataset with videos."""
    return info.source.startswith("lerobot:") and "camera" in info.metadata


def dataset_episode(info: PolicyInfo, number: int) -> int:
    """Return the number that an episode of a LeRobot dataset has there, if some are missing."""
    known = info.metadata.get("episode_index")
    own = known[number : number + 1] if isinstance(known, list) else []
    return own[0] if own and isinstance(own[0], int) else number


def is_recorded(thing: object, folders: bool = True) -> bool:
    """Return whether something given as a policy stands for recorded states.

    ``folders`` says whether folders of files count, in which policies may appear later.
    """
    if not isinstance(thing, str | os.PathLike):
        is_data = isinstance(thing, VisitedStates | RecordedPolicy)
        return is_data or _is_frame(thing) or _is_episodes(thing)
    text = os.fspath(thing)
    if text.startswith(_PREFIXES):
        return True
    if is_uri(text):
        return Store.exists(text)
    path = Path(text).expanduser()
    with contextlib.suppress(OSError, ValueError):  # of names that are not paths
        if path.is_dir():
            return _is_store(path) or is_lerobot(path) or (folders and _holds_data(path))
        files = [path] if path.is_file() else map(Path, glob.glob(str(path), recursive=True))
        kinds = [
            (file.suffix.lower() in _SUFFIXES and not is_policy_file(file, named=False))
            or is_lerobot(file)
            for file in files
        ]
        return bool(kinds) and all(kinds)
    return False


def _is_store(path: Path) -> bool:
    """Return whether a folder is a store, or a comparison without policies beside its states."""
    is_comparison = path.is_dir() and Store.exists(path / "states")
    is_comparison = is_comparison and not _has_policies(path, but=("states", "space"))
    return is_comparison or (path.is_dir() and Store.exists(path))


def _holds_data(folder: Path) -> bool:
    """Return whether a folder holds files of recorded states and neither policies nor datasets."""
    is_other = _has_policies(folder) or any(
        path for name in ("data/metadata.json", "store.json") for path in folder.rglob(name)
    )
    return not is_other and any(path.suffix.lower() in _SUFFIXES for path in folder.rglob("*"))


def _has_policies(folder: Path, but: Sequence[str] = ()) -> bool:
    return any(
        is_policy_file(path, named=False)
        for path in folder.rglob("*")
        if path.relative_to(folder).parts[0] not in but and path.is_file()
    )


def _is_frame(thing: object) -> bool:
    kind = type(thing)
    return (kind.__module__.partition(".")[0], kind.__name__) in _FRAMES


def _is_episodes(thing: object) -> bool:
    """Return whether something is the episodes of one policy, as arrays."""
    if isinstance(thing, np.ndarray):
        return thing.ndim == 3
    return isinstance(thing, list) and all(isinstance(part, np.ndarray) for part in thing)


def split_recorded(policies: Any) -> tuple[Any, list[RecordedPolicy]]:
    """Separate recorded states from the policies to run.

    Minari and LeRobot datasets in a folder of policies are found as well.
    """
    recorded: list[RecordedPolicy] = []
    if isinstance(policies, Mapping):
        running: dict[Any, Any] = {}
        for label, thing in policies.items():
            runs, found = _split(thing)
            if runs:
                running[label] = thing
            is_alone = len(found) == 1 and not runs
            recorded += [p.renamed(label if is_alone else f"{label}/{p.info.label}") for p in found]
        return running, recorded
    is_list = isinstance(policies, Sequence) and not isinstance(policies, str)
    remaining = []
    for thing in policies if is_list else [policies]:
        runs, found = _split(thing)
        recorded += found
        remaining += [thing] * runs
    return (policies if remaining and not is_list else remaining), recorded


def _split(thing: Any) -> tuple[bool, list[RecordedPolicy]]:
    """Return whether something holds policies to run, and the recorded states in it."""
    if is_recorded(thing):
        return False, find_recorded(thing)
    folder = Path(thing).expanduser() if isinstance(thing, str | os.PathLike) else Path(os.devnull)
    if not folder.is_dir():
        return True, []
    found = [policy for path in lerobot_datasets(folder) for policy in find_recorded(path)]
    # Datasets of Minari have a folder data with their metadata.
    if any(folder.rglob("data/metadata.json")):
        from pivec.states.minari import datasets_in

        names = [f"minari:{path}" for path in datasets_in(folder)]
        found += [policy for name in names for policy in find_recorded(name)]
    return not found or _has_policies(folder), found


def read_recorded(
    recorded: RecordedPolicy,
    space: Any,
    features: Features | None,
    actions: bool,
    max_states: int | None,
    width: int,
) -> PolicyRecord:
    """Convert recorded episodes to states of ``width`` values.

    ``space`` flattens the observations, or ``features`` turns them into rows; without either they
    are numeric arrays already. ``actions`` must be there if they are to be kept.
    """
    label, source = recorded.info.label, recorded.info.source
    label += f" ({source})" * bool(source)  # a label may be a value of a column
    if recorded.is_flat:
        space = features = None
    every = recorded.info.metadata.get("kept_every", 1)
    kept, apart = PolicyEpisodes(max_states, Quota(0, every=every)), []
    for number, episode in enumerate(recorded.episodes()):
        where = f"episode {number} of {label}"
        rows = _rows(episode.states, space, features, where, recorded.names)
        if not rows.shape[1]:
            raise BadData(f"{recorded.info.source}: the states of {label} have no features")
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
        if moves is not None and len(moves) < len(rows) - 1:
            raise BadData(f"{where} has {len(rows)} states, but {len(moves)} actions")
        seed = episode.seed if 0 <= episode.seed < 2**63 else -1
        whole = replace(episode, states=rows, actions=moves if actions else None, seed=seed)
        if kept_lengths(whole.n_steps + 1, every) != len(rows):
            raise BadData(
                f"{where} has {len(rows)} states of {whole.n_steps} steps, not those that remain "
                f"when it is thinned by {every}: export it again"
            )
        kept.append(whole, every)
        if episode.apart > 0:
            apart.append(episode.apart)
    if not len(kept):
        raise BadData(f"there are no episodes of {label}")
    info = recorded.info
    if apart and (recorded.clock, spacing := float(np.median(apart))) != ("steps", 1.0):
        found = {f"{recorded.clock}_apart": spacing}
        info = replace(info, metadata={**info.metadata, **found})
    record = record_of(info, kept.all(), kept.every)
    if record.info.fingerprint:
        return record
    digest = content_digest(record.episodes, *record.read_arrays())
    return replace(record, info=replace(record.info, fingerprint=digest))


def _first(recorded: RecordedPolicy) -> Episode:
    for episode in recorded.episodes():
        return episode
    raise BadData(f"there are no episodes of {recorded.info.label} ({recorded.info.source})")


def _rows(
    observations: Any,
    space: Any,
    features: Features | None,
    where: str,
    names: Sequence[str] | None = None,
) -> Any:
    """Convert observations to states, (n_steps, n_values); ``where`` is for errors."""
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
                raise BadData(
                    f"feature {feature_text(column, names)} lies closer to {offset:.10g} than "
                    "float32 can distinguish: subtract an offset first"
                )
            rows = wide.astype(np.float32)
    except PivecError as error:
        raise type(error)(f"{where}: {error}") from error
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise BadData(f"{where}: the observations do not fit the environment: {error}") from error
    if rows.ndim != 2 or not rows.size:
        raise BadData(f"{where}: expected one row of numbers per step, got {rows.shape}")
    return rows


class RecordedStates:
    """Recorded states combined without an environment, in memory or in a store.

    Actions are kept if every policy has them. The environment is that of the first policy, if not
    given, and so are the names of features, which may not differ.

    Attributes
    ----------
    settings : dict
        What a store of them keeps.
    """

    acting: tuple[str, ...] = ()

    def __init__(
        self,
        policies: Sequence[RecordedPolicy],
        store: str | Path | None = None,
        environment: str = "",
        max_states_per_policy: int | None = None,
    ) -> None:
        if not policies:
            raise UsageError(f"expected at least one of {_EXPECTED}, but none is given")
        self._policies, self._store = _with_unique_labels(policies), store
        check_unique([policy.info.label for policy in self._policies])
        first = self._policies[0]
        known = first.names
        if first.space is not None:
            try:
                known = spaces.feature_names(first.space)
            except UsageError as error:
                raise UsageError(f"{first.info.source}: {error}") from error
        if known is None:
            probe = _rows(_first(first).states, first.space, None, first.info.label)
            known = names_of(None, probe.shape[1])
        self._names = tuple(known)
        for policy in self._policies:
            if policy.names not in (None, self._names):
                raise BadData(
                    f"{policy.info.source or policy.info.label} has the features "
                    f"{', '.join(policy.names or ())[:200]}, but {first.info.label} has "
                    f"{', '.join(self._names)[:200]}: all need the same, in the same order"
                )
        world = dict(first.collected) | {"environment": environment or first.environment}
        self.settings: dict[str, Any] = {
            **{key: world[key] for key in _WORLD if world.get(key)},
            "environment": world["environment"],
            "arguments": world.get("arguments") or {},
            "backend": "recorded",
            "actions": all(
                _first(policy).actions is not None
                if policy.has_actions is None
                else policy.has_actions
                for policy in self._policies
            ),
            "max_states_per_policy": max_states_per_policy,
        }
        for policy in self._policies[1:]:
            theirs = dict(policy.collected) | {"environment": policy.environment}
            for key in _WORLD:
                if theirs.get(key) and world.get(key) and theirs[key] != world[key]:
                    warnings.warn(
                        f"{policy.info.label} was recorded with {key} = {theirs[key]!r}, "
                        f"{first.info.label} with {world[key]!r}: differences may result from that",
                        PivecWarning,
                        stacklevel=3,
                    )

    def run(self) -> VisitedStates:
        """Read what is not in the store yet, and return the states of all."""
        if self._store is None:
            records = [self._read(policy) for policy in self._policies]
            return VisitedStates(records, self._names, self.settings["environment"])
        infos = [policy.info for policy in self._policies]
        labels = [info.label for info in infos]
        store = Store(self._store, self.settings, self._names)
        with store.writing():
            store.relabel(infos)
            for policy in self._policies:
                if not store.n_episodes(policy.info):
                    store.add(self._read(policy))
            store.reorder(labels)
        return store.load(labels)

    def _read(self, policy: RecordedPolicy) -> PolicyRecord:
        actions, most = self.settings["actions"], self.settings["max_states_per_policy"]
        return read_recorded(policy, policy.space, None, actions, most, len(self._names))


def import_recorded(
    specs: Sequence[Any],
    store: str | Path | None,
    *,
    environment: str = "",
    max_states_per_policy: int | None = None,
    options: TableOptions | None = None,
    progress: bool = False,
) -> VisitedStates:
    """Put recorded states into a store of their own; no environment is created.

    ``specs`` are files, folders of files, ``npz:DIR``, ``minari:NAME`` and ``store:DIR``; see
    `RecordedStates`. ``options`` describe the columns of tables with unusual names. Without a
    ``store`` they are only read. ``progress`` prints how they are understood.
    """
    policies = [policy for spec in specs for policy in find_recorded(spec, options)]
    if progress:
        print_readings(policies)
    return RecordedStates(policies, store, environment, max_states_per_policy).run()
