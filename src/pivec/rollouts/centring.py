"""States far from zero, where float32 is coarse: an offset is taken off before they are cast.

Near 1e9 neighbours in float32 are 64 apart, so 1e9 - 1 and 1e9 + 1 would be one state. The name of
a feature that was moved says by how much: ``x[0] - 1e+09``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces as gym_spaces
from numpy.typing import NDArray

from pivec.options import Features
from pivec.rollouts import spaces

_FAR = 1e5  # below it float32 has steps finer than a hundredth
_LEVELS = 256  # that many steps of float32 within a feature's spread are enough
_NOISE = 1024  # a spread of fewer steps of float64 is rounding

Offsets = dict[int, float]


@dataclass(frozen=True)
class Centred:
    """Flattened observations, or other features, less the offsets of some columns."""

    offsets: tuple[tuple[int, float], ...]
    inner: Features | None
    space: Any = field(repr=False)

    def __call__(self, observations: Any) -> NDArray[np.float64]:
        """Turn a batch of observations into rows, still in double precision."""
        rows = np.array(_wide_rows(self.space, self.inner, observations), dtype=np.float64)
        for column, offset in self.offsets:
            rows[:, column] -= offset
        return rows


def centred(space: Any, features: Features | None, batch: Any) -> Features | None:
    """Features that keep what float32 would lose, judged by a batch of one first observation."""
    if features is None and not _is_wide(space):
        return None
    rows = _wide_rows(space, features, batch)
    if not is_wide(rows.dtype):
        return features
    far = np.flatnonzero(np.isfinite(rows[0]) & (np.abs(rows[0]) >= _FAR))
    offsets = {int(column): float(np.float32(rows[0, column])) for column in far}
    return Centred(tuple(offsets.items()), features, space) if offsets else features


def lost_features(low: NDArray[np.float64], high: NDArray[np.float64]) -> Offsets:
    """Find columns whose spread float32 cannot show, and an offset that mends it.

    Examples
    --------
    >>> lost_features(np.array([0.0, 1e9 - 1]), np.array([1.0, 1e9 + 1]))
    {1: 1000000000.0}
    """
    largest, spread = np.maximum(np.abs(low), np.abs(high)), high - low
    with np.errstate(over="ignore"):
        step = np.spacing(largest.astype(np.float32)).astype(np.float64)
    lost = (largest >= _FAR) & (_LEVELS * step > spread) & (spread > _NOISE * np.spacing(largest))
    middle = low + spread / 2
    return {int(column): float(np.float32(middle[column])) for column in np.flatnonzero(lost)}


def moved_names(names: Sequence[str], offsets: Offsets) -> tuple[str, ...]:
    """Say in the names of features by how much they were moved."""
    return tuple(
        f"{name} - {offsets[i]:.10g}" if i in offsets else name for i, name in enumerate(names)
    )


def is_wide(dtype: np.dtype[Any]) -> bool:
    """Tell whether numbers of this type may need more digits than float32 has."""
    return dtype.kind in "iuf" and dtype.itemsize >= (4 if dtype.kind in "iu" else 8)


def _is_wide(space: gym_spaces.Space[Any]) -> bool:
    if isinstance(space, gym_spaces.Dict):
        return any(map(_is_wide, space.spaces.values()))
    if isinstance(space, gym_spaces.Tuple):
        return any(map(_is_wide, space.spaces))
    return isinstance(space, gym_spaces.Box) and is_wide(space.dtype)


def _wide_rows(space: Any, features: Features | None, observations: Any) -> NDArray[Any]:
    if features is None:
        return spaces.flatten(space, observations, np.float64)
    return np.asarray(features(observations))
