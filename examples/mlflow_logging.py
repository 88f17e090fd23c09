"""Behaviour in MLflow while PPO trains: distances, path length and the map as a picture.

Needs: pip install "pivec[sb3]" mlflow

MLflow writes where `MLFLOW_TRACKING_URI` says; `mlflow ui` shows it.
"""

from __future__ import annotations

import argparse

import mlflow
from stable_baselines3 import PPO

import pivec.integrations.sb3

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--smoke", action="store_true", help="a few seconds only")
options = parser.parse_args()
steps = 1_500 if options.smoke else options.steps


def log(values, step, figure):
    """Hand one description on to the run."""
    mlflow.log_metrics(values, step=step)
    mlflow.log_figure(figure, f"behaviour/map_{step:09d}.png")


mlflow.set_experiment("pivec")
behaviour = pivec.integrations.sb3.BehaviourCallback(
    every=steps // 10, parameters={"n_components": 8}, min_episodes=3, log=log
)
with mlflow.start_run():
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=128, seed=0, device="cpu")
    model.learn(steps, callback=behaviour)
print(
    f"Compared {len(behaviour.changes)} checkpoints of PPO on CartPole-v1: distance travelled "
    f"{behaviour.changes[-1].path_length:.3f}"
)
print(f"Distances and maps: experiment pivec in {mlflow.get_tracking_uri()}")
