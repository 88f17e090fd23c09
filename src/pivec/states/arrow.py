"""Policies in Arrow files: a record batch a policy, a row an episode, its states a list of lists.

A file holds one policy, or as a shard many. The values of a list column lie in one piece, so the
states are mapped, not read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pivec.errors import BadStore
from pivec.files import read_regular
from pivec.policies import Policy, PolicyInfo
from pivec.policies import read_policy as read_network
from pivec.states.record import EPISODE, Arrays, PolicyRecord, starts_of

_KEY = b"pivec"
_NETWORK = "network"  # a column of shards whose policies are kept; its first row has the file
# Shards that stay mapped. A fit goes through policies in an order that is not that of files, and to
# open one takes a hundred times as long as to find a policy in it.
_OPEN = 1024


@dataclass(frozen=True)
class Piece:
    """A policy as it goes into a shard, with the checksums of the files it had alone."""

    info: Mapping[str, Any]
    sums: Mapping[str, str]
    batch: pa.RecordBatch
    network: bytes | None = None
    alone: Any = None  # its file alone, where that is at hand

    @property
    def kind(self) -> object:
        """What must be equal for policies in one shard."""
        return _kind(self.batch.schema)


class PolicyFile:
    """A file of one policy, or a shard of many, mapped into memory.

    The map stays as long as anything made of it; no handle does. ``content`` is the file where it
    is not on disk yet.
    """

    def __init__(self, path: Path, content: Any = None) -> None:
        self.path = path
        with self._naming():
            self._content = content
            if content is None:
                with pa.memory_map(str(path)) as source:
                    content = source.read_buffer()
            self._reader = pa.ipc.open_file(pa.BufferReader(content))
            self.header = json.loads(self._reader.schema.metadata[_KEY])
            self.is_shard = "info" not in self.header
            self.n_policies = self._reader.num_record_batches
            _check(self.n_policies > 0, "it has no policies")
            _check(self.is_shard or self.n_policies == 1, "it has more than its policy")
            self._whole: set[int] = set()

    def arrays(self, number: int = 0) -> Arrays:
        """States and actions of a policy."""
        with self._naming():
            batch = self._reader.get_batch(number)
            # Lengths in the file are as good as the file: beyond its end lies no memory.
            if number not in self._whole:
                batch.validate(full=True)
            states, starts = _unlist(batch, "states")
            actions = None
            if "action_shape" in self.header:
                flat, cuts = _unlist(batch, "actions")
                actions = flat.reshape(-1, *self.header["action_shape"])
            if number not in self._whole:
                flat_rows = states.ndim == 2 and states.dtype == np.float32
                _check(flat_rows, "states are not rows of float32")
                counts = np.diff(starts)
                _check(np.array_equal(self.episodes(number)["length"], counts), "lengths differ")
                fit = actions is None or np.array_equal(np.diff(cuts) + 1, counts)
                _check(fit, "actions do not fit states")
                self._whole.add(number)
        return states, actions

    def episodes(self, number: int = 0) -> NDArray[Any]:
        """What is known of the episodes of a policy."""
        return self._episodes[self._starts[number] : self._starts[number + 1]]

    def about(self, number: int = 0) -> Mapping[str, Any]:
        """What the file says of a policy: ``info``, and in a shard its checksums."""
        if not self.is_shard:
            return dict(self.header)
        with self._naming():
            return dict(
                json.loads(
                    self._reader.get_batch_with_custom_metadata(number).custom_metadata[_KEY]
                )
            )

    def record(self, number: int = 0, info: PolicyInfo | None = None) -> PolicyRecord:
        """A policy as it is read, by its own name or by that of ``info``."""
        with self._naming():
            known = PolicyInfo(**self.about(number)["info"]) if info is None else info
            has_actions = self.arrays(number)[1] is not None  # raises if it is not whole
            where = (self.path, number) if self.is_shard else (self.path,)
            return PolicyRecord(
                known,
                self.episodes(number),
                has_actions,
                partial(read_arrays, *where),
                partial(read_kept_policy, *where),
            )

    def piece(self, number: int, sums: Mapping[str, str], network: bytes | None = None) -> Piece:
        """A policy as it goes into another file; ``network`` is that of a file not on disk yet."""
        with self._naming():
            batch = self._reader.get_batch(number)
            network = network or self.network(number)
            if _NETWORK in batch.schema.names:
                batch = batch.drop_columns([_NETWORK])
            return Piece(self.about(number)["info"], sums, batch, network, self._content)

    @property
    def kind(self) -> object:
        """What must be equal for policies in one shard."""
        return _kind(self._reader.schema)

    def network(self, number: int = 0) -> bytes | None:
        """The file of a policy that is kept."""
        if self.is_shard:
            if _NETWORK not in self._reader.schema.names:
                return None
            value = self._reader.get_batch(number).column(_NETWORK)[0].as_py()
            return None if value is None else bytes(value)
        file = self.path.with_suffix(".safetensors")
        return read_regular(file) if file.exists() else None

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return starts_of([self._reader.get_batch(i).num_rows for i in range(self.n_policies)])

    @cached_property
    def _episodes(self) -> NDArray[Any]:
        """Of all policies, one after another."""
        table = self._reader.read_all().select(list(EPISODE.names or ()))
        table.validate(full=True)
        episodes = np.empty(table.num_rows, dtype=EPISODE)
        for name in EPISODE.names or ():
            episodes[name] = table.column(name).to_numpy()
        episodes.flags.writeable = False
        return episodes

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Let errors name the file, and say what to do."""
        name, wrong = self.path.name, (pa.ArrowException, OSError, KeyError, TypeError)
        try:
            yield
        except FileNotFoundError as error:
            error.filename = str(self.path)  # which pyarrow leaves out; see `pivec.parallel`
            raise BadStore(
                f"{name} is gone: the store has grown or changed since it was loaded, so load it "
                "again"
            ) from error
        except (*wrong, ValueError, AttributeError, IndexError, RecursionError) as error:
            raise BadStore(
                f"{name} is not the whole file of a policy ({error}): remove it and collect again"
            ) from error


