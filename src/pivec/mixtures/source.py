"""Where states come from: blocks of rows in order, from memory or from a memory map."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, UsageError
from pivec.mixtures.checks import check_shape

Floats = NDArray[np.floating[Any]]


@runtime_checkable
class StateSource(Protocol):
    """Anything that gives its states in blocks, again and again, always in the same order."""

    @property
    def n_states(self) -> int:
        """Number of rows in all."""
        ...

    @property
    def n_features(self) -> int:
        """Number of columns, D."""
        ...

    def blocks(self, rows: int) -> Iterator[Floats]:
        """Yield all rows in order, in blocks of any size from 1 to ``rows``, shape (n, D)."""
        ...

    def take(self, rows: NDArray[np.int64]) -> Floats:
        """Give a copy of the rows whose sorted numbers are ``rows``, shape (len(rows), D)."""
        ...


class ArraySource:
    """The rows of one array, which may be memory-mapped.

    Blocks are views. Pages of a memory map that was opened for reading are handed back to the
    system once their block is done, so that a pass over a large file stays small in memory.

    Examples
    --------
    >>> import numpy as np
    >>> source = ArraySource(np.zeros((10, 3), dtype=np.float32))
    >>> [len(block) for block in source.blocks(4)]
    [4, 4, 2]
    """

    def __init__(self, states: NDArray[Any]) -> None:
        if states.ndim != 2 or states.shape[1] == 0:
            raise BadData(
                f"states must have shape (n_states, n_features), but have shape {states.shape}."
            )
        if states.dtype not in (np.float32, np.float64):
            if states.dtype.kind not in "fiub":
                raise BadData(f"states must be numbers, but have dtype {states.dtype}.")
            states = states.astype(np.float32 if states.dtype.itemsize <= 2 else np.float64)
        self.states = states

    @property
    def n_states(self) -> int:
        """Number of rows."""
        return int(self.states.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.states.shape[1])

    def blocks(self, rows: int) -> Iterator[Floats]:
        """Yield views of ``rows`` rows, the last one maybe shorter."""
        if rows < 1:
            raise UsageError(f"a block must have at least 1 row, but {rows} were asked for.")
        for first in range(0, self.n_states, rows):
            block = self.states[first : first + rows]
            yield block
            release_pages(block)

    def take(self, rows: NDArray[np.int64]) -> Floats:
        """Give a copy of these rows."""
        return np.ascontiguousarray(self.states[rows])


def as_source(states: StateSource | NDArray[Any]) -> StateSource:
    """Give a source as it is, and wrap an array into an `ArraySource`."""
    if isinstance(states, np.ndarray) or not isinstance(states, StateSource):
        return ArraySource(np.asarray(states) if not isinstance(states, np.ndarray) else states)
    return states


def block_rows(n_features: int) -> int:
    """Rows of a block of about 32 MB, a multiple of 16 384: large enough for every kernel."""
    return max(1, (1 << 23) // n_features // 16_384) * 16_384


def regroup(blocks: Iterable[Floats], rows: int) -> Iterator[Floats]:
    """Join small blocks into ones of up to ``rows`` rows; large ones pass as they are.

    A call of a kernel has a cost of its own, which thousands of tiny blocks would pay each.
    """
    waiting: list[Floats] = []
    held = 0
    for block in blocks:
        if held and held + len(block) > rows:
            yield waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
            waiting, held = [], 0
        if 2 * len(block) >= rows and not held:
            yield block
        else:
            # A copy, because the source may reuse or release the block's memory.
            waiting.append(block.copy())
            held += len(block)
    if held:
        yield waiting[0] if len(waiting) == 1 else np.concatenate(waiting)


def numbered_blocks(source: StateSource) -> Iterator[tuple[int, Floats]]:
    """Yield (number of the first row, block) over the whole source, in blocks of good size."""
    rows = block_rows(source.n_features)
    blocks = source.blocks(rows)
    if not isinstance(source, ArraySource):  # whose blocks are as large as they can be
        blocks = regroup(blocks, rows)
    first = 0
    for block in blocks:
        check_shape(block, source.n_features)
        yield first, block
        first += len(block)
    if first != source.n_states:
        raise BadData(
            f"a source of {source.n_states} states must yield as many rows, but yielded {first}."
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
