"""plan: what recipes would do, and the time and disk that it would take here, before they start.

Speeds are measured for a moment, on one core; those of training and playing by the processor's
time, so that others on it do not count. How soon episodes and searches end is not measured: at most
they last until their limits, and lengths.toml has what to expect. Training seeds global generators,
so it runs in a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from pivec.errors import PivecError
from pivec.parallel import Tell, ask, threads
from pivec.rollouts import Environment
from pivec.rollouts.array_lanes import array_lanes
from pivec.workflows.collect import collect
from reproduction.pipeline import Collection, Training, Workshop
from reproduction.published import toml
from reproduction.recipes import Calculation, Need
from reproduction.runner import chosen_recipes, counts_of
from reproduction.training.evolution import Architecture, spaces_of
from reproduction.training.runs import POPULATIONS

_STATE_BYTES = 4
_POLICY_BYTES = 45_000  # of a checkpoint of 64-64 units, with what is told about it
_SECONDS = 1.0  # of training in each environment
_PLAYERS = 8  # policies that play to measure how fast they do
_CUTS = 1, 5, 200  # after so many steps their episodes are cut


@dataclass(frozen=True)
class Step:
    """A stage of a recipe."""

    recipe: str
    what: str
    amount: str
    done: bool = True  # whether it is in the cache already
    seconds: float = 0.0  # of one core, at most: episodes and searches last until their limits
    expected: float = 0.0  # the same if they last as long as lengths.toml says
    bytes: int = 0  # on disk, at most


@dataclass(frozen=True)
class EpisodeWork(Calculation):
    """A calculation on episodes; one of ``amount`` is measured as if they lasted to their limit."""

    share: float = 1.0  # of the time that is to be expected, since they end before it
    key: str = ""  # work of the same key is done once, whoever needs it


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

    Takes the arguments of `reproduce`. Stages that several recipes share are listed once, and runs
    of training that another recipe has more of with that one.
    """
    shop = Workshop(Path(cache or Path(out) / "cache"), scale, seed=seed, backend=backend)
    needs = [
        (recipe.name, need)
        for recipe in chosen_recipes(names)
        for need in recipe.needs(shop, counts_of(recipe, shop.scale, environments, runs))
    ]
    todo = list(_each_once(needs, shop))
    learners: dict[tuple[str, str], Training] = {}
    for item in todo:
        if isinstance(item.need, Training) and item.left:
            learners.setdefault((item.need.environment, item.need.algorithm), item.need)
    alone = [kind for kind in learners if kind[1] not in POPULATIONS]
    measured = training_speeds([learners[kind] for kind in alone])
    speeds = dict(zip(alone, measured, strict=True))
    return [_step(item, shop, speeds) for item in todo]


class _Item(NamedTuple):
    """What a recipe needs, and which runs of it, if it is a training."""

    recipe: str
    need: Need
    runs: int = 0  # that no recipe before needs
    left: int = 0  # of these, that are not in the cache


def _each_once(needs: Sequence[tuple[str, Need]], shop: Workshop) -> Iterator[_Item]:
    """Leave out what stands there before, and of trainings the runs that do."""
    known: set[str] = set()
    begun: dict[str, int] = {}
    for recipe, need in needs:
        if isinstance(need, Training):
            first = begun.get(need.key, 0)
            if need.runs > first:
                begun[need.key] = need.runs
                left = need.runs - max(first, _n_trained(need, shop))
                yield _Item(recipe, need, need.runs - first, left)
            continue
        key = getattr(need, "key", "")
        if key not in known:
            yield _Item(recipe, need)
        known |= {key} - {""}


def _n_trained(training: Training, shop: Workshop) -> int:
    """Tell how many runs are finished, from the first on."""
    counts = range(training.runs, 0, -1)
    return next((n for n in counts if shop.is_trained(replace(training, runs=n))), 0)


Speeds = Mapping[tuple[str, str], float]  # of training in an environment by an algorithm


