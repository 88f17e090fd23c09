"""What a distance is made of: regions, how often and where, features, each with an interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.distances.parts import Parts
from pivec.results import Result, Row, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
OFTEN, WHERE, WIDE = "how often", "where", "how wide"
_TOLD = 3  # regions that a headline counts


@dataclass(frozen=True, repr=False, eq=False)
class Explanation(Result):
    """The distance of two policies in parts that add up to it.

    R regions, D features. A part has what was ``measured``, an ``estimate`` without what sampling
    adds, its interval, and whether it is ``noise``. Parts in which nothing differs are 0.
    """

    method: str
    labels: tuple[str, str]
    level: float
    distance: float  # as measured, the sum of all parts
    estimate: float  # without what sampling adds, with its interval and p-value, as `intervals`
    low: float
    high: float
    p_value: float
    regions: Parts  # (R,)
    kinds: Mapping[str, Parts]  # "how often", "where" and "how wide", (R,) each
    features: Parts  # (D,), of all regions together; how often has no feature
    finest: Parts  # (R, C)
    columns: tuple[tuple[str, int], ...]  # kind and feature of those, -1 if of none
    share: Array  # (2, R), of time in each region, of both policies, with intervals
    share_low: Array
    share_high: Array
    means: Array  # (2, R, D), of features in each region, NaN where a policy is never there
    shift: Array  # (R, D), from the first policy to the second, with intervals
    shift_low: Array
    shift_high: Array
    averages: Array  # (2, D), of features over all of the time, NaN if not known
    average_shift: Array  # (D,), from the first policy to the second, with intervals
    average_shift_low: Array
    average_shift_high: Array
    ranges: Array  # (R, D, 2), where the region is
    feature_names: tuple[str, ...]
    words: tuple[str, ...]  # that tell the regions

    @property
    def order(self) -> NDArray[np.intp]:
        """The regions, that of the largest part first."""
        return np.argsort(-self.regions.measured, kind="stable")

    def named(self, words: tuple[str, ...], feature_names: tuple[str, ...]) -> Explanation:
        """Tell regions and features in other words."""
        return replace(self, words=words, feature_names=feature_names)

    def headline(self) -> str:
        """Say how far apart the two are, and in how many regions."""
        a, b = self.labels
        sure = f" ({self.low:.3g} to {self.high:.3g})" if np.isfinite(self.low) else ""
        result = f"{a} and {b} are {max(self.estimate, 0.0):.3g} apart{sure}"
        first = self.order[:_TOLD]
        if self.distance <= 0.0 or len(self.words) <= _TOLD:
            return result
        share = self.regions.measured[first].sum() / self.distance
        return f"{result}; {_TOLD} of {len(self.words)} regions make up {100 * share:.0f} % of that"

    def rows(self) -> list[Row]:
        """One row a region, the largest part first."""
        whole = self.distance or 1.0
        return [
            {
                "region": int(r),
                "words": self.words[r],
                "part": float(self.regions.measured[r]),
                "share": float(self.regions.measured[r] / whole),
                "low": float(self.regions.low[r]),
                "high": float(self.regions.high[r]),
                "noise": bool(self.regions.noise[r]),
                **{kind: float(parts.measured[r]) for kind, parts in self.kinds.items()},
                "time_a": float(self.share[0, r]),
                "time_b": float(self.share[1, r]),
                "shift": self.main_shift(int(r)),
            }
            for r in self.order
        ]

    def main_feature(self, region: int) -> int | None:
        """Give the feature with the largest part in a region; None if it has none."""
        parts = [
            (float(self.finest.measured[region, c]), feature)
            for c, (_, feature) in enumerate(self.columns)
            if feature >= 0
        ]
        value, feature = max(parts, default=(0.0, -1))
        return feature if value > 0.0 else None

    def main_shift(self, region: int) -> str:
        """Say how the main feature of a region differs, as "pole angle 0.02 → 0.11"."""
        feature = self.main_feature(region)
        if feature is None or not np.isfinite(self.means[:, region, feature]).all():
            return ""
        before, after = self.means[:, region, feature]
        return f"{self.feature_names[feature]} {before:.3g} → {after:.3g}"

    def to_json(self) -> dict[str, Any]:
        """Give everything as JSON can hold it; what is not known is None."""
        return {name: plain(value) for name, value in vars(self).items()} | {
            "order": self.order.tolist()
        }

    def figure(self) -> Figure:
        """Draw the parts of the leading regions, and the time that both policies spend there."""
        from pivec.characterizations.explanation_figure import explanation_figure

        return explanation_figure(self)
