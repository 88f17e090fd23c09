"""Adding segments up into the policies that own them, with sums over episodes if asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pivec.mixtures.mixture import Mixture

Array = NDArray[np.float64]


class Fold:
    """Counts, sums and sums over segments of P owners; segments come in order, in pieces.

    A segment is whole when its last piece has come; only then it enters. With n (K) and f (K, D)
    of a segment, ``counts`` is Σ n, ``sums`` Σ f, and with ``moments`` also ``nn`` Σ n², ``nf``
    Σ n·f and ``ff`` Σ f²; without, these three have no rows. ``open_counts`` and ``open_sums``
    hold the segment that is not whole yet.
    """

    def __init__(self, n_owners: int, mixture: Mixture, moments: bool) -> None:
        K, D = mixture.means.shape
        self.moments = moments
        self.counts, self.sums = np.zeros((n_owners, K)), np.zeros((n_owners, K, D))
        rows = n_owners if moments else 0
        self.nn = np.zeros((rows, K))
        self.nf, self.ff = np.zeros((rows, K, D)), np.zeros((rows, K, D))
        self.open_counts, self.open_sums = np.zeros(K), np.zeros((K, D))

    def add(
        self, counts: Array, sums: Array, owners: NDArray[np.int64], last_is_whole: bool
    ) -> None:
        """Add pieces of segments, (S, K) and (S, K, D); the first continues the open one."""
        counts[0] += self.open_counts
        sums[0] += self.open_sums
        self.open_counts[:], self.open_sums[:] = 0, 0
        if not last_is_whole:
            self.open_counts += counts[-1]
            self.open_sums += sums[-1]
            counts, sums, owners = counts[:-1], sums[:-1], owners[:-1]
        # Owners do not fall, so each has one run of rows.
        here, first = np.unique(owners, return_index=True)
        if not len(here):
            return
        self.counts[here] += np.add.reduceat(counts, first, axis=0)
        self.sums[here] += np.add.reduceat(sums, first, axis=0)
        if self.moments:
            self.nn[here] += np.add.reduceat(counts**2, first, axis=0)
            self.nf[here] += np.add.reduceat(counts[..., None] * sums, first, axis=0)
            self.ff[here] += np.add.reduceat(sums**2, first, axis=0)
