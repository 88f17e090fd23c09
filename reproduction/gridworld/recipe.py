"""Figure 1: what returns, actions and visited states say of two policies in a grid world.

Three scenarios, each with a blue and a green policy, over the probability that a random action
replaces the policy's; exact by linear algebra, and simulated as in the paper.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction.gridworld.figure import gridworld_figure
from reproduction.gridworld.page import distance_table, findings
from reproduction.gridworld.scenarios import Scenario, scenarios
from reproduction.gridworld.visits import (
    Visits,
    exact_visits,
    simulated_visits,
    stacked,
    state_distance,
)
from reproduction.pipeline import Workshop
from reproduction.published import Array, notes
from reproduction.recipes import Calculation, Need, Recipe, Result, Told

SMOOTH = 101  # probabilities at which the exact lines of the figure are computed


@dataclass(frozen=True)
class Counts:
    """How many episodes of each policy, and how many probabilities from 0 to 1."""

    episodes: int
    probabilities: int


def needs(shop: Workshop, counts: Counts) -> list[Need]:  # noqa: ARG001 - as every recipe's
    """List the simulation."""
    runs = 2 * len(scenarios()) * counts.probabilities
    return [Calculation("episodes in grid worlds", runs * counts.episodes, _seconds_an_episode)]


def _seconds_an_episode() -> float:
    world, episodes = scenarios()[1], 500
    began = time.perf_counter()
    for probability in (0.25, 0.75):
        simulated_visits(world.walls, world.green, probability, np.random.default_rng(0), episodes)
    return (time.perf_counter() - began) / (2 * episodes)


def make(shop: Workshop, counts: Counts) -> Result:
    """Compute, simulate, compare and draw."""
    worlds = scenarios()
    probabilities = np.linspace(0, 1, counts.probabilities).round(6)
    exact = _exact(worlds, probabilities)
    played = _simulated(shop, worlds, probabilities, counts.episodes)
    rows = [
        _row(world, float(p), _distances(exact, i, j), _distances(played, i, j))
        for i, world in enumerate(worlds)
        for j, p in enumerate(probabilities)
    ]
    smooth = np.linspace(0, 1, SMOOTH)
    lines = _shares(worlds, _exact(worlds, smooth))
    marks = _shares(worlds, played)
    figure = gridworld_figure(worlds, (smooth, lines), (probabilities, marks), counts.episodes)
    agreement = _agreement(exact, played)
    # Largest change of a state distance when first states count as visits, too.
    with_start = _exact(worlds, probabilities, with_start=True)
    start = float(np.abs(_states(with_start) - _states(exact)).max())
    numbers = {"rows": rows, "agreement": agreement, "effect_of_counting_the_start": start}
    return Result(numbers, {"gridworld": figure})


def tell(numbers: Mapping[str, Any], _counts: Counts) -> Told:
    """Say what the numbers show."""
    worlds, rows = scenarios(), numbers["rows"]
    return Told(
        rows,
        distance_table(worlds, rows),
        findings(worlds, rows, numbers["agreement"]),
        notes("gridworld", start=numbers["effect_of_counting_the_start"]),
    )


def _exact(worlds: Sequence[Scenario], probabilities: Array, *, with_start: bool = False) -> Visits:
    """Compute the visits of every world, probability, and policy: blue, then green."""
    visits = [
        exact_visits(world.walls, policy, probability, with_start=with_start)
        for world in worlds
        for probability in probabilities
        for policy in (world.blue, world.green)
    ]
    return stacked(visits, (len(worlds), len(probabilities), 2))


def _simulated(
    shop: Workshop, worlds: Sequence[Scenario], probabilities: Array, episodes: int
) -> Visits:
    """Simulate the same, or take what was simulated before."""

    def play() -> dict[str, Any]:
        shape = (len(worlds), len(probabilities), 2)
        visits = [
            simulated_visits(
                worlds[i].walls,
                (worlds[i].blue, worlds[i].green)[k],
                float(probabilities[j]),
                # Each has random numbers of its own, so that none depends on what else is played.
                np.random.default_rng([shop.seed, i, j, k]),
                episodes,
            )
            for i, j, k in np.ndindex(*shape)
        ]
        return vars(stacked(visits, shape))

    inputs = {
        "scenarios": [
            [world.name, *(x.tolist() for x in (world.walls, world.blue, world.green))]
            for world in worlds
        ],
        "probabilities": probabilities.tolist(),
        "episodes": episodes,
        "seed": shop.seed,
    }
    return Visits(**shop.computed("grid-visits", inputs, play))


def _states(visits: Visits) -> Array:
    """Distances of blue and green by states, (worlds, probabilities)."""
    return np.asarray(state_distance(visits.distribution[:, :, 0], visits.distribution[:, :, 1]))


def _distances(visits: Visits, world: int, probability: int) -> tuple[float, ...]:
    """Distance by states and by returns, and the returns of blue and green."""
    blue, green = visits.mean_return[world, probability].tolist()
    return float(_states(visits)[world, probability]), abs(blue - green), blue, green


def _row(
    world: Scenario, probability: float, exact: tuple[float, ...], played: tuple[float, ...]
) -> dict[str, Any]:
    return {
        "scenario": world.name,
        "random_action": probability,
        "action_distance": world.action_distance,
        "state_distance": exact[0],
        "state_distance_simulated": played[0],
        "return_distance": exact[1],
        "return_distance_simulated": played[1],
        "return_blue": exact[2],
        "return_green": exact[3],
        "return_blue_simulated": played[2],
        "return_green_simulated": played[3],
    }


def _shares(worlds: Sequence[Scenario], visits: Visits) -> Array:
    """Distances of actions, states and returns over the largest possible ones, (n, m, 3)."""
    states = _states(visits) / 2
    actions = [world.action_distance / world.most_actions for world in worlds]
    returns = np.abs(visits.mean_return[:, :, 0] - visits.mean_return[:, :, 1])
    return np.stack([np.repeat(actions, states.shape[1]).reshape(states.shape), states, returns], 2)


def _agreement(exact: Visits, played: Visits) -> dict[str, float]:
    """Deviations of the simulation from the exact distributions, in standard errors.

    For each policy the sum over cells of |simulated − exact| over the sum of the standard errors;
    for normal errors its mean is √(2/π) ≈ 0.80. Where nothing is random both are equal.
    """
    deviations = state_distance(exact.distribution, played.distribution)
    errors = played.errors.sum(axis=(-2, -1))
    counted = (errors > 0) | (deviations > 1e-9)
    with np.errstate(divide="ignore"):
        ratios = deviations[counted] / errors[counted]
    return {
        "mean": float(np.mean(ratios)),
        "largest": float(np.max(ratios)),
        "expected": np.sqrt(2 / np.pi),
    }


RECIPE = Recipe(
    name="gridworld",
    shows=(
        "Figure 1: two policies in three grid worlds, compared by returns, actions and visited "
        "states"
    ),
    counts={
        "smoke": Counts(episodes=200, probabilities=3),
        "small": Counts(episodes=2_000, probabilities=11),
        "paper": Counts(episodes=10_000, probabilities=11),
    },
    needs=needs,
    make=make,
    tell=tell,
    tells_at_smoke=True,
)
