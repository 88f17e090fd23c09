"""Small environments and policies that make rollouts show what they do."""

from __future__ import annotations

from itertools import count, pairwise

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from pivec.policies import NetworkPolicy


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


class Flaky(Countdown):
    """Every so many resets and steps in a process raise, and all steps of ``doomed`` seeds.

    The environment is broken afterwards.
    """

    resets, steps = count(60), count(60)

    def __init__(self, reset_every=10**9, step_every=10**9, doomed=()):
        self.reset_every, self.step_every, self.doomed = reset_every, step_every, doomed
        self.broken = False

    def reset(self, *, seed=None, options=None):
        self._work(next(self.resets) % self.reset_every == 0)
        self.seed = seed
        return super().reset(seed=seed)

    def step(self, action):
        self._work(next(self.steps) % self.step_every == 0 or self.seed in self.doomed)
        return super().step(action)

    def _work(self, fails):
        self.broken |= fails
        if self.broken:
            raise ConnectionError("the simulator does not answer")


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


class Pixels(Countdown):
    """A white square walks over a dark picture."""

    observation_space = spaces.Box(0, 255, (24, 32, 3), np.uint8)

    def reset(self, *, seed=None, options=None):
        self.column = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.column = (self.column + 3 * int(action)) % 28
        return super().step(action)

    def _see(self):
        picture = np.zeros((24, 32, 3), np.uint8)
        picture[8:16, self.column : self.column + 4] = 255
        return picture


class RoomWithMission(gym.Env):
    """A room seen from above, a direction, and a mission in words, as in MiniGrid."""

    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (7, 7, 3), np.uint8),
            "direction": spaces.Discrete(4),
            "mission": spaces.Text(40),
        }
    )
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.direction, self.left = np.array([3, 3]), 0, 12
        return self._see(), {}

    def step(self, action):
        turn = {0: 1, 1: -1, 2: 0}[int(action)]
        self.direction = (self.direction + turn) % 4
        if turn == 0:
            way = [(0, 1), (1, 0), (0, -1), (-1, 0)][self.direction]
            self.place = np.clip(self.place + way, 0, 6)
        self.left -= 1
        return self._see(), 0.0, False, self.left == 0, {}

    def _see(self):
        image = np.zeros((7, 7, 3), np.uint8)
        image[tuple(self.place)] = 255
        return {"image": image, "direction": self.direction, "mission": "reach the milestone"}


class Telling(Countdown):
    """Tells in info what it does not show; the speed after steps alone."""

    def __init__(self, top=10, gap=-1):
        self.top, self.gap = top, gap

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed)
        return observation, self._tell()

    def step(self, action):
        *outcome, _ = super().step(action)
        info = self._tell() | {"speed": np.array([self.time, 2 * self.time])}
        if self.time == self.gap:
            del info["speed"]
        return *outcome, info

    def _tell(self):
        return {
            "left": {"steps": self.length - self.time},
            "place": [self.top, self.time],
            "t": "x",
        }


def coin(observations, rng):
    return rng.integers(2, size=len(observations))


def network(rng, inputs=4, outputs=2, head="categorical"):
    sizes = [inputs, 64, 64, outputs]  # wide enough for any blocks of a product
    layers = tuple(
        (rng.normal(size=(a, b)).astype(np.float32), rng.normal(size=b).astype(np.float32))
        for a, b in pairwise(sizes)
    )
    log_std = np.zeros(outputs, np.float32) if head == "gaussian" else None
    return NetworkPolicy(layers, activation="tanh", head=head, log_std=log_std)


def same(a, b):
    return (
        np.array_equal(a.states, b.states)
        and np.array_equal(a.episode_starts, b.episode_starts)
        and np.array_equal(a.returns, b.returns)
        and np.array_equal(a.seeds, b.seeds)
    )
