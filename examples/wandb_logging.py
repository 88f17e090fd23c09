"""Behaviour in Weights & Biases while PPO trains: distances, path length and the map as a picture.

Needs: pip install "pivec[sb3]" wandb

Any logger takes one such function. Steps have an axis of their own, since the first descriptions
come when there are enough to fit a space, and Weights & Biases does not go back in its steps.
(Without a function, `wandb.init(sync_tensorboard=True)` and `tensorboard_log=` show the same.)
"""

from __future__ import annotations

import argparse
import io

import wandb
from PIL import Image
from stable_baselines3 import PPO

import pivec.integrations.sb3

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--offline", action="store_true", help="keep the run in the folder wandb/")
parser.add_argument("--smoke", action="store_true", help="a few seconds only, offline")
options = parser.parse_args()
steps = 1_500 if options.smoke else options.steps

mode = "offline" if options.smoke or options.offline else "online"
run = wandb.init(project="pivec", mode=mode, settings=wandb.Settings(silent=options.smoke))
run.define_metric("behaviour/*", step_metric="behaviour/step")


def log(values, step, figure):
    """Hand one description on to the run."""
    picture = io.BytesIO()
    figure.savefig(picture)
    shown = wandb.Image(Image.open(picture))  # which knows no figures made without pyplot
    run.log({**values, "behaviour/step": step, "behaviour/map": shown})


behaviour = pivec.integrations.sb3.BehaviourCallback(
    every=steps // 10, parameters={"n_components": 8}, min_episodes=3, log=log
)
PPO("MlpPolicy", "CartPole-v1", n_steps=128, seed=0, device="cpu").learn(steps, callback=behaviour)
run.finish()
print(
    f"Compared {len(behaviour.changes)} checkpoints of PPO on CartPole-v1: distance travelled "
    f"{behaviour.changes[-1].path_length:.3f}"
)
print(f"Distances and maps: {run.url or run.dir}")
