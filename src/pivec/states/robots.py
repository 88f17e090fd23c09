"""Datasets of robot demonstrations, one policy each: LeRobot, robomimic and RLDS.

LeRobot v2 and v3 are folders with meta/info.json, Parquet files with one row per frame and, for
each camera, videos. In a robomimic file, data/demo_N has obs/KEY, actions, rewards and dones; RLDS
datasets are read by tensorflow_datasets. Nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pivec.errors import BadData, MissingExtra, PivecWarning, UsageError, did_you_mean
from pivec.files import Budget, digest_of, naming, open_regular, read_regular, regular_files
from pivec.options import TableOptions
from pivec.parallel import confined
from pivec.policies import PolicyInfo, natural_key
from pivec.rollouts import Episode
from pivec.states.readers import (
    MAX_BYTES,
    Columns,
    LogRows,
    check_hdf5,
    log_rows,
    open_hdf5,
    open_table,
)
from pivec.states.recorded import LEROBOT, RecordedPolicy, is_lerobot, naming_it
from pivec.states.store import json_digest
from pivec.states.visited import EPISODE

Array = NDArray[Any]
_STATE, _SUCCESS = "observation.state", "next.success"
_ROLES = {
    "episode": "episode_index",
    "step": "frame_index",
    "reward": "next.reward",
    "terminated": "next.done",
    "truncated": "next.truncated",
}
_COUNTS, _POSITIONS = ("episode_index", "length"), ("dataset_", "data/", "videos/", "meta/")
_RESERVED = {*(EPISODE.names or ()), "states", "actions", "network", ""}
_LETTERS = 1000  # of an outcome


# ---- LeRobot ----


def lerobot_folder(name: str) -> Path:
    """Return the folder of a dataset: its path, or OWNER/NAME in a local cache of the Hub."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    hugging = Path(os.environ.get("HF_HOME") or cache)
    home = Path(os.environ.get("HF_LEROBOT_HOME") or hugging / "lerobot").expanduser()
    hub = Path(os.environ.get("HF_HUB_CACHE") or hugging / "hub").expanduser()
    repository = f"datasets--{name.replace('/', '--')}/snapshots/*"
    snapshots = [path for place in (home / "hub", hub) for path in place.glob(repository)]
    snapshots.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for folder in (Path(name).expanduser(), home / name, *snapshots):
        if is_lerobot(folder):
            return folder
    raise UsageError(
        f"the LeRobot dataset {name!r} is neither a folder nor in {home} or {hub}: download it "
        f"with `hf download --repo-type dataset {name}`, or give its folder"
    )


def lerobot_name(folder: Path) -> str:
    """Name a dataset by its folder, or by its repository in a cache of the Hub."""
    repository = _repository(folder)
    if repository == folder:
        return folder.resolve().name
    return repository.name.removeprefix("datasets--").replace("--", "/")


def _repository(folder: Path) -> Path:
    """Return the folder that links of a dataset may point into: in a cache, that with its blobs."""
    absolute = Path(os.path.abspath(folder))  # not resolved: it may be a link itself
    return absolute.parents[1] if absolute.parent.name == "snapshots" else folder


def lerobot_files(folder: Path) -> tuple[str, int]:
    """Return a digest of a dataset without its videos, and the size of these files."""
    home = _repository(folder)
    files = [file for part in ("meta", "data") for file in regular_files(folder / part, home)]
    digest = json_digest([(f.relative_to(folder).as_posix(), digest_of(f)) for f in files])
    return digest, sum(file.stat().st_size for file in files)


