"""Where states come from: rows by their numbers, from memory or from a memory map, checked."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData
from pivec.states import Span

Floats = NDArray[np.floating[Any]]
Starts = NDArray[np.int64]


@runtime_checkable
class StateSource(Protocol):
    """Anything that has numbered states, and gives those that are asked for, again and again."""

    @property
    def n_states(self) -> int:
        """Number of rows in all."""
        ...

    @property
    def n_features(self) -> int:
        """Number of columns, D."""
        ...

    def rows(self, first: int, last: int) -> Floats:
        """States ``first`` to ``last - 1``, shape (last - first, D)."""
        ...


class ArraySource:
    """The rows of one array, which may be memory-mapped."""

    def __init__(self, states: NDArray[Any]) -> None:
        if states.ndim != 2 or states.shape[1] == 0:
            raise BadData(
                f"states must have shape (n_states, n_features), but have shape {states.shape}"
            )
        if states.dtype not in (np.float32, np.float64):
            if states.dtype.kind not in "fiub":
                raise BadData(f"states must be numbers, but have dtype {states.dtype}")
            states = states.astype(np.float32 if states.dtype.itemsize <= 2 else np.float64)
        self.states = states
        self.n_states, self.n_features = map(int, states.shape)

    def rows(self, first: int, last: int) -> Floats:
        """A view of these rows."""
        return self.states[first:last]


def as_source(states: StateSource | NDArray[Any]) -> StateSource:
    """Give a source as it is, and wrap an array into an `ArraySource`."""
    if isinstance(states, np.ndarray) or not isinstance(states, StateSource):
        return ArraySource(np.asanyarray(states))
    return states


def block_rows(n_features: int) -> int:
    """Rows of a block of about 32 MB, a multiple of 16 384: large enough for every kernel."""
    return max(1, (1 << 23) // n_features // 16_384) * 16_384


def spans_of(source: StateSource) -> list[Span]:
    """Cut the rows of a source into spans of good size, (first, last + 1)."""
    n, rows = source.n_states, block_rows(source.n_features)
    return [(first, min(first + rows, n)) for first in range(0, n, rows)]


@contextmanager
def block_at(source: StateSource, span: Span) -> Iterator[Floats]:
    """Read a span of rows, checked.

    Pages of a memory map that was opened for reading are handed back to the system afterwards, so
    that a pass over a large file stays small in memory.
    """
    block = source.rows(*span)
    check_shape(block, source.n_features)
    if len(block) != span[1] - span[0]:
        raise BadData(
            f"a source must have as many rows as it says, {source.n_states}, but of rows {span[0]} "
            f"to {span[1] - 1} it gave {len(block)}"
        )
    yield block
    release_pages(block)


def check_shape(states: NDArray[Any], n_features: int) -> None:
    """Refuse states that are not a table of ``n_features`` floating-point columns."""
    if states.ndim != 2 or states.shape[1] != n_features:
        raise BadData(
            f"states for this mixture must have shape (n, {n_features}), "
            f"but have shape {tuple(states.shape)}"
        )
    if states.dtype not in (np.float32, np.float64):
        raise BadData(f"states must be float32 or float64, but are {states.dtype}")


def check_finite(block: NDArray[Any], first_row: int = 0) -> None:
    """Refuse NaN and infinity, naming the row (``first_row`` is that of the block's first)."""
    if not np.isfinite(block).all():
        refuse_not_finite(block, first_row)


def refuse_not_finite(block: NDArray[Any], first_row: int) -> NoReturn:
    """Raise the error that names the first value that is not finite."""
    row, column = (int(i) for i in np.argwhere(~np.isfinite(block))[0])
    raise BadData(
        f"states must be finite, but row {first_row + row}, column {column} "
        f"is {block[row, column]}; remove or repair that state"
    )


def release_pages(block: NDArray[Any]) -> None:
    """Hand the pages of a read-only memory map under ``block`` back to the system.

    The data stays in the file (and in the system's cache); only this process's resident memory
    shrinks. Arrays that are not read-only maps are left alone.
    """
    owner: Any = block
    while isinstance(owner, np.ndarray) and not isinstance(owner, np.memmap):
        owner = owner.base
    if not isinstance(owner, np.memmap) or owner.mode != "r" or not block.flags.c_contiguous:
        return
    pages = getattr(owner, "_mmap", None)
    if not isinstance(pages, mmap.mmap) or not hasattr(pages, "madvise"):
        return
    offset = block.ctypes.data - np.frombuffer(pages, dtype=np.uint8).ctypes.data
    start = offset // mmap.PAGESIZE * mmap.PAGESIZE
    if block.nbytes:
        pages.madvise(mmap.MADV_DONTNEED, start, offset - start + block.nbytes)
