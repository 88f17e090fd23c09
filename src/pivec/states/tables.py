"""Recorded states in tables: Parquet, CSV, Feather and Arrow files, and frames in memory.

A row is a state; `pivec.states.tables` tells which columns say whose and when. Of a file that has
row groups one policy is in memory at a time.
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
from pivec.states.record import Recorded, starts_of
from pivec.states.store import sum_of

# -----------------------------------------------------------------------------
# Which column of a table tells what: by name, or as the user says.


# What columns are usually called, small and with _ between words; the first that is there counts.
NAMES: dict[str, tuple[str, ...]] = {
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
_OF_ANY_KIND = {"policy", "group", "episode"}  # the others are numbers
_ACTION = re.compile(r"(actions?|act)(\[\d+\]|[_.]?\d+)?")
_INDEX = re.compile(r"(|index|unnamed:_\d+|__index_level_\d+__)")  # that pandas writes
_TOLD = 8  # columns that a sentence names
KEYS = ("policy", "group", "training_step")  # whose a row is
METADATA = b"pivec"  # under which a table that pivec wrote tells its features


@dataclass(frozen=True)
class Columns:
    """The columns of a table by what they tell; ``roles`` has those of `NAMES` that are there."""

    roles: Mapping[str, str]
    features: tuple[str, ...]
    actions: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # next_x of each feature x
    written: Mapping[str, Any] = field(default_factory=dict)  # what pivec itself wrote into it

    @property
    def all(self) -> list[str]:
        """Every column that is read of a policy."""
        own = [name for role, name in self.roles.items() if role not in KEYS]
        return list(dict.fromkeys([*own, *self.features, *self.actions, *self.after]))

    @property
    def keys(self) -> list[str]:
        """The columns that tell whose a row is."""
        return [self.roles[role] for role in KEYS if role in self.roles]


def find_columns(
    schema: pa.Schema, options: TableOptions, written: Mapping[str, Any] | None = None
) -> Columns:
    """Find what the columns of a table tell; what is left out is said.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"agent": ["a"], "t": [0], "x": [0.5], "y": [1.0], "action": [1]})
    >>> known = find_columns(table.schema, TableOptions())
    >>> dict(known.roles), known.features, known.actions
    ({'policy': 'agent', 'step': 't'}, ('x', 'y'), ('action',))
    """
    names, written = list(schema.names), written or {}
    if len(set(names)) < len(names):
        raise BadData("two of its columns have the same name: rename one of them")
    roles, spare = _roles(schema, options)
    left = [name for name in names if name not in {*roles.values(), *spare}]
    actions = _given(options.action_columns, names, "--action") or [
        name for name in left if _ACTION.fullmatch(_plain(name))
    ]
    features = _given(options.feature_columns, names, "--feature") or list(
        written.get("features", ())
    )
    if not features:
        left = [name for name in left if name not in actions]
        features = [name for name in left if is_numeric(schema.field(name).type)]
        features = [name for name in features if not _INDEX.fullmatch(_plain(name))]
        following = {_next(name) for name in features} & set(features)
        features = [name for name in features if name not in following]
        spare += [name for name in left if _plain(name) and name not in {*features, *following}]
    if not features:
        raise BadData(
            f"it has no columns of numbers for the states, only {_list(names)}: name them with "
            "--feature of `pivec import`"
        )
    if spare and not written and not options.feature_columns:
        warnings.warn(
            f"columns that are no part of the states are left out: {_list(spare)} (name those of "
            "the states with --feature of `pivec import`, in Python feature_columns=)",
            PivecWarning,
            stacklevel=2,
        )
    after = [_next(name) for name in features]
    is_whole = set(after) <= set(names)
    return Columns(
        roles, tuple(features), tuple(actions), tuple(after) if is_whole else (), written
    )


def _roles(schema: pa.Schema, options: TableOptions) -> tuple[dict[str, str], list[str]]:
    """Find the column of each role, and others of that name, which tell nothing more."""
    roles: dict[str, str] = {}
    spare: list[str] = []
    names = schema.names
    used = {*options.feature_columns, *options.action_columns}
    for role, usual in NAMES.items():
        given = getattr(options, f"{role}_column", None)
        if given is not None:
            [roles[role]] = _given([given], names, f"--{role.replace('_', '-')}-column")
            continue
        known = {_plain(name): name for name in names if name not in used}
        mine = [known[name] for name in usual if name in known]
        mine = [name for name in mine if name not in roles.values()]
        if role not in _OF_ANY_KIND:
            kinds = {name: schema.field(name).type for name in mine}
            timed = pa.types.is_temporal if role == "step" else is_numeric
            mine = [name for name in mine if is_numeric(kinds[name]) or timed(kinds[name])]
        if mine:
            roles[role], *others = mine
            spare += others
    return roles, [name for name in spare if name not in roles.values()]


def _given(wanted: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    """Check that columns the user names are there."""
    for name in wanted:
        if name not in names:
            raise UsageError(
                f"there is no column {name!r}, which {option} names"
                f"{did_you_mean(name, names)}: it has {_list(names)}"
            )
    return list(wanted)


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def _next(name: str) -> str:
    return f"next_{name}"


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return ", ".join(map(repr, names[:_TOLD])) + more


def is_numeric(kind: pa.DataType) -> bool:
    """Tell whether values of a column are numbers, or lists of them."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return is_numeric(kind.value_type)
    numbers = pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean
    return any(is_kind(kind) for is_kind in numbers)