@dataclass(frozen=True)
class _Info:
    """What meta/info.json says about a dataset."""

    version: int
    fps: float
    chunk: int  # episodes per folder in version 2
    features: Mapping[str, Mapping[str, Any]]
    episodes: Any  # how many there should be

    @classmethod
    def read(cls, folder: Path) -> _Info:
        known = json.loads(read_regular(folder / LEROBOT))
        version, features = str(known["codebase_version"]), known["features"]
        if not version.startswith(("v2.", "v3.")):
            raise BadData(f"it is a LeRobot dataset {version}: expected v2.0, v2.1 or v3")
        fps, chunk = float(known["fps"]), int(known.get("chunks_size") or 1000)
        if not (0 < fps < math.inf and chunk > 0 and isinstance(features, dict)):
            raise BadData(
                f"{LEROBOT} has fps {fps} and chunks_size {chunk}: expected numbers above 0"
            )
        return cls(int(version[1]), fps, chunk, features, known.get("total_episodes"))

    @property
    def cameras(self) -> list[str]:
        """The names of videos, those with depth last."""
        keys = [name for name, about in self.features.items() if about.get("dtype") == "video"]
        return sorted(keys, key=lambda name: "depth" in json.dumps([name, self.features[name]]))

    def columns(self, options: TableOptions) -> tuple[Columns, tuple[str, ...]]:
        """Return the columns to read, and the names of the values of a state."""
        features = options.feature_columns or (_STATE,)
        actions = options.action_columns or tuple({"action"} & self.features.keys())
        for name in (*features, *actions):
            kind = self.features.get(name, {}).get("dtype", "")
            if not kind.startswith(("float", "int", "uint", "bool")):
                why = f" (but {kind})" if kind else did_you_mean(name, self.features)
                raise UsageError(
                    f"it has no numbers called {name!r}{why}, only "
                    f"{', '.join(map(repr, self.features))}: choose others with --feature-columns "
                    "and --action-columns of `pivec import`"
                )
        names = [
            f"{column}.{name}" if len(features) > 1 and not name.startswith(column) else name
            for column in features
            for name in _names(column, self.features[column])
        ]
        roles = {role: name for role, name in _ROLES.items() if name in self.features}
        return Columns(roles, tuple(features), tuple(actions)), tuple(names)


def _names(column: str, about: Mapping[str, Any]) -> list[str]:
    """Name the values of a column, as its motors or axes if they are known."""
    names, plain = about.get("names"), _indexed(column, about.get("shape") or (1,))
    if isinstance(names, Mapping):  # of parts, or the number of each name
        parts = list(names.values())
        is_numbered = all(isinstance(part, int) for part in parts)
        lists = [part for part in parts if isinstance(part, list)]
        names = sorted(names, key=names.__getitem__) if is_numbered else [*chain(*lists)]
    if isinstance(names, list) and len(names) == len(plain) == len(set(map(str, names))):
        return list(map(str, names))
    return plain


def _indexed(name: str, shape: Sequence[int]) -> list[str]:
    """Name the values of an array: by its name alone if there is only one."""
    n = math.prod(shape)
    return [name] if n == 1 else [f"{name}[{i}]" for i in range(n)]


def find_lerobot(
    folder: Path, label: str, options: TableOptions, digest: str
) -> list[RecordedPolicy]:
    """Find the policy of a LeRobot dataset, whose files have this digest."""
    given = {name for name, value in vars(options).items() if value not in (None, ())}
    if wrong := sorted(given - {"feature_columns", "action_columns"}):
        raise UsageError(
            f"--{wrong[0].replace('_', '-')} does not apply to LeRobot datasets, each of which is "
            "one policy: omit it"
        )
    info = _Info.read(folder)
    columns, names = info.columns(options)
    files = sorted(folder.glob("data/*/*.parquet"), key=lambda path: natural_key(str(path)))
    numbers: list[int] = []
    for file in files:
        table = open_table(file)
        for part in range(len(table.lengths)):
            own = table.read(part, ["episode_index"]).column(0).unique().to_pylist()
            numbers += [number for number in own if numbers[-1:] != [number]]
    if numbers != sorted(set(numbers)):
        raise BadData("its files do not have its episodes in ascending order")
    if info.episodes != len(numbers):
        _warn(f"{label} has {len(numbers)} episodes here, but {info.episodes} by its {LEROBOT}")
    metadata: dict[str, Any] = {"dataset": digest}
    if info.cameras:
        metadata["camera"] = info.cameras[0]
    if numbers != list(range(len(numbers))):
        metadata["episode_index"] = numbers
    known = PolicyInfo(
        label, label, None, f"lerobot:{folder}", metadata, json_digest([digest, vars(options)])
    )
    read = partial(_frames, folder, files, info, columns, options)
    has_actions = bool(columns.actions)
    return [RecordedPolicy(known, read, names=names, has_actions=has_actions, clock="time")]


