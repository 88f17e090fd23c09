"""The optimisation inside t-SNE: the one file that calls openTSNE.

openTSNE's gradients do not depend on the number of threads, so that the same input gives the same
picture, bit for bit, on the same machine.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.engines.workers import usable_cores

Array = NDArray[np.float64]

# Below, the Barnes-Hut tree is faster; above, interpolation on a grid (as openTSNE chooses).
TREE_ROWS = 10_000
# Below this many rows a second thread does not pay.
SERIAL_ROWS = 5_000


def threads_for(n: int, n_jobs: int | None) -> int:
    """Choose the number of threads for ``n`` rows; ``n_jobs`` if it is given."""
    return n_jobs or (1 if n < SERIAL_ROWS else usable_cores())


def _gradient(n: int) -> str:
    return "bh" if n < TREE_ROWS else "fft"


def load_opentsne() -> ModuleType:
    """Import openTSNE with OpenMP threads that sleep while they wait.

    Threads that spin were up to twenty times slower on a busy machine. The setting is read when
    the OpenMP library is loaded, so it is made around the import, and not over a user's own.
    """
    key = "OMP_WAIT_POLICY"
    if key in os.environ:
        import openTSNE
    else:
        os.environ[key] = "PASSIVE"
        try:
            import openTSNE
        finally:
            del os.environ[key]
    module: ModuleType = openTSNE
    return module


def affinities(
    neighbours: NDArray[np.intp], distances: Array, perplexity: float, *, n_threads: int = 1
) -> Any:
    """Symmetric joint probabilities P of t-SNE, as a sparse (n, n) matrix with sum 1.

    Of the nearest neighbours of each row and their distances, (n, k), which the Gaussian kernel
    squares.
    """
    return load_opentsne().affinity.joint_probabilities_nn(
        neighbours, distances, [perplexity], symmetrize=True, n_jobs=n_threads
    )


def embed(P: Any, start: Array, *, n_iter: int, n_threads: int = 1) -> Array:
    """Minimise t-SNE's objective for the affinities ``P``; centred positions, (n, 2).

    From the positions ``start``, of which no two may be equal, in 250 steps with exaggerated
    affinities and ``n_iter`` more.
    """
    opentsne = load_opentsne()
    estimator = opentsne.TSNE(
        n_jobs=n_threads,
        n_iter=n_iter,
        negative_gradient_method=_gradient(len(start)),
        random_state=0,
    )
    embedding = estimator.fit(
        affinities=opentsne.affinity.PrecomputedAffinities(P, normalize=False),
        # Kobak & Berens 2019: a small start keeps the global arrangement of the first components.
        initialization=start * (1e-4 / np.std(start[:, 0])),
    )
    return np.array(embedding, dtype=np.float64)


def embed_new(
    neighbours: NDArray[np.intp],
    distances: Array,
    reference_positions: Array,
    start: Array,
    *,
    perplexity: float,
    n_threads: int = 1,
) -> Array:
    """Minimise the same objective for new rows only, each by itself, in a map that is fixed.

    ``neighbours`` and ``distances``, (m, k), are of the nearest reference rows of each new row.
    """
    opentsne = load_opentsne()
    n = len(reference_positions)
    P = opentsne.affinity.joint_probabilities_nn(
        neighbours,
        distances,
        [perplexity],
        symmetrize=False,
        normalization="point-wise",
        n_reference_samples=n,
        n_jobs=n_threads,
    )
    # openTSNE's interpolation grid centres a map in place; so it is handed a centred copy.
    middle = (reference_positions.max(axis=0) + reference_positions.min(axis=0)) / 2
    empty = opentsne.affinity.PrecomputedAffinities(np.zeros((n, 0)), normalize=False)
    # By the size of the map, not by the number of new rows: each row's place is its own affair.
    reference = opentsne.tsne.TSNEEmbedding(
        reference_positions - middle, affinities=empty, negative_gradient_method=_gradient(n)
    )
    embedding = opentsne.tsne.PartialTSNEEmbedding(
        start - middle, reference, P=P, **reference.gradient_descent_params
    )
    embedding.optimize(
        n_iter=250,
        learning_rate=0.1,
        exaggeration=1.5,
        momentum=0.8,
        max_grad_norm=0.25,
        max_step_norm=None,
        n_jobs=n_threads,
        theta=0.5,
        inplace=True,
    )
    placed: Array = np.array(embedding, dtype=np.float64) + middle
    return placed
