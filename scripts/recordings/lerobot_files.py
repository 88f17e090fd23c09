"""Writes datasets with LeRobot, with videos: `pip install lerobot`, then run this file."""

from __future__ import annotations

import numpy as np
from files import REACH, folder, reaches
from lerobot.datasets.lerobot_dataset import CODEBASE_VERSION, LeRobotDataset

FEATURES = [f"{key}_{axis}" for key, size in REACH.items() for axis in range(size)]
CAMERA, SIZE, ODD = "observation.images.top", 64, 7


def picture(row):
    """The hand and the object from above."""
    image = np.full((SIZE, SIZE, 3), 230, np.uint8)
    for key, colour in (("object", (30, 160, 60)), ("robot0_eef_pos", (40, 60, 200))):
        x, y = (SIZE / 2 + 50 * row[key][:2]).astype(int).clip(3, SIZE - 4)
        image[y - 3 : y + 4, x - 3 : x + 4] = colour
    return image


def write(root, name, episodes):
    """Write a dataset and return the returns and successes that LeRobot reads from it."""
    one = {"shape": (1,), "names": None}
    features = {
        "observation.state": {"dtype": "float32", "shape": (len(FEATURES),), "names": FEATURES},
        "action": {"dtype": "float32", "shape": (3,), "names": ["dx", "dy", "dz"]},
        "next.reward": {"dtype": "float32", **one},
        "next.success": {"dtype": "bool", **one},
        CAMERA: {
            "dtype": "video",
            "shape": (SIZE, SIZE, 3),
            "names": ["height", "width", "channels"],
        },
    }
    dataset = LeRobotDataset.create(f"newcomer/{name}", 20, features, root / name)
    is_old = CODEBASE_VERSION.startswith("v2")
    for episode in episodes:
        for step in range(len(episode["reward"])):
            row = {key: values[step] for key, values in episode.items()}
            frame = {
                "observation.state": np.hstack([row[key] for key in REACH]).astype(np.float32),
                "action": row["action"].astype(np.float32),
                "next.reward": np.float32([row["reward"]]),
                "next.success": np.array([row["reward"] > 0]),
                CAMERA: picture(row),
            }
            if is_old:
                dataset.add_frame(frame, "reach")
            else:
                dataset.add_frame(frame | {"task": "reach"})
        dataset.save_episode()
    if not is_old:
        dataset.finalize()
    rows = LeRobotDataset(f"newcomer/{name}", root / name).hf_dataset.with_format("numpy")
    number, reward = (np.ravel(rows[key]) for key in ("episode_index", "next.reward"))
    success = np.ravel(rows["next.success"])
    own = [number == episode for episode in range(number.max() + 1)]
    return [float(reward[rows].sum()) for rows in own], [float(success[rows].any()) for rows in own]


def main():
    name, sources = f"lerobot-{CODEBASE_VERSION}", ["demos", "rollouts"]
    root = folder(name, sources, {})
    made = (reaches(20, 0.005, 0, [ODD]), reaches(20, 0.05, 1))
    found = dict(zip(sources, map(write, (root, root), sources, made), strict=True))
    returns = {label: both[0] for label, both in found.items()}
    outcomes = {
        label: {"success": both[1], "task": ["reach"] * len(both[1])}
        for label, both in found.items()
    }
    folder(name, sources, returns, FEATURES, outcomes, ODD)


if __name__ == "__main__":
    main()
