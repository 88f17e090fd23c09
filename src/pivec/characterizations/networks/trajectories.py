"""Fitting the autoencoder on the trajectories of data, and encoding them: shared by two methods."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.networks.canonical import sequence_key
from pivec.characterizations.views import View, center_and_scale, local_starts
from pivec.states.visited import VisitedStates

Array = NDArray[np.float32]
_PREFIX = "weights."


def fit_autoencoder(
    data: VisitedStates,
    view: View,
    *,
    n_units: int,
    n_latent: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    kl_weight: float,
    random_state: int,
    progress: bool,
    device: str = "cpu",
) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[str, Array]]:
    """Center and scale of the view's rows, and the weights of an autoencoder trained on them."""
    from pivec.characterizations.networks.sequence_vae import train
    from pivec.characterizations.networks.stacked_vae import Job, train_together
    from pivec.characterizations.networks.training import device_of

    center, scale, start, sequences, rng = untrained(
        data, view, n_units=n_units, n_latent=n_latent, random_state=random_state
    )
    how: dict[str, Any] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "kl_weight": kl_weight,
        "progress": progress,
    }
    if device_of(device).type == "cpu":
        weights = train(start, sequences, rng=rng, **how)
    else:
        [(_, weights)] = train_together([Job(start, sequences, rng)], device=device, **how)
    return center, scale, weights


def untrained(
    data: VisitedStates, view: View, *, n_units: int, n_latent: int, random_state: int
) -> tuple[
    NDArray[np.float64], NDArray[np.float64], dict[str, Array], list[Array], np.random.Generator
]:
    """Center, scale, starting weights, trajectories, and the random numbers to train with."""
    from pivec.characterizations.networks.sequence_vae import starting_weights

    rng = np.random.default_rng(random_state)
    center, scale = center_and_scale(view, data)
    start = starting_weights(rng, len(center), n_units, n_latent)
    sequences = [
        some for i in range(len(data)) for some in trajectories(data, i, view, center, scale)
    ]
    return center, scale, start, sequences, rng


def named(weights: Mapping[str, Array]) -> dict[str, NDArray[Any]]:
    """Weights under names that tell them from other arrays."""
    return {_PREFIX + name: values for name, values in weights.items()}


def unnamed(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    """Pick the weights that `named` named."""
    return {k.removeprefix(_PREFIX): v for k, v in arrays.items() if k.startswith(_PREFIX)}


def trajectories(
    data: VisitedStates, policy: int, view: View, center: NDArray[Any], scale: NDArray[Any]
) -> list[Array]:
    """Standardised rows of the view, one array an episode; episodes without rows are left out."""
    rows = np.asarray((view.rows(data, policy) - center) / scale, dtype=np.float32)
    starts = local_starts(data, policy)
    if view.of != "states":  # one action or transition fewer than states
        starts = starts - np.arange(len(starts))
    return [rows[i:j] for i, j in pairwise(starts.tolist()) if j > i]


def encode_policies(
    weights: Mapping[str, Array], policies: list[list[Array]], device: str = "cpu"
) -> tuple[list[Array], list[Array], list[list[int]]]:
    """Means and deviations of the latents and the keys of each policy's trajectories.

    Equal trajectories are encoded once, so that they have equal latents to the last digit, and in
    the order of length and key, so that the order of the policies changes no numbers.
    """
    from pivec.characterizations.networks.sequence_vae import encode
    from pivec.characterizations.networks.stacked_vae import encode_on
    from pivec.characterizations.networks.training import device_of

    keys = [[sequence_key(some) for some in sequences] for sequences in policies]
    once = {
        key: some
        for mine, sequences in zip(keys, policies, strict=True)
        for key, some in zip(mine, sequences, strict=True)
    }
    order = sorted(once, key=lambda key: (len(once[key]), key))
    sequences = [once[key] for key in order]
    if device_of(device).type == "cpu":
        means, deviations = encode(weights, sequences)
    else:
        means, deviations = encode_on(device, weights, sequences)
    row = {key: i for i, key in enumerate(order)}
    numbers = [[row[key] for key in mine] for mine in keys]
    return [means[some] for some in numbers], [deviations[some] for some in numbers], keys