def open_shard(path: Path) -> PolicyFile:
    """Map a shard into memory, or give the map that is there; one that changed is mapped anew."""
    try:
        known = os.stat(path)
    except OSError:
        return PolicyFile(path)  # which says what is wrong
    return _mapped(path, (known.st_ino, known.st_size, known.st_mtime_ns))


@lru_cache(maxsize=_OPEN)
def _mapped(path: Path, _: tuple[int, ...]) -> PolicyFile:
    return PolicyFile(path)


def forget_shards() -> None:
    """Let go of all shards, so that the disk gets back the room of those that were removed."""
    _mapped.cache_clear()


def read_arrays(path: Path, number: int | None = None) -> Arrays:
    """Map the states and actions of a file into memory, or of a policy in a shard."""
    return PolicyFile(path).arrays() if number is None else open_shard(path).arrays(number)


def read_kept_policy(path: Path, number: int | None = None) -> Policy | None:
    """Read the network of a policy, if it is kept: beside its file, or in the shard."""
    file = PolicyFile(path) if number is None else open_shard(path)
    content = file.network(number or 0)
    if content is None:
        return None
    name = path.with_suffix(".safetensors").name if number is None else f"{path.name} {number}"
    return read_network(content, name)[0]


def policy_bytes(record: PolicyRecord, store: str = "") -> Any:
    """Give the file of one policy, as a buffer.

    ``store`` says what store it belongs to, should the index lose it.
    """
    states, actions = record.read_arrays()
    starts = starts_of(record.episodes["length"])
    columns: dict[str, pa.Array] = {
        name: pa.array(np.ascontiguousarray(record.episodes[name])) for name in EPISODE.names or ()
    }
    columns["states"] = _lists(states, starts)
    header: dict[str, Any] = {"info": vars(record.info), "store": store}
    if actions is not None:
        columns["actions"] = _lists(actions, starts - np.arange(len(starts)))
        header["action_shape"] = list(actions.shape[1:])
    return _alone(pa.record_batch(columns), header)


def piece_bytes(piece: Piece) -> Any:
    """Give the file of a policy in a shard as it was when it was alone."""
    if piece.alone is not None:
        return piece.alone
    header = json.loads(piece.batch.schema.metadata[_KEY])
    return _alone(piece.batch, {"info": piece.info} | header)


def piece_digest(piece: Piece) -> str:
    """Return the checksum of `piece_bytes`."""
    return hashlib.sha256(piece_bytes(piece)).hexdigest()


def _alone(batch: pa.RecordBatch, header: Mapping[str, Any]) -> Any:
    """A batch as a file of its own, in memory."""
    batch = batch.replace_schema_metadata({_KEY: json.dumps(header).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def write_shard(path: Path, pieces: Iterable[Piece], networks: bool) -> None:
    """Write many policies of one kind into a file, with a column for their networks if asked."""
    writer: Any = None
    with open(path, "wb") as file, contextlib.ExitStack() as stack:
        for piece in pieces:
            batch = piece.batch
            header = json.loads(batch.schema.metadata[_KEY])
            header.pop("info", None)
            if networks:
                cells = pa.array([piece.network] + [None] * (len(batch) - 1), pa.large_binary())
                batch = batch.append_column(_NETWORK, cells)
            batch = batch.replace_schema_metadata({_KEY: json.dumps(header).encode()})
            if writer is None:
                writer = stack.enter_context(pa.ipc.new_file(file, batch.schema))
            about = {"info": piece.info, **piece.sums}
            writer.write_batch(batch, custom_metadata={_KEY: json.dumps(about).encode()})


def _kind(schema: pa.Schema) -> object:
    header = json.loads(schema.metadata[_KEY])
    types = [str(schema.field(name).type) for name in ("states", "actions") if name in schema.names]
    return *types, str(header.get("action_shape"))


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _lists(values: NDArray[Any], starts: NDArray[np.int64]) -> pa.Array:
    """Rows of ``values`` in lists, one an episode."""
    inner = pa.array(np.ascontiguousarray(values).reshape(-1))
    if values.ndim > 1:
        inner = pa.FixedSizeListArray.from_arrays(inner, int(np.prod(values.shape[1:])))
    return pa.LargeListArray.from_arrays(pa.array(starts), inner)


def _unlist(batch: pa.RecordBatch, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Rows of a column of lists, and where episodes begin: one follows another over all rows."""
    column = batch.column(name)
    starts, inner = column.offsets.to_numpy(), column.values
    if pa.types.is_fixed_size_list(inner.type):
        rows = inner.values.to_numpy(zero_copy_only=True).reshape(-1, inner.type.list_size)
    else:
        rows = inner.to_numpy(zero_copy_only=True)
    whole = len(starts) > 1 and starts[0] == 0 and starts[-1] == len(rows)
    _check(bool(whole and (np.diff(starts) >= 0).all()), f"episodes do not cover the {name}")
    return rows, starts
