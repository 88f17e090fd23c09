"""The cut between the mathematics and the machine: one function, a kernel for each device.

Everything the background model needs of the data goes through `accumulate` (all states of a
block together) and `accumulate_segments` (each run of consecutive rows by itself). A kernel is
a module with the functions of `Kernel`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, MissingExtra, UsageError
from pivec.mixtures.checks import check_shape
from pivec.mixtures.fold import Fold
from pivec.mixtures.mixture import Mixture
from pivec.mixtures.source import StateSource
from pivec.mixtures.statistics import Statistics

Array = NDArray[np.float64]


class Kernel(Protocol):
    """What a kernel module has to offer. ``first_row`` only serves to name a bad row."""

    name: str

    def hold(self, source: StateSource) -> Any | None:
        """Bring all states to the kernel's own memory, as one checked block; None without one."""
        ...

    def take(self, block: Any, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Give a copy of some rows of a block."""
        ...

    def accumulate(
        self, block: Any, mixture: Mixture, hard: bool = False, first_row: int = 0
    ) -> Statistics:
        """Statistics of a block; each state belongs to its best component only if ``hard``."""
        ...

    def fold_segments(
        self,
        into: Fold,
        block: Any,
        starts: NDArray[np.int64],
        owners: NDArray[np.int64],
        mixture: Mixture,
        first_row: int = 0,
    ) -> None:
        """Fold each segment of a block, rows starts[s] to starts[s + 1], into owners[s].

        Owners do not fall. The first segment may begin before the block (a negative start) and
        continue the open one of ``into``; the last may end behind the block and stay open.
        """
        ...

    def moments(self, block: Any, first_row: int = 0) -> tuple[Array, Array]:
        """Mean (D,) and sum of squared deviations (D,) of the columns."""
        ...


def kernel(device: str = "auto") -> Kernel:
    """Give the kernel of a device; see `engine_name`."""
    if device in ("auto", "cpu"):
        device = "numba" if find_spec("numba") is not None else "numpy"
    if device in ("numba", "numpy"):
        return cast("Kernel", import_module(f"pivec.mixtures.{device}_kernel"))
    if device in ("cuda", "torch-cpu"):
        if find_spec("torch") is None:
            raise MissingExtra(f'device="{device}"', "torch")
        torch_kernel = import_module("pivec.mixtures.torch_kernel")
        return cast("Kernel", torch_kernel.TorchKernel("cuda" if device == "cuda" else "cpu"))
    raise UsageError(
        f'device must be "auto", "cpu", "cuda", "numba", "numpy" or "torch-cpu", but is {device!r}.'
    )


def engine_name(device: str = "auto") -> str:
    """Name the engine that does the work for ``device``.

    "auto" and "cpu" are Numba, or NumPy where Numba cannot be imported; "cuda" is torch on the
    graphics card. "numba", "numpy" and "torch-cpu" ask for one engine by name.

    Examples
    --------
    >>> engine_name("numpy")
    'numpy'
    """
    return kernel(device).name


def accumulate(block: NDArray[Any], mixture: Mixture, *, device: str = "auto") -> Statistics:
    """Statistics of a block of raw states about a mixture.

    Standardisation happens on the way, in float64, tile by tile; memory does not grow with the
    block. Sums are taken in a fixed order, whatever the number of threads.

    Parameters
    ----------
    block : array of shape (n, D), float32 or float64
        Raw states, finite.
    mixture : Mixture
        What the statistics are about.
    device : str
        See `engine_name`.

    Returns
    -------
    Statistics
        Additive over blocks.

    Examples
    --------
    >>> import numpy as np
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.1], [0.1]], [0.0], [1.0])
    >>> accumulate(np.array([[-1.0], [1.0], [1.0]]), mixture, device="numpy").counts.round(3)
    array([1., 2.])
    """
    check_shape(block, mixture.n_features)
    return kernel(device).accumulate(block, mixture)


def accumulate_segments(
    block: NDArray[Any], starts: NDArray[np.int64], mixture: Mixture, *, device: str = "auto"
) -> tuple[Array, Array]:
    """Give counts (S, K) and sums (S, K, D) of each segment, rows starts[s] to starts[s + 1].

    ``starts`` has S + 1 entries that do not fall, from 0 to the number of rows; a segment may be
    empty. The rest is as in `accumulate`.

    Examples
    --------
    >>> import numpy as np
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.1], [0.1]], [0.0], [1.0])
    >>> states = np.array([[-1.0], [1.0], [1.0]])
    >>> counts, sums = accumulate_segments(states, np.array([0, 1, 3]), mixture, device="numpy")
    >>> counts.round(3)
    array([[1., 0.], [0., 2.]])
    """
    check_shape(block, mixture.n_features)
    starts = check_starts(starts, len(block), "starts")
    fold = Fold(len(starts) - 1, mixture, moments=False)
    if len(block):
        kernel(device).fold_segments(fold, block, starts, np.arange(len(starts) - 1), mixture)
    return fold.counts, fold.sums


def check_starts(starts: Any, end: int, what: str) -> NDArray[np.int64]:
    """Give starts as int64, refusing those that do not cut 0..end into consecutive pieces."""
    result = np.ascontiguousarray(starts, dtype=np.int64)
    if result.ndim != 1 or len(result) < 1 or result[0] != 0 or result[-1] != end:
        raise BadData(f"{what} must run from 0 to {end}, but is {_brief(result)}.")
    if (np.diff(result) < 0).any():
        raise BadData(f"{what} must not fall, but does after {_brief(result)}.")
    return result


def _brief(values: NDArray[np.int64]) -> str:
    return np.array2string(values, threshold=6, edgeitems=2, separator=", ")