def _step(item: _Item, shop: Workshop, speeds: Speeds) -> Step:
    recipe, need = item[:2]
    if isinstance(need, Training):
        return _training_step(item, need, speeds)
    if isinstance(need, Collection):
        return _collection_step(recipe, need, shop)
    left = need.amount if need.left is None else need.left
    if not left:
        return Step(recipe, need.what, f"{need.amount:,.0f}")
    amount = f"{need.amount:,.0f}" if left == need.amount else f"{left:,.0f} left"
    with threads(1):
        seconds = left * need.measure()
    expected = seconds * getattr(need, "share", 1.0)
    return Step(recipe, need.what, amount, False, seconds, expected)


def _training_step(item: _Item, need: Training, speeds: Speeds) -> Step:
    what = f"train {need.name} in {need.environment}"
    population = need.algorithm in POPULATIONS
    runs, settings = item.left or item.runs, need.settings
    amount = f"{runs}{' more' if runs < need.runs else ''} runs, " + (
        f"{settings['generations']:,} generations"
        if population
        else f"{runs * settings['steps']:,} steps"
    )
    if not item.left:
        return Step(item.recipe, what, amount)
    disk = n_policies(need) * runs * _POLICY_BYTES
    if not population:
        seconds = runs * settings["steps"] / speeds[need.environment, need.algorithm]
        return Step(item.recipe, what, amount, False, seconds, seconds, disk)
    # Populations play in Gymnasium, whatever the backend.
    pace, limit = pace_of(need.environment, "gymnasium"), settings["max_steps"]
    longest = min(longest_episode(need.environment), limit)
    seconds = pace.seconds(runs * _population_episodes(need), longest)
    episodes = _population_episodes(need, expected_generations(need))
    expected = pace.seconds(runs * episodes, min(expected_length(need), limit))
    return Step(item.recipe, what, amount, False, seconds, expected, disk)


def _collection_step(recipe: str, need: Collection, shop: Workshop) -> Step:
    who = ", ".join(training.name for training in need.trainings)
    if need.runs is not None:
        who += " run " + ", ".join(map(str, need.runs))
    what = f"collect {who} in {need.environment}"
    policies = sum(_n_collected(need, training) for training in need.trainings)
    amount = f"{policies:,} policies, {need.episodes} episodes each"
    if shop.is_collected(need):
        return Step(recipe, what, amount)
    pace, longest = pace_of(need.environment, shop.backend), longest_episode(need.environment)
    seconds = pace.seconds(policies * need.episodes, longest)
    expected = sum(pace.seconds(count * need.episodes, length) for count, length in _expected(need))
    disk = int(n_states(need)[0]) * n_features(need.environment) * _STATE_BYTES
    return Step(recipe, what, amount, False, seconds, expected, disk if need.kept else 0)


def n_states(need: Collection) -> tuple[float, float]:
    """Tell how many states are collected, at most and as expected."""
    policies = sum(_n_collected(need, training) for training in need.trainings)
    most = policies * need.episodes * (longest_episode(need.environment) + 1)
    return most, sum(count * need.episodes * (length + 1) for count, length in _expected(need))


def _expected(need: Collection) -> list[tuple[int, float]]:
    """Tell how many policies of each training are expected to play, and how long episodes are."""
    return [
        (_n_collected(need, training, expected_generations(training)), expected_length(training))
        for training in need.trainings
    ]


def _n_collected(need: Collection, training: Training, generations: int | None = None) -> int:
    """Tell how many policies of a training play, at most or after so many generations."""
    runs = training.runs if need.runs is None else len(need.runs)
    kept = n_policies(training, generations)
    return runs * (kept if need.policies is None else min(kept, need.policies))


