"""Readers of recorded states: tables, and array files with one policy each.

A reader opens a file and names its arrays by their meaning, with one row per state; `LogRows` then
divides the rows of a policy into episodes. Nothing is unpickled.

Tables are Parquet, CSV, Feather and Arrow files and frames in memory, whose columns are found by
their names. Of a file with row groups, one policy is in memory at a time.

In a `.npz` file, ``states`` (or ``observations``) has one of two layouts, in which each episode
includes its first and its terminal observation:

- padded, (episodes, steps, ...), with ``lengths`` (episodes,) if episodes differ in length;
- long, (n, ...), with ``episode`` (n,) and ``step`` (n,), which number the rows, in any order; or
  (n, features) in order, with ``terminals`` or ``timeouts`` (n,) or a fixed episode length.

All optional: ``actions`` in the same layout (the row of a terminal state is not read, and may be
missing if padded), ``returns``, ``seeds``, ``terminated``, ``truncated`` (episodes,),
``feature_names``, and ``policy``: its label, group and training step as text, and if the states are
thinned by what factor; see `pivec.rollouts`.

A `.npy` file has states alone, padded without lengths, or (n, ...) with a fixed episode length or
the rows where episodes start. HDF5 files have ``observations`` (n, ...) and, all optional and of as
many rows, ``actions``, ``rewards``, ``terminals``, ``timeouts`` and ``next_observations`` (D4RL).
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pivec.errors import (
    BadData,
    BadPolicyFile,
    MissingExtra,
    PivecWarning,
    UsageError,
    did_you_mean,
)
from pivec.files import Budget, open_regular
from pivec.options import TableOptions
from pivec.parallel import confined
from pivec.policies import PolicyInfo, unpack_npz
from pivec.rollouts import Episode
from pivec.states.recorded import RecordedPolicy, npz_path
from pivec.states.store import json_digest
from pivec.states.visited import starts_of

Array = NDArray[Any]
MAX_BYTES = 1 << 34  # that a file may unpack to
METADATA = b"pivec"  # under which tables written by pivec describe their columns


@dataclass(frozen=True)
class LogRows:
    """The rows of one policy, one per state, in any order; arrays that are unknown are None."""

    states: Array  # (n, ...)
    actions: Array | None = None  # those of the last row of an episode need ``after``
    acted: Array | None = None  # where an action is known; None: everywhere
    episode: Array | None = None
    step: Array | None = None  # without ``episode``, one starts where this falls
    reward: Array | None = None
    total: Array | None = None  # return of the episode, the same in all its rows
    seed: Array | None = None  # likewise
    terminated: Array | None = None  # without both, these end an episode
    truncated: Array | None = None
    after: Array | None = None  # the state that follows each row
    length: int | None = None  # of episodes at most, if nothing else shows it
    by_number: bool = False  # order episodes by their numbers instead of their first rows
    pieces: Sequence[Array] | None = None  # the rows of each episode, if they are known
    every: int = 1  # thinning of states that pivec wrote, whose ``step`` then counts all
    unit: float = 1.0  # of ``step``

    def episodes(self) -> Iterator[Episode]:
        """Iterate over the episodes."""
        if not len(self.states):
            raise BadData("it holds no episodes: omit it")
        for number, rows in enumerate(self._rows() if self.pieces is None else self.pieces):
            states, acting = self.states[rows], rows[:-1]
            if self.after is not None:
                states, acting = np.concatenate([states, self.after[rows[-1:]]]), rows
            yield Episode(
                states,
                self._actions(acting, number),
                self._total(rows, number),
                int(self._common(self.seed, "seed", rows, number, -1)),
                self.terminated is not None and bool(self.terminated[rows].any()),
                self.truncated is not None and bool(self.truncated[rows].any()),
                *self._times(rows),
            )

    def _times(self, rows: Array) -> tuple[int, float]:
        """Return the number of steps, -1 if none are missing, and the time between states."""
        if self.step is None:
            return -1, np.nan
        times = self.step[rows]
        apart = np.diff(times)[:: 1 if self.every == 1 else 2]
        steps = -1 if self.every == 1 else int(np.nan_to_num(times[-1]).clip(0, 1 << 60))
        return steps, float(np.median(apart)) * self.unit if len(apart) else np.nan

    def _rows(self) -> list[Array]:
        """Return the rows of each episode, in order of time."""
        n = len(self.states)
        if self.episode is None:
            return np.split(np.arange(n), np.flatnonzero(self._is_start())[1:])
        _, first, code = np.unique(self.episode, return_index=True, return_inverse=True)
        place = code if self.by_number else first[code]
        order = np.lexsort((np.arange(n) if self.step is None else self.step, place))
        pieces = np.split(order, np.flatnonzero(np.diff(code[order])) + 1)
        for rows in pieces if self.step is not None else ():
            times = self.step[rows]  # type: ignore[index]
            if twice := np.flatnonzero(~(np.diff(times) > 0)).tolist():
                raise BadData(
                    f"episode {self.episode[rows[0]]} has the time {times[twice[0]]} twice: see "
                    "--policy-column, --episode-column and --step-column of `pivec import`"
                )
        return pieces

    def _is_start(self) -> NDArray[np.bool_]:
        """Find the rows where episodes start, where no column numbers them."""
        n = len(self.states)
        result: NDArray[np.bool_] = np.arange(n) == 0
        if self.step is not None:
            result[1:] |= ~(np.diff(self.step) > 0)
            firsts = self.step[result]
            if (other := firsts[firsts != firsts[0]]).size:
                raise BadData(
                    f"episodes start at the times {firsts[0]} and {other[0]}: sort the rows by "
                    "time, or name the column of episodes"
                )
            return result
        ends = [flag for flag in (self.terminated, self.truncated) if flag is not None]
        for flag in ends:
            result[1:] |= flag[:-1]
        if self.after is not None:
            result[1:] |= (self.after[:-1] != self.states[1:]).reshape(n - 1, -1).any(axis=1)
        if self.length is not None:
            before = np.maximum.accumulate(np.where(result, np.arange(n), 0))
            result |= (np.arange(n) - before) % self.length == 0
        elif not ends and self.after is None:
            raise BadData(
                f"it does not show where episodes start (its states have shape "
                f"{self.states.shape}): add episode, step or terminated, or use --episode-length "
                "of `pivec import`"
            )
        return result

    def _actions(self, rows: Array, number: int) -> Array | None:
        if self.actions is None:
            return None
        if self.acted is not None and not self.acted[rows].all():
            step = int(np.argmin(self.acted[rows]))
            raise BadData(f"step {step} of episode {number} has no action: add it, or omit all")
        if len(self.actions) <= rows.max(initial=0):
            raise BadData(f"it has {len(self.actions)} actions for {len(self.states)} states")
        return np.asarray(self.actions[rows])

    def _total(self, rows: Array, number: int) -> float:
        if self.total is None and self.reward is not None:
            values = np.asarray(self.reward[rows], dtype=np.float64)
            # No reward follows a terminal state, and some logs leave it open.
            last = -1 if self.after is None and np.isnan(values[-1]) else len(values)
            return float(values[:last].sum())
        return float(self._common(self.total, "return", rows, number, np.nan))

    def _common(
        self, values: Array | None, name: str, rows: Array, number: int, unknown: Any
    ) -> Any:
        """Return the value that all rows of an episode share."""
        if values is None:
            return unknown
        mine = values[rows]
        if not np.array_equal(mine, np.full_like(mine, mine[0]), equal_nan=mine.dtype.kind == "f"):
            raise BadData(
                f"the {name} of episode {number} is not the same in all its rows, {mine[0]} and "
                f"{mine[mine != mine[0]][0]}: rewards of steps are called reward"
            )
        return mine[0]


# ---- array files ----

# Fields of `LogRows` by the names of arrays with one row per state, and with one per episode.
_PER_STATE = {
    "states": "states",
    "observations": "states",
    "actions": "actions",
    "episode": "episode",
    "step": "step",
    "rewards": "reward",
    "terminals": "terminated",
    "timeouts": "truncated",
    "next_observations": "after",
}
_PER_EPISODE = {
    "returns": "total",
    "seeds": "seed",
    "terminated": "terminated",
    "truncated": "truncated",
}


def array_policy(path: Path, info: PolicyInfo, options: TableOptions) -> RecordedPolicy:
    """Find the policy in an array file."""
    suffix = path.suffix.lower()
    has_actions, names = None, None
    if suffix == ".npz":
        about = _load_npz(path, "policy").get("policy")
        given = _load_npz(path, "feature_names").get("feature_names")
        names = None if given is None else tuple(map(str, given.ravel()))
        if about is not None and about.shape in ((3,), (4,)) and about.dtype.kind == "U":
            label, group, step, *_ = about.tolist()
            if npz_path(label).with_suffix("") == Path(info.label):  # the file was not renamed
                info = replace(info, label=label)
            is_known = step.isascii() and step.isdecimal()
            info = replace(info, group=group, step=int(step) if is_known else None)
            info = _thinned(info, _npz_thinning(about))
    elif suffix != ".npy":
        has_actions = _hdf5_actions(path, options)
    read = partial(_read_arrays, path, options)
    return RecordedPolicy(info, read, names=names, has_actions=has_actions)


def _npz_thinning(about: Array | None) -> Any:
    """Return the fourth text of ``policy``: how the states are thinned, if they are."""
    is_there = about is not None and about.shape == (4,) and about.dtype.kind == "U"
    text = str(about[3]) if about is not None and is_there else "1"
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text


def _thinned(info: PolicyInfo, every: Any) -> PolicyInfo:
    """Add how the states of a policy are thinned, as a file by pivec says."""
    if every == 1:
        return info
    if type(every) is not int or not 1 < every <= 1 << 20 or every & (every - 1):
        raise BadData(
            f"kept_every of {info.label!r} must be 2, 4, 8, ..., but is {every!r}: export it again"
        )
    return replace(info, metadata={**info.metadata, "kept_every": every})


def _read_arrays(path: Path, options: TableOptions) -> Iterator[Episode]:
    suffix = path.suffix.lower()
    load = {".npz": _load_npz, ".npy": _load_npy}.get(suffix, _load_hdf5)
    arrays = load(path)
    name = "states" if "states" in arrays else "observations"
    if name not in arrays:
        raise BadData(
            f"it has no array called states or observations, only {', '.join(sorted(arrays))}"
        )
    states = arrays[name]
    if 0 in states.shape[1:]:
        raise BadData(f"{name} has shape {states.shape}: expected at least one feature per state")
    is_cut = options.episode_length is not None or options.episode_starts is not None
    is_long = suffix not in (".npz", ".npy")
    if suffix == ".npz":
        is_long = bool({"episode", "step"} & arrays.keys())
        is_long |= states.ndim == 2 and (is_cut or bool({"terminals", "timeouts"} & arrays.keys()))
    if states.ndim < 2 or (states.ndim == 2 and suffix == ".npz" and not is_long):
        raise BadData(
            f"{name} has shape {states.shape}, but needs (episodes, steps, ...), or (n, ...) with "
            "arrays episode and step, an array terminals, or --episode-length of `pivec import`; a "
            "vector of parameters needs a .json next to it that describes the layers"
        )
    padded = states.ndim > 2 and not is_long and not (suffix == ".npy" and is_cut)
    rows = _padded_rows(arrays, states) if padded else _long_rows(arrays, states, name, options)
    yield from rows.episodes()


def _long_rows(
    arrays: Mapping[str, Array], states: Array, name: str, options: TableOptions
) -> LogRows:
    n = len(states)
    every = _npz_thinning(arrays.get("policy"))
    known: dict[str, Any] = {"length": options.episode_length, "every": every}
    for array, role in _PER_STATE.items():
        if array not in arrays or role == "states":
            continue
        values = arrays[array]
        if len(values) != n and not (role == "actions" and len(values) == n - 1):
            raise BadData(f"{array} has {len(values)} rows, but {name} {n}")
        if role in ("reward", "terminated", "truncated"):
            values = values.reshape(n).astype(bool if role != "reward" else values.dtype)
        known[role] = values
    if {"episode", "step"} & known.keys():
        if any(role not in known or known[role].shape != (n,) for role in ("episode", "step")):
            raise BadData(f"episode and step are both needed, one number for each of {n} rows")
        unique, rank = np.unique(known["episode"], return_inverse=True)
        of_episodes = _per_episode(arrays, len(unique), 1)
        known |= {role: array[rank] for role, array in of_episodes.items()} | {"by_number": True}
    if options.episode_starts is not None:
        starts = np.load(options.episode_starts, allow_pickle=False)
        is_whole = starts.ndim == 1 and starts.dtype.kind in "iu"
        if not is_whole or not ((starts >= 0) & (starts < n)).all():
            raise BadData(f"starts of episodes must be numbers of its rows, from 0 to {n - 1}")
        known["pieces"] = np.split(np.arange(n), np.unique(starts[starts > 0]))
    return LogRows(states, **known)


def _padded_rows(arrays: Mapping[str, Array], states: Array) -> LogRows:
    (n, steps), actions = states.shape[:2], arrays.get("actions")
    lengths = np.asarray(arrays.get("lengths", np.full(n, steps)))
    is_whole = lengths.dtype.kind in "iuf" and bool((lengths % 1 == 0).all())
    fits = is_whole and ((lengths >= 1) & (lengths <= steps)).all()
    if lengths.shape != (n,) or not fits:
        raise BadData(f"lengths needs one number from 1 to {steps} for each of {n} episodes")
    known = _per_episode(arrays, n, steps)
    if actions is not None:
        if actions.ndim < 2 or any(np.less(actions.shape[:2], (n, lengths.max(initial=1) - 1))):
            raise BadData(f"actions of shape {actions.shape} are too few for its states")
        moves = np.zeros((n, steps, *actions.shape[2:]), actions.dtype)
        moves[:, : actions.shape[1]] = actions[:n, :steps]
        known["actions"] = moves.reshape(-1, *moves.shape[2:])
    rows = states.reshape(-1, *states.shape[2:])
    ends = zip(range(0, len(rows), steps), lengths.astype(np.int64).tolist(), strict=True)
    return LogRows(rows, pieces=[np.arange(i, i + length) for i, length in ends], **known)


def _per_episode(arrays: Mapping[str, Array], n: int, repeats: Any) -> dict[str, Any]:
    """Return what is known of whole episodes, repeated for their rows."""
    known = {}
    for name in _PER_EPISODE.keys() & arrays.keys():
        if arrays[name].shape != (n,):
            raise BadData(f"{name} needs one value for each of {n} episodes")
        known[_PER_EPISODE[name]] = np.repeat(arrays[name], repeats)
    return known


def _load_npz(path: Path, only: str = "") -> dict[str, Array]:
    try:
        with open_regular(path) as file:
            budget = Budget(os.fstat(file.fileno()).st_size, str(path), MAX_BYTES)
            return unpack_npz(file, budget, kinds="biufU", only=only)
    except (OSError, BadPolicyFile) as error:
        raise BadData(f"{path} is not a readable .npz of plain arrays: {error}") from error


def _load_npy(path: Path) -> dict[str, Array]:
    with open_regular(path):  # raises if it is not a regular file
        return {"states": np.load(path, mmap_mode="r", allow_pickle=False)}


def _load_hdf5(path: Path) -> dict[str, Array]:
    arrays = {}
    with open_hdf5(path) as file:
        check_hdf5(file)
        budget = Budget(path.stat().st_size, str(path), MAX_BYTES)
        for name in _PER_STATE.keys() & file.keys():
            array = file[name]
            kind = getattr(array, "dtype", None)  # a group has none
            if kind is None or kind.kind not in "biuf" or not getattr(array, "shape", None):
                raise BadData(f"{name} must be an array of numbers, but is {kind or 'a group'}")
            budget.spend(array.size * array.dtype.itemsize)
            arrays[name] = np.asarray(array)
    return arrays


def _hdf5_actions(path: Path, options: TableOptions) -> bool:
    """Check the names in an HDF5 file, and return whether there are actions."""
    with open_hdf5(path) as file:
        known = _PER_STATE.keys() & file.keys()
        inside = ", ".join(map(repr, list(file)[:5])) or "nothing"
    if not {"observations", "states"} & known:
        raise BadData(
            f"it has no array observations, as D4RL's files have, but {inside}: a Minari dataset "
            "is named minari:NAME; convert other layouts to arrays or a table first"
        )
    shows_limits = known & {"timeouts", "next_observations"} or options.episode_length is not None
    if "terminals" in known and not shows_limits:
        warnings.warn(
            f"{path} has no timeouts: episodes that were truncated continue into the next one "
            "(--episode-length of `pivec import` separates them)",
            PivecWarning,
            stacklevel=2,
        )
    return "actions" in known


@contextlib.contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """Open an HDF5 file; no other file can be opened meanwhile."""
    try:
        import h5py
    except ImportError as error:
        raise MissingExtra("reading HDF5 files", "tables") from error
    codecs.lookup("ascii")  # a module that h5py needs for text
    with confined.opening(1), h5py.File(path, "r") as file:
        yield file


_MAX_DEPTH = 100


def check_hdf5(file: Any) -> None:
    """Check that the content of an HDF5 file is in the file itself.

    An array may be in another file, or be made of others; if these are missing, HDF5 gives zeros.
    """
    import h5py

    def problem(name: bytes, info: Any) -> str | None:
        """Return what is wrong with a link, which ends the visit; h5py loses exceptions."""
        text = name.decode(errors="replace")[:80]
        if name.count(b"/") > _MAX_DEPTH:  # paths are followed from the start each time
            return f"its groups are nested more than {_MAX_DEPTH} levels deep"
        if info.type not in (h5py.h5l.TYPE_HARD, h5py.h5l.TYPE_SOFT):
            return f"{text} must be in the file itself, but is a link to another file"
        try:
            if h5py.h5o.get_info(file.id, name).type != h5py.h5o.TYPE_DATASET:
                return None
            plist = h5py.h5d.open(file.id, name).get_create_plist()
            if plist.get_external_count() or plist.get_layout() == h5py.h5d.VIRTUAL:
                return f"{text} must be in the file itself, but is stored in another file"
        except Exception as error:
            is_hard = info.type == h5py.h5l.TYPE_HARD
            return f"{text} is damaged ({str(error)[:200]})" if is_hard else None
        return None

    if wrong := file.id.links.visit(problem, info=True):
        raise BadData(wrong)


# ---- opening tables ----


@dataclass(frozen=True)
class Table:
    """A table in parts, such as row groups: ``read`` returns some columns of one of them."""

    schema: pa.Schema
    lengths: Sequence[int]
    read: Callable[[int, list[str]], Any]


def table_of(thing: Any) -> Table:
    """Convert a pandas or polars frame, or a pyarrow table."""
    if hasattr(thing, "to_arrow"):  # of polars
        thing = thing.to_arrow()
    elif hasattr(thing, "iloc"):  # of pandas
        thing = pa.Table.from_pandas(thing, preserve_index=False)
    if not isinstance(thing, pa.Table):
        raise UsageError(
            "expected a pandas or polars DataFrame or a pyarrow Table, but got "
            f"{type(thing).__name__}"
        )
    return Table(thing.schema, [thing.num_rows], lambda _, names: thing.select(names))


def open_table(path: Path) -> Table:
    """Open a table file by its extension."""
    with open_regular(path) as file:  # raises if it is not a regular file
        size = file.seek(0, 2)
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        whole = pq.ParquetFile(path, memory_map=True)
        groups = [whole.metadata.row_group(i) for i in range(whole.metadata.num_row_groups)]
        lengths = [group.num_rows for group in groups]
        table = Table(
            whole.schema_arrow, lengths, lambda i, names: whole.read_row_group(i, columns=names)
        )
    elif suffix in (".csv", ".tsv"):
        from pyarrow import csv

        parse = csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
        table = table_of(csv.read_csv(path, parse_options=parse))
    else:
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(pa.BufferReader(source.read_buffer()))
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        for batch in batches:  # offsets in a damaged file may point beyond its end
            batch.validate(full=True)
        table = Table(
            reader.schema,
            [batch.num_rows for batch in batches],
            lambda i, names: pa.Table.from_batches([batches[i]]).select(names),
        )
    Budget(size, "it", MAX_BYTES).spend(4 * sum(table.lengths) * len(table.schema))
    return table


# ---- columns of tables ----

# Usual names of columns by role, in lower case with _ between words; the first one found counts.
_ROLES: dict[str, tuple[str, ...]] = {
    "training_step": ("training_step", "training_steps", "train_step", "checkpoint_step",
                      "checkpoint", "global_step"),
    "policy": ("policy", "label", "policy_label", "policy_name", "policy_id", "agent", "model",
               "checkpoint"),
    "group": ("group", "run", "run_name", "run_id"),
    "episode": ("episode", "episode_id", "episode_index", "episode_number", "trajectory",
                "trajectory_id", "traj", "traj_id"),
    "step": ("step", "time_step", "timestep", "time", "t", "frame_index", "timestamp"),
    "return": ("return", "returns", "episode_return", "total_reward"),
    "reward": ("reward", "rewards", "next.reward"),
    "seed": ("seed", "episode_seed"),
    "terminated": ("terminated", "terminal", "terminals", "termination", "terminations", "done",
                   "dones", "next.done"),
    "truncated": ("truncated", "truncation", "truncations", "timeout", "timeouts"),
}  # fmt: skip
_COUNTERS = {"step", "time_step", "timestep", "frame_index"}  # of steps, not of seconds
_KEYS = ("policy", "group", "training_step")  # which policy a row belongs to
_OF_ANY_TYPE = {"policy", "group", "episode"}  # the others are numeric
_ACTION = re.compile(r"(actions?|act)(\[\d+\]|[_.]?\d+)?")
_NUMBER = r"^\s*([-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|nan|NaN|)\s*$"
_INDEX = re.compile(r"(|index|unnamed:_\d+|__index_level_\d+__)")  # written by pandas


@dataclass(frozen=True)
class Columns:
    """The columns of a table by their meaning; ``roles`` has those of `_ROLES` that are there."""

    roles: Mapping[str, str]
    features: tuple[str, ...]
    actions: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # next_x of each feature x
    written: Mapping[str, Any] = field(default_factory=dict)  # metadata of a table by pivec
    ignored: tuple[str, ...] = ()  # without a meaning, unless the user chose the features

    @property
    def all(self) -> list[str]:
        """Every column that is read of a policy."""
        own = [name for role, name in self.roles.items() if role not in _KEYS]
        return list(dict.fromkeys([*own, *self.features, *self.actions, *self.after]))


def find_columns(schema: pa.Schema, options: TableOptions) -> Columns:
    """Find the meaning of the columns of a table."""
    names = list(schema.names)
    if len(set(names)) < len(names):
        raise BadData("two of its columns have the same name: rename one of them")
    text = (schema.metadata or {}).get(METADATA)
    written = {} if text is None else dict(json.loads(text))
    if written.get("columns") != names:  # its columns were changed since
        written = {}
    roles, unused = _find_roles(schema, options)
    left = [name for name in names if name not in {*roles.values(), *unused}]
    actions = _check_given(options.action_columns, names, "--action-columns") or [
        name for name in left if _ACTION.fullmatch(_plain(name))
    ]
    features = _check_given(options.feature_columns, names, "--feature-columns") or list(
        written.get("features", ())
    )
    if not features:
        left = [name for name in left if name not in actions]
        features = [name for name in left if _is_numeric(schema.field(name).type)]
        features = [name for name in features if not _INDEX.fullmatch(_plain(name))]
        following = {f"next_{name}" for name in features} & set(features)
        features = [name for name in features if name not in following]
        unused += [name for name in left if _plain(name) and name not in {*features, *following}]
    if not features:
        raise BadData(
            f"it has no numeric columns for the states, only {_shortened(names)}"
            + f" (not numeric: {_shortened(unused)})" * bool(unused)
            + ": add or correct them, or name them with --feature-columns of `pivec import`"
        )
    after = tuple(f"next_{name}" for name in features)
    after = after if set(after) <= set(names) else ()
    chosen = written or options.feature_columns
    ignored = () if chosen else tuple(unused)
    return Columns(roles, tuple(features), tuple(actions), after, written, ignored)


def _find_roles(schema: pa.Schema, options: TableOptions) -> tuple[dict[str, str], list[str]]:
    """Find the column of each role, and others with a name of that role, which are not used."""
    roles: dict[str, str] = {}
    unused: list[str] = []
    used = {*options.feature_columns, *options.action_columns}
    plain = {_plain(name): name for name in schema.names if name not in used}
    for role, usual in _ROLES.items():
        given = getattr(options, f"{role}_column", None)
        if given is not None:
            option = f"--{role.replace('_', '-')}-column"
            [roles[role]] = _check_given([given], schema.names, option)
            continue
        found = [plain[name] for name in usual if name in plain]
        found = [
            name
            for name in found
            if name not in roles.values() and _fits(role, schema.field(name).type)
        ]
        if found:
            roles[role], *others = found
            unused += others
    return roles, [name for name in unused if name not in roles.values()]


def _fits(role: str, kind: pa.DataType) -> bool:
    is_time = role == "step" and pa.types.is_temporal(kind)
    return role in _OF_ANY_TYPE or _is_numeric(kind) or is_time


def _check_given(wanted: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    for name in wanted:
        if name not in names:
            similar = did_you_mean(name, names)
            raise UsageError(
                f"there is no column {name!r} ({option}){similar}: it has {_shortened(names)}"
            )
    return list(wanted)


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more


def _is_numeric(kind: pa.DataType) -> bool:
    """Return whether the values of a column are numbers, or lists of them."""
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_numeric(kind.value_type)
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


# ---- policies of tables ----


def table_policies(
    table: Table, options: TableOptions, name: str = "policy", source: str = "", digest: str = ""
) -> list[RecordedPolicy]:
    """Find the policies of a table; ``name`` is that of a single one without a column."""
    columns = find_columns(table.schema, options)
    if columns.ignored:
        _check_text(table, columns.ignored)
        warnings.warn(
            f"columns that are not part of the states are ignored: {_shortened(columns.ignored)} "
            "(see --feature-columns of `pivec import`, in Python feature_columns=)",
            PivecWarning,
            stacklevel=2,
        )
    names = _feature_names(table, columns)
    roles = [role for role in _KEYS if role in columns.roles]
    known: dict[str, tuple[Any, ...]] = {}
    thinned = dict(columns.written.get("kept_every") or {})
    clock = "steps" if _plain(columns.roles.get("step", "step")) in _COUNTERS else "time"
    result = []
    for key, rows in _owners(table, [columns.roles[role] for role in roles]):
        info = _info(dict(zip(roles, key, strict=True)), name)
        if info.label in known:
            raise BadData(
                f"the policy {info.label!r} has several groups or training steps, "
                f"{known[info.label][1:]} and {key[1:]}: name other columns with --policy-column, "
                "--group-column and --training-step-column of `pivec import`"
            )
        known[info.label] = key
        every = thinned.get(info.label, 1)
        fingerprint = json_digest([digest, info.label, vars(options)]) if digest else ""
        result.append(
            RecordedPolicy(
                _thinned(replace(info, source=source, fingerprint=fingerprint), every),
                partial(_read_rows, table, columns, rows, options, every),
                environment=str(columns.written.get("environment", "")),
                names=names,
                is_flat=bool(columns.written),
                has_actions=bool(columns.actions),
                clock=clock,
            )
        )
    return result


def _check_text(table: Table, names: Sequence[str]) -> None:
    """Refuse columns of text that are numbers with a typing error."""
    import pyarrow.compute as pc

    for name in names:
        kind = table.schema.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            continue
        row, n_numbers, n_values, wrong = 0, 0, 0, ""
        for part, length in enumerate(table.lengths):
            values = table.read(part, [name]).column(0)
            is_number = pc.fill_null(pc.match_substring_regex(values, _NUMBER), True)
            n_numbers, n_values = n_numbers + (pc.sum(is_number).as_py() or 0), n_values + length
            if not wrong and (first := pc.index(is_number, False).as_py()) >= 0:
                wrong = f"{values[first].as_py()!r:.40} in row {row + first + 1}"
            row += length
        if n_values > n_numbers > n_values / 2:
            raise BadData(
                f"its column {name!r} has numbers, but {wrong}: correct the value, or choose "
                "other columns with --feature-columns of `pivec import`"
            )


def _info(known: Mapping[str, str | None], name: str) -> PolicyInfo:
    """Name a policy by the values of its columns."""
    group, text = known.get("group") or "", known.get("training_step")
    label, step = known.get("policy"), None
    if text is not None:
        try:
            step = int(text)
        except ValueError:
            raise BadData(f"training steps must be whole numbers, but one is {text!r}") from None
    if label is None:
        if "policy" in known:
            raise BadData("a row has no policy name: fill in the column, or omit the row")
        label = "/".join([group or name, *([] if step is None else [str(step)])])
    return PolicyInfo(label, group, step)


def _owners(table: Table, keys: list[str]) -> Iterator[tuple[tuple[Any, ...], Array]]:
    """Yield the values of the key columns of each policy, and its rows."""
    n = sum(table.lengths)
    if not n:
        raise BadData("it has no rows: expected one per state")
    code = np.zeros(n, dtype=np.int64)
    texts = []
    if keys:
        whole = pa.concat_tables([table.read(i, keys) for i in range(len(table.lengths))])
        texts = [_values(whole, key).cast(pa.string()) for key in keys]
    for text in texts:
        encoded = text.dictionary_encode()
        missing = len(encoded.dictionary)
        code = code * (missing + 1) + encoded.indices.fill_null(missing).to_numpy()
    order = np.argsort(code, kind="stable")
    pieces = np.split(order, np.flatnonzero(np.diff(code[order])) + 1)
    for rows in sorted(pieces, key=lambda rows: int(rows[0])):  # by their first rows
        yield tuple(text[int(rows[0])].as_py() for text in texts), rows


def _values(table: Any, name: str) -> Any:
    """Return a column in one piece and not dictionary-encoded."""
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _read_rows(
    table: Table, columns: Columns, rows: Array, options: TableOptions, every: int
) -> Iterator[Episode]:
    """Read the rows of one policy and divide them into episodes."""
    parts = []
    for number, (begin, end) in enumerate(pairwise(starts_of(table.lengths).tolist())):
        first, last = np.searchsorted(rows, (begin, end))
        if first < last:
            part = table.read(number, columns.all)
            parts.append(part.take(rows[first:last] - begin))
    log = log_rows(pa.concat_tables(parts), columns, options)
    yield from replace(log, every=every).episodes()


# Fields of `LogRows` by the role of their column, and what stands for a missing value.
_FIELDS: dict[str, tuple[str, float]] = {
    "episode": ("episode", np.nan),
    "step": ("step", np.nan),
    "reward": ("reward", np.nan),
    "return": ("total", np.nan),
    "seed": ("seed", -1),
    "terminated": ("terminated", 0),
    "truncated": ("truncated", 0),
}


_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "": 86400.0}  # in seconds; of dates a day


def log_rows(table: Any, columns: Columns, options: TableOptions) -> LogRows:
    """Convert the rows of one policy to arrays."""
    column = {name: _values(table, name) for name in columns.all}
    known: dict[str, Any] = {"length": options.episode_length}
    for role, (attribute, unknown) in _FIELDS.items():
        if (name := columns.roles.get(role)) is None:
            continue
        values = column[name]
        if role == "episode" and not _is_numeric(values.type):
            values = values.dictionary_encode().indices
        known[attribute] = _numbers(values, name, unknown)
        if role == "step" and pa.types.is_temporal(values.type):
            known["unit"] = _UNITS[getattr(values.type, "unit", "")]
        if role in ("terminated", "truncated"):
            known[attribute] = known[attribute].astype(bool)
    if columns.actions:
        known["acted"] = np.all([column[name].is_valid() for name in columns.actions], axis=0)
        moves = [_numbers(column[name], name, 0) for name in columns.actions]
        known["actions"] = moves[0] if len(moves) == 1 else np.column_stack(moves)
        if "action_shape" in columns.written:
            shape = columns.written["action_shape"]
            known["actions"] = known["actions"].reshape(table.num_rows, *shape)
    if columns.after:
        known["after"] = np.column_stack([_numbers(column[name], name) for name in columns.after])
    states = np.column_stack([_numbers(column[name], name) for name in columns.features])
    return LogRows(states, **known)


def _numbers(column: Any, name: str, unknown: float = np.nan) -> Array:
    """Return the numbers of a column, (n,) or of lists (n, k)."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int64())
    if not column.null_count:
        return _array(column, name)
    values = _array(column.drop_null(), name)
    if np.isnan(unknown) and values.dtype.kind != "f":
        values = values.astype(np.float64)
    full = np.full((len(column), *values.shape[1:]), unknown, dtype=values.dtype)
    full[column.is_valid().to_numpy(zero_copy_only=False)] = values
    return full


def _array(column: Any, name: str) -> Array:
    n = len(column)
    width: tuple[int, ...] = ()
    while hasattr(column, "flatten") and pa.types.is_nested(column.type):
        lengths = column.value_lengths().unique().to_pylist()
        if len(lengths) > 1:
            raise BadData(
                f"the lists of the column {name!r} have several lengths, {lengths[0]} and "
                f"{lengths[1]}: all states need the same"
            )
        column, width = column.flatten(), (-1,)
    array = column.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "biuf":
        raise BadData(f"the column {name!r} must be numeric, but is {column.type}")
    return np.asarray(array.reshape(n, *width))


def _feature_names(table: Table, columns: Columns) -> tuple[str, ...]:
    """Name the values of a state: a list has several."""
    names: list[str] = []
    first = next((i for i, n in enumerate(table.lengths) if n), None)
    for name in columns.features:
        if first is None or not pa.types.is_nested(table.schema.field(name).type):
            names.append(name)
            continue
        value = _values(table.read(first, [name]).slice(0, 1), name)
        names += [f"{name}[{i}]" for i in range(_array(value, name).shape[1])]
    return tuple(columns.written.get("feature_names", names))