# -----------------------------------------------------------------------------
# Rows of a log, one a state, in whatever order somebody wrote them: cut into episodes.


Array = NDArray[Any]


@dataclass(frozen=True)
class LogRows:
    """The rows of one policy; each array has a value a row, and what is not known is None.

    Attributes
    ----------
    states : (n, ...) array
    actions : (n, ...) array
        Those of the last row of an episode are not read, unless ``after`` is known.
    acted : (n,) bool array
        Where an action is known; everywhere if not given.
    episode, step : (n,) arrays
        Whose a row is, and when. Without ``episode`` one begins where ``step`` falls.
    reward, total, seed : (n,) arrays
        ``total`` is the return of the whole episode, as ``seed`` the same in all its rows.
    terminated, truncated : (n,) bool arrays
        An episode that has neither number nor step ends with a row where either is true.
    after : (n, ...) array
        The state that follows each row, where that is kept too.
    length : int
        Rows after which an episode ends at the latest, where nothing else tells.
    starts : array
        The rows where episodes begin.
    """

    states: Array
    actions: Array | None = None
    acted: NDArray[np.bool_] | None = None
    episode: Array | None = None
    step: Array | None = None
    reward: Array | None = None
    total: Array | None = None
    seed: Array | None = None
    terminated: NDArray[np.bool_] | None = None
    truncated: NDArray[np.bool_] | None = None
    after: Array | None = None
    length: int | None = None
    starts: Array | None = None

    def episodes(self) -> Iterator[Episode]:
        """Go through the episodes, in the order of their first rows.

        Examples
        --------
        >>> rows = LogRows(np.arange(5.0)[:, None], step=np.array([0, 1, 2, 0, 1]))
        >>> [episode.states.ravel().tolist() for episode in rows.episodes()]
        [[0.0, 1.0, 2.0], [3.0, 4.0]]
        """
        for number, rows in enumerate(self._cut()):
            states, moves = self.states[rows], rows[:-1]
            if self.after is not None:
                states, moves = np.concatenate([states, self.after[rows[-1:]]]), rows
            yield Episode(
                states,
                self._moves(moves, number),
                self._total(rows, number),
                int(self._same(self.seed, "seed", rows, number, -1)),
                self.terminated is not None and bool(self.terminated[rows].any()),
                self.truncated is not None and bool(self.truncated[rows].any()),
            )

    def _cut(self) -> list[NDArray[np.intp]]:
        """Give the rows of each episode, in order of time."""
        n = len(self.states)
        if not n:
            raise BadData("it holds no rows: leave it out")
        if self.episode is None:
            return np.split(np.arange(n), self._starts()[1:])
        _, first, code = np.unique(self.episode, return_index=True, return_inverse=True)
        order = np.lexsort((np.arange(n) if self.step is None else self.step, first[code]))
        pieces = np.split(order, np.flatnonzero(np.diff(code[order])) + 1)
        for rows in pieces if self.step is not None else ():
            times = self.step[rows]  # type: ignore[index]
            if twice := np.flatnonzero(~(np.diff(times) > 0)).tolist():
                raise BadData(
                    f"episode {self.episode[rows[0]]} has the time {times[twice[0]]} twice: name "
                    "the columns that tell policies, episodes and the time (--policy-column, "
                    "--episode-column, --step-column of `pivec import`)"
                )
        return pieces

    def _starts(self) -> NDArray[np.intp]:
        """Find the rows where episodes begin, where no column numbers them."""
        n = len(self.states)
        begins = np.zeros(n, dtype=bool)
        begins[0] = True
        if self.starts is not None:
            whole = self.starts.ndim == 1 and self.starts.dtype.kind in "iu"
            if not whole or not ((self.starts >= 0) & (self.starts < n)).all():
                raise BadData(f"starts of episodes must be numbers of its rows, from 0 to {n - 1}")
            begins[self.starts] = True
        elif self.step is not None:
            begins[1:] |= ~(np.diff(self.step) > 0)
            firsts = self.step[begins]
            if (firsts != firsts[0]).any():
                raise BadData(
                    f"an episode begins wherever the time falls, but they begin at {firsts[0]} and "
                    f"at {firsts[firsts != firsts[0]][0]}: sort the rows by time, or name the "
                    "column of episodes"
                )
        else:
            ends = [flag for flag in (self.terminated, self.truncated) if flag is not None]
            for flag in ends:
                begins[1:] |= flag[:-1]
            if self.after is not None:
                moved = self.after[:-1] != self.states[1:]
                begins[1:] |= moved.reshape(n - 1, -1).any(axis=1)
            if self.length is not None:
                before = np.maximum.accumulate(np.where(begins, np.arange(n), 0))
                begins |= (np.arange(n) - before) % self.length == 0
            elif not ends and self.after is None:
                raise BadData(
                    "nothing tells where its episodes begin: a column or array is missing that "
                    "numbers them (episode), tells the time (step) or their ends (terminated), or "
                    "a fixed length (--episode-length of `pivec import`)"
                )
        return np.flatnonzero(begins)

    def _moves(self, rows: NDArray[np.intp], number: int) -> Array | None:
        if self.actions is None:
            return None
        if self.acted is not None and not self.acted[rows].all():
            step = int(np.argmin(self.acted[rows]))
            raise BadData(f"step {step} of episode {number} has no action: fill it, or leave "
                          "all actions out")  # fmt: skip
        if len(self.actions) <= rows.max(initial=0):
            raise BadData(f"it has {len(self.actions)} actions for {len(self.states)} states")
        return np.asarray(self.actions[rows])

    def _total(self, rows: NDArray[np.intp], number: int) -> float:
        if self.total is None and self.reward is not None:
            values = np.asarray(self.reward[rows], dtype=np.float64)
            # A terminal state is followed by no reward, which some logs leave open.
            last = -1 if self.after is None and np.isnan(values[-1]) else len(values)
            return float(values[:last].sum())
        return float(self._same(self.total, "return", rows, number, np.nan))

    def _same(
        self, values: Array | None, name: str, rows: NDArray[np.intp], number: int, unknown: Any
    ) -> Any:
        """Give the value that all rows of an episode share."""
        if values is None:
            return unknown
        mine = values[rows]
        if not np.array_equal(mine, np.full_like(mine, mine[0]), equal_nan=mine.dtype.kind == "f"):
            raise BadData(
                f"the {name} of episode {number} is not the same in all its rows, "
                f"{mine[0]} and {mine[mine != mine[0]][0]}: rewards of steps are called reward"
            )
        return mine[0]


