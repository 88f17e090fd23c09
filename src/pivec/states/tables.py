"""Recorded states in tables: Parquet, CSV, Feather and Arrow files, and frames in memory.

A row is a state; `pivec.states.columns` tells which columns say whose and when. Of a file that has
row groups one policy is in memory at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pivec.errors import BadData, UsageError
from pivec.options import TableOptions
from pivec.policies.policy import PolicyInfo
from pivec.reading import Budget, open_regular
from pivec.rollouts.episodes import Episode
from pivec.states.columns import KEYS, METADATA, Columns, find_columns, is_numeric
from pivec.states.index import sum_of
from pivec.states.log_rows import LogRows
from pivec.states.record import Recorded, starts_of

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
    return _plain(column).cast(pa.string())


def _plain(column: Any) -> Any:
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
    column = {name: _plain(table.column(name)) for name in columns.all}
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
        first = _plain(table.read(whole, [name]).column(name).slice(0, 1))
        names += [f"{name}[{i}]" for i in range(_array(first, name).shape[1])]
    return tuple(columns.written.get("feature_names", names))
