"""The arguments that all characterizations by neural networks have."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pivec.arguments import Count, Positive, Seed
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.views import Standardised
from pivec.engines.devices import require_torch
from pivec.engines.engine import using
from pivec.states.visited import VisitedStates


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
