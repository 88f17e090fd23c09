"""Figure 1: what returns, actions and visited states say of two policies in a grid world.

Three scenarios, each with a blue and a green policy, over the probability that a random action
replaces the policy's; exact by linear algebra, and simulated as in the paper.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.paper.gridworld.figure import gridworld_figure
from pivec.paper.gridworld.page import distance_table, findings, notes
from pivec.paper.gridworld.scenarios import Scenario, scenarios
from pivec.paper.gridworld.visits import (
    Visits,
    exact_visits,
    simulated_visits,
    state_distance,
)
from pivec.paper.recipes import Calculation, Need, Recipe, Result
from pivec.paper.workshop import Workshop

Array = NDArray[np.float64]

SMOOTH = 101  # probabilities at which the exact lines of the figure are computed


@dataclass(frozen=True)
class Counts:
    """How many episodes of each policy, and how many probabilities from 0 to 1."""

    episodes: int
    probabilities: int


@dataclass(frozen=True, eq=False)
class _Pair:
    """Blue and green in one world, at one probability of a random action."""

    blue: Visits
    green: Visits

    @property
    def returns(self) -> float:
        return abs(self.blue.mean_return - self.green.mean_return)

    @property
    def states(self) -> float:
        return state_distance(self.blue.distribution, self.green.distribution)


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
    exact = [[_exact(world, p) for p in probabilities] for world in worlds]
    simulated = _simulated(shop, worlds, probabilities, counts.episodes)
    rows = [
        _row(world, float(p), *pairs)
        for world, computed, played in zip(worlds, exact, simulated, strict=True)
        for p, *pairs in zip(probabilities, computed, played, strict=True)
    ]
    smooth = np.linspace(0, 1, SMOOTH)
    lines = _shares(worlds, [[_exact(world, p) for p in smooth] for world in worlds])
    marks = _shares(worlds, simulated)
    figure = gridworld_figure(worlds, (smooth, lines), (probabilities, marks), counts.episodes)
    agreement = _agreement(exact, simulated)
    start = _effect_of_the_start(worlds, probabilities, exact)
    return Result(
        numbers={"rows": rows, "agreement": agreement, "effect_of_counting_the_start": start},
        rows=rows,
        figures={"gridworld": figure},
        tables=distance_table(worlds, rows),
        findings=findings(worlds, rows, agreement),
        notes=notes(start),
    )


def _exact(world: Scenario, probability: float, *, with_start: bool = False) -> _Pair:
    return _Pair(
        *(
            exact_visits(world.walls, policy, probability, with_start=with_start)
            for policy in _policies(world)
        )
    )


def _policies(world: Scenario) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return world.blue, world.green


def _simulated(
    shop: Workshop, worlds: tuple[Scenario, ...], probabilities: Array, episodes: int
) -> list[list[_Pair]]:
    """Simulate, or take what was simulated before."""

    def play() -> dict[str, Any]:
        shape = (len(worlds), len(probabilities), 2)
        cells = worlds[0].walls.shape
        distributions, errors = np.zeros((2, *shape, *cells))
        returns, steps = np.zeros((2, *shape))
        for i, j, k in np.ndindex(*shape):
            # Each has random numbers of its own, so that none depends on what else is played.
            played = simulated_visits(
                worlds[i].walls,
                _policies(worlds[i])[k],
                float(probabilities[j]),
                np.random.default_rng([shop.seed, i, j, k]),
                episodes,
            )
            distributions[i, j, k], errors[i, j, k] = played.distribution, played.errors
            returns[i, j, k], steps[i, j, k] = played.mean_return, played.mean_steps
        return {"distribution": distributions, "errors": errors, "return": returns, "steps": steps}

    inputs = {
        "scenarios": [[world.name, *(x.tolist() for x in _arrays(world))] for world in worlds],
        "probabilities": probabilities.tolist(),
        "episodes": episodes,
        "seed": shop.seed,
    }
    kept = shop.computed("gridworld", inputs, play)

    def visits(i: int, j: int, k: int) -> Visits:
        return Visits(
            kept["distribution"][i, j, k],
            float(kept["return"][i, j, k]),
            float(kept["steps"][i, j, k]),
            kept["errors"][i, j, k],
        )

    return [
        [_Pair(visits(i, j, 0), visits(i, j, 1)) for j in range(len(probabilities))]
        for i in range(len(worlds))
    ]


def _arrays(world: Scenario) -> tuple[NDArray[Any], ...]:
    return world.walls, world.blue, world.green


def _row(world: Scenario, probability: float, exact: _Pair, played: _Pair) -> dict[str, Any]:
    return {
        "scenario": world.name,
        "random_action": probability,
        "action_distance": world.action_distance,
        "state_distance": exact.states,
        "state_distance_simulated": played.states,
        "return_distance": exact.returns,
        "return_distance_simulated": played.returns,
        "return_blue": exact.blue.mean_return,
        "return_green": exact.green.mean_return,
        "return_blue_simulated": played.blue.mean_return,
        "return_green_simulated": played.green.mean_return,
    }


def _shares(worlds: tuple[Scenario, ...], pairs: list[list[_Pair]]) -> Array:
    """Distances of actions, states and returns over the largest possible ones, (n, m, 3)."""
    return np.array(
        [
            [
                [world.action_distance / world.most_actions, pair.states / 2, pair.returns]
                for pair in line
            ]
            for world, line in zip(worlds, pairs, strict=True)
        ]
    )


def _agreement(exact: list[list[_Pair]], simulated: list[list[_Pair]]) -> dict[str, float]:
    """Deviations of the simulation from the exact distributions, in standard errors.

    For each policy the sum over cells of |simulated − exact| over the sum of the standard errors;
    for normal errors its mean is √(2/π) ≈ 0.80. Where nothing is random both are equal.
    """
    ratios = []
    for line, played in zip(exact, simulated, strict=True):
        for ours, theirs in zip(line, played, strict=True):
            for a, b in ((ours.blue, theirs.blue), (ours.green, theirs.green)):
                deviation = float(np.abs(a.distribution - b.distribution).sum())
                if b.errors.any():
                    ratios.append(deviation / float(b.errors.sum()))
                elif deviation > 1e-9:
                    ratios.append(np.inf)
    return {
        "mean": float(np.mean(ratios)),
        "largest": float(np.max(ratios)),
        "expected": np.sqrt(2 / np.pi),
    }


def _effect_of_the_start(
    worlds: tuple[Scenario, ...], probabilities: Array, exact: list[list[_Pair]]
) -> float:
    """Largest change of a state distance when first states count as visits, too."""
    return max(
        abs(_exact(world, p, with_start=True).states - pair.states)
        for world, line in zip(worlds, exact, strict=True)
        for p, pair in zip(probabilities, line, strict=True)
    )


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
)
