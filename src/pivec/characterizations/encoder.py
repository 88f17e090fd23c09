"""Characterizations by a variational autoencoder of trajectories (Wang et al. 2017).

`PolicyEncoder` is the paper's Section 5.2: one Gaussian per policy over the latents of its
trajectories. `TrajectoryEncoder` is Table 1's method as it is, without that Gaussian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, NotNegative, Positive
from pivec.characterizations.base import Array, Traits
from pivec.characterizations.descriptions import Description, Descriptions, pack
from pivec.characterizations.distributions import gaussian_distances, gaussians
from pivec.characterizations.networks import NetworkCharacterization, sequence_key
from pivec.characterizations.rows import Averaged, Floats
from pivec.states import VisitedStates
from pivec.statistics import euclidean


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
        Weight of the divergence of the latents from the standard normal. At the paper's 1, latents
        may carry no information (posterior collapse), and distances are then noise; 0.01 avoids it.
    device : {"cpu", "cuda", "auto"}
        Where the autoencoder is trained; results agree up to rounding. "auto" uses the GPU if
        there is one.
    learning_rate, random_state, progress
        See `NetworkCharacterization`.

    Attributes
    ----------
    weights_ : dict of float32 arrays
        Of the autoencoder.
    center_, scale_ : (n_columns,) arrays
        The standardization of the rows.
    """

    _: KW_ONLY
    n_latent: Count = 256
    epochs: Count = 5
    batch_size: Count = 8
    kl_weight: NotNegative = 1.0
    device: str = "cpu"

    def _fit(self, data: VisitedStates) -> None:
        from pivec.characterizations.torch_vae import starting_weights, train

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

    def _trajectories(self, data: VisitedStates) -> list[list[Floats]]:
        """Standardised rows of each policy's episodes; episodes without rows are left out."""
        result = []
        for i, rows in enumerate(self._standardised(data)):
            cuts = self.view_.cuts(data, i)
            result.append([rows[begin:end] for begin, end in pairwise(cuts) if end > begin])
        return result

    def _encode(self, policies: list[list[Floats]]) -> list[tuple[Floats, Floats, list[int]]]:
        """Means and deviations of the latents and the keys of each policy's trajectories.

        Equal trajectories are encoded once, so that they have equal latents to the last digit, and
        in the order of length and key, so that the order of the policies changes no numbers.
        """
        from pivec.characterizations.torch_vae import encode

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


@dataclass(eq=False, repr=False)
class PolicyEncoder(TrajectoryNetwork, Averaged):
    """A diagonal Gaussian over the latents of a policy's trajectories, one sampled for each.

    The encoder is an LSTM that reads a trajectory from its end; the decoder predicts the next
    state from the state before and the latent. The distance is KL(a || b) + KL(b || a).

    Parameters
    ----------
    floor : float
        Added to the variances of the latents.
    others
        See `TrajectoryNetwork`, also for the attributes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(m, 1, (20, 1)) for _ in range(5)] for m in (0, 0, 5)]
    >>> data = VisitedStates.from_arrays(walks)
    >>> method = PolicyEncoder(n_units=8, n_latent=2, epochs=20, kl_weight=0.01).fit(data)
    >>> d = method.distances(data)
    >>> bool(d[0, 2] > d[0, 1])
    True
    """

    name = "encoder"
    traits = Traits(
        "A recurrent autoencoder is trained on the trajectories of all policies: it summarizes a "
        "trajectory in a latent vector, from which each next state is predicted. A policy is "
        "described by a diagonal Gaussian over the latents of its trajectories. The distance "
        "between two policies is the KL divergence between their Gaussians, summed both ways.",
        "d(p, q) = KL(p ‖ q) + KL(q ‖ p)",
        by_state=False,
        additive=True,
    )

    _: KW_ONLY
    floor: Positive = 1e-7

    def _statistics(self, data: VisitedStates) -> Array:
        rows = []
        for centers, widths, keys in self._encode(self._trajectories(data)):
            # One latent per trajectory, with random numbers that depend on the trajectory.
            noise = [
                np.random.default_rng([self.random_state, key]).standard_normal(self.n_latent)
                for key in keys
            ]
            sampled = centers + widths * np.stack(noise)
            # Latents are near the standard normal: squares about 0 lose no digits.
            rows.append(np.column_stack([np.ones(len(keys)), sampled, sampled**2]))
        return np.concatenate(rows)

    def _of_means(self, means: Array) -> Description:
        z, squares = np.split(means, 2, axis=1)
        return gaussians(z, np.maximum(squares - z**2, 0.0) + self.floor)

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        return gaussian_distances(a, b)


@dataclass(eq=False, repr=False)
class TrajectoryEncoder(TrajectoryNetwork):
    """The embeddings of a policy's trajectories of states and actions, compared one by one.

    The encoder is an LSTM over the (state, action) pairs, read from the end; the decoder predicts
    the next pair from the one before and the embedding. An embedding is the mean of its latent.

    The distance between two policies is the mean distance between an embedding of one and one of
    the other, minus the mean distances within each of the two (the energy distance): 0 if the
    embeddings have the same distribution.

    Parameters
    ----------
    max_episodes : int
        Trajectories of each policy to describe, drawn at random.
    others
        See `TrajectoryNetwork`, also for the attributes.

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
    traits = Traits(
        "A recurrent autoencoder is trained on the trajectories, states and actions, of all "
        "policies; each trajectory is described by its embedding. The distance between two "
        "policies is the mean distance between an embedding of one and one of the other, minus the "
        "mean distances within each of the two.",
        "d(p, q) = E‖z_p − z_q‖ − ½ E‖z_p − z′_p‖ − ½ E‖z_q − z′_q‖",
        by_state=False,
        needs=frozenset({"actions"}),
    )
    of = "state-actions"

    _: KW_ONLY
    max_episodes: Count = 200

    def _describe(self, data: VisitedStates) -> Description:
        encoded = self._encode([self._drawn(policy) for policy in self._trajectories(data)])
        embeddings = [z for z, _, _ in encoded]
        vectors = np.stack([z.mean(axis=0, dtype=np.float64) for z in embeddings])
        within = np.array([between_means([z], [z])[0, 0] for z in embeddings])
        return vectors, None, {"within": within} | pack("embeddings", embeddings)

    def _drawn(self, sequences: list[Floats]) -> list[Floats]:
        """At most ``max_episodes`` of a policy's trajectories."""
        if len(sequences) <= self.max_episodes:
            return sequences
        rng = np.random.default_rng(self.random_state)
        numbers = rng.choice(len(sequences), self.max_episodes, replace=False)
        return [sequences[j] for j in np.sort(numbers)]

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        result = between_means(a.rows("embeddings"), b.rows("embeddings"))
        result -= 0.5 * np.add.outer(a.arrays["within"], b.arrays["within"])
        if b is a:
            result = np.triu(result) + np.triu(result, 1).T
        # An energy distance is not negative; what is left below is rounding.
        return np.maximum(result, 0.0)


def between_means(left: Sequence[NDArray[Any]], right: Sequence[NDArray[Any]]) -> Array:
    """Mean Euclidean distance between the rows of each set of ``left`` and each of ``right``."""
    counts = np.array([len(z) for z in right])
    starts = np.cumsum(counts) - counts
    everything = np.concatenate(right).astype(np.float64)
    result = np.empty((len(left), len(right)))
    for i, z in enumerate(left):
        distances = euclidean(z.astype(np.float64), everything)
        result[i] = np.add.reduceat(distances.mean(axis=0), starts) / counts
    return result
