"""Environments that draw, or fail to, for the tests of frames and clips."""

from __future__ import annotations

import os

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Walk(gym.Env):
    """A point on a line of eight; its picture is as wide as the line, a square is where it is."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = spaces.Box(-9, 9, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, how="draw", render_mode=None):
        self.how, self.render_mode = how, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = int(self.np_random.integers(8)), 0
        return self._see(), {}

    def step(self, action):
        self.place, self.time = (self.place + 2 * int(action) - 1) % 8, self.time + 1
        return self._see(), 1.0, self.time == 12, False, {}

    def render(self):
        if self.how == "raise" and self.time >= 3:
            raise ValueError("the screen fell off")
        if self.how == "die" and self.time >= 3:
            os._exit(3)
        if self.how == "none":
            return None
        picture = np.zeros((16, 64, 3), np.uint8)
        picture[:, 8 * self.place : 8 * self.place + 8] = 255
        return picture

    def _see(self):
        return np.array([self.place, self.time], np.float32)


class Seen(Walk):
    """The walk, of which the picture is observed."""

    observation_space = spaces.Box(0, 255, (16, 64, 3), np.uint8)

    def _see(self):
        return Walk.render(self)


class Far(Walk):
    """The walk, far from zero."""

    observation_space = spaces.Box(-1e12, 1e12, (2,), np.float64)

    def _see(self):
        return np.array([1e9 + self.place, self.time])


def make_seen(render_mode=None):
    return Seen(render_mode=render_mode)


def make_far(render_mode=None):
    return Far(render_mode=render_mode)


def make_walk(render_mode=None):
    return Walk(render_mode=render_mode)


def make_blind():
    return Walk()


class Dying(Walk):
    """Ends its process in the third step of episodes that begin in the left half."""

    def render(self):
        self.how = "die" if self.start < 4 else "draw"
        return super().render()

    def reset(self, *, seed=None, options=None):
        shown = super().reset(seed=seed)
        self.start = self.place
        return shown


def make_dying(render_mode=None):
    return Dying(render_mode=render_mode)


def make_raising(render_mode=None):
    return Walk("raise", render_mode)


def make_undrawn(render_mode=None):
    return Walk("none", render_mode)


def halved(observations):
    return np.asarray(observations) / 2


def doubled(observations):
    return np.asarray(observations) * 2
