"""plan: what recipes would do, and the time and disk that it would take here, before they start.

Speeds are measured for a moment. Training seeds global generators, so it is measured in a process
of its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from pivec.collection import collect
from pivec.engines.engine import Tell
from pivec.engines.processes import ask
from pivec.errors import PivecError
from pivec.paper.recipes import Calculation, Need
from pivec.paper.reproduction import chosen_recipes, counts_of
from pivec.paper.workshop import Collection, Training, Workshop
from pivec.rollouts.environment import Environment
from pivec.training.settings import POPULATIONS

_STATE_BYTES = 4
_POLICY_BYTES = 45_000  # of a checkpoint of 64-64 units, with what is told about it
_SECONDS = 1.0  # of training in each environment


@dataclass(frozen=True)
class Step:
    """A stage of a recipe."""

    recipe: str
    what: str
    amount: str
    done: bool = True  # whether it is in the cache already
    seconds: float = 0.0  # of one core, at most: episodes may end before the time limit
    bytes: int = 0  # on disk, at most


def plan(
    names: str | Sequence[str],
    scale: str = "small",
    out: str | Path = "reproduced",
    *,
    environments: Sequence[str] | None = None,
    runs: int | None = None,
    cache: str | Path | None = None,
    seed: int = 0,
    backend: str = "auto",
) -> list[Step]:
    """List the steps of recipes, with the time and disk to expect, from short measurements.

    Takes the arguments of `reproduce`. Stages that several recipes share are listed once.

    Examples
    --------
    >>> import tempfile
    >>> [step] = plan("gridworld", "smoke", tempfile.mkdtemp())
    >>> step.done, step.seconds > 0
    (False, True)
    """
    shop = Workshop(Path(cache or Path(out) / "cache"), scale, seed=seed, backend=backend)
    needs: list[tuple[str, Need]] = []
    seen: set[str] = set()
    for recipe in chosen_recipes(names):
        for need in recipe.needs(shop, counts_of(recipe, shop.scale, environments, runs)):
            if isinstance(need, Calculation):
                needs.append((recipe.name, need))
            elif need.key not in seen:
                seen.add(need.key)
                needs.append((recipe.name, need))
    speeds = _Speeds(shop, [need for _, need in needs])
    return [_step(name, need, shop, speeds) for name, need in needs]


class _Speeds:
    """What was measured: steps a second of training and of playing."""

    def __init__(self, shop: Workshop, needs: Sequence[Need]) -> None:
        learners: dict[tuple[str, str], Training] = {}
        played = set()
        for need in needs:
            if isinstance(need, Training) and not shop.is_trained(need):
                if need.algorithm in POPULATIONS:
                    played.add(need.environment)
                else:
                    learners.setdefault((need.environment, need.algorithm), need)
            elif isinstance(need, Collection) and not shop.is_collected(need):
                played.add(need.environment)
        measured = training_speeds(list(learners.values()))
        self.training = dict(zip(learners, measured, strict=True))
        self.playing = {name: playing_speed(name, shop.backend) for name in sorted(played)}


def _step(recipe: str, need: Need, shop: Workshop, speeds: _Speeds) -> Step:
    if isinstance(need, Calculation):
        left = need.amount if need.left is None else need.left
        if not left:
            return Step(recipe, need.what, f"{need.amount:,.0f}")
        amount = f"{need.amount:,.0f}" if left == need.amount else f"{left:,.0f} left"
        return Step(recipe, need.what, amount, False, left * need.measure())
    if isinstance(need, Collection):
        return _collection_step(recipe, need, shop, speeds)
    what = f"train {need.name} in {need.environment}"
    population = need.algorithm in POPULATIONS
    length = (
        f"{need.settings['generations']:,} generations" if population else f"{need.steps:,} steps"
    )
    amount = f"{need.runs} runs, {length}"
    if shop.is_trained(need):
        return Step(recipe, what, amount)
    if population:
        steps = _population_episodes(need) * longest_episode(need.environment)
        rate = speeds.playing[need.environment]
    else:
        steps, rate = need.steps, speeds.training[need.environment, need.algorithm]
    disk = n_policies(need) * need.runs * _POLICY_BYTES
    return Step(recipe, what, amount, False, steps / rate, disk)


def _collection_step(recipe: str, need: Collection, shop: Workshop, speeds: _Speeds) -> Step:
    policies = sum(
        (training.runs if need.runs is None else len(need.runs))
        * min(n_policies(training), need.policies or n_policies(training))
        for training in need.trainings
    )
    who = ", ".join(training.name for training in need.trainings)
    if need.runs is not None:
        who += " run " + ", ".join(map(str, need.runs))
    what = f"collect {who} in {need.environment}"
    amount = f"{policies:,} policies, {need.episodes} episodes each"
    if shop.is_collected(need):
        return Step(recipe, what, amount)
    states = policies * need.episodes * (longest_episode(need.environment) + 1)
    disk = states * n_features(need.environment) * _STATE_BYTES if need.kept else 0
    return Step(recipe, what, amount, False, states / speeds.playing[need.environment], disk)


def n_policies(training: Training) -> int:
    """Tell how many policies a run keeps, at most."""
    if training.checkpoints is not None:
        return training.checkpoints
    settings = training.settings
    kept = -(-int(settings["generations"]) // int(settings["keep_every"]))
    if "keep_share" not in settings:  # ES keeps the one policy that it updated
        return kept
    return int(kept * max(1, round(settings["keep_share"] * settings["population"])))


def _population_episodes(training: Training) -> int:
    """Episodes of all runs of a population."""
    settings = training.settings
    if "batch_episodes" in settings:
        episodes = int(settings["batch_episodes"]) + int(settings["behaviour_episodes"])
    else:
        episodes = int(settings["population"]) * int(settings["episodes"])
    return int(settings["generations"]) * episodes * training.runs


def training_speeds(trainings: Sequence[Training]) -> list[float]:
    """Measure the environment steps a second of runs of PPO and A2C, about a second for each."""
    if not trainings:
        return []
    request = [(plan.environment, plan.algorithm, dict(plan.settings)) for plan in trainings]
    failed = "the speed of training could not be measured"
    speeds: list[float] = ask(_measure_training, request, failed=failed, threads=1)
    return speeds


def _measure_training(
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
    """Measure the steps a second of 16 random policies side by side, for a second or two.

    What starts and ends a collection is left out: the time of few episodes is taken from that of
    many.
    """
    took, steps = [], []
    for episodes in (1, 4, 20):  # the first warms up
        start = time.perf_counter()
        data = collect(environment, "random:16", episodes, max_steps=200, backend=backend)
        took.append(time.perf_counter() - start)
        steps.append(int(data.n_states - data.n_episodes))
    return (steps[2] - steps[1]) / max(took[2] - took[1], 1e-3)


def longest_episode(environment: str) -> int:
    """Return the time limit of an environment."""
    with Environment(environment).make() as env:
        limit = env.spec.max_episode_steps if env.spec is not None else None
    if limit is None:
        raise PivecError(f"{environment} has no time limit, so the plan cannot say how long it is")
    return int(limit)


def n_features(environment: str) -> int:
    """Return the length of an observation."""
    with Environment(environment).make() as env:
        observations = env.observation_space
    return int(gymnasium.spaces.flatdim(observations))