def _frames(
    folder: Path, files: Sequence[Path], info: _Info, columns: Columns, options: TableOptions
) -> Iterator[Episode]:
    """Read the episodes of a dataset, file by file."""
    known = _episode_rows(folder)
    wanted = [*columns.all, *({_SUCCESS} & info.features.keys())]
    for file in files:
        table = open_table(file)
        rows = pa.concat_tables([table.read(i, wanted) for i in range(len(table.lengths))])
        if not rows.num_rows:
            continue
        log = replace(log_rows(rows, columns, options), by_number=True, unit=1.0 / info.fps)
        numbers, codes = np.unique(np.asarray(log.episode), return_inverse=True)
        success = None
        if _SUCCESS in wanted:
            flags = rows.column(_SUCCESS).fill_null(False).to_numpy()
            success = np.bincount(codes, flags, len(numbers)) > 0
        for place, episode in enumerate(log.episodes()):
            outcomes = {} if success is None else {"success": float(success[place])}
            yield replace(
                episode, outcomes=outcomes | _outcomes(known.get(int(numbers[place]), {}))
            )


def _episode_rows(folder: Path) -> dict[int, dict[str, Any]]:
    """Read what is known of each episode besides its frames, by its number."""
    lines = folder / "meta" / "episodes.jsonl"
    if lines.exists():
        rows = [json.loads(line) for line in read_regular(lines).splitlines() if line.strip()]
    else:
        rows = []
        for file in sorted(folder.glob("meta/episodes/*/*.parquet")):
            table = open_table(file)
            names = [name for name in table.schema.names if not name.startswith("stats/")]
            for part in range(len(table.lengths)):
                rows += table.read(part, names).to_pylist()
    return {int(row["episode_index"]): row for row in rows}


def _outcomes(row: Mapping[str, Any]) -> dict[str, float | str]:
    """Return the task of an episode, and whatever else the dataset's author added."""
    tasks = row.get("tasks")
    found: dict[str, Any] = {"task": "; ".join(map(str, tasks))} if tasks else {}
    result: dict[str, float | str] = {}
    for name, value in (found | dict(row)).items():
        label = f"episode.{name}" if name in _RESERVED else name
        if name in _COUNTS or name.startswith(_POSITIONS):
            continue
        if isinstance(value, str | bytes):
            text = value.decode(errors="replace") if isinstance(value, bytes) else value
            result[label] = text[:_LETTERS]
        elif isinstance(value, bool | int | float | np.number | np.bool_):
            result[label] = float(value)
    return result


# ---- videos of LeRobot datasets ----

_AT_ONCE, _SECONDS = 64, 60  # frames, and processor time for them
_WIDTH, _PIXELS = 320, 1 << 26  # of a frame that is returned, and of one in the file
_FILM = ("chunk_index", "file_index", "from_timestamp")
_JUMP = 1.0  # seconds that are decoded rather than skipped


