"""Quality diversity by visited states: CMA-ME, or novelty, around the wall of a deceptive point.

Needs: pip install "pivec[ribs]"

Run it in a clone: the environment is in reproduction/.

Straight up ends in a pocket, with a return of 0.65. Archives that keep what *behaves* differently
find the way around, above 3. Measures are the two main directions in which random networks differ
by the states they visit (grid), or the whole vectors of visitation (proximity).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import gymnasium
import numpy as np
from ribs.archives import GridArchive
from ribs.emitters import EvolutionStrategyEmitter
from ribs.schedulers import Scheduler

import pivec
from pivec.integrations import BehaviourMeasures
from pivec.integrations.ribs import ProximityArchive

sys.path.append(str(Path(__file__).parents[1]))  # of the repository, for reproduction/
import reproduction.worlds  # noqa: F401  registers the environment

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--archive", choices=["grid", "proximity"], default="grid")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--smoke", action="store_true", help="a few seconds only")
options = parser.parse_args()
HIDDEN = 8
SIZE = 4 * HIDDEN + 1  # weights and biases of a network from (x, y) to a direction


def play(solutions: np.ndarray) -> pivec.VisitedStates:
    """Let all networks play an episode side by side."""
    n = len(solutions)
    env = gymnasium.make_vec("pivec/DeceptivePoint-v0", num_envs=n)
    w1, b1, w2, b2 = np.split(solutions, [2 * HIDDEN, 3 * HIDDEN, 4 * HIDDEN], axis=1)
    observations, _ = env.reset(seed=0)
    states, returns = [observations], np.zeros(n)
    for _ in range(100):
        hidden = np.tanh(np.einsum("ni,nih->nh", observations, w1.reshape(n, 2, HIDDEN)) + b1)
        actions = np.tanh((hidden * w2).sum(axis=1, keepdims=True) + b2)
        observations, rewards, *_ = env.step(actions.astype(np.float32))
        states.append(observations)
        returns += rewards
    return pivec.VisitedStates.from_arrays(
        [[episode] for episode in np.stack(states, axis=1)], returns=list(returns)
    )


random = play(np.random.default_rng(options.seed).normal(size=(100, SIZE)))
is_grid = options.archive == "grid"
measures = BehaviourMeasures.fit(
    random, parameters={"n_components": 8}, n_measures=2 if is_grid else None
)
archive = (
    GridArchive(solution_dim=SIZE, dims=[30, 30], ranges=measures.ranges(), seed=options.seed)
    if is_grid
    else ProximityArchive(measures, solution_dim=SIZE, seed=options.seed)
)
emitters = [
    EvolutionStrategyEmitter(
        archive,
        x0=np.zeros(SIZE),
        sigma0=0.5,
        ranker="2imp" if is_grid else "nov",
        batch_size=30,
        seed=options.seed + i,
    )
    for i in range(3)
]
scheduler = Scheduler(archive, emitters)
for generation in range(5 if options.smoke else 60):
    played = play(scheduler.ask())
    scheduler.tell(played.mean_returns, measures(played))
    if generation % 10 == 9:
        print(
            f"{generation + 1:3d} generations, {len(archive)} entries, best return "
            f"{archive.stats.obj_max:.2f}"
        )
print(
    f"Compared {(generation + 1) * 90} networks by the states they visit: {len(archive)} kinds of "
    f"behaviour kept, best return {archive.stats.obj_max:.2f} (straight up gives 0.65)"
)
