"""Sequential evidence on a distance: e-values that hold however often one looks.

The measured distance of two policies is a scaled noncentral χ² whose noncentrality is the true
distance (see `chi2_bound`). Its likelihood ratio between two distances is that of all data that
rotations of the points leave alone, so that the ratio is a test martingale over time (the invariant
sequential probability ratio test; Hall, Wijsman and Ghosh 1965): if the distance is the one in the
denominator, the ratio ever exceeds 1/α with a probability of at most α (Ville 1939), whenever and
for whatever reason one looks or stops. Covariances are estimated, so that the guarantee holds for
means of enough episodes, like that of all intervals here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ive, logsumexp

from pivec.statistics.views import noncentral

Array = NDArray[np.float64]
# Distances, in margins, that evidence is prepared for, and their weights: policies that behave the
# same are what "same" is mostly about; a difference may have any size.
_SMALLER = np.array([0.0, 0.125, 0.35, 0.7]), np.array([0.85, 0.05, 0.05, 0.05])
_LARGER = np.array([1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0]), np.full(7, 1.0 / 7.0)
_ROUNDING = 1e-9  # of the margin: what varies less does not vary
_DEBYE = 40.0  # order of Bessel functions from which their asymptotic series has 6 digits


def log_density_ratio(drawn: ArrayLike, freedom: ArrayLike, center: ArrayLike) -> Array:
    """Logarithm of the density of a noncentral χ² divided by that of the central one.

    That is −λ/2 + log ₀F₁(k/2; λx/4), with ₀F₁(v + 1; z²/4) = Γ(v + 1) (z/2)⁻ᵛ I_v(z).

    Examples
    --------
    >>> from scipy.stats import ncx2, chi2
    >>> direct = ncx2.logpdf(5.0, 3.0, 2.0) - chi2.logpdf(5.0, 3.0)
    >>> bool(np.isclose(log_density_ratio(5.0, 3.0, 2.0), direct))
    True
    """
    x, k, c = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (drawn, freedom, center)))
    order, z = k / 2.0 - 1.0, np.sqrt(x * c)
    small = z < 1e-3 * np.sqrt(np.maximum(k, 1.0))
    z = np.where(small, 1.0, z)
    large = order > _DEBYE
    with np.errstate(divide="ignore", under="ignore"):
        direct = np.log(ive(np.where(large, 0.0, order), z)) + z
    bessel = np.where(large, _log_bessel(np.where(large, order, 1.0), z), direct)
    log_0f1 = bessel - order * np.log(z / 2.0) + gammaln(order + 1.0)
    return np.asarray(np.where(small, x * c / (2.0 * k), log_0f1) - c / 2.0)


def _log_bessel(order: Array, z: Array) -> Array:
    """Logarithm of I_v(z) for large orders (Debye's expansion, DLMF 10.41.3)."""
    w = z / order
    root = np.sqrt(1.0 + w**2)
    p = 1.0 / root
    u1 = (3.0 * p - 5.0 * p**3) / 24.0
    u2 = (81.0 * p**2 - 462.0 * p**4 + 385.0 * p**6) / 1152.0
    exponent = order * (root + np.log(w / (1.0 + root)))
    scale = -0.5 * np.log(2.0 * np.pi * order) - 0.5 * np.log(root)
    return np.asarray(exponent + scale + np.log1p(u1 / order + u2 / order**2))


def log_evidence(
    distance: ArrayLike, slope: ArrayLike, second: ArrayLike, margin: ArrayLike
) -> tuple[Array, Array]:
    """Logarithms of e-values: that a distance is below the margin, and that it is above.

    ``slope`` and ``second`` are the parts of the variance, see `chi2_bound`; all arrays have one
    shape. Where nothing varies the evidence is infinite, and where the variance is not known there
    is none.
    """
    d, r, s, m = np.broadcast_arrays(
        *(np.asarray(v, np.float64) for v in (distance, slope, second, margin))
    )
    known = np.isfinite(d) & np.isfinite(r) & np.isfinite(s)
    varies = known & (r > _ROUNDING * m) & (np.sqrt(np.maximum(s, 0.0)) > _ROUNDING * m)
    drawn, scale, freedom = noncentral(*(np.where(varies, v, 1.0) for v in (d, r, s)))
    at_margin = log_density_ratio(drawn, freedom, m / scale)
    certain = np.where(known, np.sign(m - d), 0.0)
    result = []
    for sign, (sizes, weights) in ((1.0, _SMALLER), (-1.0, _LARGER)):
        centers = np.multiply.outer(m / scale, sizes)
        ratios = log_density_ratio(drawn[..., None], freedom[..., None], centers)
        with np.errstate(invalid="ignore"):  # 0 · ∞
            otherwise = np.nan_to_num(
                sign * certain * np.inf, nan=0.0, posinf=np.inf, neginf=-np.inf
            )
        result.append(
            np.where(varies, logsumexp(ratios, axis=-1, b=weights) - at_margin, otherwise)
        )
    return result[0], result[1]


def distance_bounds(
    distance: float, slope: float, second: float, alpha: float
) -> tuple[float, float]:
    """Ends of a confidence sequence, each of which is wrong at any time with probability ``alpha``.

    They are the margins of which the evidence says that the distance is above, or below.
    """
    if not np.isfinite([distance, slope, second]).all():
        return 0.0, np.inf
    likely = max(distance, 0.0)
    if slope <= 0.0 or second <= 0.0:
        return likely, likely
    unit = slope + np.sqrt(second)
    margins = np.geomspace(1e-6 * unit, 1e3 * (likely + unit), 400)
    below, above = (
        evidence >= -np.log(alpha) for evidence in log_evidence(distance, slope, second, margins)
    )
    # A margin that is rejected rejects smaller, or larger, ones as well.
    low = margins[above & (margins <= likely)].max(initial=0.0)
    return float(low), float(margins[below & (margins >= likely)].min(initial=np.inf))


def view_weights(groups: Sequence[str]) -> Array:
    """Weights of views by which their e-values for "above the margin" may be multiplied.

    A weighted mean of e-values is one, and so is its largest term. Each group has the same weight,
    so that many pairs of features do not hide a difference of moves.
    """
    counts = {group: groups.count(group) for group in groups}
    return np.array([1.0 / (len(counts) * counts[group]) for group in groups])


def episodes_to_see(margin: float, alpha: float) -> int:
    """Episodes after which a habit that makes a distance of ``margin`` was seen, except for alpha.

    A habit in a share ε of the episodes of one policy, which the other lacks, makes a squared
    Hellinger distance of 1 − √(1 − ε). As long as it was not seen, nothing shows that it exists.

    Examples
    --------
    >>> episodes_to_see(0.02, 0.05)
    75
    """
    return int(np.ceil(np.log(alpha) / (2.0 * np.log1p(-margin))))