@dataclass(frozen=True)
class Film:
    """The frames of an episode, in a video of a dataset."""

    path: Path
    start: float  # of the episode in it, in seconds
    fps: float

    def pictures(self, steps: Collection[int]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Decode the frames of steps, in a child process."""
        wanted = sorted(steps)
        for first in range(0, len(wanted), _AT_ONCE):
            part = wanted[first : first + _AT_ONCE]
            times = [self.start + step / self.fps for step in part]
            with naming_it(self.path), naming(self.path, "a video", BadData):
                size, item = self.path.stat().st_size, (self.path, times, 0.5 / self.fps)
                found = confined.call(_decode, item, size, seconds=_SECONDS)
            yield from zip(part, found, strict=True)


def films_of(places: Sequence[Path], digest: str) -> dict[int, Film]:
    """Return where the frames of each episode of a dataset are, in the videos of one camera.

    The dataset is in the first of these folders that has one, and must have this digest.
    """
    folder = next(filter(is_lerobot, places), None)
    if folder is None:
        raise BadData(f"the dataset {places[0]} is no longer there")
    import_av()
    with naming_it(folder), naming(folder, "a LeRobot dataset", BadData):
        now, size = lerobot_files(folder)
        if now != digest:
            raise BadData("it has changed since its states were read: compare again")
        films: dict[int, Film] = confined.call(_locate, folder, size, MAX_BYTES)
        home = _repository(folder).resolve()
        found = {
            number: film
            for number, film in films.items()
            if film.path.resolve().is_relative_to(home) and film.path.is_file()
        }
        if not found:
            raise BadData("it has no videos here: download it with them")
        return found


def _locate(folder: Path) -> dict[int, Film]:
    info, films = _Info.read(folder), {}
    for key in info.cameras[:1]:
        for number, row in _episode_rows(folder).items():
            chunk, start = number // info.chunk, 0.0
            path = Path(f"chunk-{chunk:03d}", key, f"episode_{number:06d}.mp4")
            if info.version == 3:
                chunk, file, start = (row[f"videos/{key}/{name}"] for name in _FILM)
                path = Path(key, f"chunk-{chunk:03d}", f"file-{file:03d}.mp4")
            films[number] = Film(folder / "videos" / path, float(start), info.fps)
    return films


def import_av() -> Any:
    """Import what decodes videos."""
    try:
        import av
    except ImportError as error:
        raise MissingExtra("decoding the videos of robot datasets", "robots") from error
    return av


def _decode(item: tuple[Path, Sequence[float], float]) -> list[NDArray[np.uint8]]:
    """Decode the frames nearest to ascending times; called in the child process."""
    path, times, half = item
    av, found = import_av(), list[NDArray[np.uint8]]()
    # An opened file of a known format: a playlist could name other files.
    with open_regular(path) as file, av.open(file, format="mp4") as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        frames, now, shown = container.decode(stream), -math.inf, None
        for time in times:
            if not now <= time <= now + _JUMP:
                container.seek(max(0, int((time - half) / stream.time_base)), stream=stream)
                frames, shown = container.decode(stream), None
            while shown is None or now < time - half:
                shown = next(frames, None)
                if shown is None:
                    raise BadData(f"it has no frame at {time:.2f} s")
                now = float(shown.time or 0.0)
                if shown.width * shown.height > _PIXELS:
                    raise BadData(f"it has frames of {shown.width} x {shown.height} pixels")
            if abs(now - time) > 2 * half:
                raise BadData(f"it has no frame at {time:.2f} s, only at {now:.2f} s")
            width = min(_WIDTH, shown.width)
            height = max(1, round(shown.height * width / shown.width))
            scaled = shown.reformat(width, height, format="rgb24", interpolation="AREA")
            found.append(scaled.to_ndarray())
    return found


# ---- robomimic ----

_USUAL = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos", "object")  # in its configs
_ARRAYS = {"actions": "actions", "rewards": "reward", "dones": "terminated"}
_MASK = "mask"


def is_robomimic(file: Any) -> bool:
    """Return whether an opened HDF5 file has the groups of robomimic."""
    data = file.get("data")
    demos = () if not hasattr(data, "keys") else list(data)[:1]
    return any(hasattr(data[demo], "keys") and "obs" in data[demo] for demo in demos)


def find_robomimic(path: Path, info: PolicyInfo, options: TableOptions) -> list[RecordedPolicy]:
    """Find the policies of a robomimic file: one, or with ``policy_column`` mask one per filter."""
    with open_hdf5(path) as file:
        check_hdf5(file)
        data = file["data"]
        demos = sorted(data, key=natural_key)
        masks = file[_MASK].items() if _MASK in file else ()
        filters = {
            name: [text.decode(errors="replace") for text in names[: len(demos)].tolist()]
            for name, names in masks
        }
        arrays = dict(data[demos[0]]["obs"])
        flat = [key for key, a in arrays.items() if a.dtype.kind in "biuf" and a.ndim in (1, 2)]
        usual = _USUAL if set(_USUAL) <= set(flat) else flat
        keys = tuple(options.feature_columns or usual)
        if not keys or not set(keys) <= set(flat):
            raise UsageError(
                f"its observations are {', '.join(map(repr, arrays))}, of which "
                f"{', '.join(map(repr, flat)) or 'none'} can be states: choose from these with "
                "--feature-columns of `pivec import`"
            )
        if not options.feature_columns:
            hint = " (choose with --feature-columns of `pivec import`)"
            _warn_of_ignored(path, [name for name in arrays if name not in keys], hint)
        names = [name for key in keys for name in _indexed(key, arrays[key].shape[1:])]
        has_actions, spacing = "actions" in data[demos[0]], math.nan
        with contextlib.suppress(KeyError, ValueError, TypeError, ZeroDivisionError):
            spacing = 1 / float(json.loads(data.attrs["env_args"])["env_kwargs"]["control_freq"])
    policies = {info.label: demos}
    if options.policy_column == _MASK:
        policies = {f"{info.label}/{name}": own for name, own in filters.items()}
    elif options.policy_column is not None:
        raise UsageError(f"--policy-column of a robomimic file must be {_MASK}, if given")
    return [
        RecordedPolicy(
            replace(info, label=label, fingerprint=json_digest([info.fingerprint, label])),
            partial(_demonstrations, path, own, keys, filters, spacing),
            names=tuple(names),
            has_actions=has_actions,
            clock="time",
        )
        for label, own in policies.items()
    ]


def _demonstrations(
    path: Path,
    demos: Sequence[str],
    keys: Sequence[str],
    filters: Mapping[str, Sequence[str]],
    spacing: float,
) -> Iterator[Episode]:
    budget = Budget(path.stat().st_size, "it", MAX_BYTES)

    def read(array: Any) -> Array:
        budget.spend(array.size * array.dtype.itemsize)
        return np.asarray(array)

    for demo in demos:
        known: dict[str, Any] = {}
        with open_hdf5(path) as file:
            group = file["data"][demo]
            for name, role in _ARRAYS.items():
                if name in group:
                    known[role] = read(group[name])
            for name, role in (("obs", "states"), ("next_obs", "after")):
                if name == "obs" or (name in group and set(keys) <= set(group[name])):
                    known[role] = np.column_stack([read(group[name][key]) for key in keys])
        n = len(known["states"])
        if wrong := [role for role, array in known.items() if len(array) != n]:
            raise BadData(f"{demo} has {len(known[wrong[0]])} rows of {wrong[0]}, but {n} states")
        if "terminated" in known:
            known["terminated"] = known["terminated"].astype(bool)
        [episode] = LogRows(pieces=[np.arange(n)], **known).episodes()
        outcomes = {f"{_MASK}/{name}": float(demo in own) for name, own in filters.items()}
        yield replace(episode, apart=spacing, outcomes=outcomes)


# ---- RLDS ----


def find_rlds(folder: Path) -> list[RecordedPolicy]:
    """Find the policy of an RLDS dataset in a folder with features.json, all splits together."""
    try:
        import tensorflow  # noqa: F401  # which the other needs to read
        import tensorflow_datasets
    except ImportError as error:
        raise MissingExtra("reading RLDS datasets", "rlds") from error
    classes: list[Any] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        classes.extend(v for k, v in pairs if k.replace("_", "").lower() == "pythonclassname")

    json.loads(read_regular(folder / "features.json"), object_pairs_hook=note)
    if wrong := [name for name in classes if not str(name).startswith("tensorflow_datasets.")]:
        raise BadData(f"it needs {wrong[0]}, which pivec does not import: expected the usual types")
    files = [(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in regular_files(folder)]
    name = folder.resolve().parent.name
    info = PolicyInfo(name, name, None, f"rlds:{folder}", {}, json_digest(files))
    builder = tensorflow_datasets.builder_from_directory(str(folder))
    read = partial(_rlds_episodes, builder, tensorflow_datasets.as_numpy)
    seen = next(_rlds_steps(builder, tensorflow_datasets.as_numpy))[0][0]["observation"]
    flat = _flat(seen)
    names = [name for key, value in flat.items() for name in _indexed(key, value.shape)]
    _warn_of_ignored(folder, [key for key in seen if key not in flat])
    return [RecordedPolicy(info, read, names=tuple(names))]


def _rlds_steps(builder: Any, as_numpy: Callable[[Any], Any]) -> Iterator[tuple[list[Any], Any]]:
    for split in sorted(builder.info.splits):
        for episode in as_numpy(builder.as_dataset(split=split)):
            yield list(episode["steps"]), episode.get("episode_metadata") or {}


def _flat(observation: Any) -> dict[str, Array]:
    """Return the parts of an observation that are numbers and not images."""
    parts = {key: np.asarray(value) for key, value in observation.items()}.items()
    return {key: value for key, value in parts if value.dtype.kind in "biuf" and value.ndim < 2}


def _rlds_episodes(builder: Any, as_numpy: Callable[[Any], Any]) -> Iterator[Episode]:
    for steps, metadata in _rlds_steps(builder, as_numpy):
        states = np.array([np.hstack([*_flat(step["observation"]).values()]) for step in steps])
        known: dict[str, Any] = {
            role: np.array([step[name] for step in steps])
            for role, name in (
                ("reward", "reward"),
                ("terminated", "is_terminal"),
                ("actions", "action"),
            )
            if name in steps[0] and not isinstance(steps[0][name], Mapping)
        }
        [episode] = LogRows(states, pieces=[np.arange(len(states))], **known).episodes()
        found = dict(metadata) | {"task": steps[0].get("language_instruction")}
        yield replace(episode, outcomes=_outcomes(found))


def _warn_of_ignored(source: Path, names: Sequence[str], hint: str = "") -> None:
    if names:
        known = ", ".join(map(repr, names))
        _warn(f"{source}: observations that are not part of the states are ignored: {known}{hint}")


def _warn(text: str) -> None:
    warnings.warn(text, PivecWarning, stacklevel=3)
