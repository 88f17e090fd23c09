"""Evolution strategies of Salimans et al. and Conti et al.: mirrored noise, centred ranks, Adam."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


def centred_ranks(values: Float) -> Float:
    """Replace numbers by their ranks, from -0.5 for the least to 0.5; equal ones share theirs."""
    from scipy.stats import rankdata

    ranks = rankdata(values).reshape(values.shape)
    return np.asarray((ranks - 1) / max(values.size - 1, 1) - 0.5)


def ascent(scores: Float, noise: Float) -> Float:
    """Estimate the direction in which scores rise (Salimans et al. 2017, section 2.1).

    ``scores``, (2, n), are of vectors moved along normal ``noise``, (n, n_weights), and against it.
    """
    return np.asarray((scores[0] - scores[1]) @ noise / scores.size)


def adam_step(learner: Any, gradient: Any, count: int, rate: float, epsilon: float) -> None:
    """Make step number ``count`` (from 1) of Adam (Kingma and Ba 2015, algorithm 1), in place.

    ``learner``, (3, n_weights), holds the weights and the two running moments of gradients. What
    needs no torch steps by this, and the paper's compiled loop compiles it.
    """
    learner[1] = 0.9 * learner[1] + (1.0 - 0.9) * gradient
    learner[2] = 0.999 * learner[2] + (1.0 - 0.999) * gradient * gradient
    size, root = rate / (1.0 - 0.9**count), np.sqrt(1.0 - 0.999**count)
    learner[0] -= size * learner[1] / (np.sqrt(learner[2]) / root + epsilon)
