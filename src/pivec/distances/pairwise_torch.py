"""Squared Euclidean distances on a graphics card, as right as those of `pairwise`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import MissingExtra, UsageError

# Rows of a stripe of the result, and pairs computed again at a time.
_ROWS, _PAIRS = 4096, 65_536


def squared_euclidean_on(device: str, a: NDArray[Any], b: NDArray[Any] | None) -> Any:
    """Bring rows to a device ("cuda", "cpu") and compute all distances there, as a torch tensor."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(f'device="{device}"', "torch") from error
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError('device="cuda" needs a graphics card that torch can use, but finds none.')
    left = torch.as_tensor(np.ascontiguousarray(a), dtype=torch.float64, device=device)
    right = (
        None
        if b is None
        else torch.as_tensor(np.ascontiguousarray(b), dtype=torch.float64, device=device)
    )
    return squared_euclidean_tensor(left, right)


def squared_euclidean_tensor(left: Any, right: Any = None, near: float = 1e-9) -> Any:
    """Distances of all rows of ``left`` to all of ``right`` (or of ``left``), where they lie.

    |x|² + |y|² − 2xy in float64; pairs below ``near`` of the squared norms, where that cancels,
    come from the differences themselves.
    """
    import torch

    other = left if right is None else right
    norms = (left * left).sum(dim=1)
    other_norms = norms if right is None else (other * other).sum(dim=1)
    result = left.new_empty(len(left), len(other))
    for start in range(0, len(left), _ROWS):
        rows = slice(start, start + _ROWS)
        scale = norms[rows, None] + other_norms
        stripe = torch.addmm(scale, left[rows], other.T, alpha=-2.0, out=result[rows])
        i, j = (stripe < scale.mul_(near)).nonzero(as_tuple=True)
        for first in range(0, len(i), _PAIRS):
            some = slice(first, first + _PAIRS)
            gap = left[rows][i[some]] - other[j[some]]
            stripe[i[some], j[some]] = (gap * gap).sum(dim=1)
    return result
