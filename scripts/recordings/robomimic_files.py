"""Writes files as robomimic documents them: `pip install h5py`, then run this file.

robomimic and robosuite write files only from a running simulation (dataset_states_to_obs.py,
gather_demonstrations_as_hdf5), so that this uses h5py for the layout of
https://robomimic.github.io/docs/datasets/overview.html, without the states of the simulator.
"""

from __future__ import annotations

import json

import h5py
import numpy as np
from files import REACH, folder, reaches

FEATURES = [f"{key}[{axis}]" for key, size in REACH.items() for axis in range(size)]
ENVIRONMENT = {"env_name": "Reach", "type": 1, "env_kwargs": {"control_freq": 20}}


def write(path, episodes):
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["total"] = sum(len(episode["reward"]) for episode in episodes)
        data.attrs["env_args"] = json.dumps(ENVIRONMENT)
        for number, episode in enumerate(episodes):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = len(episode["reward"])
            demo["actions"], demo["rewards"] = episode["action"], episode["reward"]
            demo["dones"] = episode["done"].astype(int)
            for key in REACH:
                demo[f"obs/{key}"] = episode[key][:-1]
                demo[f"next_obs/{key}"] = episode[key][1:]
            demo["obs/agentview_image"] = np.zeros((len(episode["reward"]), 8, 8, 3), np.uint8)
        names = np.array([f"demo_{number}" for number in range(len(episodes))], "S")
        file["mask/train"], file["mask/valid"] = names[:-4], names[-4:]


def main():
    sources = ["demos.hdf5", "rollouts.hdf5"]
    made = dict(zip(sources, (reaches(20, 0.005, 0, [7]), reaches(20, 0.05, 1)), strict=True))
    returns, outcomes = {}, {}
    for source, episodes in made.items():
        label = source.removesuffix(".hdf5")
        returns[label] = [float(episode["reward"].sum()) for episode in episodes]
        valid = [float(number >= len(episodes) - 4) for number in range(len(episodes))]
        outcomes[label] = {"mask/valid": valid, "mask/train": [1 - flag for flag in valid]}
    root = folder("robomimic", sources, returns, FEATURES, outcomes, 7)
    for source, episodes in made.items():
        write(root / source, episodes)


if __name__ == "__main__":
    main()
