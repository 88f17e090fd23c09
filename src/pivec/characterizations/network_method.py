"""The arguments that all characterizations by neural networks have."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Seed
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.views import Standardised
from pivec.parallel import require_torch, using
from pivec.states import VisitedStates


@dataclass(eq=False, repr=False)
class NetworkCharacterization(Standardised):
    """A characterization that trains a network on standardised rows, with Adam.

    Parameters
    ----------
    n_units : int
        Hidden units (of each layer, where there are several).
    batch_size : int
        Rows, trajectories or policies in a batch.
    learning_rate : float
        Of Adam.
    random_state : int
        Seed.
    progress : bool
        Draw a bar while networks are trained.

    Attributes
    ----------
    center_, scale_ : (n_columns,) arrays
        The standardisation: (row - center_) / scale_.
    """

    n_units: Count = 256
    _: KW_ONLY
    batch_size: Count = 256
    learning_rate: Positive = 1e-3
    random_state: Seed = 0
    progress: bool = False

    def _check_has(self, data: VisitedStates) -> None:
        self._require_torch()
        super()._check_has(data)

    def _described(self, data: VisitedStates, influences: bool = False) -> Descriptions:
        # Last digits of a network's outputs follow the number of threads, which workers differ in.
        with using("serial"):
            return super()._described(data, influences)

    def _require_torch(self) -> None:
        require_torch(f"the {self.name} characterization")

    def _sizes(self, n_layers: int, n_outputs: int) -> list[int]:
        """Widths of a perceptron from its inputs over the hidden layers to the outputs."""
        return [len(self.center_), *[self.n_units] * n_layers, n_outputs]


# -----------------------------------------------------------------------------
# Keys of states and sequences: random numbers that follow the data, not their order.
#
# A network that is trained from a random start is described again with the same numbers only if its
# random stream depends on the policy's own states, and not on its place among the others.


_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(29)

Keys = NDArray[np.uint64]


def row_keys(rows: NDArray[Any]) -> Keys:
    """One 64-bit key for each row of float32 values; equal rows have equal keys."""
    # Adding 0 makes -0.0 and 0.0 the same bits.
    words = np.ascontiguousarray(rows, dtype=np.float32) + np.float32(0.0)
    keys = np.full(len(words), _ODD)
    for column in words.view(np.uint32).T:
        keys = _stirred(keys ^ column.astype(np.uint64))
    return keys


def set_key(rows: NDArray[Any]) -> int:
    """One key for a set of rows, whatever their order."""
    total = np.add.reduce(_stirred(row_keys(rows)), dtype=np.uint64)
    return int(_stirred(np.array([total ^ np.uint64(len(rows))]))[0])


def sequence_key(rows: NDArray[Any]) -> int:
    """One key for a sequence of rows, which tells their order apart.

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0], [2.0]])
    >>> sequence_key(rows) == sequence_key(rows[::-1])
    False
    """
    places = np.arange(1, len(rows) + 1, dtype=np.uint64) * _ODD
    return int(np.add.reduce(_stirred(row_keys(rows) ^ places), dtype=np.uint64))


def in_key_order(rows: NDArray[Any]) -> NDArray[Any]:
    """Sort rows by their keys: the same array for the same rows in any order."""
    return rows[np.argsort(row_keys(rows), kind="stable")]


def _stirred(keys: Keys) -> Keys:
    # Wrapping around is meant; arrays of unsigned numbers do so without a warning.
    keys = keys * _ODD
    keys ^= keys >> _SHIFT
    keys = keys * _MIX
    return np.asarray(keys ^ (keys >> _SHIFT))
