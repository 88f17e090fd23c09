"""The cut between the mathematics and the machine: statistics of states, a kernel a device.

Everything the background model needs of the data goes through a `Kernel`: a module or an object
with its functions, chosen by `kernel`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from pivec.errors import MissingExtra, UsageError
from pivec.mixtures.mixture import Mixture
from pivec.mixtures.source import Starts, StateSource, check_shape, numbered_blocks
from pivec.mixtures.statistics import SegmentSums, Statistics

Array = NDArray[np.float64]

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
    """Statistics of all states of a source about one mixture after another.

    Where the kernel has a memory of its own, the states stay there between passes if they fit.
    """

    def __init__(self, source: StateSource, kernel: Kernel) -> None:
        self.source, self.kernel = source, kernel
        self._held = kernel.hold(source)

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """Yield (number of the first row, block for the kernel)."""
        return numbered_blocks(self.source) if self._held is None else iter([(0, self._held)])

    def __call__(self, mixture: Mixture, hard: bool = False) -> Statistics:
        """One pass: statistics of all states, or of hard assignments."""
        total = Statistics.zero(mixture.n_components, mixture.n_features)
        for first, block in self.blocks():
            total = total + self.kernel.accumulate(block, mixture, hard, first)
        return total
