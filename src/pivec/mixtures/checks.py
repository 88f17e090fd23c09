"""What is checked of states before they are used, in one wording."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData

FAR = 1e9
"""A state further than this many deviations from the centre counts as being there."""


def check_shape(states: NDArray[Any], n_features: int) -> None:
    """Refuse states that are not a table of ``n_features`` floating-point columns."""
    if states.ndim != 2 or states.shape[1] != n_features:
        raise BadData(
            f"states for this mixture must have shape (n, {n_features}), "
            f"but have shape {tuple(states.shape)}."
        )
    if states.dtype not in (np.float32, np.float64):
        raise BadData(f"states must be float32 or float64, but are {states.dtype}.")


def check_finite(block: NDArray[Any], first_row: int = 0) -> None:
    """Refuse NaN and infinity, naming the row (``first_row`` is that of the block's first)."""
    if not np.isfinite(block).all():
        refuse_not_finite(block, first_row)


def refuse_not_finite(block: NDArray[Any], first_row: int) -> NoReturn:
    """Raise the error that names the first value that is not finite."""
    row, column = (int(i) for i in np.argwhere(~np.isfinite(block))[0])
    raise BadData(
        f"states must be finite, but row {first_row + row}, column {column} "
        f"is {block[row, column]}; remove or repair that state."
    )
