"""Change: one description of a run, and how far it is from others, as numbers and as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Change(NamedTuple):
    """One description of a run, and how far it is from others; NaN where there is no other.

    What sampling adds to distances is taken off: where behaviour does not change they are 0 on
    average, so some are a little below. Intervals hold what is true in 95 of 100 cases.
    """

    label: str
    step: int | None  # of training
    to_previous: float
    to_first: float
    to_expert: float
    path_length: float  # sum of the distances from each description to the next, up to here
    noise: float  # what sampling had added to to_previous
    standard_error: float  # of to_previous
    previous_interval: tuple[float, float]
    first_interval: tuple[float, float]
    expert_interval: tuple[float, float]
    path_interval: tuple[float, float]
    position: tuple[float, float]  # on the map of the space, which does not move
    mean_return: float
    n_episodes: int
    n_states: int

    def values(self) -> dict[str, float]:
        """What to log of it, by name; what is not known is left out."""
        values: dict[str, float] = {
            "noise": self.noise,
            "map_x": self.position[0],
            "map_y": self.position[1],
            "mean_return": self.mean_return,
            "episodes": self.n_episodes,
        }
        for name, value, (low, high) in (
            ("distance_to_previous", self.to_previous, self.previous_interval),
            ("distance_to_first", self.to_first, self.first_interval),
            ("distance_to_expert", self.to_expert, self.expert_interval),
            ("path_length", self.path_length, self.path_interval),
        ):
            values |= {name: value, f"{name}_low": low, f"{name}_high": high}
        return {f"behaviour/{k}": value for k, value in values.items() if not math.isnan(value)}


def way_figure(changes: Sequence[Change], title: str) -> Figure:
    """Draw the way of a run on its map, in a small figure."""
    from pivec.report.data import PolicyRow
    from pivec.report.sections.map import map_figure

    rows = [
        PolicyRow(
            label=change.label,
            group="run",
            step=change.step,
            x=change.position[0],
            y=change.position[1],
            mean_return=change.mean_return,
            episodes=change.n_episodes,
            states=change.n_states,
            source="",
        )
        for change in changes
    ]
    return map_figure(rows, title, colour="return" if changes[0].step is None else "step")