MOST = 1 << 34  # bytes a file may unpack to
_Key = tuple[str | None, ...]


@dataclass(frozen=True)
class Table:
    """A table in parts, as row groups are: ``read`` gives some columns of one of them."""

    schema: pa.Schema
    lengths: Sequence[int]
    read: Callable[[int, list[str]], Any]

    @property
    def written(self) -> Mapping[str, Any]:
        """What pivec itself wrote into it, unless its columns are others since."""
        text = (self.schema.metadata or {}).get(METADATA)
        known = {} if text is None else dict(json.loads(text))
        return known if known.get("columns") == self.schema.names else {}


def table_of(thing: Any) -> Table:
    """Make a table of a pandas or polars frame, or of a pyarrow table."""
    table = thing
    if type(thing).__module__.partition(".")[0] == "pandas":
        table = pa.Table.from_pandas(thing, preserve_index=False)
    elif hasattr(thing, "to_arrow"):  # of polars
        table = thing.to_arrow()
    if not isinstance(table, pa.Table):
        raise UsageError(
            "expected a pandas or polars DataFrame or a pyarrow Table, but got "
            f"{type(thing).__name__}"
        )
    return Table(table.schema, [table.num_rows], lambda _, names: table.select(names))


def is_frame(thing: Any) -> bool:
    """Tell whether something is a table in memory that `table_of` takes."""
    package = type(thing).__module__.partition(".")[0]
    return (package, type(thing).__name__) in (
        ("pandas", "DataFrame"),
        ("polars", "DataFrame"),
        ("pyarrow", "Table"),
    )


