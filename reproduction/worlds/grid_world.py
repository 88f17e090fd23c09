"""The paper's grid world: from the lower left to the upper right, with walls and random actions.

A cell is numbered row × width + column, with row 0 at the bottom; cell 0 is the start and the last
cell the goal. Actions are 0 up, 1 right, 2 down and 3 left. A step into a wall or over the edge
leaves the agent where it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.errors import UsageError
from reproduction.worlds import ArrayVectorEnv, LaneEnv, Lanes, Moved

TIMEOUT = 500
UP, RIGHT, DOWN, LEFT = range(4)
# Column and row that each action adds.
MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])

Cells = NDArray[np.int64]


@checked
def wall_mask(width: Count, height: Count, walls: Iterable[Iterable[int]]) -> NDArray[np.bool_]:
    """Which cells are walls, shape (height, width), from pairs (column, row)."""
    mask = np.zeros((height, width), dtype=bool)
    for wall in walls:
        pair = np.array(wall)
        outside = pair.shape != (2,) or pair.dtype.kind not in "iu"
        if outside or not ((pair >= 0) & (pair < (width, height))).all():
            raise UsageError(
                f"walls must be pairs (column, row) inside of {width} × {height} cells, counted "
                f"from 0 at the lower left, but one is {wall!r}"
            )
        mask[pair[1], pair[0]] = True
    if mask[0, 0] or mask[-1, -1]:
        raise UsageError(
            "the start at the lower left and the goal at the upper right must be free, but a wall "
            "stands there: leave it out of walls"
        )
    return mask


def next_cells(walls: NDArray[np.bool_]) -> Cells:
    """The cell that each action leads to from each cell, (n_cells, 4); walls (height, width)."""
    height, width = walls.shape
    rows, columns = np.divmod(np.arange(walls.size), width)
    to_columns = np.clip(columns[:, None] + MOVES[:, 0], 0, width - 1)
    to_rows = np.clip(rows[:, None] + MOVES[:, 1], 0, height - 1)
    blocked = walls[to_rows, to_columns]
    return np.where(blocked, np.arange(walls.size)[:, None], to_rows * width + to_columns)


def disturbed(actions: Cells, noise: NDArray[np.float64], probability: float) -> Cells:
    """Replace actions by random ones where ``noise`` (uniform) is below ``probability``."""
    if probability == 0.0:
        return actions
    drawn = np.minimum(4 * noise / probability, 3).astype(np.int64)
    return np.where(noise < probability, drawn, actions)


def picture(walls: NDArray[np.bool_], cell: int, pixels: int = 48) -> NDArray[np.uint8]:
    """Draw the world and the agent in ``cell``, shape (height × pixels, width × pixels, 3)."""
    height, width = walls.shape
    colours = np.full((height, width, 3), (255, 255, 255), dtype=np.uint8)
    colours[walls] = (89, 99, 110)
    colours[-1, -1] = (198, 233, 205)  # the goal
    tiles = colours[::-1].repeat(pixels, axis=0).repeat(pixels, axis=1)
    for edge in range(0, height * pixels, pixels):
        tiles[edge] = (209, 217, 224)
    for edge in range(0, width * pixels, pixels):
        tiles[:, edge] = (209, 217, 224)
    row, column = divmod(cell, width)
    y, x = np.ogrid[: height * pixels, : width * pixels]
    middle = (height - row - 0.5) * pixels, (column + 0.5) * pixels
    disc = (y + 0.5 - middle[0]) ** 2 + (x + 0.5 - middle[1]) ** 2 <= (0.3 * pixels) ** 2
    tiles[disc] = (0, 114, 178)
    return tiles


class GridWorldVectorEnv(ArrayVectorEnv):
    """Many agents in worlds alike, with the arguments of `GridWorldEnv`."""

    metadata = {**ArrayVectorEnv.metadata, "render_fps": 8}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        width: int = 5,
        height: int = 5,
        walls: Iterable[Iterable[int]] = (),
        random_action: float = 0.0,
        max_episode_steps: int = TIMEOUT,
        render_mode: str | None = None,
    ) -> None:
        if not 0 <= random_action <= 1:
            raise UsageError(
                f"random_action must be a probability from 0 to 1, but is {random_action!r}"
            )
        self.walls, self.random_action = wall_mask(width, height, walls), float(random_action)
        corner = np.array([width - 1, height - 1], np.float32)
        places = spaces.Box(np.zeros(2, np.float32), corner, dtype=np.float32)
        super().__init__(num_envs, places, spaces.Discrete(4), max_episode_steps, render_mode)
        self._table = next_cells(self.walls)
        rows, columns = np.divmod(np.arange(self.walls.size), width)
        self._coordinates = np.stack([columns, rows], axis=1).astype(np.float32)
        self._cells, self._taken = np.zeros((2, num_envs), dtype=np.int64)

    def start_episodes(self, lanes: Lanes) -> None:
        """Put agents at the lower left."""
        self._cells[lanes] = self._taken[lanes] = 0

    def move(self, lanes: Lanes, actions: NDArray[Any]) -> Moved:
        """Take an action in each of ``lanes``, or a random one instead."""
        if self.random_action:
            actions = disturbed(actions, self.random(lanes)[:, 0], self.random_action)
        self._cells[lanes] = self._table[self._cells[lanes], actions]
        self._taken[lanes] += 1
        done = self._cells[lanes] == len(self._table) - 1
        return np.where(done, np.maximum(1 - self._taken[lanes] / TIMEOUT, 0.0), 0.0), done

    def observe(self, lanes: Lanes) -> NDArray[np.float32]:
        """Give the coordinates of agents."""
        return self._coordinates[self._cells[lanes]]

    def picture(self, lane: int) -> NDArray[np.uint8]:
        """Draw the world and one agent."""
        return picture(self.walls, int(self._cells[lane]))


class GridWorldEnv(LaneEnv):
    """The grid world as a Gymnasium environment: `gymnasium.make("pivec/GridWorld-v0")`.

    Observations are the coordinates (column, row), not the number of the cell: a number would be
    kept as one feature for each cell, 0 or 1, which says nothing of what is near what, and which
    Gaussians describe badly. Reaching the goal ends the episode with the only reward, 1 − steps /
    500; registered, an episode has at most 500 steps.

    There are ``width`` columns and ``height`` rows; ``walls`` are pairs (column, row) of cells that
    cannot be entered, and ``random_action`` is the probability that one of the four actions, each
    as likely, replaces the one taken. The ``render_mode`` may be ``rgb_array``.
    """

    vectorised = GridWorldVectorEnv
    metadata = GridWorldVectorEnv.metadata
