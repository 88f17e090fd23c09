"""Whole runs of PPO on the dangerous path, stopped by a constraint: seconds each.

Runs share nothing and have random numbers of their own, so a run comes out the same in whatever
company; the compiled code lets other threads run beside it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from reproduction.trust_region.network import first_parameters
from reproduction.trust_region.updates import RULES, collect_steps, improve
from reproduction.trust_region.world import draw_outcomes, locations


class PathSettings(NamedTuple):
    """How a run learns; the defaults are the paper's."""

    rule: str = "none"  # what stops the updates of an iteration: one of `RULES`
    threshold: float = np.inf  # above which it does
    clip: float = np.inf  # of the probability ratio; infinite for none
    max_updates: int = 100  # of an iteration
    # The iteration in which these are reached is the last; steps for checks do not count.
    total_steps: int = 1_000_000
    n_envs: int = 8
    n_steps: int = 512  # in each environment before the updates
    batch_size: int = 64
    learning_rate: float = 1e-3
    max_grad_norm: float = 0.5
    value_weight: float = 0.5
    trajectories: int = 5  # episodes of either policy that a check of states looks at
    old_once: bool = True  # play the old policy's once an iteration, not anew for every check
    end_points: bool = False  # repeat the last state up to a mine, or the end, see `visited`
    noise: float = 1e-3  # standard deviation of what is added to their states
    n_components: int = 4  # of the background model
    width: int = 16  # of the two layers of networks
    n_dimensions: int = 5  # of the path, see `draw_outcomes`
    length: int = 25
    mines: float = 0.5
    episode_steps: int = 25

    @property
    def iterations(self) -> int:
        """Collections of a run, each followed by updates."""
        return -(-self.total_steps // (self.n_envs * self.n_steps))


class PathRun(NamedTuple):
    """What came out of a run, a value for each iteration."""

    returns: NDArray[np.float64]  # mean of the episodes that ended while data were collected
    updates: NDArray[np.float64]  # made before the constraint, or their number, ended them
    # Of the old policy to itself by the rule: what sampling alone does to a check.
    own_distances: NDArray[np.float64]


def learn_path(settings: PathSettings, path_seed: int, seed: int | list[int]) -> PathRun:
    """Learn one path, from first networks to the last step.

    ``path_seed`` says which path; first networks, actions, batches and checks follow from ``seed``.
    """
    _check(settings)
    rng, own_rng = np.random.default_rng(seed).spawn(2)
    n_dimensions = settings.n_dimensions
    outcomes = draw_outcomes(n_dimensions, settings.length, settings.mines, path_seed)
    states = locations(outcomes).astype(np.float64)
    parameters = first_parameters(n_dimensions, settings.width, n_dimensions, rng)
    learner = np.stack([parameters, np.zeros_like(parameters), np.zeros_like(parameters)])
    agents = np.zeros((4, settings.n_envs), np.int64)
    rollout = np.zeros((3, settings.n_envs * settings.n_steps), np.int64)
    # The compiled code compares numbers: texts take seconds to compile.
    numbers: Any = settings._replace(rule=RULES.index(settings.rule))  # type: ignore[arg-type]
    run = PathRun(*np.full((3, settings.iterations), np.nan))
    count = 0
    for i in range(settings.iterations):
        ended, total = collect_steps(learner[0], outcomes, states, agents, rollout, numbers, rng)
        if ended:
            run.returns[i] = total / ended
        updates, run.own_distances[i] = improve(
            learner, count, outcomes, states, rollout, numbers, rng, own_rng
        )
        run.updates[i] = updates
        count += updates
    return run


def _check(settings: PathSettings) -> None:
    if settings.rule not in RULES:
        raise UsageError(f"rule must be one of {', '.join(RULES)}, but is {settings.rule!r}")
    if settings.rule != "none" and not settings.threshold > 0:
        raise UsageError(f"threshold must be positive, but is {settings.threshold!r}")
    if (settings.n_envs * settings.n_steps) % settings.batch_size:
        raise UsageError(
            f"batches of {settings.batch_size} must add up to the "
            f"{settings.n_envs * settings.n_steps} steps of an iteration: change batch_size or "
            "n_steps"
        )