def open_table(path: Path) -> Table:
    """Open a table file by its extension."""
    with open_regular(path) as file:  # which refuses what is no regular file
        size = file.seek(0, 2)
    table = _OPENERS[path.suffix.lower()](path)
    budget = Budget(size, "it", MOST)
    budget.spend(4 * sum(table.lengths) * len(table.schema))
    return table


def _open_parquet(path: Path) -> Table:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, memory_map=True)
    known = file.metadata
    lengths = [known.row_group(i).num_rows for i in range(known.num_row_groups)]
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
TABLES = frozenset(_OPENERS)


def recorded_of(
    table: Table, options: TableOptions, name: str = "policy", source: str = "", digest: str = ""
) -> list[Recorded]:
    """Find the policies of a table; ``name`` is that of a single one that no column names."""
    columns = find_columns(table.schema, options, table.written)
    names = _feature_names(table, columns)
    owners, runs = _runs(table, columns.keys)
    ends = np.append(runs[1:, 0], sum(table.lengths))
    roles = [role for role in KEYS if role in columns.roles]
    keys: dict[str, _Key] = {}
    result = []
    for number, key in enumerate(owners):
        info = _info(dict(zip(roles, key, strict=True)), name)
        if info.label in keys:
            raise BadData(
                f"the policy {info.label!r} has several groups or training steps, "
                f"{keys[info.label][1:]} and {key[1:]}: name other columns with --policy-column, "
                "--group-column and --training-step-column of `pivec import`"
            )
        keys[info.label] = key
        mine = runs[:, 1] == number
        spans = np.stack([runs[mine, 0], ends[mine]], axis=1)
        digests = sum_of([digest, info.label, vars(options)]) if digest else ""
        result.append(
            Recorded(
                replace(info, source=source, fingerprint=digests),
                partial(_episodes, table, columns, spans, options),
                environment=str(columns.written.get("environment", "")),
                names=names,
                is_flat=bool(columns.written),
                has_actions=bool(columns.actions),
            )
        )
    return result


def _info(known: Mapping[str, str | None], name: str) -> PolicyInfo:
    """Name a policy by what its columns say."""
    group, text = known.get("group") or "", known.get("training_step")
    label, step = known.get("policy"), None
    if text is not None:
        try:
            step = int(text)
        except ValueError:
            raise BadData(f"training steps must be whole numbers, but one is {text!r}") from None
    if label is None:
        if "policy" in known:
            raise BadData("a row names no policy: fill the column, or leave the row out")
        label = "/".join([group or name, *([] if step is None else [str(step)])])
    return PolicyInfo(label, group, step)


