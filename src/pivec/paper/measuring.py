"""Short measurements for the plan: how fast training and playing are on this machine.

Training seeds global generators, so it is measured in a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pivec.collection import collect
from pivec.engines.child import Tell
from pivec.engines.processes import ask
from pivec.errors import PivecError
from pivec.paper.workshop import Training
from pivec.rollouts.environment import Environment

_SECONDS = 1.0  # of training in each environment


def training_speeds(trainings: Sequence[Training]) -> list[float]:
    """Measure the environment steps a second of runs of PPO and A2C, about a second for each."""
    if not trainings:
        return []
    request = [(plan.environment, plan.algorithm, dict(plan.settings)) for plan in trainings]
    failed = "the speed of training could not be measured"
    speeds: list[float] = ask(measure_training, request, failed=failed, threads=1)
    return speeds


def measure_training(
    request: Sequence[tuple[str, str, dict[str, Any]]], _tell: Tell
) -> list[float]:
    """Train a little of each that is asked for; runs in a process of its own."""
    from pivec.training.reinforcement import make_model

    speeds = []
    for environment, algorithm, values in request:
        # As few steps an update as fill a batch: the work for each step is the same.
        fewest = -(-values.get("batch_size", 0) // values["n_envs"])
        values["n_steps"] = max(fewest, 5)
        model = make_model(Environment(environment), values, algorithm, 0)
        update = values["n_steps"] * values["n_envs"]
        model.learn(update)  # warms up
        start, steps = time.perf_counter(), 0
        while time.perf_counter() - start < _SECONDS:
            model.learn(update, reset_num_timesteps=False)
            steps += update
        speeds.append(steps / (time.perf_counter() - start))
        model.env.close()
    return speeds


def playing_speed(environment: str, backend: str) -> float:
    """Measure the steps a second of 16 random policies side by side."""
    settings: dict[str, Any] = {"max_steps": 100, "backend": backend}
    collect(environment, "random:2", 2, **settings)  # warms up
    start = time.perf_counter()
    data = collect(environment, "random:16", 16, **settings)
    return int(data.n_states - data.n_episodes) / (time.perf_counter() - start)


def longest_episode(environment: str) -> int:
    """Return the time limit of an environment."""
    env = Environment(environment).make()
    try:
        limit = env.spec.max_episode_steps if env.spec is not None else None
    finally:
        env.close()
    if limit is None:
        raise PivecError(f"{environment} has no time limit, so the plan cannot say how long it is")
    return int(limit)


def n_features(environment: str) -> int:
    """Return the length of an observation."""
    from gymnasium.spaces import flatdim

    env = Environment(environment).make()
    try:
        return int(flatdim(env.observation_space))
    finally:
        env.close()
