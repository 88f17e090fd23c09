"""The three grid worlds of the paper's Figure 1, each with its two policies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reproduction.gridworld.world import DOWN, LEFT, RIGHT, UP, next_cells, wall_mask

SIZE = 5


@dataclass(frozen=True, eq=False)
class Scenario:
    """Walls and two deterministic policies, blue and green."""

    name: str
    title: str
    remark: str
    walls: NDArray[np.bool_]  # (5, 5), by row from the bottom, then column
    blue: NDArray[np.int64]  # actions, (5, 5); those in walls and in the goal are never asked for
    green: NDArray[np.int64]

    @property
    def acting(self) -> NDArray[np.bool_]:
        """Cells in which a policy may have to act: all but walls and the goal, (5, 5)."""
        free = ~self.walls
        free[-1, -1] = False
        return free

    @property
    def reachable(self) -> NDArray[np.bool_]:
        """Cells that some actions lead to from the start, (5, 5)."""
        table = next_cells(self.walls)
        reached = np.zeros(self.walls.size, dtype=bool)
        reached[0] = True
        for _ in range(self.walls.size):
            reached[table[reached]] = True
        return reached.reshape(self.walls.shape)

    @property
    def action_distance(self) -> float:
        """Distance of the policies by actions: the sum of |π − π̂| over `acting` and actions.

        Deterministic policies differ by 2 in a cell: one action has probability 1 and 0, another
        0 and 1. Random actions belong to the world and do not enter.
        """
        return 2.0 * int((self.blue != self.green)[self.acting].sum())

    @property
    def most_actions(self) -> float:
        """The largest distance by actions that there can be in this world."""
        return 2.0 * int(self.acting.sum())


def scenarios() -> tuple[Scenario, Scenario, Scenario]:
    """Make the scenarios distinct, doorway and unreachable."""
    return _distinct(), _doorway(), _unreachable()


def _distinct() -> Scenario:
    """Up and then right against right and then up."""
    blue, green = np.full((SIZE, SIZE), UP), np.full((SIZE, SIZE), RIGHT)
    blue[-1], green[:, -1] = RIGHT, UP
    walls = wall_mask(SIZE, SIZE, ())
    return Scenario("distinct", "Distinct ways", "two ways, equally short", walls, blue, green)


def _doorway() -> Scenario:
    """One policy goes through the door; the other turns round in the cell before it."""
    walls = wall_mask(SIZE, SIZE, [(2, row) for row in (0, 1, 3, 4)])
    blue = np.full((SIZE, SIZE), UP)
    blue[2, :3] = RIGHT  # along the row of the door, and through it
    blue[3:, :2] = DOWN  # back to that row from above
    blue[-1, 3] = RIGHT
    green = blue.copy()
    green[2, 1] = LEFT
    return Scenario("doorway", "Doorway", "one cell differs", walls, blue, green)


def _unreachable() -> Scenario:
    """Walls leave one way; the policies differ only in the cells behind them."""
    walls = wall_mask(SIZE, SIZE, [(1, row) for row in range(3)] + [(c, 3) for c in range(1, SIZE)])
    blue = np.full((SIZE, SIZE), UP)
    blue[-1] = RIGHT
    green = blue.copy()
    green[:3, 2:] = DOWN
    title = "Unreachable cells"
    return Scenario("unreachable", title, "nine cells differ, all unreachable", walls, blue, green)
