"""The cut between the mathematics and the machine: statistics of states, a kernel a device.

Everything the background model needs of the data goes through a `Kernel`: a module or an object
with its functions, chosen by `kernel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from pivec.errors import MissingExtra, UsageError
from pivec.mixtures.model import Mixture, SegmentSums, Statistics
from pivec.mixtures.source import Starts, StateSource, block_at, check_shape, spans_of
from pivec.parallel import make_engine
from pivec.states import Sent, Span, engine_for

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
    """What a kernel has to offer. ``first_row`` only serves to name a bad row."""

    def hold(self, source: StateSource) -> Any | None:
        """Bring all states to the kernel's own memory, as one checked block; None without one."""
        ...

    def take(self, block: Any, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Give a copy of the rows of a block that have these numbers."""
        ...

    def accumulate(
        self, block: Any, mixture: Mixture, hard: bool = False, first_row: int = 0
    ) -> Statistics:
        """Statistics of a block; each state belongs to its best component only if ``hard``."""
        ...

    def add_segments(
        self, block: Any, starts: Starts, mixture: Mixture, into: SegmentSums, first_row: int = 0
    ) -> None:
        """Add the counts and sums of segments, rows starts[s] to starts[s + 1].

        The first segment may begin before the block (a negative start), the last end behind it.
        """
        ...

    def moments(self, block: Any, first_row: int = 0) -> tuple[Array, Array]:
        """Mean (D,) and sum of squared deviations (D,) of the columns."""
        ...


def kernel(device: str = "auto") -> Kernel:
    """Give the kernel of a device.

    "auto" and "cpu" are Numba, "cuda" is torch on the graphics card; "numba", "numpy" and
    "torch-cpu" ask for one by name.
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

    Standardisation happens on the way, in float64, tile by tile; memory does not grow with the
    block. Sums are taken in a fixed order, whatever the number of threads; ``device`` is that of
    `kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.1], [0.1]], [0.0], [1.0])
    >>> accumulate(np.array([[-1.0], [1.0], [1.0]]), mixture, device="numpy").counts.round(3)
    array([1., 2.])
    """
    check_shape(block, mixture.n_features)
    return kernel(device).accumulate(block, mixture)


class Passes:
    """Passes over all states of a source, block by block, wherever the engine has them worked on.

    Where the kernel has a memory of its own, the states stay there between passes if they fit and
    are to be held. A graphics card is that of this process.

    Attributes
    ----------
    spans : list of (first, last + 1)
        The rows of each block.
    """

    def __init__(self, source: StateSource, device: str = "auto", *, hold: bool = True) -> None:
        self.source, self._device = source, device
        self._held = kernel(device).hold(source) if hold else None
        self.spans = spans_of(source) if self._held is None else [(0, source.n_states)]
        self._engine = make_engine("serial") if device == "cuda" else engine_for(self.spans)
        self._sent = self._engine.share(Sent(source))

    def in_order(self, function: BlockWork, parts: Sequence[Any], *arguments: Any) -> Iterator[Any]:
        """Give ``function(kernel, block, part, *arguments)`` for one part after another.

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
