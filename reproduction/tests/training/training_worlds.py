"""Small environments, which the processes of runs can import."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces


class Follow(gymnasium.Env):
    """The reward is minus the squared distance of the action from what is shown."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 10
        return self._show(), {}

    def step(self, action):
        reward = -float((action[0] - self.shown[0]) ** 2)
        self.left -= 1
        return self._show(), reward, self.left == 0, False, {}

    def _show(self):
        self.shown = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.shown


class Switches(Follow):
    """Actions that no population can take."""

    action_space = spaces.MultiBinary(2)


class Nested(Follow):
    """Observations in parts."""

    observation_space = spaces.Dict(
        {"here": spaces.Box(-1.0, 1.0, (1,), np.float32), "mode": spaces.Discrete(2)}
    )

    def _show(self):
        self.shown = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return {"here": self.shown, "mode": 1}


class Broken(Follow):
    """Fails in its first step."""

    def step(self, action):
        raise RuntimeError("out of order")
