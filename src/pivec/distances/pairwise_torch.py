"""Squared Euclidean distances on a graphics card, as right as those of `pairwise`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.engines.devices import torch_device

# Rows of a stripe of the result, and pairs computed again at a time.
_ROWS, _PAIRS = 4096, 65_536


def squared_euclidean_on(device: str, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Bring rows to a device ("cuda", "cpu") and compute all distances there."""
    place = torch_device(device)
    import torch

    left, right = (
        torch.as_tensor(np.ascontiguousarray(rows), dtype=torch.float64, device=place)
        for rows in (a, b)
    )
    return np.asarray(squared_euclidean_tensor(left, right).cpu().numpy())


def squared_euclidean_tensor(left: Any, right: Any, near: float = 1e-9) -> Any:
    """Distances of all rows of ``left`` to all of ``right``, where they lie.

    |x|² + |y|² − 2xy in float64; pairs below ``near`` of the squared norms, where that cancels,
    come from the differences themselves.
    """
    import torch

    norms, others = ((rows * rows).sum(dim=1) for rows in (left, right))
    result = left.new_empty(len(left), len(right))
    for start in range(0, len(left), _ROWS):
        rows = slice(start, start + _ROWS)
        scale = norms[rows, None] + others
        stripe = torch.addmm(scale, left[rows], right.T, alpha=-2.0, out=result[rows])
        i, j = (stripe < scale.mul_(near)).nonzero(as_tuple=True)
        for first in range(0, len(i), _PAIRS):
            pairs = slice(first, first + _PAIRS)
            gap = left[rows][i[pairs]] - right[j[pairs]]
            stripe[i[pairs], j[pairs]] = (gap * gap).sum(dim=1)
    return result
