"""Writes arrays and a Minari dataset: `pip install gymnasium minari h5py`, then run this file."""

from __future__ import annotations

import os

import gymnasium
import minari
import numpy as np
from files import folder
from minari.data_collector import EpisodeBuffer


def arrays():
    """Steps of a loop around an environment, and the returns that Gymnasium counts."""
    env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))
    env.action_space.seed(0)
    observation, _ = env.reset(seed=0)
    names = ("obs", "actions", "rewards", "terminations", "truncations", "next_obs")
    steps, returns = {name: [] for name in names}, []
    while len(returns) < 5:
        action = env.action_space.sample()
        following, reward, terminated, truncated, info = env.step(action)
        row = (observation, action, reward, terminated, truncated, following)
        for name, value in zip(names, row, strict=True):
            steps[name].append(value)
        observation = following
        if terminated or truncated:
            returns.append(float(info["episode"]["r"]))
            observation, _ = env.reset()
    return {name: np.array(values) for name, values in steps.items()}, returns


def main():
    steps, returns = arrays()
    np.savez(folder("gymnasium-npz", "rollout.npz", {"rollout": returns}) / "rollout.npz", **steps)
    path = folder("gymnasium-npy", "rollout", {"rollout": returns}) / "rollout"
    path.mkdir()
    for name, array in steps.items():
        np.save(path / f"{name}.npy", array)
    ends = np.flatnonzero(steps["terminations"] | steps["truncations"]) + 1
    buffers = [
        EpisodeBuffer(
            id=number,
            observations=np.concatenate([part["obs"], part["next_obs"][-1:]]),
            infos={},
            **{name: part[name] for name in ("actions", "rewards", "terminations", "truncations")},
        )
        for number, part in enumerate(
            {name: np.split(array, ends[:-1])[number] for name, array in steps.items()}
            for number in range(len(ends))
        )
    ]
    place = folder("minari", "cartpole/random-v0", {"cartpole/random-v0": returns})
    os.environ["MINARI_DATASETS_PATH"] = str(place)
    minari.create_dataset_from_buffers("cartpole/random-v0", buffers, env="CartPole-v1")


if __name__ == "__main__":
    main()