def _runs(table: Table, keys: list[str]) -> tuple[list[_Key], NDArray[np.int64]]:
    """Find who is in the table, and runs of rows of one: where each begins, and whose it is."""
    owners: dict[_Key, int] = {}
    runs = [np.zeros((0, 2), dtype=np.int64)]
    for number, begin in enumerate(starts_of(table.lengths)[:-1].tolist()):
        n = table.lengths[number]
        part = table.read(number, keys) if keys else None
        texts = [] if part is None else [_text(part.column(key)) for key in keys]
        codes = np.zeros(n, dtype=np.int64)
        for column in texts:
            encoded = column.dictionary_encode()
            known = len(encoded.dictionary)
            codes = codes * (known + 1) + encoded.indices.fill_null(known).to_numpy()
        rows = np.flatnonzero(np.diff(codes, prepend=-1))
        _, first, code = np.unique(codes[rows], return_index=True, return_inverse=True)
        mine = np.empty(len(first), dtype=np.int64)
        for place in np.argsort(first).tolist():
            key = tuple(column[int(rows[first[place]])].as_py() for column in texts)
            mine[place] = owners.setdefault(key, len(owners))
        runs.append(np.stack([rows + begin, mine[code]], axis=1))
    if not owners:
        raise BadData("it has no rows: expected one a state")
    return list(owners), np.concatenate(runs)


def _text(column: Any) -> Any:
    """Give a column as text, in one piece."""
    return _plain_tables(column).cast(pa.string())


def _plain_tables(column: Any) -> Any:
    """Give a column in one piece, and not as numbers of a dictionary."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _episodes(
    table: Table, columns: Columns, spans: NDArray[np.int64], options: TableOptions
) -> Iterator[Episode]:
    """Read the rows of one policy and go through its episodes."""
    parts = []
    for number, begin in enumerate(starts_of(table.lengths)[:-1].tolist()):
        end = begin + table.lengths[number]
        inside = spans[(spans[:, 0] < end) & (spans[:, 1] > begin)].clip(begin, end) - begin
        if len(inside) == 1:
            part = table.read(number, columns.all)
            parts.append(part.slice(inside[0, 0], inside[0, 1] - inside[0, 0]))
        elif len(inside):
            counts = inside[:, 1] - inside[:, 0]
            behind = np.repeat(inside[:, 0] - starts_of(counts)[:-1], counts)
            part = table.read(number, columns.all)
            parts.append(part.take(np.arange(counts.sum()) + behind))
    yield from log_rows(pa.concat_tables(parts), columns, options).episodes()


def log_rows(table: Any, columns: Columns, options: TableOptions) -> LogRows:
    """Give the rows of one policy as arrays."""
    column = {name: _plain_tables(table.column(name)) for name in columns.all}
    if (name := columns.roles.get("episode", "")) and not is_numeric(column[name].type):
        column[name] = column[name].dictionary_encode().indices  # names are as good as numbers
    known = {
        field: _values(column[columns.roles[role]], columns.roles[role], unknown)
        for field, (role, unknown) in _FIELDS.items()
        if role in columns.roles
    }
    for flag in ("terminated", "truncated"):
        if flag in known:
            known[flag] = known[flag].astype(bool)
    if columns.actions:
        known["acted"] = np.all([column[name].is_valid() for name in columns.actions], axis=0)
        moves = [_values(column[name], name, 0) for name in columns.actions]
        known["actions"] = moves[0] if len(moves) == 1 else np.column_stack(moves)
        if "action_shape" in columns.written:
            shape = columns.written["action_shape"]
            known["actions"] = known["actions"].reshape(table.num_rows, *shape)
    if columns.after:
        known["after"] = np.column_stack([_values(column[name], name) for name in columns.after])
    states = np.column_stack([_values(column[name], name) for name in columns.features])
    return LogRows(states, length=options.episode_length, **known)


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


def _values(column: Any, name: str, unknown: float = np.nan) -> NDArray[Any]:
    """Give the numbers of a column, (n,) or of lists (n, k)."""
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


def _array(column: Any, name: str) -> NDArray[Any]:
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
        raise BadData(f"the column {name!r} must be numbers, but is {column.type}")
    return np.asarray(array.reshape(n, *width))


def _feature_names(table: Table, columns: Columns) -> tuple[str, ...]:
    """Name the values of a state: a list has several."""
    names: list[str] = []
    whole = next((i for i, n in enumerate(table.lengths) if n), None)
    for name in columns.features:
        if whole is None or not pa.types.is_nested(table.schema.field(name).type):
            names.append(name)
            continue
        first = _plain_tables(table.read(whole, [name]).column(name).slice(0, 1))
        names += [f"{name}[{i}]" for i in range(_array(first, name).shape[1])]
    return tuple(columns.written.get("feature_names", names))
