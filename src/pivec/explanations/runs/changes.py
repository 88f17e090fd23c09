"""Changes between two checkpoints that are worth telling, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.explaining import USUAL
from pivec.characterizations.explanation import OFTEN, WHERE, Explanation
from pivec.distances.discoveries import RATE, benjamini_hochberg
from pivec.explanations.regions.names import Feature
from pivec.explanations.runs.spans import Span
from pivec.text import percent, rounded

Array = NDArray[np.float64]
_NEVER, _SEEN = 0.01, 0.03  # shares of time: one who goes from the first to the second began to
_LEAST_SHIFT = 0.25  # of a region's deviation
_LEAST = 0.01  # a difference of shares that is worth telling, and a share of the distance


@dataclass(frozen=True)
class Change:
    """How two checkpoints differ: in the time spent somewhere, or in a feature's mean there."""

    kind: str  # "began", "stopped", "more", "less", or "moved" of a feature
    where: str  # in words
    region: int | None  # None where it is not about a region
    part: float  # of the distance; NaN where it is not known
    before: float  # share of time, or mean of the feature
    after: float
    low: float  # from where to where after − before may lie
    high: float
    feature: str = ""  # that it is about, if it is about one
    unit: str = ""
    span: Span | None = None  # of that feature, where it is about the time spent there

    def sentence(self) -> str:
        """Say it.

        Examples
        --------
        >>> Change("began", "x is above 2", 3, 0.5, 0.002, 0.31, 0.29, 0.33).sentence()
        'began to be where x is above 2 (0.2 % → 31 % of the time)'
        >>> Change("moved", "x is above 2", 3, 0.5, 0.1, 0.3, 0.1, 0.3, "y", "m").sentence()
        'where x is above 2: y 0.1 → 0.3 m on average'
        """
        if self.kind == "moved":
            unit = f" {self.unit}" if self.unit else ""
            means = f"{rounded(self.before, 2)} → {rounded(self.after, 2)}{unit}"
            return f"where {self.where}: {self.feature} {means} on average".replace("-", "−")
        return f"{_VERBS[self.kind]} where {self.where} ({self.times} of the time)"

    @property
    def times(self) -> str:
        """The shares of time before and after."""
        return f"{percent(self.before)} → {percent(self.after)}"


_VERBS = {
    "began": "began to be",
    "stopped": "stopped being",
    "more": "more often",
    "less": "less often",
}


def kind_of(before: float, after: float) -> str:
    """Say in a word how a share of time changed.

    Examples
    --------
    >>> kind_of(0.002, 0.3), kind_of(0.2, 0.3), kind_of(0.3, 0.02), kind_of(0.3, 0.002)
    ('began', 'more', 'less', 'stopped')
    """
    if after > before:
        return "began" if before < _NEVER and after > _SEEN else "more"
    return "stopped" if after < _NEVER and before > _SEEN else "less"


def changes_of(
    explanation: Explanation, features: Sequence[Feature], n_episodes: int, n_fits: int = 1
) -> list[Change]:
    """Find the regions in which something changed beyond noise, that of the largest part first.

    Parameters
    ----------
    explanation : Explanation
    features : sequence of Feature
    n_episodes : int
        The smaller number of both policies.
    n_fits : int
        Fits of the background that lie side by side; changes are told of the first.
    """
    e, freedom = explanation, max(n_episodes - 1.0, 1.0)
    share = e.share
    difference, low, high = difference_of_shares(share, e.share_low, e.share_high)
    towards_none = np.where(difference > 0.0, difference - low, high - difference)
    q_value = benjamini_hochberg(p_values(difference, towards_none, freedom, e.level))
    whole = float(e.distance) / n_fits or 1.0
    often = e.kinds[OFTEN].measured if OFTEN in e.kinds else e.regions.measured
    result = []
    for r in e.order[e.order < len(e.words) // n_fits].tolist():
        part = float(e.regions.measured[r]) / whole
        if part < _LEAST:
            break
        time = None
        if not q_value[r] > RATE and abs(difference[r]) >= _LEAST:
            before, after = share[:, r].tolist()
            ends = float(low[r]), float(high[r])
            time = Change(kind_of(before, after), e.words[r], r, part, before, after, *ends)
        moved = _main_shift(e, r, part, features)
        # What most of the part is about comes first.
        inside = float(e.regions.measured[r] - often[r])
        change = (time or moved) if often[r] >= inside else (moved or time)
        if change is not None:
            result.append(change)
    return result


def difference_of_shares(share: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Second less first of shares, (2, R), and from where to where it may lie.

    Ends come from those of both shares, which need not lie evenly about them (Zou and Donner 2008).

    Examples
    --------
    >>> share, low, high = np.array([[[0.1], [0.5]], [[0.1], [0.4]], [[0.3], [0.7]]])
    >>> [end.round(2).item() for end in difference_of_shares(share, low, high)]
    [0.4, 0.18, 0.6]
    """
    difference = share[1] - share[0]
    down, up = share - low, high - share
    return difference, difference - np.hypot(down[1], up[0]), difference + np.hypot(up[1], down[0])


def p_values(difference: Array, half: Array, freedom: float, level: float) -> Array:
    """P-values of differences whose intervals reach so far, towards 0."""
    from scipy.stats import t

    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.abs(difference) * t.ppf((1.0 + level) / 2.0, freedom) / half
    # Without any scatter a difference is a difference, and none is none.
    errors = np.where((half == 0.0) & (difference == 0.0), 0.0, errors)
    return np.asarray(2.0 * t.sf(errors, freedom))


def _main_shift(
    e: Explanation, region: int, part: float, features: Sequence[Feature]
) -> Change | None:
    """Find the feature whose mean within a region moved, if one did beyond noise."""
    columns = [
        (float(e.finest.measured[region, c]), feature)
        for c, (kind, feature) in enumerate(e.columns)
        if kind == WHERE and not e.finest.noise[region, c]
    ]
    for _, j in sorted(columns, reverse=True):
        ends = float(e.shift_low[region, j]), float(e.shift_high[region, j])
        width = float(e.ranges[region, j, 1] - e.ranges[region, j, 0]) / (2.0 * USUAL)
        worth = abs(float(e.shift[region, j])) >= _LEAST_SHIFT * width
        if worth and (ends[0] > 0.0 or ends[1] < 0.0):
            before, after = e.means[:, region, j].tolist()
            named = features[j].name, features[j].unit
            return Change("moved", e.words[region], region, part, before, after, *ends, *named)
    return None
