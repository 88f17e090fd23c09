"""What the background model needs of the data: additive, centred sufficient statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData

SegmentSums = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Counts (S, K) and centred sums (S, K, D) of segments, as in `Statistics`."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """Counts, sums and squares of the states, weighted by responsibility, about a mixture.

    With z = (x − μ_k) / σ_k, the standardised state x seen from component k, and r_k(x) the
    responsibility of k for x (Reynolds 2000, eq. 11 to 13, in centred form):

    - ``counts``  n_k = Σ r_k(x), shape (K,)
    - ``sums``    f_k = Σ r_k(x) z, shape (K, D)
    - ``squares`` s_k = Σ r_k(x) z², shape (K, D)

    The M-step is μ + σ f/n for the means and σ² (s/n − (f/n)²) for the variances; the MAP offset
    of a mean with relevance factor ρ is α σ f/n with α = n / (n + ρ). Centred sums keep their
    digits where Σ r x² − n μ² would lose them to cancellation.

    Statistics of disjoint sets of states **about the same mixture** add up with ``+``.

    Examples
    --------
    >>> import numpy as np
    >>> half = Statistics(np.ones(2), np.zeros((2, 3)), np.ones((2, 3)), -4.0, 2)
    >>> (half + half).n_states, (half + half).log_likelihood
    (4, -8.0)
    """

    counts: NDArray[np.float64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]
    log_likelihood: float
    n_states: int

    def __add__(self, other: Statistics) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        if self.sums.shape != other.sums.shape:
            raise BadData(
                f"only statistics of equal shape add up, but these have shapes "
                f"{self.sums.shape} and {other.sums.shape}"
            )
        return Statistics(
            self.counts + other.counts,
            self.sums + other.sums,
            self.squares + other.squares,
            self.log_likelihood + other.log_likelihood,
            self.n_states + other.n_states,
        )

    @staticmethod
    def zero(n_components: int, n_features: int) -> Statistics:
        """Statistics of no states at all."""
        shape = (n_components, n_features)
        return Statistics(np.zeros(n_components), np.zeros(shape), np.zeros(shape), 0.0, 0)

    @property
    def mean_log_likelihood(self) -> float:
        """Log-likelihood a state, in nats; NaN for no states."""
        return self.log_likelihood / self.n_states if self.n_states else float("nan")
