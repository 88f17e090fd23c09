"""How observations are normalised before a policy sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError

Double = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Clips (observation - mean) / scale to plus and minus ``limit``, value by value.

    All three are of shape (n_inputs,), of flattened observations. A limit may be infinite.

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
            raise UsageError("a normaliser needs mean, scale and limit of the same length")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.scale).all()):
            raise UsageError("mean and scale of a normaliser must be finite")
        if not ((self.scale > 0).all() and (self.limit > 0).all()):
            raise UsageError("scale and limit of a normaliser must be above 0")

    @classmethod
    def of_variance(
        cls, mean: Double, variance: Double, epsilon: float = 1e-8, clip: float = np.inf
    ) -> Normaliser:
        """Make one of running moments of any shape, with ``epsilon`` added to the variance."""
        with np.errstate(invalid="ignore"):  # a scale that is NaN is refused
            scale = np.sqrt(np.ravel(variance) + epsilon)
        return cls(np.ravel(mean), scale, np.full(np.size(mean), clip))

    @classmethod
    def joined(cls, parts: Sequence[Normaliser | int]) -> Normaliser:
        """Make one of those of successive values; a number says how many stay as they are."""
        arrays = [
            (np.zeros(part), np.ones(part), np.full(part, np.inf))
            if isinstance(part, int)
            else part.arrays
            for part in parts
        ]
        return cls(*map(np.concatenate, zip(*arrays, strict=True)))

    @property
    def arrays(self) -> tuple[Double, Double, Double]:
        """Mean, scale and limit."""
        return self.mean, self.scale, self.limit

    def tobytes(self) -> bytes:
        """Everything that decides what it does, for digests."""
        return b"".join(array.tobytes() for array in self.arrays)

    def check_width(self, width: int, whose: str) -> None:
        """Refuse observations of another number of values than ``whose`` ("... expects")."""
        if len(self.mean) != width:
            raise UsageError(
                f"the normaliser is made for observations of {len(self.mean)} values, "
                f"but {whose} {width}"
            )

    def apply(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Normalise rows of shape (..., n_inputs), computed in float64."""
        return normalise(rows, *self.arrays)


def normalise(
    rows: NDArray[Any], mean: Double, scale: Double, limit: Double
) -> NDArray[np.float32]:
    """Do what `Normaliser` says, for arrays that may be stacked; as Stable-Baselines3 does it."""
    return np.clip((rows - mean) / scale, -limit, limit).astype(np.float32)
