"""Pooled moments of rows that come in blocks, and features that are constant."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import PivecWarning
from pivec.states.parts import Sent, Span, engine_for
from pivec.states.visited import VisitedStates

Array = NDArray[np.float64]
_ROWS = 1 << 16
_NAMED = 3


class Moments:
    """Mean and squared deviations of all rows added so far, in float64.

    Examples
    --------
    >>> pooled = Moments()
    >>> pooled.add(*moments_of(np.array([[0.0, 7.0], [2.0, 7.0]])))
    >>> pooled.add(*moments_of(np.array([[4.0, 7.0]])))
    >>> pooled.mean, pooled.scale.round(2)
    (array([2., 7.]), array([1.63, 1.  ]))
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean: Array = np.zeros(1)
        self._squares: Array = np.zeros(1)

    def add(self, count: int, mean: Array, squares: Array) -> None:
        """Add so many rows of this mean and these sums of squared deviations from it.

        By the formula of Chan, Golub and LeVeque 1983, which does not cancel.
        """
        shift, total = mean - self.mean, self.count + count
        self.mean = self.mean + shift * (count / total)
        self._squares = self._squares + squares + shift**2 * (self.count * count / total)
        self.count = total

    @property
    def scale(self) -> Array:
        """The deviation of each column; 1 where it is constant.

        States are float32: a deviation of at most 1e-7 of the mean is only their rounding.
        """
        deviation = np.sqrt(self._squares / self.count)
        return np.where(deviation <= 1e-7 * np.abs(self.mean), 1.0, deviation)


def moments_of(rows: NDArray[Any]) -> tuple[int, Array, Array]:
    """Number of rows, their mean, and the sums of squared deviations from it."""
    mean = rows.mean(axis=0, dtype=np.float64)
    return len(rows), mean, ((rows - mean) ** 2).sum(axis=0)


def constant_features(data: VisitedStates) -> list[str]:
    """Name the features that have one value in all states.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0, 1.0], [0.0, 2.0]]], [[[0.0, 3.0]]]])
    >>> constant_features(data)
    ['x[0]']
    """
    beginning = data.rows(0, _ROWS)
    value = beginning[0].copy()
    varies = (beginning != value).any(axis=0)
    # Most often this is all: nothing is sent for it.
    firsts = () if varies.all() else range(_ROWS, data.n_states, _ROWS)
    parts = [(first, first + _ROWS) for first in firsts]
    engine = engine_for(parts)
    for varies_there in engine.in_order(_varies, parts, engine.share(Sent(data)), value):
        varies |= varies_there
        if varies.all():
            break
    return [data.feature_names[i] for i in np.flatnonzero(~varies)]


def _varies(span: Span, sent: Sent, value: NDArray[np.float32]) -> NDArray[np.bool_]:
    return np.asarray((sent.source.rows(*span) != value).any(axis=0))


def warn_of_constants(data: VisitedStates) -> None:
    """Warn if most features are the same in all states; a few are in many environments.

    A value of a Discrete that nobody visits (``x=3``) is no feature of its own: it does not count.
    """
    counted = [name for name in data.feature_names if "=" not in name]
    same = [name for name in constant_features(data) if "=" not in name]
    if 2 * len(same) <= len(counted) or data.n_states == 1:
        return
    names = ", ".join(same[:_NAMED]) + (", ..." if len(same) > _NAMED else "")
    warnings.warn(
        f"{len(same)} of {len(counted)} features are the same in every state of every policy "
        f"({names}), so distances follow from the rest alone: if that is not meant, choose other "
        "--features (from Python features=)",
        PivecWarning,
        stacklevel=3,
    )
