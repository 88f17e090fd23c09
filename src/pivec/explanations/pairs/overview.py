"""What differs in a whole comparison: notable pairs, and the policy in the middle of behaviours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pivec.explanations.pairs.difference import Clip, Difference, shown_clip
from pivec.results import Result, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Overview(Result):
    """Notable pairs of a comparison, each with what differs, and behaviours to watch."""

    differences: Sequence[tuple[str, Difference]]  # with what makes the pair notable
    behaviours: Sequence[Clip] = ()  # of the policy in the middle of each, largest first
    notes: Sequence[str] = ()

    @property
    def environment(self) -> str:
        """Where the policies act."""
        return self.differences[0][1].environment

    def headline(self) -> str:
        """Say how far apart the pairs are."""
        return "; ".join(f"{title}: {pair.headline()}" for title, pair in self.differences)

    def rows(self) -> list[Row]:
        """Give the rows of all pairs, with what makes them notable."""
        return [
            {"pair": title, "policy": pair.labels[0], "other": pair.labels[1]} | row
            for title, pair in self.differences
            for row in pair.rows()
        ]

    def figure(self) -> Figure:
        """Draw the parts of the last pair, the farthest."""
        return self.differences[-1][1].figure()

    def to_json(self) -> dict[str, Any]:
        """Give all numbers as plain values; NaN is None."""
        return {
            "pairs": [{"pair": title} | pair.to_json() for title, pair in self.differences],
            "behaviours": [shown_clip(clip) for clip in self.behaviours],
            "notes": list(self.notes),
        }
