"""Writes the rollout buffer of SB3: `pip install stable-baselines3`, then run this file."""

from __future__ import annotations

import gymnasium
import numpy as np
from files import folder
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor


def main():
    env = Monitor(gymnasium.make("CartPole-v1"))
    model = PPO("MlpPolicy", env, n_steps=256, seed=0)
    model.learn(256)
    buffer = model.rollout_buffer
    names = ("observations", "actions", "rewards", "episode_starts")
    # The last episode goes on after the buffer is full.
    returns = [*env.get_episode_rewards()]
    returns.append(float(buffer.rewards.sum() - sum(returns)))
    path = folder("sb3-buffer", "buffer.npz", {"buffer": returns})
    np.savez(path / "buffer.npz", **{name: getattr(buffer, name) for name in names})


if __name__ == "__main__":
    main()
