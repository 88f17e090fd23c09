"""Policies trained for the benchmarks, once, and kept under benchmarks/data/."""

from __future__ import annotations

import sys
from pathlib import Path

DATA = Path(__file__).parent / "data" / "trained"

# Steps of training, and what differs from Stable-Baselines3's defaults (after RL Zoo).
RUNS = {
    "CartPole-v1": (
        100_000,
        {"n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8,
         "learning_rate": 1e-3},
    ),
    "Pendulum-v1": (
        200_000,
        {"n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10, "learning_rate": 1e-3,
         "use_sde": False},
    ),
    "Acrobot-v1": (150_000, {"n_steps": 256, "gae_lambda": 0.94, "n_epochs": 4}),
    "LunarLander-v3": (
        500_000,
        {"n_steps": 1024, "batch_size": 256, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4,
         "ent_coef": 0.01, "learning_rate": 6e-4},
    ),
    "BipedalWalker-v3": (
        400_000,
        {"n_steps": 1024, "batch_size": 256, "gae_lambda": 0.95, "gamma": 0.999, "n_epochs": 6,
         "learning_rate": 5e-4},
    ),
}  # fmt: skip
CHECKPOINTS = 10


def checkpoints(name: str) -> list[str]:
    """Return checkpoints of one PPO run of 64-64 networks, early ones first; train it if needed."""
    folder = DATA / name
    steps, settings = RUNS[name]
    if not (folder / "done").exists():
        import torch
        from stable_baselines3 import PPO
        from stable_baselines3.common.callbacks import CheckpointCallback
        from stable_baselines3.common.env_util import make_vec_env

        torch.set_num_threads(1)
        env = make_vec_env(name, 16, seed=0)
        model = PPO("MlpPolicy", env, seed=0, device="cpu", **settings)
        every = steps // CHECKPOINTS // 16
        model.learn(steps, callback=CheckpointCallback(every, str(folder), name_prefix="ppo"))
        (folder / "done").touch()
    found = sorted(folder.glob("*.zip"), key=lambda path: int(path.stem.split("_")[-2]))
    return [str(path) for path in found]


if __name__ == "__main__":
    for wanted in sys.argv[1:] or RUNS:
        print(wanted, len(checkpoints(wanted)))
