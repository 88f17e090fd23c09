"""Watch behaviour while PPO trains, and compare the run afterwards with nothing collected again.

Needs: pip install "pivec[sb3]"

Logs to runs/ppo-0/progress.csv (with "tensorboard" in the list below, to TensorBoard as well), and
leaves the states in runs/ppo-0/states:

    pivec compare CartPole-v1 store:runs/ppo-0/states --out comparison
"""

from __future__ import annotations

import argparse
from pathlib import Path

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

import pivec.integrations.sb3

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--out", type=Path, default=Path("runs/ppo-0"))
parser.add_argument("--smoke", action="store_true", help="a few seconds only")
options = parser.parse_args()
steps = 4_000 if options.smoke else options.steps


def balance(observations):
    """Push towards the side to which the pole falls: a simple expert to measure against."""
    return (observations[:, 2] + 0.5 * observations[:, 3] > 0).astype(int)


behaviour = pivec.integrations.sb3.BehaviourCallback(
    every=steps // 10,
    parameters={"n_components": 16},
    expert={"balance": balance},
    store=options.out / "states",
)
model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 4, seed=0), n_steps=128, seed=0, device="cpu")
model.set_logger(configure(str(options.out), ["csv"]))
model.learn(steps, callback=behaviour)

print(f"Compared {len(behaviour.changes)} checkpoints of PPO on CartPole-v1:\n")
print("    step  return  to previous (95 % interval)  to expert  path length")
for change in behaviour.changes:
    low, high = change.previous_interval
    print(
        f"{change.step:8d}  {change.mean_return:6.0f}  {change.to_previous:11.4f} ({low:.4f} to "
        f"{high:.4f})  {change.to_expert:9.4f}  {change.path_length:11.4f}"
    )
print(f"\nStates: {options.out / 'states'}. To write a map and a report:")
print(f"pivec compare CartPole-v1 store:{options.out / 'states'} --out comparison")
