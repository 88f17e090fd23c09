"""plan: what recipes would do, and the time and disk that it would take here, before they start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pivec.paper.measuring import (
    longest_episode,
    n_features,
    playing_speed,
    training_speeds,
)
from pivec.paper.recipes import Calculation, Need
from pivec.paper.reproduction import chosen_recipes, counts_of
from pivec.paper.workshop import Collection, Training, Workshop
from pivec.training.settings import POPULATIONS

_STATE_BYTES = 4
_POLICY_BYTES = 45_000  # of a checkpoint of 64-64 units, with what is told about it


@dataclass(frozen=True)
class Step:
    """A stage of a recipe.

    Attributes
    ----------
    recipe, what, amount : str
    done : bool
        Whether it is in the cache already.
    seconds : float
        Of one core, at most: episodes may end before the time limit.
    bytes : int
        On disk, at most.
    """

    recipe: str
    what: str
    amount: str
    done: bool
    seconds: float
    bytes: int


def plan(
    names: str | Sequence[str],
    scale: str = "small",
    out: str | Path = "reproduced",
    *,
    environments: Sequence[str] | None = None,
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
    shop = Workshop(cache or Path(out) / "cache", scale, seed=seed, backend=backend)
    needed: list[tuple[str, Need]] = []
    seen: set[str] = set()
    for one in chosen_recipes(names):
        for need in one.needs(shop, counts_of(one, shop.scale, environments)):
            key = need.what if isinstance(need, Calculation) else need.key
            if isinstance(need, Calculation) or key not in seen:
                needed.append((one.name, need))
            seen.add(key)
    speeds = _Speeds(shop, [need for _, need in needed])
    return [_step(name, need, shop, speeds) for name, need in needed]


class _Speeds:
    """What was measured: steps a second of training and of playing, limits of episodes."""

    def __init__(self, shop: Workshop, needs: Sequence[Need]) -> None:
        learners: dict[tuple[str, str], Training] = {}
        places = set()
        for need in needs:
            if isinstance(need, Training) and not shop.is_trained(need):
                if need.algorithm in POPULATIONS:
                    places.add(need.environment)
                else:
                    learners.setdefault((need.environment, need.algorithm), need)
            elif isinstance(need, Collection) and not shop.is_collected(need):
                places.add(need.environment)
        measured = training_speeds(list(learners.values()))
        self.training = dict(zip(learners, measured, strict=True))
        self.playing = {name: playing_speed(name, shop.backend) for name in sorted(places)}


def _step(recipe: str, need: Need, shop: Workshop, speeds: _Speeds) -> Step:
    if isinstance(need, Calculation):
        seconds = need.amount * need.measure() if need.amount else 0.0
        return Step(recipe, need.what, f"{need.amount:,.0f}", False, seconds, 0)
    if isinstance(need, Collection):
        return _collection_step(recipe, need, shop, speeds)
    done = shop.is_trained(need)
    what = f"train {need.name} in {need.environment}"
    if need.algorithm in POPULATIONS:
        steps = _population_steps(need) * longest_episode(need.environment)
        amount = f"{need.runs} runs, {need.settings['generations']:,} generations"
        rate = speeds.playing.get(need.environment)
    else:
        steps, rate = need.steps, speeds.training.get((need.environment, need.algorithm))
        amount = f"{need.runs} runs, {steps:,} steps"
    disk = n_policies(need) * need.runs * _POLICY_BYTES
    if done or rate is None:
        return Step(recipe, what, amount, True, 0.0, 0)
    return Step(recipe, what, amount, False, steps / rate, disk)


def _collection_step(recipe: str, need: Collection, shop: Workshop, speeds: _Speeds) -> Step:
    policies = sum(
        (one.runs if need.runs is None else len(need.runs))
        * min(n_policies(one), need.policies or n_policies(one))
        for one in need.trainings
    )
    who = ", ".join(one.name for one in need.trainings)
    if need.runs is not None:
        who += " run " + ", ".join(map(str, need.runs))
    what = f"collect {who} in {need.environment}"
    amount = f"{policies:,} policies, {need.episodes} episodes each"
    if shop.is_collected(need):
        return Step(recipe, what, amount, True, 0.0, 0)
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


def _population_steps(training: Training) -> int:
    """Episodes of all runs of a population."""
    settings = training.settings
    if "batch_episodes" in settings:
        each = int(settings["batch_episodes"]) + int(settings["behaviour_episodes"])
    else:
        each = int(settings["population"]) * int(settings["episodes"])
    return int(settings["generations"]) * each * training.runs
