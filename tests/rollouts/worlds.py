"""Small environments that make rollouts show what they do."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Countdown(gym.Env):
    """The episode's length is drawn at reset; the observation counts its steps."""

    observation_space = spaces.Box(-1e6, 1e6, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length = int(self.np_random.integers(1, 30))
        self.time = 0
        return self._see(), {}

    def step(self, action):
        self.time += 1
        return self._see(), float(action), self.time >= self.length, False, {}

    def _see(self):
        return np.array([self.time, self.length], dtype=np.float32)


class Broken(Countdown):
    """Raises, or shows NaN, in the middle of long episodes."""

    def __init__(self, how="raise"):
        self.how = how

    def step(self, action):
        if self.time == 5 and self.length > 10 and self.how == "raise":
            raise ValueError("the motor fell off")
        result = super().step(action)
        if self.time == 5 and self.length > 10 and self.how == "nan":
            result[0][1] = np.nan
        return result


class Composite(gym.Env):
    """Dict of everything."""

    observation_space = spaces.Dict(
        {
            "where": spaces.Box(0, 9, (2, 2), np.float64),
            "mode": spaces.Discrete(3, start=1),
            "flags": spaces.MultiBinary(2),
            "pair": spaces.Tuple([spaces.MultiDiscrete([2, 3]), spaces.Box(-1, 1, (), np.float32)]),
        }
    )
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.left = 5
        return self.observation_space.sample(), {}

    def step(self, action):
        self.left -= 1
        return self.observation_space.sample(), float(action[0]), False, self.left == 0, {}
