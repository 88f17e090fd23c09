"""The paper's dangerous path: in each place one action is right, some are mines, some do nothing.

The grid has N dimensions, and action i leads one step up axis i where that is right; so locations
are numbered by how far along the path they lie, from 0 at the start. A mine throws the agent back
to the start, from where it goes on without reward until it is farther than it was before.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pivec.arguments import Count, Range, Seed, checked
from reproduction.worlds import ArrayVectorEnv, LaneEnv, Lanes, Moved

MINE, NOTHING, RIGHT = -1, 0, 1

Outcomes = NDArray[np.int64]
Share = Annotated[float, Range(0, most=1)]


@checked
def draw_outcomes(n_dimensions: Count, length: Count, mines: Share, path_seed: Seed) -> Outcomes:
    """Draw what each action does at each location: `RIGHT`, `MINE` or `NOTHING`.

    Gives (length, n_dimensions): so many right actions lead from the start to the end, and there
    is an action for each axis of the grid. ``mines`` is the share of the wrong actions of each
    location that are mines, rounded to whole actions.
    """
    rng = np.random.default_rng(path_seed)
    n_mines = round(mines * (n_dimensions - 1))
    kinds = np.full(n_dimensions, NOTHING)
    kinds[0], kinds[1 : 1 + n_mines] = RIGHT, MINE
    return rng.permuted(np.tile(kinds, (length, 1)), axis=1)


def locations(outcomes: Outcomes) -> NDArray[np.float32]:
    """Coordinates of every location of the path, its end included: (length + 1, n_dimensions)."""
    steps = (outcomes == RIGHT).cumsum(axis=0)
    return np.concatenate([np.zeros_like(steps[:1]), steps]).astype(np.float32)


def advance(
    outcomes: Outcomes, places: NDArray[np.int64], best: NDArray[np.int64], actions: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """One step of many agents: their new places, the farthest of the episode, and rewards."""
    outcome = outcomes[places, actions]
    after = np.where(outcome == MINE, 0, places + (outcome == RIGHT))
    return after, np.maximum(best, after), (after > best).astype(np.float64)


def picture(outcomes: Outcomes, place: int, best: int, pixels: int = 24) -> NDArray[np.uint8]:
    """Draw the path: a column for each location, a row for each action, the agent below."""
    length, n_actions = outcomes.shape
    colours = np.full((n_actions + 1, length + 1, 3), 255, dtype=np.uint8)
    shown = colours[:n_actions, :length]
    shown[:] = (225, 228, 232)
    shown[outcomes.T == RIGHT] = (0, 158, 115)
    shown[outcomes.T == MINE] = (213, 94, 0)
    tiles = colours.repeat(pixels, axis=0).repeat(pixels, axis=1)
    for row in range(0, n_actions * pixels, pixels):
        tiles[row] = 255
    for column in range(0, tiles.shape[1], pixels):
        tiles[:, column] = 255
    middle = (n_actions + 0.5) * pixels
    thin = slice(int(middle - 0.1 * pixels), int(middle + 0.1 * pixels) + 1)
    tiles[thin, pixels // 2 : best * pixels + pixels // 2 + 1] = (86, 180, 233)
    y, x = np.ogrid[: tiles.shape[0], : tiles.shape[1]]
    disc = (y + 0.5 - middle) ** 2 + (x + 0.5 - (place + 0.5) * pixels) ** 2
    tiles[disc <= (0.35 * pixels) ** 2] = (0, 60, 120)
    return tiles


class DangerousPathVectorEnv(ArrayVectorEnv):
    """Many agents on one path, with the arguments of `DangerousPathEnv`."""

    metadata = {**ArrayVectorEnv.metadata, "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        n_dimensions: int = 5,
        length: int = 25,
        mines: float = 0.5,
        path_seed: int = 0,
        max_episode_steps: int = 25,
        render_mode: str | None = None,
    ) -> None:
        self.outcomes = draw_outcomes(n_dimensions, length, mines, path_seed)
        self.locations = locations(self.outcomes)
        places = spaces.Box(0.0, float(length), (n_dimensions,), np.float32)
        directions = spaces.Discrete(n_dimensions)
        super().__init__(num_envs, places, directions, max_episode_steps, render_mode)
        self._places, self._best = np.zeros((2, num_envs), dtype=np.int64)

    def start_episodes(self, lanes: Lanes) -> None:
        """Put agents at the start."""
        self._places[lanes] = self._best[lanes] = 0

    def move(self, lanes: Lanes, actions: NDArray[Any]) -> Moved:
        """Take an action in each of ``lanes``."""
        self._places[lanes], self._best[lanes], rewards = advance(
            self.outcomes, self._places[lanes], self._best[lanes], actions
        )
        return rewards, self._places[lanes] == len(self.outcomes)

    def observe(self, lanes: Lanes) -> NDArray[np.float32]:
        """Give the coordinates of agents."""
        return self.locations[self._places[lanes]]

    def picture(self, lane: int) -> NDArray[np.uint8]:
        """Draw the path and one agent."""
        return picture(self.outcomes, int(self._places[lane]), int(self._best[lane]))


class DangerousPathEnv(LaneEnv):
    """The path as a Gymnasium environment: `gymnasium.make("pivec/DangerousPath-v0")`.

    Observations are the coordinates. Reaching the end of the path ends the episode; registered,
    an episode has at most 25 steps.

    The path follows from the arguments of `draw_outcomes` alone: `reset` and its seed leave it as
    it is. The ``render_mode`` may be ``rgb_array``.
    """

    lanes: DangerousPathVectorEnv
    vectorised = DangerousPathVectorEnv
    metadata = DangerousPathVectorEnv.metadata

    @property
    def outcomes(self) -> Outcomes:
        """What each action does at each location, (length, n_dimensions)."""
        return self.lanes.outcomes
