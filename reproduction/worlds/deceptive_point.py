"""A point that is rewarded for going up, and starts below a pocket in which straight up ends.

The walls lie on a grid of 25 x 25 cells over [-1, 1]², row 0 at the bottom: a bar along row 10 from
column 3 to 21, and two bars down from its ends to row 1. The pocket is open at the bottom, where
the point starts: the way around leads under one of the bars. Beyond the square there is nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from reproduction.worlds import ArrayVectorEnv, LaneEnv, Lanes

Float = NDArray[np.float64]

START = (0.0, -0.9)
STEP = 0.05
CELLS = 25
STEPS = 100  # of an episode

WALLS = np.zeros((CELLS, CELLS), dtype=bool)  # row (y), column (x)
WALLS[10, 3:22] = True
WALLS[1:11, [3, 21]] = True
WALLS.flags.writeable = False

# A point on the border of two cells is in the upper one, also where sums of 0.05 come out a little
# below it: straight up from the start, the fourteenth step reaches the bar at y = -0.2.
_ROUNDING = 1e-9


def inside_walls(positions: Float) -> NDArray[np.bool_]:
    """Tell which of ``positions`` (n, 2) are in a wall."""
    cells = np.floor((positions + 1) * (CELLS / 2) + _ROUNDING).astype(np.int64)
    known: NDArray[np.bool_] = np.all((cells >= 0) & (cells < CELLS), axis=1)
    column, row = np.where(known[:, None], cells, 0).T
    hit: NDArray[np.bool_] = WALLS[row, column] & known
    return hit


def moved(positions: Float, actions: NDArray[Any]) -> Float:
    """Move each of ``positions`` (n, 2) a step; a step into a wall is undone.

    ``actions`` (n,) in [-1, 1] are angles from 0 (to the right) over π (to the left) to 2π.
    """
    angles = (np.clip(actions.astype(np.float64), -1, 1) + 1) * np.pi
    new = positions + STEP * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.where(inside_walls(new)[:, None], positions, new)


class DeceptivePointVectorEnv(ArrayVectorEnv):
    """Many `DeceptivePointEnv` on arrays."""

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int = STEPS,
        render_mode: str | None = None,
    ) -> None:
        # Nothing bounds the plane, but 100 steps lead no farther than 5 from the start.
        plane, angle = spaces.Box(-6, 6, (2,), np.float32), spaces.Box(-1, 1, (1,), np.float32)
        super().__init__(num_envs, plane, angle, max_episode_steps, render_mode)
        self._positions = np.tile(START, (num_envs, 1))
        self._ways: list[list[Float]] = [[] for _ in range(num_envs)]  # only to be drawn

    def start_episodes(self, lanes: Lanes) -> None:
        """Go to the start."""
        self._positions[lanes] = START
        self._remember(lanes, anew=True)

    def move(self, lanes: Lanes, actions: NDArray[Any]) -> tuple[Float, NDArray[np.bool_]]:
        """Take a step; it never terminates."""
        old = self._positions[lanes]
        new = moved(old, actions[:, 0])
        self._positions[lanes] = new
        self._remember(lanes)
        return new[:, 1] - old[:, 1], np.zeros(len(lanes), bool)

    def observe(self, lanes: Lanes) -> NDArray[Any]:
        """Give the positions."""
        return self._positions[lanes].astype(np.float32)

    def picture(self, lane: int) -> NDArray[np.uint8]:
        """Draw the walls and the way so far."""
        return drawn(np.array(self._ways[lane]))

    def _remember(self, lanes: Lanes, anew: bool = False) -> None:
        if self.render_mode is None:
            return
        for lane in lanes.tolist():
            if anew:
                self._ways[lane] = []
            self._ways[lane].append(self._positions[lane].copy())


class DeceptivePointEnv(LaneEnv):
    """A point in the plane that is rewarded for going up, y_new - y_old a step.

    Straight up ends in the pocket, with a return of 0.65; no policy that stays in it has more than
    0.70, where the bar begins. Around it leads a way of 4.17 (the paper's policies found 3.7). An
    observation is the position (x, y), an action one number in [-1, 1] for the direction, see
    `moved`. An episode has 100 steps, and always the same start. With the ``render_mode``
    ``rgb_array``, `render` draws the walls and the way so far.
    """

    vectorised = DeceptivePointVectorEnv


# The picture: what is seen of the plane (left, right, bottom, top), pixels a unit, colours.
_VIEW, _PIXELS = (-1.5, 1.5, -1.5, 3.5), 80
_GROUND, _SQUARE, _WALL = (250, 250, 247), (238, 238, 232), (60, 64, 72)
_FIRST, _LAST, _POINT = (158, 202, 225), (8, 81, 156), (214, 39, 40)


def drawn(way: Float) -> NDArray[np.uint8]:
    """Draw walls and a way (n, 2), its latest place red; places out of sight are at the edge."""
    left, right, bottom, top = _VIEW
    height, width = round((top - bottom) * _PIXELS), round((right - left) * _PIXELS)
    x = left + (np.arange(width) + 0.5) / _PIXELS
    y = top - (np.arange(height) + 0.5) / _PIXELS
    image = np.full((height, width, 3), _GROUND, np.uint8)
    image[np.ix_(abs(y) < 1, abs(x) < 1)] = _SQUARE
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    image[inside_walls(points).reshape(height, width)] = _WALL
    margin = 0.05
    ages = np.linspace(0, 1, len(way))[:, None]
    colours = np.rint((1 - ages) * _FIRST + ages * _LAST)
    places = np.clip(way, (left + margin, bottom + margin), (right - margin, top - margin))
    for i, place in enumerate(places):
        last = i == len(places) - 1
        radius = 0.045 if last else 0.02
        near = (x - place[0]) ** 2 + (y[:, None] - place[1]) ** 2 < radius**2
        image[near] = _POINT if last else colours[i]
    return image
