"""Trains the demo policies that ship with the package, and copies their checkpoints.

The settings are those of `reproduction.training`; checkpoints are closer together where a policy
changes fast. Finished runs are skipped, and a killed script continues where it was.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))


@dataclass(frozen=True)
class Recipe:
    """An algorithm in an environment: how many runs, and at which steps they are kept."""

    environment: str
    algorithm: str
    runs: int
    checkpoints: tuple[int, ...]
    first_seed: int = 0  # another for A2C, whose untrained policies would equal those of PPO


RECIPES = (
    Recipe("CartPole-v1", "ppo", 3, (0, 1_000, 2_500, 5_000, 10_000, 20_000, 45_000, 100_000)),
    Recipe(
        "CartPole-v1",
        "a2c",
        3,
        (0, 2_500, 7_500, 20_000, 50_000, 120_000, 250_000, 500_000),
        first_seed=100,
    ),
    Recipe("Pendulum-v1", "ppo", 2, (0, 50_000, 150_000, 400_000, 1_000_000, 2_000_000)),
    Recipe(
        "Pendulum-v1", "a2c", 2, (0, 20_000, 80_000, 300_000, 800_000, 2_000_000), first_seed=100
    ),
)


def main() -> None:
    """Train what is missing, then copy what is not there yet."""
    from reproduction.training.train import train

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "demo_policies")
    parser.add_argument("--out", type=Path, default=ROOT / "src" / "pivec" / "demo_policies")
    parser.add_argument("--only", default="", help="a part of a recipe's name, as CartPole-v1/ppo")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--train-only", action="store_true")
    options = parser.parse_args()
    for recipe in RECIPES:
        name = f"{recipe.environment}/{recipe.algorithm}"
        folders = [options.out / f"{name}-{run}" for run in range(recipe.runs)]
        kept = [len(list(folder.glob("step_*.safetensors"))) for folder in folders]
        if options.only not in name:
            continue
        if kept == [len(recipe.checkpoints)] * recipe.runs:
            print(f"{name}: there already")
            continue
        runs = train(
            recipe.environment,
            recipe.algorithm,
            options.work / recipe.environment,
            runs=recipe.runs,
            jobs=options.jobs,
            checkpoints=recipe.checkpoints,
            seed=recipe.first_seed,
            progress=True,
        )
        if options.train_only:
            continue
        for run, folder in zip(runs, folders, strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(run.folder.glob("step_*.safetensors")):
                shutil.copy2(path, folder)
        print(f"{name}: copied", flush=True)


if __name__ == "__main__":
    main()
