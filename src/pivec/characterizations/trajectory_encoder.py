"""A variational autoencoder of (state, action) trajectories, one description a trajectory.

Table 1's trajectory encoder (Wang et al. 2017) as it is, without the Gaussian over a policy's
latents that `encoder` adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, NotNegative, Positive, Seed
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.networks import require_torch
from pivec.characterizations.networks.trajectories import (
    encode_policies,
    fit_autoencoder,
    named,
    trajectories,
    unnamed,
)
from pivec.characterizations.ragged import pack, unpack
from pivec.characterizations.views import View, restored_view
from pivec.distances.pairwise import squared_euclidean
from pivec.states.visited import VisitedStates


class TrajectoryEncoder(Characterization):
    """The embeddings of a policy's trajectories of states and actions, compared one by one.

    The encoder is an LSTM over the (state, action) pairs, read from the end; the decoder predicts
    the next pair from the one before and the embedding. An embedding is the mean of its latent.

    The distance of two policies is the mean distance between an embedding of one and one of the
    other, less the mean distances within each of the two (the energy distance): 0 where the
    embeddings are spread alike, and not lessened by a policy being varied in itself.

    Parameters
    ----------
    n_units, n_latent, epochs, batch_size, learning_rate, kl_weight, random_state, progress
        As of `Encoder`.
    max_episodes : int
        Trajectories of each policy to describe, drawn at random.

    Attributes
    ----------
    weights_ : dict of float32 arrays
        Of the autoencoder.
    center_, scale_ : arrays
        The standardisation of the (state, action) pairs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(m, 1, (20, 1)) for _ in range(5)] for m in (0, 0, 5)]
    >>> moves = [[rng.integers(2, size=19) for _ in some] for some in walks]
    >>> data = VisitedStates.from_arrays(walks, actions=moves)
    >>> method = TrajectoryEncoder(n_units=8, n_latent=2, epochs=20, learning_rate=0.01)
    >>> d = method.fit(data).distances(data)
    >>> bool(d[0, 2] > d[0, 1])
    True
    """

    name: ClassVar[str] = "trajectory-encoder"
    explanation: ClassVar[str] = (
        "A recurrent autoencoder is trained on the trajectories, states and actions, of all "
        "policies; each trajectory is described by its embedding. The distance of two policies is "
        "the mean distance between an embedding of one and one of the other, less the mean "
        "distances within each of the two."
    )
    formula: ClassVar[str] = "d(p, q) = E‖z_p − z_q‖ − ½ E‖z_p − z′_p‖ − ½ E‖z_q − z′_q‖"

    def __init__(
        self,
        n_units: Count = 256,
        *,
        n_latent: Count = 256,
        epochs: Count = 5,
        batch_size: Count = 8,
        learning_rate: Positive = 1e-3,
        kl_weight: NotNegative = 1.0,
        max_episodes: Count = 200,
        random_state: Seed = 0,
        progress: bool = False,
    ) -> None:
        self.n_units = n_units
        self.n_latent = n_latent
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.kl_weight = kl_weight
        self.max_episodes = max_episodes
        self.random_state = random_state
        self.progress = progress

    @property
    def needs(self) -> frozenset[str]:
        """Actions."""
        return frozenset({"actions"})

    def _fit(self, data: VisitedStates) -> None:
        require_torch("the trajectory-encoder characterization")
        self.view_ = View.of_data(data, "state-actions")
        self.center_, self.scale_, self.weights_ = fit_autoencoder(
            data,
            self.view_,
            n_units=self.n_units,
            n_latent=self.n_latent,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            kl_weight=self.kl_weight,
            random_state=self.random_state,
            progress=self.progress,
        )

    def _trajectories(self, data: VisitedStates, policy: int) -> list[NDArray[np.float32]]:
        return trajectories(data, policy, self.view_, self.center_, self.scale_)

    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        require_torch("the trajectory-encoder characterization")
        chosen = []
        for i in range(len(data)):
            some = self._trajectories(data, i)
            if len(some) > self.max_episodes:
                rng = np.random.default_rng(self.random_state)
                numbers = np.sort(rng.choice(len(some), self.max_episodes, replace=False))
                some = [some[j] for j in numbers]
            chosen.append(some)
        embeddings, _, _ = encode_policies(self.weights_, chosen)
        vectors = np.stack([z.mean(axis=0, dtype=np.float64) for z in embeddings])
        within = np.array([between_means([z], [z])[0, 0] for z in embeddings])
        return vectors, None, {"within": within} | pack("embeddings", embeddings)

    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]:
        other = a if b is None else b
        left, right = unpack(a.arrays, "embeddings"), unpack(other.arrays, "embeddings")
        result = between_means(left, right)
        result -= 0.5 * (a.arrays["within"][:, None] + other.arrays["within"])
        if b is None:
            result = np.triu(result) + np.triu(result, 1).T
        # An energy distance is not negative; what is left below is rounding.
        return np.maximum(result, 0.0)

    def _learned(self) -> dict[str, NDArray[Any]]:
        return named(self.weights_) | {
            "center": self.center_,
            "scale": self.scale_,
            "n_actions": np.array(self.view_.n_actions),
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.view_ = restored_view("state-actions", arrays)
        self.center_, self.scale_ = arrays["center"], arrays["scale"]
        self.weights_ = unnamed(arrays)


def between_means(
    left: Sequence[NDArray[Any]], right: Sequence[NDArray[Any]]
) -> NDArray[np.float64]:
    """Mean Euclidean distance between the rows of each set of ``left`` and each of ``right``."""
    counts = np.array([len(z) for z in right])
    starts = np.cumsum(counts) - counts
    everything = np.concatenate(right).astype(np.float64)
    result = np.empty((len(left), len(right)))
    for i, z in enumerate(left):
        distances = np.sqrt(squared_euclidean(z.astype(np.float64), everything))
        result[i] = np.add.reduceat(distances.mean(axis=0), starts) / counts
    return result
