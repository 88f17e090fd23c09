"""What distances are measured with: as much of a characterization as this folder needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from pivec.policies.policy import PolicyInfo
from pivec.states.visited import VisitedStates


class Described(Protocol):
    """Descriptions of policies, as `pivec.characterizations.Descriptions`."""

    @property
    def policies(self) -> tuple[PolicyInfo, ...]:
        """Name, run and training step of each."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The runs the policies came from."""

    @property
    def steps(self) -> tuple[int | None, ...]:
        """The policies' training steps."""

    def __len__(self) -> int: ...

    def select(self, rows: Sequence[int] | NDArray[Any]) -> Self:
        """Pick policies by number."""


class Method(Protocol):
    """A fitted way to describe policies, as `pivec.characterizations.Characterization`."""

    def describe(self, data: VisitedStates) -> Any:
        """Describe each policy of ``data``."""

    def distances(self, a: Any, b: Any = None) -> NDArray[np.float64]:
        """Distances of all policies of ``a`` to each other, or to those of ``b``."""
