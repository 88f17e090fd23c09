"""A variational autoencoder of (state, action) trajectories, one description a trajectory.

Table 1's trajectory encoder (Wang et al. 2017) as it is, without the Gaussian over a policy's
latents that `encoder` adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count
from pivec.characterizations.descriptions import Description, Descriptions, pack
from pivec.characterizations.networks.trajectories import TrajectoryNetwork
from pivec.distances.pairwise import euclidean
from pivec.states.visited import VisitedStates


@dataclass(eq=False, repr=False)
class TrajectoryEncoder(TrajectoryNetwork):
    """The embeddings of a policy's trajectories of states and actions, compared one by one.

    The encoder is an LSTM over the (state, action) pairs, read from the end; the decoder predicts
    the next pair from the one before and the embedding. An embedding is the mean of its latent.

    The distance of two policies is the mean distance between an embedding of one and one of the
    other, less the mean distances within each of the two (the energy distance): 0 where the
    embeddings are spread alike, and not lessened by a policy being varied in itself.

    Parameters
    ----------
    max_episodes : int
        Trajectories of each policy to describe, drawn at random.
    others
        As of `pivec.characterizations.networks.trajectories.TrajectoryNetwork`, as the attributes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(m, 1, (20, 1)) for _ in range(5)] for m in (0, 0, 5)]
    >>> moves = [[rng.integers(2, size=19) for _ in episodes] for episodes in walks]
    >>> data = VisitedStates.from_arrays(walks, actions=moves)
    >>> method = TrajectoryEncoder(n_units=8, n_latent=2, epochs=20, learning_rate=0.01)
    >>> d = method.fit(data).distances(data)
    >>> bool(d[0, 2] > d[0, 1])
    True
    """

    name = "trajectory-encoder"
    explanation = (
        "A recurrent autoencoder is trained on the trajectories, states and actions, of all "
        "policies; each trajectory is described by its embedding. The distance of two policies is "
        "the mean distance between an embedding of one and one of the other, less the mean "
        "distances within each of the two."
    )
    formula = "d(p, q) = E‖z_p − z_q‖ − ½ E‖z_p − z′_p‖ − ½ E‖z_q − z′_q‖"
    learned = ("center", "scale", "weights", "n_actions")
    of = "state-actions"
    by_state = False

    _: KW_ONLY
    max_episodes: Count = 200

    def _describe(self, data: VisitedStates) -> Description:
        encoded = self._encode([self._drawn(policy) for policy in self._trajectories(data)])
        embeddings = [z for z, _, _ in encoded]
        vectors = np.stack([z.mean(axis=0, dtype=np.float64) for z in embeddings])
        within = np.array([between_means([z], [z])[0, 0] for z in embeddings])
        return vectors, None, {"within": within} | pack("embeddings", embeddings)

    def _drawn(self, sequences: list[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        """At most ``max_episodes`` of a policy's trajectories."""
        if len(sequences) <= self.max_episodes:
            return sequences
        rng = np.random.default_rng(self.random_state)
        numbers = rng.choice(len(sequences), self.max_episodes, replace=False)
        return [sequences[j] for j in np.sort(numbers)]

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        result = between_means(a.rows("embeddings"), b.rows("embeddings"))
        result -= 0.5 * np.add.outer(a.arrays["within"], b.arrays["within"])
        if b is a:
            result = np.triu(result) + np.triu(result, 1).T
        # An energy distance is not negative; what is left below is rounding.
        return np.maximum(result, 0.0)


def between_means(
    left: Sequence[NDArray[Any]], right: Sequence[NDArray[Any]]
) -> NDArray[np.float64]:
    """Mean Euclidean distance between the rows of each set of ``left`` and each of ``right``."""
    counts = np.array([len(z) for z in right])
    starts = np.cumsum(counts) - counts
    everything = np.concatenate(right).astype(np.float64)
    result = np.empty((len(left), len(right)))
    for i, z in enumerate(left):
        distances = euclidean(z.astype(np.float64), everything)
        result[i] = np.add.reduceat(distances.mean(axis=0), starts) / counts
    return result
