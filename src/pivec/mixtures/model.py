"""The background model itself: a mixture of diagonal Gaussians over standardised states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import BadData

FAR = 1e9
"""A state further than this many deviations from the centre counts as being there."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of Gaussians with diagonal covariances, and the standardisation before it.

    A state x enters as (x − center) / scale; everything else is in those units.

    Examples
    --------
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[1.0], [1.0]], [0.0], [2.0])
    >>> mixture.n_components, mixture.n_features
    (2, 1)
    >>> round(mixture.score([[2.0], [-2.0]]), 4)
    -1.4852
    """

    weights: NDArray[np.float64]  # (K,), not negative, with sum 1
    means: NDArray[np.float64]  # (K, D)
    variances: NDArray[np.float64]  # (K, D), positive
    center: NDArray[np.float64]  # (D,), of the raw states
    scale: NDArray[np.float64]  # (D,), positive

    def __post_init__(self) -> None:
        for name in ("weights", "means", "variances", "center", "scale"):
            value = np.array(getattr(self, name), dtype=np.float64, order="C")
            if not np.isfinite(value).all():
                raise BadData(f"{name} of a mixture must be finite, but holds NaN or infinity")
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        if self.means.ndim != 2 or 0 in self.means.shape:
            raise BadData(
                f"means of a mixture must have shape (K, D) with K and D at least 1, "
                f"but have shape {self.means.shape}"
            )
        K, D = self.means.shape
        shapes = {"weights": (K,), "variances": (K, D), "center": (D,), "scale": (D,)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise BadData(
                    f"{name} of a mixture with {K} components and {D} features must have shape "
                    f"{shape}, but has shape {getattr(self, name).shape}"
                )
        if (self.weights < 0).any() or abs(self.weights.sum() - 1) > 1e-6:
            raise BadData(
                f"weights of a mixture must not be negative and must sum to 1, "
                f"but the smallest is {self.weights.min():g} and the sum {self.weights.sum():g}"
            )
        for name in ("variances", "scale"):
            if (getattr(self, name) <= 0).any():
                raise BadData(
                    f"{name} of a mixture must be positive, "
                    f"but the smallest is {getattr(self, name).min():g}"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew elsewhere: arrays that are read-only again need no other compiled code.
        return Mixture, (self.weights, self.means, self.variances, self.center, self.scale)

    @property
    def n_components(self) -> int:
        """Number of Gaussians, K."""
        return int(self.means.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features of a state, D."""
        return int(self.means.shape[1])

    def standardise(self, states: ArrayLike) -> NDArray[np.float64]:
        """Give (states − center) / scale in float64, shape (n, D)."""
        return (np.asarray(states, dtype=np.float64) - self.center) / self.scale

    def log_density(self, states: ArrayLike) -> NDArray[np.float64]:
        """Log-density of each raw state, in standardised space, shape (n,)."""
        from pivec.mixtures.numpy_kernel import log_density

        return log_density(np.asarray(states), self)

    def assign(self, states: ArrayLike) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Give the likeliest component of each raw state, and its log-density as above, (n,)."""
        from pivec.mixtures.numpy_kernel import assign

        return assign(np.asarray(states), self)

    def score(self, states: ArrayLike) -> float:
        """Mean of `log_density` over the states, in nats a state."""
        return float(self.log_density(states).mean())


# -----------------------------------------------------------------------------
# What the background model needs of the data: additive, centred sufficient statistics.


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
