"""Checkpoints and states for the evidence on distances: made once, kept under benchmarks/data/.

The set `choose` is for decisions (PPO, seeds 0 and 1), `report` for figures: PPO of seeds 10 and 11
and A2C of seeds 20 and 21, or where policies ship with pivec two runs of each of those. Nothing is
ever chosen on it. Both are made by the commands `train` and `collect` of pivec, which go on where
they were stopped.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DATA = Path(__file__).parent / "data" / "trust"
SETS = {"choose": (("ppo", 0),), "report": (("ppo", 10), ("a2c", 20))}
CHECKPOINTS = 8


SHIPPED = Path(__file__).parents[1] / "src" / "pivec" / "demo_policies"


class World(NamedTuple):
    """How policies of one environment are made: steps of training, settings, then episodes."""

    steps: int
    episodes: int
    backend: str = "gymnasium"
    settings: str = ""
    kept: tuple[int, ...] = ()  # checkpoints of each run that play, in order of training; or all


WORLDS = {
    "CartPole-v1": World(150_000, 800),
    "Acrobot-v1": World(100_000, 800),
    "Pendulum-v1": World(
        250_000, 800, settings="gamma=0.9 learning_rate=0.001 n_steps=512 batch_size=256"
    ),
    "LunarLander-v3": World(300_000, 600, "envpool"),
    "BipedalWalker-v3": World(400_000, 600, "envpool", "backend=envpool", (1, 4, 7)),
}


def store(name: str, environment: str) -> Path:
    """The states of one set in one environment; policies are trained and play if needed."""
    states = DATA / "states" / name / environment
    complete = states / "complete"  # says that nothing is left to do, without asking the commands
    if not complete.exists():
        world = WORLDS[environment]
        policies = [DATA / name / environment]
        if name == "report" and (SHIPPED / environment).exists():
            policies = [SHIPPED / environment / run for run in ("ppo-0", "ppo-1", "a2c-0", "a2c-1")]
        else:
            _train(name, environment, policies[0])
            policies = _kept(policies[0], world.kept) or policies
        _pivec(
            *("collect", environment, *policies, "--episodes", world.episodes),
            *("--backend", world.backend, "--out", states),
        )
        complete.touch()
    return states


def _kept(folder: Path, numbers: tuple[int, ...]) -> list[Path]:
    """Checkpoints of all runs by their number in the order of training."""
    runs = [sorted(run.glob("step_*"), key=_step) for run in sorted(folder.iterdir())]
    return [run[number] for run in runs for number in numbers]


def _step(path: Path) -> int:
    return int(path.stem.split("_")[1])


def _train(name: str, environment: str, folder: Path) -> None:
    world = WORLDS[environment]
    for algorithm, seed in SETS[name]:
        _pivec(
            *("train", environment, "--algo", algorithm, "--runs", 2, "--seed", seed, "--jobs", 2),
            *("--steps", world.steps, "--checkpoints", CHECKPOINTS, "--out", folder),
            *(part for value in world.settings.split() for part in ("--set", value)),
        )


def _pivec(*arguments: Any) -> None:
    subprocess.run([sys.executable, "-m", "pivec", *map(str, arguments)], check=True)


def samples(data: Any, sizes: tuple[int, ...], rng: np.random.Generator) -> list[Any]:
    """Draw disjoint samples of so many episodes of every policy; each is VisitedStates."""
    from pivec.states import VisitedStates

    cuts = np.cumsum((0, *sizes))
    orders = [rng.permutation(len(record.episodes)) for record in data.records]
    drawn = []
    for begin, end in pairwise(cuts):
        records = [
            record.only(np.sort(order[begin:end]))
            for record, order in zip(data.records, orders, strict=True)
        ]
        drawn.append(VisitedStates(records, data.feature_names, data.environment))
        drawn[-1].states  # noqa: B018  # copied once, rather than in every pass of a fit
    return drawn


def twice(a: Any, b: Any) -> Any:
    """Both samples of every policy as if they were policies of their own."""
    from dataclasses import replace

    from pivec.states import VisitedStates

    again = [
        replace(record, info=replace(record.info, label=f"{record.info.label} again"))
        for record in b.records
    ]
    return VisitedStates([*a.records, *again], a.feature_names, a.environment)


if __name__ == "__main__":
    for chosen in SETS:
        for world_name in WORLDS:
            print(store(chosen, world_name), flush=True)
