"""Policies in Arrow IPC files: one record batch per policy, one row per episode.

The states of an episode are a list of lists. The values of a list column are contiguous, so that
states are memory-mapped instead of read.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pivec.errors import BadStore
from pivec.policies import NetworkPolicy, Policy, PolicyInfo
from pivec.policies import policy_bytes as network_bytes
from pivec.policies import read_policy as read_network
from pivec.states.visited import (
    EPISODE,
    Arrays,
    PolicyRecord,
    outcome_names,
    starts_of,
    with_outcomes,
)

_KEY = b"pivec"
_OUTCOME = "outcome."  # before the names of columns with outcomes of episodes
_NETWORK = "network"  # column of stores that keep policies; its first row has the safetensors file
# Files that stay mapped: a fit visits policies in another order than that of the files, and opening
# a file takes a hundred times as long as finding a policy in it.
_OPEN_FILES = 1024


class PolicyFile:
    """A file of one or more policies, mapped into memory; no handle stays open.

    ``content`` is the file where it is not on disk yet.
    """

    def __init__(self, path: Path, content: Any = None) -> None:
        self.path = path
        with self._explaining():
            if content is None:
                with pa.memory_map(str(path)) as source:
                    content = source.read_buffer()
            self.content = content
            _check(not _is_compressed(memoryview(content)), "it is compressed")
            self._reader = pa.ipc.open_file(pa.BufferReader(content))
            self.schema = self._reader.schema
            self.header = json.loads(self.schema.metadata[_KEY])
            self.n_policies = self._reader.num_record_batches
            _check(self.n_policies > 0, "it has no policies")
        self._validated: set[int] = set()

    @cached_property
    def kind(self) -> bytes:
        """What must be equal for policies to share a file."""
        return bytes(self.schema.serialize())

    def info(self, number: int) -> PolicyInfo:
        """Return what the file says about a policy."""
        with self._explaining():
            return PolicyInfo(**json.loads(self.batch(number)[1][_KEY])["info"])

    def batch(self, number: int) -> tuple[pa.RecordBatch, Any]:
        """Return the record batch of a policy and its metadata."""
        with self._explaining():
            batch, metadata = self._reader.get_batch_with_custom_metadata(number)
            return batch, metadata

    def arrays(self, number: int) -> Arrays:
        """Return states and actions of a policy."""
        with self._explaining():
            batch = self._reader.get_batch(number)
            is_new = number not in self._validated
            if is_new:  # lengths in a damaged file may point beyond its end, where no memory is
                batch.validate(full=True)
            states, starts = _unlist(batch, "states")
            actions = None
            if "action_shape" in self.header:
                flat, action_starts = _unlist(batch, "actions")
                actions = flat.reshape(-1, *self.header["action_shape"])
            if is_new:
                is_float32 = states.ndim == 2 and states.dtype == np.float32
                _check(is_float32, "states are not rows of float32")
                lengths = np.diff(starts)
                _check(np.array_equal(self.episodes(number)["length"], lengths), "lengths differ")
                fits = actions is None or np.array_equal(np.diff(action_starts) + 1, lengths)
                _check(fits, "actions do not fit states")
                taken = self.episodes(number)["steps"]
                _check(bool((taken >= lengths - 1).all()), "steps do not fit states")
                self._validated.add(number)
        return states, actions

    def episodes(self, number: int) -> NDArray[Any]:
        """Return the rows of `EPISODE` of a policy."""
        return self._episodes[self._starts[number] : self._starts[number + 1]]

    def network(self, number: int) -> Policy | None:
        """Read the policy itself, if it is kept."""
        if _NETWORK not in self.schema.names:
            return None
        with self._explaining():
            content = self._reader.get_batch(number).column(_NETWORK)[0].as_py()
        return None if content is None else read_network(content, f"{self.path.name} {number}")[0]

    def record(self, number: int, info: PolicyInfo | None = None) -> PolicyRecord:
        """Return a policy, named as in the file or by ``info``."""
        with self._explaining():
            return PolicyRecord(
                self.info(number) if info is None else info,
                self.episodes(number),
                self.arrays(number)[1] is not None,
                partial(_read_arrays, self.path, number),
                partial(_read_network, self.path, number),
            )

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return starts_of([self._reader.get_batch(i).num_rows for i in range(self.n_policies)])

    @cached_property
    def _episodes(self) -> NDArray[Any]:
        """Episodes of all policies."""
        outcomes = [name for name in self.schema.names if name.startswith(_OUTCOME)]
        table = self._reader.read_all().select([*(EPISODE.names or ()), *outcomes])
        table.validate(full=True)
        episodes = np.empty(table.num_rows, dtype=EPISODE)
        for name in EPISODE.names or ():
            episodes[name] = table.column(name).to_numpy()
        columns = {name.removeprefix(_OUTCOME): table.column(name).to_pylist() for name in outcomes}
        episodes = with_outcomes(episodes, columns)
        episodes.flags.writeable = False
        return episodes

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        wrong = (pa.ArrowException, OSError, KeyError, TypeError, ValueError, AttributeError)
        try:
            yield
        except FileNotFoundError as error:
            error.filename = str(self.path)  # which pyarrow leaves out; see `pivec.parallel`
            raise BadStore(
                f"{self.path.name} no longer exists: the store has changed since it was loaded; "
                "load it again"
            ) from error
        except (*wrong, IndexError, RecursionError, struct.error) as error:
            raise BadStore(
                f"{self.path.name} is not a complete file of policies ({error}): remove it and "
                "collect again"
            ) from error


def stamp_of(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is rewritten; empty if there is none."""
    try:
        known = os.stat(path)
    except OSError:
        return ()
    return known.st_ino, known.st_size, known.st_mtime_ns


