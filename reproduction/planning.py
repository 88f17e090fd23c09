"""plan: what recipes would do, and the time and disk to expect.

Amounts come from the recipes, lengths of episodes and searches from lengths.toml (or their limits),
and the time that work takes from speeds.toml.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import gymnasium

from pivec.errors import PivecError
from pivec.rollouts import Environment
from reproduction.pipeline import Collection, Pipeline, Training
from reproduction.published import toml
from reproduction.recipes import Need
from reproduction.runner import prepare
from reproduction.training.evolution import spaces_of
from reproduction.training.runs import POPULATIONS

_STATE_BYTES = 4
_POLICY_BYTES = 45_000  # of a checkpoint with 64-64 units and its metadata


@dataclass(frozen=True)
class Step:
    """A stage of a recipe."""

    recipe: str
    what: str
    amount: str
    done: bool = True  # whether the cache has it already
    seconds: float = 0.0  # of one core
    bytes: int = 0  # on disk, at most


def plan(*arguments: Any, **chosen: Any) -> list[Step]:
    """List the steps of recipes with the time and disk to expect; arguments as for `prepare`."""
    pipeline, recipes = prepare(*arguments, **chosen)
    needs = [
        (recipe.name, need) for recipe, counts in recipes for need in recipe.needs(pipeline, counts)
    ]
    return list(_steps(needs, pipeline))


def _steps(needs: Sequence[tuple[str, Need]], pipeline: Pipeline) -> Iterator[Step]:
    """Leave out repeated needs, and of trainings the runs that were listed before."""
    known: set[str] = set()
    begun: dict[str, int] = {}
    for recipe, need in needs:
        if isinstance(need, Training):
            first = begun.get(need.key, 0)
            if need.runs > first:
                begun[need.key] = need.runs
                counts = range(need.runs, 0, -1)
                trained = (n for n in counts if pipeline.is_trained(replace(need, runs=n)))
                left = need.runs - max(first, next(trained, 0))
                yield _training_step(recipe, need, need.runs - first, left)
            continue
        if need.key not in known:
            if isinstance(need, Collection):
                yield _collection_step(recipe, need, pipeline)
            else:
                seconds = 0.0 if need.done else need.amount * need.seconds
                yield Step(recipe, need.what, f"{need.amount:,.0f}", need.done, seconds)
        known |= {need.key} - {""}


def _training_step(recipe: str, need: Training, new: int, left: int) -> Step:
    """Plan runs that are ``new`` in this recipe, of which ``left`` are not in the cache."""
    what = f"train {need.name} in {need.environment}"
    population = need.algorithm in POPULATIONS
    runs, settings = left or new, need.settings
    amount = f"{runs}{' more' if runs < need.runs else ''} runs, " + (
        f"{settings['generations']:,} generations"
        if population
        else f"{runs * settings['steps']:,} steps"
    )
    if not left:
        return Step(recipe, what, amount)
    if population:
        length = min(expected_length(need), settings["max_steps"])
        seconds = runs * playing_seconds(need.environment, _population_episodes(need), length)
    else:
        speed = toml("speeds")["training"][need.algorithm].get(need.environment, 4000)
        seconds = runs * settings["steps"] / speed
    return Step(recipe, what, amount, False, seconds, n_policies(need) * runs * _POLICY_BYTES)


def _collection_step(recipe: str, need: Collection, pipeline: Pipeline) -> Step:
    who = ", ".join(training.name for training in need.trainings)
    if need.runs is not None:
        who += " run " + ", ".join(map(str, need.runs))
    what = f"collect {who} in {need.environment}"
    policies = sum(_n_collected(need, training) for training in need.trainings)
    amount = f"{policies:,} policies, {need.episodes} episodes each"
    if pipeline.is_collected(need):
        return Step(recipe, what, amount)
    seconds = sum(
        playing_seconds(
            need.environment, _n_collected(need, part) * need.episodes, expected_length(part)
        )
        for part in need.trainings
    )
    disk = int(n_states(need)) * n_features(need.environment) * _STATE_BYTES
    return Step(recipe, what, amount, False, seconds, disk if need.kept else 0)


def playing_seconds(environment: str, episodes: float, length: float) -> float:
    """Seconds that episodes of this length take."""
    episode, step = toml("speeds")["playing"].get(environment, (1e-3, 1e-4))
    return float(episodes * (episode + length * step))


def method_seconds(method: str, components: int = 64) -> float:
    """Seconds to fit a method to a million states and to measure the distances."""
    share = components / 64 if method in ("supervector", "visitation") else 1.0
    return float(toml("speeds")["methods"][method] * share)


def pass_seconds(environment: str, components: int) -> float:
    """Seconds of one pass of a mixture over a million states."""
    per_feature = toml("speeds")["describing"]["pass"]
    return float(per_feature * n_features(environment) * components / 64)


def n_states(need: Collection) -> float:
    """Count the states to expect."""
    return sum(
        _n_collected(need, training) * need.episodes * (expected_length(training) + 1)
        for training in need.trainings
    )


def _n_collected(need: Collection, training: Training) -> int:
    """Count the policies of a training that play."""
    runs = training.runs if need.runs is None else len(need.runs)
    kept = n_policies(training)
    return runs * (kept if need.policies is None else min(kept, need.policies))


def n_policies(training: Training) -> int:
    """Count the policies that a run keeps."""
    if training.checkpoints is not None:
        return training.checkpoints
    settings = training.settings
    kept = -(-expected_generations(training) // int(settings["keep_every"]))
    if "keep_share" not in settings:  # ES keeps the one policy that it updated
        return kept
    return int(kept * max(1, round(settings["keep_share"] * settings["population"])))


def _population_episodes(training: Training) -> int:
    """Count the episodes of one run of a population."""
    settings = training.settings
    if "batch_episodes" in settings:
        episodes = int(settings["batch_episodes"]) + int(settings["behaviour_episodes"])
    else:
        episodes = int(settings["population"]) * int(settings["episodes"])
    return expected_generations(training) * episodes


def expected_length(training: Training) -> float:
    """Mean number of steps of an episode over a run, or the time limit if unknown."""
    most = longest_episode(training.environment)
    return float(_lengths(training).get("steps", most))


def expected_generations(training: Training) -> int:
    """Number of generations after which a search ends."""
    most = int(training.settings["generations"])
    return min(int(_lengths(training).get("generations", most)), most)


def _lengths(training: Training) -> dict[str, Any]:
    known: dict[str, Any] = toml("lengths").get(training.environment, {})
    return dict(known.get(training.algorithm, {}))


@cache
def longest_episode(environment: str) -> int:
    """Return the time limit of an environment."""
    with Environment(environment).make() as env:
        limit = env.spec.max_episode_steps if env.spec is not None else None
    if limit is None:
        raise PivecError(f"{environment} has no time limit, so its time cannot be planned")
    return int(limit)


@cache
def n_features(environment: str) -> int:
    """Return the length of an observation."""
    observations, _ = spaces_of(Environment(environment))
    return int(gymnasium.spaces.flatdim(observations))
