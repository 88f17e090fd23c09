"""A variational autoencoder of trajectories, and one Gaussian a policy over their latents.

The paper's Section 5.2: the trajectory encoder of Wang et al. 2017, adapted to policies.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from pivec.characterizations.views import View
from pivec.distances.pairwise import symmetric_kl_diagonal
from pivec.states.visited import VisitedStates

_VIEW = View("states")


class Encoder(Characterization):
    """A diagonal Gaussian over the latents of a policy's trajectories, one latent sampled each.

    The encoder is an LSTM that reads a trajectory from its end; the decoder predicts the next
    state from the state before and the latent. The distance is KL(a || b) + KL(b || a).

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
    learning_rate : float
        Of Adam.
    kl_weight : float
        Weight of the divergence of the latents from the standard normal. At the paper's 1 latents
        may tell nothing (posterior collapse), and distances are then noise; 0.01 keeps them apart.
    floor : float
        Added to the variances of the latents.
    random_state : int
        Seed.
    device : {"cpu", "cuda", "auto"}
        Where the autoencoder is trained; the results agree but for rounding. "auto" is the graphics
        card where there is one.
    progress : bool
        Draw a bar while fitting.

    Attributes
    ----------
    weights_ : dict of float32 arrays
        Of the autoencoder.
    center_, scale_ : (n_features,) arrays
        The standardisation of the states.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(m, 1, (20, 1)) for _ in range(5)] for m in (0, 0, 5)]
    >>> data = VisitedStates.from_arrays(walks)
    >>> method = Encoder(n_units=8, n_latent=2, epochs=20, kl_weight=0.01).fit(data)
    >>> d = method.distances(data)
    >>> bool(d[0, 2] > d[0, 1])
    True
    """

    name: ClassVar[str] = "encoder"
    explanation: ClassVar[str] = (
        "A recurrent autoencoder is trained on the trajectories of all policies: it sums up a "
        "trajectory in a latent vector, from which each next state is predicted. A policy is "
        "described by a diagonal Gaussian over the latents of its trajectories. The distance of "
        "two policies is the KL divergence between their Gaussians, summed both ways."
    )
    formula: ClassVar[str] = "d(p, q) = KL(p ‖ q) + KL(q ‖ p)"

    def __init__(
        self,
        n_units: Count = 256,
        *,
        n_latent: Count = 256,
        epochs: Count = 5,
        batch_size: Count = 8,
        learning_rate: Positive = 1e-3,
        kl_weight: NotNegative = 1.0,
        floor: Positive = 1e-7,
        random_state: Seed = 0,
        device: str = "cpu",
        progress: bool = False,
    ) -> None:
        self.n_units = n_units
        self.n_latent = n_latent
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.kl_weight = kl_weight
        self.floor = floor
        self.random_state = random_state
        self.device = device
        self.progress = progress

    def _fit(self, data: VisitedStates) -> None:
        require_torch("the encoder characterization")
        self.center_, self.scale_, self.weights_ = fit_autoencoder(
            data,
            _VIEW,
            n_units=self.n_units,
            n_latent=self.n_latent,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            kl_weight=self.kl_weight,
            random_state=self.random_state,
            progress=self.progress,
            device=self.device,
        )

    def _trajectories(self, data: VisitedStates, policy: int) -> list[NDArray[np.float32]]:
        return trajectories(data, policy, _VIEW, self.center_, self.scale_)

    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        require_torch("the encoder characterization")
        encoded = encode_policies(
            self.weights_,
            [self._trajectories(data, i) for i in range(len(data))],
            self.device,
        )
        means = np.empty((len(data), self.n_latent))
        variances = np.empty_like(means)
        for i, (centers, widths, keys) in enumerate(zip(*encoded, strict=True)):
            # One latent sampled a trajectory, with random numbers that follow the trajectory.
            noise = [
                np.random.default_rng([self.random_state, key]).standard_normal(self.n_latent)
                for key in keys
            ]
            sampled = centers + widths * np.stack(noise)
            means[i] = sampled.mean(axis=0)
            variances[i] = sampled.var(axis=0) + self.floor
        return (
            np.concatenate([means, variances], axis=1),
            None,
            {"means": means, "variances": variances},
        )

    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]:
        other = a if b is None else b
        return symmetric_kl_diagonal(
            a.arrays["means"],
            a.arrays["variances"],
            other.arrays["means"],
            other.arrays["variances"],
        )

    def _learned(self) -> dict[str, NDArray[Any]]:
        return named(self.weights_) | {"center": self.center_, "scale": self.scale_}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.center_, self.scale_ = arrays["center"], arrays["scale"]
        self.weights_ = unnamed(arrays)
