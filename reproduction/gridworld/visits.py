"""How often a policy visits each cell of a grid world, exactly and by simulation.

What counts as a visit: every step is one, to the cell in which it ends. The goal, where an episode
ends, therefore counts; the start, the same for all policies, counts only when the agent comes back
or does not get away. There are as many visits as steps, so visits divided by steps, as the paper
has it, are a distribution.

An episode that reaches the goal returns 1 − steps / timeout, another one 0. The latter takes
``timeout`` steps, so the return is 1 − steps / timeout in both cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduction.gridworld.world import TIMEOUT, disturbed, next_cells
from reproduction.published import Array


@dataclass(frozen=True, eq=False)
class Visits:
    """What is known of a policy in a world, or of many, along the first axes of all arrays."""

    distribution: Array  # (..., height, width): visits to each cell over steps; the sum is 1
    mean_return: Any  # of an episode, (...)
    mean_steps: Any
    errors: Array  # standard errors of the distribution; 0 where it is exact


def stacked(parts: Sequence[Visits], shape: tuple[int, ...]) -> Visits:
    """Put visits of single policies together."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    arrays = [np.array(column) for column in columns]
    return Visits(*(array.reshape(*shape, *array.shape[1:]) for array in arrays))


def transition_matrix(
    walls: NDArray[np.bool_], policy: NDArray[np.int64], probability: float
) -> Array:
    """Probabilities of going from cell to cell in one step, shape (n_cells, n_cells).

    With ``probability`` one of the four actions, each as likely, replaces the policy's. From the
    goal, the last cell, nothing leads anywhere: its row is 0.
    """
    table = next_cells(walls)
    n = len(table)
    chosen = np.full((n, 4), probability / 4)
    chosen[np.arange(n), policy.ravel()] += 1 - probability
    matrix = np.zeros((n, n))
    for action in range(4):
        np.add.at(matrix, (np.arange(n), table[:, action]), chosen[:, action])
    matrix[-1] = 0.0
    return matrix


def exact_visits(
    walls: NDArray[np.bool_],
    policy: NDArray[np.int64],
    probability: float,
    *,
    with_start: bool = False,
    timeout: int = TIMEOUT,
) -> Visits:
    """Expected visits over expected steps, and the expected return, by linear algebra.

    Let P be the transition matrix and x the start. Visits after step t are x Pᵗ, so the expected
    visits are x (P + … + Pᵀ), with T the timeout, and their sum is the expected number of steps.
    (I − P)⁻¹ would give the sum, but does not exist where a policy walks in circles: powers of the
    block matrix [[P, P], [0, I]] have the sum in their upper right corner in any case.

    ``with_start`` counts the first state of an episode as a visit, too, as `pivec.collect` does.
    """
    matrix = transition_matrix(walls, policy, probability)
    n = len(matrix)
    identity, nothing = np.eye(n), np.zeros((n, n))
    blocks = np.block([[matrix, matrix], [nothing, identity]])
    visits = np.linalg.matrix_power(blocks, timeout)[0, n:]
    steps = float(visits.sum())
    visits[0] += with_start
    distribution = (visits / visits.sum()).reshape(walls.shape)
    return Visits(distribution, 1 - steps / timeout, steps, np.zeros(walls.shape))


def simulated_visits(
    walls: NDArray[np.bool_],
    policy: NDArray[np.int64],
    probability: float,
    rng: np.random.Generator,
    episodes: int,
    *,
    timeout: int = TIMEOUT,
) -> Visits:
    """Visits over steps in episodes played side by side.

    The standard errors are those of a ratio of sums over independent episodes.
    """
    table, actions = next_cells(walls), policy.ravel()
    goal = len(table) - 1
    counts = np.zeros((episodes, len(table)), dtype=np.int64)
    playing = np.arange(episodes)
    cells = np.zeros(episodes, dtype=np.int64)
    for _ in range(timeout):
        moves = disturbed(actions[cells], rng.random(len(cells)), probability)
        cells = table[cells, moves]
        counts[playing, cells] += 1
        going = cells != goal
        playing, cells = playing[going], cells[going]
        if not len(playing):
            break
    steps = counts.sum(axis=1)
    total = int(steps.sum())
    distribution = counts.sum(axis=0) / total
    rest = counts - steps[:, None] * distribution
    errors = np.sqrt((rest**2).sum(axis=0)) / total
    return Visits(
        distribution.reshape(walls.shape),
        float(np.mean(1 - steps / timeout)),
        float(steps.mean()),
        errors.reshape(walls.shape),
    )


def state_distance(a: Array, b: Array) -> Any:
    """Sum of the absolute differences of two distributions over cells; 2 if they share none."""
    return np.abs(a - b).sum(axis=(-2, -1))
