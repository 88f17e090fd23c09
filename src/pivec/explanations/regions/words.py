"""Regions in words: the features that set a region apart from all states, and from where to where.

In closed form from the background model; no state is looked at.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, xlogy

from pivec.characterizations.background import BackgroundModel, region_ranges
from pivec.explanations.regions.names import Feature
from pivec.mixtures.mixture import Mixture
from pivec.terminal import shortened

Array = NDArray[np.float64]
MIDDLE = "the middle of all states"
_TAIL = 0.05  # of all states, on either side: a region that reaches there has no end
_CLEAR = 0.5  # nats that a feature tells; a shift by one deviation of all states does
_CLEAR_FLAG = 0.2  # of a flag, whose share of all states is bounded
_MOST = 3  # features that are told, unless it takes more to tell regions apart
_UTMOST = 8  # even then
_GRAIN = 0.05  # deviations of all states: what is narrower than that is a point
_LONGEST = 80  # letters of a name


def region_words(background: BackgroundModel, features: Sequence[Feature]) -> tuple[str, ...]:
    """Tell each region by what sets it apart from all states.

    Features are ranked by how much of the difference between the region and all states they show
    (the Kullback-Leibler divergence of their normal distributions; of flags that of their shares).
    At most three are told, and only those that differ clearly, as ranges that hold about 80 % of
    the region's states; further ones where two regions would have the same words.

    Parameters
    ----------
    background : BackgroundModel
        Fitted; its regions are numbered as its components are.
    features : sequence of Feature
        What the numbers of a state mean, from `pivec.explanations.regions.names.features_of`.

    Returns
    -------
    tuple of str
        The words of every region; no two are equal.

    Examples
    --------
    >>> from pivec.characterizations.visitation import Visitation
    >>> from pivec.states.visited import VisitedStates
    >>> states = np.repeat([[0.0, 1.0], [4.0, 0.0], [8.0, 0.0]], 20, axis=0)
    >>> states[:, 0] += np.tile(np.linspace(-0.5, 0.5, 20), 3)
    >>> method = Visitation(n_components=3).fit(VisitedStates.from_arrays([[states]]))
    >>> named = (Feature("height", "m"), Feature("on the ground", absent="in the air"))
    >>> for words in sorted(region_words(method, named)):
    ...     print(words)
    height 3.6 to 4.4 m, in the air
    height above 7.6 m, in the air
    height below 0.4 m, on the ground
    """
    mixture = background.background_
    teller = _Teller(mixture, features)
    counts = np.minimum(_MOST, teller.clear.sum(axis=1)).tolist()
    while True:
        words = [teller.words(k, count) for k, count in enumerate(counts)]
        shared = Counter(words)
        equal = {k for k, text in enumerate(words) if shared[text] > 1}
        longer = [k for k in equal if counts[k] < teller.n_told[k]]
        if not longer:
            # Nothing is left to tell them by: two fits of the background side by side, perhaps.
            return tuple(f"{words[k]} ({k})" if k in equal else words[k] for k in range(len(words)))
        for k in longer:
            counts[k] += 1


class _Teller:
    """What can be told of the regions of a mixture, feature by feature."""

    def __init__(self, mixture: Mixture, features: Sequence[Feature]) -> None:
        self.features = features
        center, deviation = _overall(mixture)
        self.flags = _flags(mixture)
        self.shares = np.clip(mixture.center + mixture.scale * mixture.means, 0.0, 1.0)
        silent = np.array([feature.absent == "" for feature in features]) & self.flags
        self.separation = np.where(
            self.flags,
            _divergence_of_shares(self.shares, mixture.weights @ self.shares),
            _divergence(mixture.means, mixture.variances, center, deviation**2),
        )
        # That a thing is not so, one of many, is no word; nor is a feature that never changes.
        self.separation[(silent & (self.shares < 0.1)) | ~np.isfinite(self.separation)] = -1.0
        self.clear = self.separation >= np.where(self.flags, _CLEAR_FLAG, _CLEAR)
        self.n_told = np.minimum(_UTMOST, (self.separation > 0).sum(axis=1))
        # What is clear comes first.
        self.order = np.lexsort((-self.separation, ~self.clear), axis=1)
        self.ranges = region_ranges(mixture)
        self.grain = _GRAIN * deviation * mixture.scale
        low, middle, high = (
            mixture.center + mixture.scale * _quantiles(mixture, share)
            for share in (_TAIL, 0.5, 1.0 - _TAIL)
        )
        # Both: where most states are one point, what lies around it reaches nowhere.
        self.below = (self.ranges[:, :, 0] < low) & (self.ranges[:, :, 1] < middle)
        self.above = (self.ranges[:, :, 1] > high) & (self.ranges[:, :, 0] > middle)

    def words(self, region: int, count: int) -> str:
        """Tell a region by so many features."""
        parts = [self._part(region, feature) for feature in self.order[region, :count].tolist()]
        return ", ".join(parts) or MIDDLE

    def _part(self, region: int, number: int) -> str:
        feature = self.features[number]
        name = shortened(feature.name, _LONGEST)
        if self.flags[number]:
            share = float(self.shares[region, number])
            if share < 0.1:
                return feature.absent or f"{name} = 0"
            so = name if feature.is_flag else f"{name} = 1"
            return so if share > 0.9 else f"{so} ({share:.0%})".replace("%)", " %)")
        least, most = feature.limits
        low, high = np.clip(self.ranges[region, number], least, most).tolist()
        unit = f" {feature.unit}" * bool(feature.unit)
        if high - low < self.grain[number]:
            exponent = math.floor(math.log10(self.grain[number]))
            return f"{name} about {written((low + high) / 2, exponent)}{unit}"
        # Rounding moves an end by a tenth of the spread at most.
        exponent = math.floor(math.log10((high - low) / 5))
        first, last = written(low, exponent), written(high, exponent)
        if self.below[region, number] or low == least:
            return f"{name} below {last}{unit}"
        if self.above[region, number] or high == most:
            return f"{name} above {first}{unit}"
        return f"{name} {first} to {last}{unit}"


def written(value: float, exponent: int) -> str:
    """Write a number rounded to a power of ten, with a true minus sign.

    Examples
    --------
    >>> written(-0.0812, -2), written(-0.001, -2), written(1234.0, 2), written(3.2e-7, -8)
    ('−0.08', '0', '1200', '3.2e−07')
    """
    rounded = round(value, -exponent)
    if rounded == 0:
        return "0"
    plain = exponent >= -5 and abs(rounded) < 1e6
    text = f"{rounded:.{max(0, -exponent)}f}" if plain else f"{rounded:.3g}"
    return text.replace("-", "−")


def _overall(mixture: Mixture) -> tuple[Array, Array]:
    """Mean and deviation of each feature over the whole mixture, in standardised units."""
    mean = mixture.weights @ mixture.means
    variance = mixture.weights @ (mixture.variances + (mixture.means - mean) ** 2)
    return mean, np.sqrt(variance)


def _divergence(means: Array, variances: Array, mean: Array, variance: Array) -> Array:
    """Kullback-Leibler divergence of normal distributions from one, in nats."""
    ratio = variances / variance
    return np.asarray(0.5 * (ratio + (means - mean) ** 2 / variance - 1.0 - np.log(ratio)))


def _divergence_of_shares(shares: Array, share: Array) -> Array:
    """Kullback-Leibler divergence of things that are so or not, in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        so = xlogy(shares, shares / share)
        other = xlogy(1.0 - shares, (1.0 - shares) / (1.0 - share))
    return np.asarray(so + other)


def _flags(mixture: Mixture) -> NDArray[np.bool_]:
    """Find features that are 0 or 1: then E x² = E x, in every component, and not by chance."""
    means = mixture.center + mixture.scale * mixture.means
    squares = mixture.scale**2 * mixture.variances + means**2
    deviation = mixture.scale * _overall(mixture)[1]
    return np.asarray((np.abs(squares - means) <= 0.01 * deviation).all(axis=0))


def _quantiles(mixture: Mixture, share: float) -> Array:
    """Quantiles of each feature over the whole mixture, by halving intervals, standardised."""
    deviations = np.sqrt(mixture.variances)
    low = (mixture.means - 8.0 * deviations).min(axis=0)
    high = (mixture.means + 8.0 * deviations).max(axis=0)
    for _ in range(50):
        middle = 0.5 * (low + high)
        below = mixture.weights @ ndtr((middle - mixture.means) / deviations) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(0.5 * (low + high))
