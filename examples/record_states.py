"""Record the states of any loop into a store, then say how far apart its policies are.

Needs nothing but pivec. The loop here is a hill climber of four numbers in CartPole; it could be
any of yours: put the wrapper around the environment, and say who acts.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import gymnasium
import numpy as np

import pivec
from pivec.integrations.gymnasium import RecordStates

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--store", type=Path, default=None, help="a temporary folder if not given")
parser.add_argument("--smoke", action="store_true", help="a few seconds only")
options = parser.parse_args()
store = options.store or Path(tempfile.mkdtemp()) / "states"
rounds, episodes = (4, 3) if options.smoke else (30, 10)

rng = np.random.default_rng(0)
env = RecordStates(gymnasium.make("CartPole-v1"), store)
best, best_return = np.zeros(4), -np.inf
for number in range(rounds):
    weights = best + rng.normal(0.0, 0.5, 4)
    env.set_policy(f"climber/{number}", group="climber", step=number)
    total = 0.0
    for _ in range(episodes):
        observation, _ = env.reset(seed=int(rng.integers(2**31)))
        over = False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(int(observation @ weights > 0))
            total += float(reward)
            over = terminated or truncated
    if total / episodes >= best_return:
        best, best_return = weights, total / episodes
env.close()

comparison = pivec.compare(
    None, str(store), out=store.parent / "comparison", parameters={"n_components": 8}
)
near, far = comparison.intervals.low[0, -1], comparison.intervals.high[0, -1]
print(f"Compared {rounds} policies of a hill climber in CartPole-v1, best return {best_return:.0f}")
print(
    f"Distance of the last from the first: {comparison.distances[0, -1]:.3f} "
    f"(95 % interval {near:.3f} to {far:.3f})"
)
print(f"States: {store}")
print(f"Report: {comparison.report}")
