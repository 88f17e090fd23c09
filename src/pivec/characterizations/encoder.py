"""A variational autoencoder of trajectories, and one Gaussian a policy over their latents.

The paper's Section 5.2: the trajectory encoder of Wang et al. 2017, adapted to policies.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Positive
from pivec.characterizations.averages import Averaged
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.gaussian import gaussian_distances, gaussians
from pivec.characterizations.networks.trajectories import TrajectoryNetwork
from pivec.states.visited import VisitedStates


@dataclass(eq=False, repr=False)
class PolicyEncoder(TrajectoryNetwork, Averaged):
    """A diagonal Gaussian over the latents of a policy's trajectories, one latent sampled each.

    The encoder is an LSTM that reads a trajectory from its end; the decoder predicts the next
    state from the state before and the latent. The distance is KL(a || b) + KL(b || a).

    Parameters
    ----------
    floor : float
        Added to the variances of the latents.
    others
        As of `pivec.characterizations.networks.trajectories.TrajectoryNetwork`, as the attributes.

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
    explanation = (
        "A recurrent autoencoder is trained on the trajectories of all policies: it sums up a "
        "trajectory in a latent vector, from which each next state is predicted. A policy is "
        "described by a diagonal Gaussian over the latents of its trajectories. The distance of "
        "two policies is the KL divergence between their Gaussians, summed both ways."
    )
    formula = "d(p, q) = KL(p ‖ q) + KL(q ‖ p)"
    by_state = False

    _: KW_ONLY
    floor: Positive = 1e-7

    def _statistics(self, data: VisitedStates) -> NDArray[np.float64]:
        rows = []
        for centers, widths, keys in self._encode(self._trajectories(data)):
            # One latent sampled a trajectory, with random numbers that follow the trajectory.
            noise = [
                np.random.default_rng([self.random_state, key]).standard_normal(self.n_latent)
                for key in keys
            ]
            sampled = centers + widths * np.stack(noise)
            # Latents are drawn to the standard normal: squares about 0 lose no digits.
            rows.append(np.column_stack([np.ones(len(keys)), sampled, sampled**2]))
        return np.concatenate(rows)

    def _of_means(self, means: NDArray[np.float64]) -> Description:
        z, squares = np.split(means, 2, axis=1)
        return gaussians(z, np.maximum(squares - z**2, 0.0) + self.floor)

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        return gaussian_distances(a, b)
