"""Passes over states: the kernel of a device, statistics of blocks and of policies.

Everything the background model needs of the data goes through a `Kernel`: a module or an object
with its functions, chosen by `kernel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, MissingExtra, UsageError
from pivec.mixtures.model import (
    Mixture,
    SegmentSums,
    Starts,
    StateSource,
    Statistics,
    as_source,
    block_at,
    check_shape,
    spans_of,
)
from pivec.parallel import make_engine
from pivec.states import Sent, Span, engine_for, overlapping

Array = NDArray[np.float64]
BlockWork = Callable[..., Any]

_MODULES = {
    "auto": "numba_kernel",
    "cpu": "numba_kernel",
    "cuda": "torch_kernel",
    "numba": "numba_kernel",
    "numpy": "numpy_kernel",
    "torch-cpu": "torch_kernel",
}


class Kernel(Protocol):
    """The operations of a kernel; ``first_row`` only serves to name a bad row in an error."""

    def hold(self, source: StateSource) -> Any | None:
        """Copy all states to the kernel's own memory, as one checked block, if it has one."""
        ...

    def take(self, block: Any, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Copy these rows of a block."""
        ...

    def accumulate(
        self, block: Any, mixture: Mixture, hard: bool = False, first_row: int = 0
    ) -> Statistics:
        """Statistics of a block; with ``hard``, each state belongs only to its best component."""
        ...

    def add_segments(
        self, block: Any, starts: Starts, mixture: Mixture, into: SegmentSums, first_row: int = 0
    ) -> None:
        """Add the counts, sums and squares of segments, rows starts[s] to starts[s + 1].

        The first segment may begin before the block (a negative start), the last end after it.
        """
        ...

    def moments(self, block: Any, first_row: int = 0) -> tuple[Array, Array]:
        """Mean (D,) and sum of squared deviations (D,) of the columns."""
        ...


def kernel(device: str = "auto") -> Kernel:
    """Return the kernel of a device.

    "auto" and "cpu" use Numba, "cuda" uses torch on the GPU; "numba", "numpy" and "torch-cpu"
    select one by name.
    """
    if device not in _MODULES:
        names = ", ".join(f'"{name}"' for name in _MODULES)
        raise UsageError(f"device must be one of {names}, but is {device!r}")
    module = f"pivec.mixtures.{_MODULES[device]}"
    if _MODULES[device] != "torch_kernel":
        return cast("Kernel", import_module(module))
    if find_spec("torch") is None:
        raise MissingExtra(f'device="{device}"', "torch")
    return cast("Kernel", import_module(module).TorchKernel(device.removeprefix("torch-")))


def accumulate(block: NDArray[Any], mixture: Mixture, *, device: str = "auto") -> Statistics:
    """Statistics of a block of raw states, (n, D), float32 or float64, about a mixture.

    States are standardized in float64 tile by tile, so that memory does not grow with the block.
    Sums have a fixed order, whatever the number of threads; see `kernel` for ``device``.

    Examples
    --------
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.1], [0.1]], [0.0], [1.0])
    >>> accumulate(np.array([[-1.0], [1.0], [1.0]]), mixture, device="numpy").counts.round(3)
    array([1., 2.])
    """
    check_shape(block, mixture.n_features)
    return kernel(device).accumulate(block, mixture)


class Passes:
    """Passes over all states of a source, block by block, on the current engine.

    If the kernel has a memory of its own (a GPU), the states stay there between passes, provided
    that they fit and ``hold`` is set. ``spans`` are the rows of each block, (first, last + 1).
    """

    def __init__(self, source: StateSource, device: str = "auto", *, hold: bool = True) -> None:
        self.source, self._device = source, device
        self._held = kernel(device).hold(source) if hold else None
        self.spans = spans_of(source) if self._held is None else [(0, source.n_states)]
        self._engine = make_engine("serial") if device == "cuda" else engine_for(self.spans)
        self._sent = self._engine.share(Sent(source))

    def in_order(self, function: BlockWork, parts: Sequence[Any], *arguments: Any) -> Iterator[Any]:
        """Yield ``function(kernel, block, part, *arguments)`` for one part after another.

        A part begins with a span. The function is at the top level of a module.
        """
        if self._held is not None:
            own = kernel(self._device)
            return (function(own, self._held, part, *arguments) for part in parts)
        return self._engine.in_order(
            _over_block, parts, function, self._sent, self._device, *arguments
        )

    def __call__(self, mixture: Mixture, hard: bool = False) -> Statistics:
        """One pass: statistics of all states, or of hard assignments."""
        total = Statistics.zero(mixture.n_components, mixture.n_features)
        for statistics in self.in_order(_accumulate, self.spans, mixture, hard):
            total = total + statistics
        return total


def _over_block(part: Any, function: BlockWork, sent: Sent, device: str, *arguments: Any) -> Any:
    first, last = part[:2]
    with block_at(sent.source, (first, last)) as block:
        return function(kernel(device), block, part, *arguments)


def _accumulate(kernel: Kernel, block: Any, span: Span, mixture: Mixture, hard: bool) -> Statistics:
    return kernel.accumulate(block, mixture, hard, span[0])


@dataclass(frozen=True, eq=False)
class PolicyStatistics:
    """Counts (P, K), centred sums and, if requested, squares (P, K, D); see `Statistics`."""

    counts: Array
    sums: Array
    squares: Array | None = None

    @classmethod
    def zero(cls, n: int, mixture: Mixture, squares: bool) -> PolicyStatistics:
        """Statistics of n policies without states."""
        shape = (n, *mixture.means.shape)
        return cls(np.zeros(shape[:2]), np.zeros(shape), np.zeros(shape) if squares else None)

    def add(self, where: int | slice, other: PolicyStatistics | Statistics) -> None:
        """Add statistics to those of some policies, in place."""
        self.counts[where] += other.counts
        self.sums[where] += other.sums
        if self.squares is not None and other.squares is not None:
            self.squares[where] += other.squares


def policy_statistics(
    states: StateSource | NDArray[Any],
    starts: Any,
    mixture: Mixture,
    *,
    squares: bool = False,
    device: str = "auto",
) -> PolicyStatistics:
    """Statistics of every policy in one pass over the raw states, one policy after another.

    ``starts``, (P + 1,), has the first state of each policy, then the number of states; a policy
    without states has zeros. Adapting variances requires ``squares``.
    """
    source = as_source(states)
    if source.n_features != mixture.n_features:
        raise BadData(
            f"states for this mixture must have {mixture.n_features} features, "
            f"but have {source.n_features}"
        )
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    falls = (np.diff(starts) < 0).any()
    if starts.ndim != 1 or falls or [*starts[:1], *starts[-1:]] != [0, source.n_states]:
        brief = np.array2string(starts, threshold=6, edgeitems=2, separator=", ")
        raise BadData(f"starts must rise from 0 to {source.n_states}, but are {brief}")
    passes = Passes(source, device, hold=False)
    cuts = [overlapping(starts, *span) for span in passes.spans]
    parts = [
        (*span, starts[s0 : s1 + 1] - span[0])
        for span, (s0, s1) in zip(passes.spans, cuts, strict=True)
    ]
    total = PolicyStatistics.zero(len(starts) - 1, mixture, squares)
    blocks = passes.in_order(_of_segments, parts, mixture, squares)
    for (s0, s1), block in zip(cuts, blocks, strict=True):
        total.add(slice(s0, s1), block)
    return total


def _of_segments(
    kernel: Kernel, block: Any, part: tuple[int, int, Starts], mixture: Mixture, squares: bool
) -> PolicyStatistics:
    """Statistics of the policies of a block; those of a policy that is cut are added later."""
    first, _, starts = part
    result = PolicyStatistics.zero(len(starts) - 1, mixture, squares)
    kernel.add_segments(block, starts, mixture, (result.counts, result.sums, result.squares), first)
    return result
