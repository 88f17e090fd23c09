"""Checkpoints and states for the evidence on distances: made once, kept under benchmarks/data/.

The set `choose` is for decisions (PPO, seeds 0 and 1), `report` for figures: PPO with seeds 10 and
11 and A2C with seeds 20 and 21. Runs that ship with pivec take the place of training. Nothing is
ever chosen on `report`. Training and collecting resume where they were stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

DATA = Path(__file__).parent / "data" / "trust"
SETS = {"choose": (("ppo", 0),), "report": (("ppo", 10), ("a2c", 20))}
CHECKPOINTS = 8

SHIPPED = Path(__file__).parents[1] / "src" / "pivec" / "demo_policies"
RUNS = {
    ("report", "CartPole-v1"): ("ppo-0", "ppo-1", "a2c-0", "a2c-1"),
    ("report", "Pendulum-v1"): ("ppo-0", "ppo-1", "a2c-0", "a2c-1"),
    ("choose", "CartPole-v1"): ("ppo-2", "a2c-2"),
}


class World(NamedTuple):
    """How policies of one environment are made."""

    steps: int  # of training
    episodes: int
    settings: Mapping[str, Any] = MappingProxyType({})
    kept: tuple[int, ...] = ()  # checkpoints of each run that play, in order of training; or all


WORLDS = {
    "CartPole-v1": World(100_000, 800),
    "Acrobot-v1": World(100_000, 800),
    "Pendulum-v1": World(
        250_000, 800, {"gamma": 0.9, "learning_rate": 0.001, "n_steps": 512, "batch_size": 256}
    ),
    "LunarLander-v3": World(300_000, 600),
    "BipedalWalker-v3": World(200_000, 400, kept=(1, 4, 7)),
}


def truth(environment: str) -> int:
    """Episodes for the distance that is called true, beside two samples of 100."""
    return min(400, WORLDS[environment].episodes - 200)


def store(name: str, environment: str) -> Path:
    """The states of one set in one environment; policies are trained and run if needed."""
    from pivec.workflows import collect

    states = DATA / "states" / name / environment
    complete = states / "complete"  # nothing is left to do
    if not complete.exists():
        world, folder = WORLDS[environment], DATA / name / environment
        if (name, environment) in RUNS:
            policies = [SHIPPED / environment / run for run in RUNS[name, environment]]
        else:
            _train(name, environment, folder)
            policies = _kept(folder, world.kept) or [folder]
        collect(environment, policies, world.episodes, store=states)
        complete.touch()
    return states


def _kept(folder: Path, numbers: tuple[int, ...]) -> list[Path]:
    """Checkpoints of all runs by their number in the order of training."""
    runs = [sorted(run.glob("step_*"), key=_step) for run in sorted(folder.iterdir())]
    return [run[number] for run in runs for number in numbers]


def _step(path: Path) -> int:
    return int(path.stem.split("_")[1])


def _train(name: str, environment: str, folder: Path) -> None:
    from reproduction.training.train import train

    world = WORLDS[environment]
    for algorithm, seed in SETS[name]:
        fitting = world.settings if algorithm == "ppo" else {}
        train(
            *(environment, algorithm, folder),
            runs=2, seed=seed, jobs=2, steps=world.steps, settings=fitting,
            checkpoints=CHECKPOINTS,
        )  # fmt: skip


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
