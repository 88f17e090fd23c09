"""What the characterizations by an autoencoder of trajectories share."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, NotNegative
from pivec.characterizations.networks.canonical import sequence_key
from pivec.characterizations.networks.method import NetworkCharacterization
from pivec.states.visited import VisitedStates

Array = NDArray[np.float32]


@dataclass(eq=False, repr=False)
class TrajectoryNetwork(NetworkCharacterization):
    """A characterization by a variational autoencoder of trajectories.

    Parameters
    ----------
    n_units : int
        Units of the LSTM.
    n_latent : int
        Values of a latent.
    epochs : int
        Passes over the trajectories of the fit.
    batch_size : int
        Trajectories in a batch.
    kl_weight : float
        Weight of the divergence of the latents from the standard normal. At the paper's 1 latents
        may tell nothing (posterior collapse), and distances are then noise; 0.01 keeps them apart.
    device : {"cpu", "cuda", "auto"}
        Where the autoencoder is trained; the results agree but for rounding. "auto" is the graphics
        card where there is one.
    learning_rate, random_state, progress
        As of `NetworkCharacterization`.

    Attributes
    ----------
    weights_ : dict of float32 arrays
        Of the autoencoder.
    center_, scale_ : (n_columns,) arrays
        The standardisation of the rows.
    """

    learned: ClassVar[tuple[str, ...]] = ("center", "scale", "weights")

    _: KW_ONLY
    n_latent: Count = 256
    epochs: Count = 5
    batch_size: Count = 8
    kl_weight: NotNegative = 1.0
    device: str = "cpu"

    def _fit(self, data: VisitedStates) -> None:
        from pivec.characterizations.networks.sequence_vae import starting_weights, train

        super()._fit(data)
        rng = np.random.default_rng(self.random_state)
        self.weights_ = train(
            starting_weights(rng, len(self.center_), self.n_units, self.n_latent),
            [sequence for policy in self._trajectories(data) for sequence in policy],
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            kl_weight=self.kl_weight,
            rng=rng,
            device=self.device,
            progress=self.progress,
        )

    def _trajectories(self, data: VisitedStates) -> list[list[Array]]:
        """Standardised rows of each policy's episodes; episodes without rows are left out."""
        result = []
        for i, rows in enumerate(self._standardised(data)):
            cuts = self.view_.cuts(data, i)
            result.append([rows[begin:end] for begin, end in pairwise(cuts) if end > begin])
        return result

    def _encode(self, policies: list[list[Array]]) -> list[tuple[Array, Array, list[int]]]:
        """Means and deviations of the latents and the keys of each policy's trajectories.

        Equal trajectories are encoded once, so that they have equal latents to the last digit, and
        in the order of length and key, so that the order of the policies changes no numbers.
        """
        from pivec.characterizations.networks.sequence_vae import encode

        keys = [[sequence_key(sequence) for sequence in sequences] for sequences in policies]
        different = {
            key: sequence
            for own, sequences in zip(keys, policies, strict=True)
            for key, sequence in zip(own, sequences, strict=True)
        }
        order = sorted(different, key=lambda key: (len(different[key]), key))
        means, deviations = encode(self.weights_, [different[key] for key in order], self.device)
        places = {key: i for i, key in enumerate(order)}
        rows = [[places[key] for key in own] for own in keys]
        return [(means[i], deviations[i], own) for i, own in zip(rows, keys, strict=True)]