def open_file(path: Path) -> PolicyFile:
    """Map a file, or return the existing map unless the file has changed."""
    return _mapped(path, stamp_of(path))


@lru_cache(maxsize=_OPEN_FILES)
def _mapped(path: Path, _: tuple[int, ...]) -> PolicyFile:
    return PolicyFile(path)


def unmap_files() -> None:
    """Drop all maps, so that the disk space of removed files is freed."""
    _mapped.cache_clear()


def _read_arrays(path: Path, number: int) -> Arrays:
    return open_file(path).arrays(number)


def _read_network(path: Path, number: int) -> Policy | None:
    return open_file(path).network(number)


def encode(record: PolicyRecord, store: str, keep_policy: bool) -> Any:
    """Return the file of one policy as a buffer.

    ``store`` identifies the store it belongs to, in case the index is lost.
    """
    states, actions = record.read_arrays()
    starts = starts_of(record.episodes["length"])
    columns: dict[str, pa.Array] = {
        name: pa.array(np.ascontiguousarray(record.episodes[name])) for name in EPISODE.names or ()
    }
    for name in outcome_names(record.episodes.dtype):
        columns[_OUTCOME + name] = pa.array(record.episodes[name].tolist())
    columns["states"] = _lists(states, starts)
    header: dict[str, Any] = {"store": store}
    if actions is not None:
        columns["actions"] = _lists(actions, starts - np.arange(len(starts)))
        header["action_shape"] = list(actions.shape[1:])
    if keep_policy:
        policy = record.read_policy()
        network = network_bytes(policy) if isinstance(policy, NetworkPolicy) else None
        rest = [None] * (len(record.episodes) - 1)
        columns[_NETWORK] = pa.array([network, *rest], pa.large_binary())
    batch = pa.record_batch(columns, metadata={_KEY: json.dumps(header).encode()})
    return _write(batch.schema, [(batch, {_KEY: json.dumps({"info": vars(record.info)}).encode()})])


def join(parts: Sequence[tuple[PolicyFile, int]]) -> Any:
    """Return one file with these policies, given by file and number, as a buffer."""
    file = parts[0][0]
    if len(parts) == 1 and file.n_policies == 1:
        return file.content
    return _write(file.schema, (file.batch(number) for file, number in parts))


def _write(schema: pa.Schema, batches: Iterable[tuple[pa.RecordBatch, Any]]) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for batch, metadata in batches:
            writer.write_batch(batch, custom_metadata=metadata)
    return sink.getvalue()


def _is_compressed(file: memoryview) -> bool:
    """Return whether parts of an IPC file would be unpacked into memory, to any size.

    Read from the flatbuffers Footer, Message and RecordBatch of Arrow's format.
    """
    (size,) = struct.unpack_from("<i", file, len(file) - 10)
    end = len(file) - 10
    footer = file[end - size : end]
    place = struct.unpack_from("<I", footer)[0]
    if _field(footer, place, 2) and struct.unpack_from("<I", footer, _field(footer, place, 2))[0]:
        return True  # dictionaries, which pivec does not write
    blocks = _field(footer, place, 3)
    for number in range(struct.unpack_from("<I", footer, blocks)[0] if blocks else 0):
        (start,) = struct.unpack_from("<q", footer, blocks + 4 + 24 * number)
        message = file[start + 8 :]  # after its marker and length
        header = _field(message, struct.unpack_from("<I", message)[0], 2)
        if not header or _field(message, header, 3):
            return True
    return False


def _field(data: memoryview, table: int, number: int) -> int:
    """Return where a field of a flatbuffers table refers to; 0 if it is missing."""
    known = table - struct.unpack_from("<i", data, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", data, known)[0]:
        return 0
    place = table + struct.unpack_from("<H", data, known + 4 + 2 * number)[0]
    return 0 if place == table else int(place + struct.unpack_from("<I", data, place)[0])


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _lists(values: NDArray[Any], starts: NDArray[np.int64]) -> pa.Array:
    """Return the rows of ``values`` as one list per episode."""
    inner = pa.array(np.ascontiguousarray(values).reshape(-1))
    if values.ndim > 1:
        inner = pa.FixedSizeListArray.from_arrays(inner, int(np.prod(values.shape[1:])))
    return pa.LargeListArray.from_arrays(pa.array(starts), inner)


def _unlist(batch: pa.RecordBatch, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the rows of a column of lists, and where the episodes start."""
    column = batch.column(name)
    starts, inner = column.offsets.to_numpy(), column.values
    if pa.types.is_fixed_size_list(inner.type):
        rows = inner.values.to_numpy(zero_copy_only=True).reshape(-1, inner.type.list_size)
    else:
        rows = inner.to_numpy(zero_copy_only=True)
    covers = len(starts) > 1 and starts[0] == 0 and starts[-1] == len(rows)
    _check(bool(covers and (np.diff(starts) >= 0).all()), f"episodes do not cover the {name}")
    return rows, starts
