"""Trains the demo policies that ship with the package, and exports them as safetensors.

Each run is trained with Stable-Baselines3; its checkpoints are kept as SB3 zips in ``--work`` and
then exported, without the value network, through the package's own loader. Finished runs are
skipped, so a killed script continues where it was.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))


@dataclass(frozen=True)
class Recipe:
    """How one algorithm is trained in one environment, and at which steps it is kept."""

    environment: str
    algorithm: str
    runs: int
    steps: int
    checkpoints: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    first_seed: int = 0  # another for A2C, whose untrained policies would equal those of PPO
    note: str = "settings of the paper"


def linear(value: float) -> Callable[[float], float]:
    """Decay linearly to zero over training (the stars in the paper's table)."""
    return lambda remaining: value * remaining


# The paper's table of training hyperparameters.
RECIPES = (
    Recipe(
        "CartPole-v1",
        "ppo",
        runs=3,
        steps=100_000,
        checkpoints=(0, 1_000, 2_500, 5_000, 10_000, 20_000, 45_000, 100_000),
        settings={
            "n_steps": 32,
            "n_epochs": 20,
            "batch_size": 256,
            "ent_coef": 0.0,
            "clip_range": linear(0.2),
            "clip_range_vf": linear(0.2),
            "learning_rate": linear(1e-3),
            "gae_lambda": 0.8,
            "gamma": 0.98,
        },
    ),
    Recipe(
        "CartPole-v1",
        "a2c",
        runs=3,
        steps=500_000,
        checkpoints=(0, 2_500, 7_500, 20_000, 50_000, 120_000, 250_000, 500_000),
        settings={"n_steps": 5, "ent_coef": 0.0, "learning_rate": 7e-4, "gamma": 0.99},
        first_seed=100,
    ),
    Recipe(
        "Pendulum-v1",
        "ppo",
        runs=2,
        steps=2_000_000,
        checkpoints=(0, 50_000, 150_000, 400_000, 1_000_000, 2_000_000),
        settings={
            "n_steps": 2048,
            "n_epochs": 10,
            "batch_size": 512,
            "ent_coef": 0.0,
            "clip_range": 0.2,
            "clip_range_vf": 0.2,
            "learning_rate": 3e-4,
            "gae_lambda": 0.95,
            "gamma": 0.99,
        },
    ),
    Recipe(
        "Pendulum-v1",
        "a2c",
        runs=2,
        steps=2_000_000,
        checkpoints=(0, 20_000, 80_000, 300_000, 800_000, 2_000_000),
        settings={"n_steps": 5, "ent_coef": 0.0, "learning_rate": 7e-4, "gamma": 0.95},
        first_seed=100,
    ),
)


def train(recipe: Recipe, seed: int, folder: Path) -> None:
    """Train one run and leave its checkpoints in ``folder``, which appears when all are there."""
    import torch
    from stable_baselines3 import A2C, PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)  # the nets are small: more threads only wait for each other
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    due = list(recipe.checkpoints[:-1])

    class Checkpoints(BaseCallback):
        """Keeps the policy between rollouts, when it is as it will act, at the first step due."""

        def _on_rollout_start(self) -> None:
            if due and self.num_timesteps >= due[0]:
                due.pop(0)
                self.model.save(unfinished / f"rl_model_{self.num_timesteps}_steps.zip")

        def _on_step(self) -> bool:
            return True

    environments = make_vec_env(recipe.environment, n_envs=8, seed=seed)
    algorithm = {"ppo": PPO, "a2c": A2C}[recipe.algorithm]
    networks = {"activation_fn": torch.nn.Tanh, "net_arch": {"pi": [64, 64], "vf": [64, 64]}}
    model = algorithm(
        "MlpPolicy",
        environments,
        seed=seed,
        device="cpu",
        policy_kwargs=networks,
        **recipe.settings,
    )
    model.learn(recipe.steps, callback=Checkpoints())
    model.save(unfinished / f"rl_model_{model.num_timesteps}_steps.zip")
    environments.close()
    unfinished.rename(folder)


def export(recipe: Recipe, seed: int, zips: Path, folder: Path) -> None:
    """Write the policy network of every checkpoint in ``zips`` into ``folder``."""
    import gymnasium
    import numpy
    import stable_baselines3
    import torch

    from pivec.policies import load_policies, save_policy

    folder.mkdir(parents=True, exist_ok=True)
    for named in load_policies(zips):
        details = {
            "algorithm": recipe.algorithm.upper(),
            "environment": recipe.environment,
            "seed": seed,
            "step": named.info.step,
            "training": recipe.note,
            "versions": {
                "gymnasium": gymnasium.__version__,
                "numpy": numpy.__version__,
                "stable-baselines3": stable_baselines3.__version__,
                "torch": torch.__version__,
            },
        }
        save_policy(named.policy, folder / f"step_{named.info.step}.safetensors", details)


def main() -> None:
    """Train what is missing, then export what is not exported."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "demo_policies")
    parser.add_argument("--out", type=Path, default=ROOT / "src" / "pivec" / "demo_policies")
    parser.add_argument("--only", default="", help="a part of the run's name, as CartPole-v1/ppo")
    parser.add_argument("--train-only", action="store_true")
    options = parser.parse_args()
    for recipe in RECIPES:
        for run in range(recipe.runs):
            name = f"{recipe.environment}/{recipe.algorithm}-{run}"
            seed = recipe.first_seed + run
            exported = options.out / name
            if options.only not in name:
                continue
            if len(list(exported.glob("step_*.safetensors"))) == len(recipe.checkpoints):
                print(f"{name}: there already")
                continue
            if not (options.work / name).exists():
                begin = time.monotonic()
                train(recipe, seed, options.work / name)
                print(f"{name}: trained in {time.monotonic() - begin:.0f} s", flush=True)
            if not options.train_only:
                export(recipe, seed, options.work / name, exported)
                print(f"{name}: exported", flush=True)


if __name__ == "__main__":
    main()
