"""Tiny games of several agents, parallel and turn by turn."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv


class Chase(ParallelEnv):
    """Agents on a line step left or right; a hunter and preys. A prey that is met leaves."""

    metadata: ClassVar = {"name": "chase", "render_modes": ["rgb_array"], "render_fps": 5}

    def __init__(self, preys=2, steps=12, render_mode=None):
        self.possible_agents = ["hunter", *(f"prey_{i}" for i in range(preys))]
        self.agents, self.steps, self.render_mode = list(self.possible_agents), steps, render_mode

    def observation_space(self, agent):
        return spaces.Box(-99, 99, (2,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.agents, self.time = list(self.possible_agents), 0
        self.at = {agent: int(self.rng.integers(-8, 9)) for agent in self.agents}
        self.at["hunter"] = 12
        return self._see(), {agent: {"at": self.at[agent]} for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.time += 1
        for agent, action in actions.items():
            self.at[agent] += (2 if agent == "hunter" else 1) * (1 if action else -1)
        met = {a: a != "hunter" and abs(self.at[a] - self.at["hunter"]) < 2 for a in self.agents}
        rewards = {a: float(-met[a]) for a in self.agents} | {"hunter": float(sum(met.values()))}
        cut = dict.fromkeys(self.agents, self.time >= self.steps)
        infos = {agent: {"at": self.at[agent], "met": met[agent]} for agent in self.agents}
        result = self._see(), rewards, met, cut, infos
        self.agents = [a for a in self.agents if not met[a] and not cut[a]]
        return result

    def state(self):
        return np.array(list(self.at.values()), np.float32)

    def render(self):
        picture = np.zeros((16, 128, 3), np.uint8)
        for agent in self.agents:
            picture[:, np.clip(64 + 2 * self.at[agent], 0, 126)] = 255
        return picture

    def _see(self):
        return {
            agent: np.array([self.at[agent], self.at["hunter"]], np.float32)
            for agent in self.agents
        }


class Nim(AECEnv):
    """Two take 1 to 3 of a heap in turn, who takes the last wins; no more than there are."""

    metadata: ClassVar = {"name": "nim", "is_parallelizable": False, "render_modes": ["rgb_array"]}

    def __init__(self, heap=9, in_info=False, render_mode=None):
        super().__init__()
        self.possible_agents = ["first", "second"]
        self.heap, self.in_info, self.render_mode = heap, in_info, render_mode

    def observation_space(self, agent):
        heap = spaces.Box(0, 99, (2,), np.float32)
        mask = spaces.MultiBinary(3)
        return heap if self.in_info else spaces.Dict({"observation": heap, "action_mask": mask})

    def action_space(self, agent):
        return spaces.Discrete(3)

    def observe(self, agent):
        shown = np.array([self.left, agent == "second"], np.float32)
        return shown if self.in_info else {"observation": shown, "action_mask": self._mask()}

    def _mask(self):
        return (np.arange(1, 4) <= self.left).astype(np.int8)

    def reset(self, seed=None, options=None):
        self.left = self.heap + int(np.random.default_rng(seed).integers(3))
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {"action_mask": self._mask()} for agent in self.agents}
        self.agent_selection = "first"

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        if action + 1 > self.left:
            raise ValueError(f"{action + 1} of {self.left}")
        other = "second" if agent == "first" else "first"
        self._cumulative_rewards[agent] = 0
        self.left -= action + 1
        self._clear_rewards()
        if not self.left:
            self.rewards = {agent: 1.0, other: -1.0}
            self.terminations = dict.fromkeys(self.agents, True)
        self.infos = {agent: {"action_mask": self._mask()} for agent in self.agents}
        self.agent_selection = other
        self._accumulate_rewards()


class Mixed(Chase):
    """The hunter has more to choose from."""

    def action_space(self, agent):
        return spaces.Discrete(3 if agent == "hunter" else 2)


parallel_env, env = Chase, Nim
