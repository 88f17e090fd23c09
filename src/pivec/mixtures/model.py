"""The background model: a mixture of diagonal Gaussians, its statistics, and sources of states."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import BadData
from pivec.states import Span

Floats = NDArray[np.floating[Any]]
Starts = NDArray[np.int64]
SegmentSums = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]
"""Counts (S, K), centred sums and, if wanted, squares (S, K, D) of segments; see `Statistics`."""
FAR = 1e9  # states are clipped at this many deviations from the centre


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of Gaussians with diagonal covariances, and the standardization before it.

    A state x enters as (x − center) / scale; everything else is in those units.

    Examples
    --------
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[1.0], [1.0]], [0.0], [2.0])
    >>> mixture.n_components, mixture.n_features
    (2, 1)
    >>> round(mixture.score([[2.0], [-2.0]]), 4)
    -1.4852
    """

    weights: NDArray[np.float64]  # (K,), not negative, with sum 1
    means: NDArray[np.float64]  # (K, D)
    variances: NDArray[np.float64]  # (K, D), positive
    center: NDArray[np.float64]  # (D,), of the raw states
    scale: NDArray[np.float64]  # (D,), positive

    def __post_init__(self) -> None:
        shape = np.shape(self.means)
        if len(shape) != 2 or 0 in shape:
            raise BadData(f"means of a mixture must have shape (K, D), but have {shape}")
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("means", "variances"), shape)
        shapes |= {"weights": shape[:1], "center": shape[1:], "scale": shape[1:]}
        for name, expected in shapes.items():
            value = np.array(getattr(self, name), dtype=np.float64, order="C")
            if value.shape != expected or not np.isfinite(value).all():
                raise BadData(
                    f"{name} of a mixture must have shape {expected} and be finite, but have "
                    f"shape {value.shape} and {np.isfinite(value).sum()} finite values"
                )
            if name in ("variances", "scale") and (value <= 0).any():
                raise BadData(
                    f"{name} of a mixture must be positive, but the smallest is {value.min():g}"
                )
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        if (self.weights < 0).any() or abs(self.weights.sum() - 1) > 1e-6:
            raise BadData(
                f"weights of a mixture must not be negative and must sum to 1, but the smallest is "
                f"{self.weights.min():g} and the sum {self.weights.sum():g}"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuilt when unpickled: read-only arrays use the same compiled code.
        return Mixture, (self.weights, self.means, self.variances, self.center, self.scale)

    @property
    def n_components(self) -> int:
        """Number of Gaussians, K."""
        return int(self.means.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features of a state, D."""
        return int(self.means.shape[1])

    def standardise(self, states: ArrayLike) -> NDArray[np.float64]:
        """(states − center) / scale in float64, shape (n, D)."""
        return (np.asarray(states, dtype=np.float64) - self.center) / self.scale

    def log_density(self, states: ArrayLike) -> NDArray[np.float64]:
        """Log-density of each raw state, in standardized space, shape (n,)."""
        return self.assign(states)[1]

    def assign(self, states: ArrayLike) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Likeliest component of each raw state, and its log-density as above, (n,)."""
        from pivec.mixtures.numpy_kernel import assign

        return assign(np.asarray(states), self)

    def score(self, states: ArrayLike) -> float:
        """Mean of `log_density` over the states, in nats per state."""
        return float(self.log_density(states).mean())


@dataclass(frozen=True, eq=False)
class Statistics:
    """Counts, sums and squares of the states, weighted by responsibility, about a mixture.

    With z = (x − μ_k) / σ_k for the standardized state x, and r_k(x) the responsibility of
    component k for x (Reynolds 2000, eq. 11 to 13, in centred form):

    - ``counts``  n_k = Σ r_k(x), shape (K,)
    - ``sums``    f_k = Σ r_k(x) z, shape (K, D)
    - ``squares`` s_k = Σ r_k(x) z², shape (K, D)

    Centred sums keep their digits where Σ r x² − n μ² would lose them to cancellation. Statistics
    of disjoint sets of states about the same mixture are added with ``+``.

    Examples
    --------
    >>> half = Statistics(np.ones(2), np.zeros((2, 3)), np.ones((2, 3)), -4.0, 2)
    >>> (half + half).n_states, (half + half).log_likelihood
    (4, -8.0)
    """

    counts: NDArray[np.float64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]
    log_likelihood: float
    n_states: int

    def __add__(self, other: Statistics) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        if self.sums.shape != other.sums.shape:
            raise BadData(
                f"expected statistics of equal shape, but got {self.sums.shape} and "
                f"{other.sums.shape}"
            )
        mine, others = vars(self).values(), vars(other).values()
        return Statistics(*(a + b for a, b in zip(mine, others, strict=True)))

    @staticmethod
    def zero(n_components: int, n_features: int) -> Statistics:
        """Statistics of no states at all."""
        shape = (n_components, n_features)
        return Statistics(np.zeros(n_components), np.zeros(shape), np.zeros(shape), 0.0, 0)

    @property
    def mean_log_likelihood(self) -> float:
        """Log-likelihood per state, in nats; NaN for no states."""
        return self.log_likelihood / self.n_states if self.n_states else float("nan")


@runtime_checkable
class StateSource(Protocol):
    """Anything with numbered states that can be read repeatedly."""

    @property
    def n_states(self) -> int:
        """Number of rows."""
        ...

    @property
    def n_features(self) -> int:
        """Number of columns, D."""
        ...

    def rows(self, first: int, last: int) -> Floats:
        """States ``first`` to ``last - 1``, shape (last - first, D)."""
        ...


class ArraySource:
    """The rows of an array, which may be memory-mapped."""

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
    """Return a source as it is, and wrap an array in an `ArraySource`."""
    if isinstance(states, np.ndarray) or not isinstance(states, StateSource):
        return ArraySource(np.asanyarray(states))
    return states


def block_rows(n_features: int) -> int:
    """Rows of a block of about 32 MB, a multiple of 16 384: large enough for every kernel."""
    return max(1, (1 << 23) // n_features // 16_384) * 16_384


def spans_of(source: StateSource) -> list[Span]:
    """Cut the rows of a source into spans (first, last + 1) of good size."""
    n, rows = source.n_states, block_rows(source.n_features)
    return [(first, min(first + rows, n)) for first in range(0, n, rows)]


@contextmanager
def block_at(source: StateSource, span: Span) -> Iterator[Floats]:
    """Read a span of rows; pages of a read-only memory map are released afterwards."""
    block = source.rows(*span)
    check_shape(block, source.n_features)
    if len(block) != span[1] - span[0]:
        raise BadData(
            f"a source of {source.n_states} states returned {len(block)} of rows {span[0]} to "
            f"{span[1] - 1}"
        )
    yield block
    release_pages(block)


def check_shape(states: NDArray[Any], n_features: int) -> None:
    """Check that states are a table of ``n_features`` floating-point columns."""
    if states.ndim != 2 or states.shape[1] != n_features:
        raise BadData(
            f"states for this mixture must have shape (n, {n_features}), "
            f"but have shape {tuple(states.shape)}"
        )
    if states.dtype not in (np.float32, np.float64):
        raise BadData(f"states must be float32 or float64, but are {states.dtype}")


def check_finite(block: NDArray[Any], first_row: int = 0) -> None:
    """Check that all values are finite; ``first_row`` is the number of the block's first row."""
    if not np.isfinite(block).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(block))[0])
        raise BadData(
            f"states must be finite, but row {first_row + row}, column {column} "
            f"is {block[row, column]}; remove or repair that state"
        )


def release_pages(block: NDArray[Any]) -> None:
    """Release the pages of a read-only memory map under ``block``: resident memory shrinks."""
    owner: Any = block
    while isinstance(owner, np.ndarray) and not isinstance(owner, np.memmap):
        owner = owner.base
    pages = getattr(owner, "_mmap", None)
    if isinstance(pages, mmap.mmap) and owner.mode == "r" and block.flags.c_contiguous:
        offset = block.ctypes.data - np.frombuffer(pages, dtype=np.uint8).ctypes.data
        start = offset // mmap.PAGESIZE * mmap.PAGESIZE
        pages.madvise(mmap.MADV_DONTNEED, start, offset - start + block.nbytes)
