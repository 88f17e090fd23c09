"""Whole runs of PPO on the dangerous path, stopped by a constraint: seconds each.

Runs share nothing and have random numbers of their own, so a run comes out the same in whatever
company; the compiled code lets other threads run beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.paper.trust_region.network import first_parameters
from pivec.paper.trust_region.updates import RULES, Numbers, collect_steps, improve
from pivec.paper.trust_region.world import draw_outcomes, locations


@dataclass(frozen=True)
class PathSettings:
    """How a run learns; the defaults are the paper's.

    Attributes
    ----------
    rule : str
        What stops the updates of an iteration: one of `RULES`.
    threshold : float
        Above which it does.
    clip : float
        Clipping of the probability ratio; infinite for none.
    max_updates : int
        Updates of an iteration, at most.
    total_steps : int
        Environment steps of a run; the iteration in which they are reached is the last. Steps
        that are taken for checks do not count.
    n_envs, n_steps : int
        Environments, and steps in each before the updates.
    batch_size : int
    learning_rate, max_grad_norm, value_weight : float
    trajectories : int
        Episodes of either policy that a check of states looks at.
    old_once : bool
        Play those of the old policy once an iteration, instead of anew for every check.
    noise : float
        Standard deviation of what is added to their states.
    n_components : int
        Components of the background model.
    n_dimensions, length, mines
        Of the path, see `pivec.paper.trust_region.world.draw_outcomes`.
    episode_steps : int
    """

    rule: str = "none"
    threshold: float = np.inf
    clip: float = np.inf
    max_updates: int = 100
    total_steps: int = 1_000_000
    n_envs: int = 8
    n_steps: int = 512
    batch_size: int = 64
    learning_rate: float = 1e-3
    max_grad_norm: float = 0.5
    value_weight: float = 0.5
    trajectories: int = 5
    old_once: bool = False
    noise: float = 1e-3
    n_components: int = 4
    n_dimensions: int = 5
    length: int = 25
    mines: float = 0.5
    episode_steps: int = 25

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError(f"rule must be one of {', '.join(RULES)}, but is {self.rule!r}")
        if self.rule != "none" and not self.threshold > 0:
            raise UsageError(f"threshold must be positive, but is {self.threshold!r}")
        if (self.n_envs * self.n_steps) % self.batch_size:
            raise UsageError(
                f"batches of {self.batch_size} must add up to the {self.n_envs * self.n_steps} "
                "steps of an iteration: change batch_size or n_steps"
            )

    @property
    def iterations(self) -> int:
        """Collections of a run, each followed by updates."""
        return -(-self.total_steps // (self.n_envs * self.n_steps))


@dataclass(frozen=True)
class PathRun:
    """What came out of a run, a value for each iteration.

    Attributes
    ----------
    returns : (n_iterations,) array
        Mean return of the episodes that ended while data were collected.
    updates : (n_iterations,) array
        Updates that were made before the constraint, or their number, ended them.
    own_distances : (n_iterations,) array
        Distance of the old policy to itself by the rule: what sampling alone does to a check.
    """

    returns: NDArray[np.float64]
    updates: NDArray[np.float64]
    own_distances: NDArray[np.float64]


def learn_path(settings: PathSettings, path_seed: int, seed: int | list[int]) -> PathRun:
    """Learn one path, from first networks to the last step.

    Parameters
    ----------
    settings : PathSettings
    path_seed : int
        Which path.
    seed : int or list of int
        First networks, actions, batches and checks follow from it.

    Examples
    --------
    >>> short = PathSettings(rule="max-tv", threshold=0.4, total_steps=40_960)
    >>> run = learn_path(short, path_seed=0, seed=0)
    >>> run.returns.shape, bool(run.returns[-1] > run.returns[0])
    ((10,), True)
    """
    rng, own_rng = np.random.default_rng(seed).spawn(2)
    n_dimensions = settings.n_dimensions
    outcomes = draw_outcomes(n_dimensions, settings.length, settings.mines, path_seed)
    states = locations(outcomes).astype(np.float64)
    parameters = first_parameters(n_dimensions, n_dimensions, rng)
    learner = np.stack([parameters, np.zeros_like(parameters), np.zeros_like(parameters)])
    agents = np.zeros((4, settings.n_envs), np.int64)
    rollout = np.zeros((3, settings.n_envs * settings.n_steps), np.int64)
    numbers = _numbers(settings)
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


def _numbers(settings: PathSettings) -> Numbers:
    values: dict[str, Any] = {name: getattr(settings, name) for name in Numbers._fields}
    return Numbers(**{**values, "rule": RULES.index(settings.rule)})
