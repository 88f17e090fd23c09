"""Stop training when behaviour has not changed for some checkpoints, beyond sampling noise.

Needs: pip install "pivec[sb3]"

The same rule judges any sequence of distances, here those of a run that was kept.
"""

from __future__ import annotations

import argparse

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import pivec.integrations.sb3
from pivec.statistics import ConvergenceRule

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=300_000)
parser.add_argument("--smoke", action="store_true", help="a few seconds only")
options = parser.parse_args()
# At smoke size nearly everything counts as unchanged, so that something is seen to stop.
steps, checkpoints, tolerance = (8_000, 2, 1.0) if options.smoke else (options.steps, 6, 0.05)

behaviour = pivec.integrations.sb3.BehaviourCallback(
    every=steps // 40, parameters={"n_components": 16}
)
stop = pivec.integrations.sb3.StopWhenBehaviourSettles(behaviour, checkpoints, tolerance, verbose=1)
model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 4, seed=0), n_steps=128, seed=0, device="cpu")
model.learn(steps, callback=[behaviour, stop])
print(f"Compared {len(behaviour.changes)} checkpoints of PPO on CartPole-v1.")
print(f"Trained for {model.num_timesteps} of {steps} steps")

# Afterwards, on the distances between all checkpoints, without noise, and their standard errors:
rule = ConvergenceRule(checkpoints, tolerance)
space = behaviour.monitor.space
intervals = space.method.intervals(space.descriptions)
settled = rule.converged_at(intervals.distance, intervals.standard_error)
where = "not settled" if settled is None else f"settled at {behaviour.changes[settled].label}"
print(f"Behaviour had {where} (changes within {tolerance:g} over {checkpoints} checkpoints).")