def n_policies(training: Training, generations: int | None = None) -> int:
    """Tell how many policies a run keeps, at most, or a search of so many generations."""
    if training.checkpoints is not None:
        return training.checkpoints
    settings = training.settings
    kept = -(-(generations or int(settings["generations"])) // int(settings["keep_every"]))
    if "keep_share" not in settings:  # ES keeps the one policy that it updated
        return kept
    return int(kept * max(1, round(settings["keep_share"] * settings["population"])))


def _population_episodes(training: Training, generations: int | None = None) -> int:
    """Episodes of one run of a population."""
    settings = training.settings
    if "batch_episodes" in settings:
        episodes = int(settings["batch_episodes"]) + int(settings["behaviour_episodes"])
    else:
        episodes = int(settings["population"]) * int(settings["episodes"])
    return (generations or int(settings["generations"])) * episodes


def expected_length(training: Training) -> float:
    """Return how many steps an episode takes on average over a run, as lengths.toml has it."""
    most = longest_episode(training.environment)
    return float(_lengths(training).get("steps", most))


def expected_generations(training: Training) -> int | None:
    """Return after how many generations a search ends, if it ends by itself."""
    known = _lengths(training).get("generations")
    return None if known is None else min(int(known), int(training.settings["generations"]))


def _lengths(training: Training) -> dict[str, Any]:
    known: dict[str, Any] = toml("lengths").get(training.environment, {})
    return dict(known.get(training.algorithm, {}))


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
    from reproduction.training.reinforcement import make_model

    speeds = []
    for environment, algorithm, values in request:
        # As few steps an update as fill a batch: the work for each step is the same.
        fewest = -(-values.get("batch_size", 0) // values["n_envs"])
        values["n_steps"] = max(fewest, 5)
        model = make_model(Environment(environment), values, algorithm, 0)
        update = values["n_steps"] * values["n_envs"]
        model.learn(update)  # warms up
        start, steps = time.process_time(), 0
        while time.process_time() - start < _SECONDS:
            model.learn(update, reset_num_timesteps=False)
            steps += update
        speeds.append(steps / (time.process_time() - start))
        model.env.close()
    return speeds


class Pace(NamedTuple):
    """How fast policies play: seconds of one core."""

    episode: float  # to begin one
    step: float

    def seconds(self, episodes: float, length: float) -> float:
        """Tell how long so many episodes of this length take."""
        return episodes * (self.episode + length * self.step)


@cache
def pace_of(environment: str, backend: str) -> Pace:
    """Measure how fast some networks play side by side, for a second or two.

    Few episodes and many, of few steps and of many, tell beginning an episode from its steps, and
    both from what starts and ends a collection.
    """
    place = Environment(environment)
    shape, rng = Architecture.of(*spaces_of(place), (64, 64)), np.random.default_rng(0)
    weights = rng.normal(0.0, 0.1, (_PLAYERS, shape.n_weights))
    players = {f"{i}": shape.policy(row) for i, row in enumerate(weights)}
    # As many lanes for few episodes as for many, so that it takes as long to make them.
    on_arrays = array_lanes(place) is not None
    few, many, lanes = (64, 256, None) if on_arrays else (4, 8, 4 * _PLAYERS)

    def played(episodes: int, cut: int) -> tuple[list[float], float]:
        began = time.process_time()
        how: dict[str, Any] = {"n_envs": lanes, "threads": 1, "backend": backend}
        data = collect(environment, players, episodes, max_steps=cut, **how)
        n = data.n_episodes
        return [1.0, n, data.n_states - n], time.process_time() - began

    played(few, _CUTS[0])  # warms up
    amounts, times = zip(*map(played, (few, many, many), _CUTS), strict=True)
    _, episode, step = np.linalg.solve(np.array(amounts), np.array(times))
    return Pace(max(float(episode), 0.0), max(float(step), 1e-9))


@cache
def longest_episode(environment: str) -> int:
    """Return the time limit of an environment."""
    with Environment(environment).make() as env:
        limit = env.spec.max_episode_steps if env.spec is not None else None
    if limit is None:
        raise PivecError(f"{environment} has no time limit, so the plan cannot say how long it is")
    return int(limit)


@cache
def n_features(environment: str) -> int:
    """Return the length of an observation."""
    with Environment(environment).make() as env:
        observations = env.observation_space
    return int(gymnasium.spaces.flatdim(observations))
