"""Recorded states in tables: Parquet, CSV, Feather and Arrow files, and frames in memory.

A row is a state. Columns are found by their names, rows are divided into episodes by `LogRows`. Of
a file that has row groups, one policy is in memory at a time.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pivec.errors import BadData, PivecWarning, UsageError, did_you_mean
from pivec.files import Budget, open_regular
from pivec.options import TableOptions
from pivec.policies import PolicyInfo
from pivec.rollouts import Episode
from pivec.states.store import json_digest
from pivec.states.visited import RecordedPolicy, starts_of

Array = NDArray[Any]
MAX_BYTES = 1 << 34  # that a file may unpack to
METADATA = b"pivec"  # under which tables written by pivec describe their columns

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
_KEYS = ("policy", "group", "training_step")  # which policy a row belongs to
_OF_ANY_TYPE = {"policy", "group", "episode"}  # the others are numeric
_ACTION = re.compile(r"(actions?|act)(\[\d+\]|[_.]?\d+)?")
_INDEX = re.compile(r"(|index|unnamed:_\d+|__index_level_\d+__)")  # written by pandas


@dataclass(frozen=True)
class Columns:
    """The columns of a table by their meaning; ``roles`` has those of `_ROLES` that are there."""

    roles: Mapping[str, str]
    features: tuple[str, ...]
    actions: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # next_x of each feature x
    written: Mapping[str, Any] = field(default_factory=dict)  # metadata of a table by pivec

    @property
    def all(self) -> list[str]:
        """Every column that is read of a policy."""
        own = [name for role, name in self.roles.items() if role not in _KEYS]
        return list(dict.fromkeys([*own, *self.features, *self.actions, *self.after]))


def find_columns(schema: pa.Schema, options: TableOptions) -> Columns:
    """Find the meaning of the columns of a table; warn about those that are ignored."""
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
            f"it has no numeric columns for the states, only {_shortened(names)}: name them with "
            "--feature-columns of `pivec import`"
        )
    if unused and not written and not options.feature_columns:
        warnings.warn(
            f"columns that are not part of the states are ignored: {_shortened(unused)} (see "
            "--feature-columns of `pivec import`, in Python feature_columns=)",
            PivecWarning,
            stacklevel=2,
        )
    after = tuple(f"next_{name}" for name in features)
    after = after if set(after) <= set(names) else ()
    return Columns(roles, tuple(features), tuple(actions), after, written)


def _find_roles(schema: pa.Schema, options: TableOptions) -> tuple[dict[str, str], list[str]]:
    """Find the column of each role, and others with a name of that role, which are not used."""
    roles: dict[str, str] = {}
    unused: list[str] = []
    names = schema.names
    used = {*options.feature_columns, *options.action_columns}
    for role, usual in _ROLES.items():
        given = getattr(options, f"{role}_column", None)
        if given is not None:
            [roles[role]] = _check_given([given], names, f"--{role.replace('_', '-')}-column")
            continue
        known = {_plain(name): name for name in names if name not in used}
        found = [known[name] for name in usual if name in known]
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


@dataclass(frozen=True)
class LogRows:
    """The rows of one policy, one per state, in any order; arrays that are unknown are None."""

    states: Array  # (n, ...)
    actions: Array | None = None  # those of the last row of an episode need ``after``
    acted: NDArray[np.bool_] | None = None  # where an action is known; None: everywhere
    episode: Array | None = None
    step: Array | None = None  # without ``episode``, one starts where this falls
    reward: Array | None = None
    total: Array | None = None  # return of the episode, the same in all its rows
    seed: Array | None = None  # likewise
    terminated: NDArray[np.bool_] | None = None  # without both, these end an episode
    truncated: NDArray[np.bool_] | None = None
    after: Array | None = None  # the state that follows each row
    length: int | None = None  # of episodes at most, if nothing else shows it
    starts: Array | None = None  # the rows where episodes start

    def episodes(self) -> Iterator[Episode]:
        """Iterate over the episodes, in the order of their first rows."""
        for number, rows in enumerate(self._rows()):
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
            )

    def _rows(self) -> list[NDArray[np.intp]]:
        """Return the rows of each episode, in order of time."""
        n = len(self.states)
        if not n:
            raise BadData("it holds no rows: omit it")
        if self.episode is None:
            return np.split(np.arange(n), np.flatnonzero(self._is_start())[1:])
        _, first, code = np.unique(self.episode, return_index=True, return_inverse=True)
        order = np.lexsort((np.arange(n) if self.step is None else self.step, first[code]))
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
        result = np.zeros(n, dtype=bool)
        result[0] = True
        if self.starts is not None:
            is_whole = self.starts.ndim == 1 and self.starts.dtype.kind in "iu"
            if not is_whole or not ((self.starts >= 0) & (self.starts < n)).all():
                raise BadData(f"starts of episodes must be numbers of its rows, from 0 to {n - 1}")
            result[self.starts] = True
            return result
        if self.step is not None:
            result[1:] |= ~(np.diff(self.step) > 0)
            firsts = self.step[result]
            if (firsts != firsts[0]).any():
                raise BadData(
                    f"episodes start at the times {firsts[0]} and "
                    f"{firsts[firsts != firsts[0]][0]}: sort the rows by time, or name the column "
                    "of episodes"
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
                "nothing shows where its episodes start: it needs episode, step or terminated, or "
                "--episode-length of `pivec import`"
            )
        return result

    def _actions(self, rows: NDArray[np.intp], number: int) -> Array | None:
        if self.actions is None:
            return None
        if self.acted is not None and not self.acted[rows].all():
            step = int(np.argmin(self.acted[rows]))
            raise BadData(f"step {step} of episode {number} has no action: add it, or omit all")
        if len(self.actions) <= rows.max(initial=0):
            raise BadData(f"it has {len(self.actions)} actions for {len(self.states)} states")
        return np.asarray(self.actions[rows])

    def _total(self, rows: NDArray[np.intp], number: int) -> float:
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


@dataclass(frozen=True)
class Table:
    """A table in parts, such as row groups: ``read`` returns some columns of one of them."""

    schema: pa.Schema
    lengths: Sequence[int]
    read: Callable[[int, list[str]], Any]


def table_of(thing: Any) -> Table:
    """Convert a pandas or polars frame, or a pyarrow table."""
    table = thing
    if not is_frame(thing):
        raise UsageError(
            "expected a pandas or polars DataFrame or a pyarrow Table, but got "
            f"{type(thing).__name__}"
        )
    if hasattr(thing, "to_arrow"):  # of polars
        table = thing.to_arrow()
    elif not isinstance(thing, pa.Table):
        table = pa.Table.from_pandas(thing, preserve_index=False)
    return Table(table.schema, [table.num_rows], lambda _, names: table.select(names))


def is_frame(thing: Any) -> bool:
    """Return whether something is a table in memory that `table_of` converts."""
    package = type(thing).__module__.partition(".")[0]
    frames = ("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")
    return (package, type(thing).__name__) in frames


def open_table(path: Path) -> Table:
    """Open a table file by its extension."""
    with open_regular(path) as file:  # raises if it is not a regular file
        size = file.seek(0, 2)
    table = _OPENERS[path.suffix.lower()](path)
    Budget(size, "it", MAX_BYTES).spend(4 * sum(table.lengths) * len(table.schema))
    return table


def _open_parquet(path: Path) -> Table:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, memory_map=True)
    lengths = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    return Table(
        file.schema_arrow, lengths, lambda number, names: file.read_row_group(number, columns=names)
    )


def _open_arrow(path: Path) -> Table:
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(pa.BufferReader(source.read_buffer()))
    lengths = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
    return Table(
        reader.schema,
        lengths,
        lambda number, names: pa.Table.from_batches([reader.get_batch(number)]).select(names),
    )


def _open_csv(path: Path) -> Table:
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    return table_of(csv.read_csv(path, parse_options=parse))


_OPENERS: dict[str, Callable[[Path], Table]] = {
    ".parquet": _open_parquet,
    ".feather": _open_arrow,
    ".arrow": _open_arrow,
    ".csv": _open_csv,
    ".tsv": _open_csv,
}
TABLE_FILES = frozenset(_OPENERS)


def policies_in(
    table: Table, options: TableOptions, name: str = "policy", source: str = "", digest: str = ""
) -> list[RecordedPolicy]:
    """Find the policies of a table; ``name`` is that of a single one without a column."""
    columns = find_columns(table.schema, options)
    names = _feature_names(table, columns)
    roles = [role for role in _KEYS if role in columns.roles]
    owners, first_rows, codes = _owners(table, [columns.roles[role] for role in roles])
    ends = np.append(first_rows[1:], sum(table.lengths))
    known: dict[str, tuple[Any, ...]] = {}
    result = []
    for number, key in enumerate(owners):
        info = _info(dict(zip(roles, key, strict=True)), name)
        if info.label in known:
            raise BadData(
                f"the policy {info.label!r} has several groups or training steps, "
                f"{known[info.label][1:]} and {key[1:]}: name other columns with --policy-column, "
                "--group-column and --training-step-column of `pivec import`"
            )
        known[info.label] = key
        spans = np.stack([first_rows, ends], axis=1)[codes == number]
        fingerprint = json_digest([digest, info.label, vars(options)]) if digest else ""
        result.append(
            RecordedPolicy(
                replace(info, source=source, fingerprint=fingerprint),
                partial(_episodes, table, columns, spans, options),
                environment=str(columns.written.get("environment", "")),
                names=names,
                is_flat=bool(columns.written),
                has_actions=bool(columns.actions),
            )
        )
    return result


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
            raise BadData("a row names no policy: fill in the column, or omit the row")
        label = "/".join([group or name, *([] if step is None else [str(step)])])
    return PolicyInfo(label, group, step)


def _owners(
    table: Table, keys: list[str]
) -> tuple[list[tuple[Any, ...]], NDArray[np.int64], NDArray[np.int64]]:
    """Return the policies, and of each span of rows of one policy its first row and policy."""
    owners: dict[tuple[Any, ...], int] = {}
    first_rows, codes = [], []
    for number, begin in enumerate(starts_of(table.lengths)[:-1].tolist()):
        part = table.read(number, keys) if keys else None
        texts = [] if part is None else [_values(part, key).cast(pa.string()) for key in keys]
        code = np.zeros(table.lengths[number], dtype=np.int64)
        for column in texts:
            encoded = column.dictionary_encode()
            n = len(encoded.dictionary)
            code = code * (n + 1) + encoded.indices.fill_null(n).to_numpy()
        rows = np.flatnonzero(np.diff(code, prepend=-1))
        _, first, rank = np.unique(code[rows], return_index=True, return_inverse=True)
        mine = np.empty(len(first), dtype=np.int64)
        for place in np.argsort(first).tolist():
            key = tuple(column[int(rows[first[place]])].as_py() for column in texts)
            mine[place] = owners.setdefault(key, len(owners))
        first_rows.append(rows + begin)
        codes.append(mine[rank])
    if not owners:
        raise BadData("it has no rows: expected one per state")
    return list(owners), np.concatenate(first_rows), np.concatenate(codes)


def _values(table: Any, name: str) -> Any:
    """Return a column in one piece and not dictionary-encoded."""
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _episodes(
    table: Table, columns: Columns, spans: NDArray[np.int64], options: TableOptions
) -> Iterator[Episode]:
    """Read the rows of one policy, given by spans, and divide them into episodes."""
    parts = []
    for number, begin in enumerate(starts_of(table.lengths)[:-1].tolist()):
        end = begin + table.lengths[number]
        inside = spans[(spans[:, 0] < end) & (spans[:, 1] > begin)].clip(begin, end) - begin
        if len(inside):
            part, counts = table.read(number, columns.all), inside[:, 1] - inside[:, 0]
            rows = np.repeat(inside[:, 0] - starts_of(counts)[:-1], counts) + np.arange(
                counts.sum()
            )
            is_one = len(inside) == 1
            parts.append(part.slice(inside[0, 0], counts[0]) if is_one else part.take(rows))
    yield from _log_rows(pa.concat_tables(parts), columns, options).episodes()


# Fields of `LogRows` by the role of their column, and what stands for a missing value.
_FIELDS: dict[str, tuple[str, float]] = {
    "episode": ("episode", np.nan),
    "step": ("step", np.nan),
    "reward": ("reward", np.nan),
    "total": ("return", np.nan),
    "seed": ("seed", -1),
    "terminated": ("terminated", 0),
    "truncated": ("truncated", 0),
}


def _log_rows(table: Any, columns: Columns, options: TableOptions) -> LogRows:
    """Convert the rows of one policy to arrays."""
    column = {name: _values(table, name) for name in columns.all}
    if (name := columns.roles.get("episode", "")) and not _is_numeric(column[name].type):
        column[name] = column[name].dictionary_encode().indices
    known = {
        field: _numbers(column[columns.roles[role]], columns.roles[role], unknown)
        for field, (role, unknown) in _FIELDS.items()
        if role in columns.roles
    }
    for flag in {"terminated", "truncated"} & known.keys():
        known[flag] = known[flag].astype(bool)
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
    return LogRows(states, length=options.episode_length, **known)


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
