"""Features that show nothing: the same number in every state of every policy."""

from __future__ import annotations

import warnings

import numpy as np

from pivec.errors import PivecWarning
from pivec.states.visited import VisitedStates

_ROWS = 1 << 16
_NAMED = 3


def constant_features(data: VisitedStates) -> list[str]:
    """Name the features that have one value in all states.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0, 1.0], [0.0, 2.0]]], [[[0.0, 3.0]]]])
    >>> constant_features(data)
    ['x[0]']
    """
    blocks = data.blocks(_ROWS)
    first = next(blocks)
    value = first[0].copy()
    varies = (first != value).any(axis=0)
    for block in blocks:
        if varies.all():
            break
        varies |= (block != value).any(axis=0)
    return [data.feature_names[i] for i in np.flatnonzero(~varies)]


def warn_of_constants(data: VisitedStates) -> None:
    """Warn if most features are the same in all states; a few are in many environments.

    A value of a Discrete that nobody visits (``x=3``) is no feature of its own: it does not count.
    """
    counted = [name for name in data.feature_names if "=" not in name]
    same = [name for name in constant_features(data) if "=" not in name]
    if 2 * len(same) <= len(counted) or data.n_states == 1:
        return
    some = ", ".join(same[:_NAMED]) + (", ..." if len(same) > _NAMED else "")
    warnings.warn(
        f"{len(same)} of {len(counted)} features are the same in every state of every policy "
        f"({some}), so distances follow from the rest alone: if that is not meant, choose other "
        "--features (from Python features=)",
        PivecWarning,
        stacklevel=3,
    )
