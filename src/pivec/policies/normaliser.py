"""How observations are normalised before a policy sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError

Double = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Clips (observation - mean) / scale to plus and minus ``limit``, value by value.

    Parameters
    ----------
    mean, scale, limit : ndarray of shape (n_inputs,)
        Of flattened observations. A limit may be infinite.

    Examples
    --------
    >>> import numpy as np
    >>> Normaliser([1.0, 0.0], [2.0, 0.1], [10.0, 10.0]).apply(np.array([[2.0, -5.0]]))
    array([[  0.5, -10. ]], dtype=float32)
    """

    mean: Double
    scale: Double
    limit: Double

    def __post_init__(self) -> None:
        for name in ("mean", "scale", "limit"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        shapes = {self.mean.shape, self.scale.shape, self.limit.shape}
        if len(shapes) != 1 or self.mean.ndim != 1:
            raise UsageError("A normaliser needs mean, scale and limit of the same length.")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.scale).all()):
            raise UsageError("A normaliser's mean and scale must be finite.")
        if not ((self.scale > 0).all() and (self.limit > 0).all()):
            raise UsageError("A normaliser's scale and limit must be above 0.")

    def apply(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Normalise rows of shape (..., n_inputs), computed in float64."""
        return normalise(rows, self.mean, self.scale, self.limit)


def normalise(
    rows: NDArray[Any], mean: Double, scale: Double, limit: Double
) -> NDArray[np.float32]:
    """Do what `Normaliser` says, for arrays that may be stacked; as Stable-Baselines3 does it."""
    return np.clip((rows - mean) / scale, -limit, limit).astype(np.float32)
