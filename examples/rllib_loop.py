"""Behaviour while RLlib trains: episodes of all env runners, described after each iteration.

Needs: pip install pivec "ray[rllib]" torch

The callback keeps the episodes where they are played; after an iteration they are brought
together and described. Nothing is played for it.
"""

from __future__ import annotations

import argparse

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback

import pivec
from pivec.integrations import BehaviourMonitor

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--iterations", type=int, default=30)
parser.add_argument("--runners", type=int, default=2, help="env runners, processes of their own")
parser.add_argument("--smoke", action="store_true", help="a few seconds only")
options = parser.parse_args()


def take_episodes(runner):
    """Give the states and returns of the episodes that have ended, and forget them."""
    ended, runner.ended = getattr(runner, "ended", []), []
    return ended


class Behaviour(RLlibCallback):
    """Keeps the episodes of an env runner; a new instance is made in every one of them."""

    def on_episode_end(self, *, episode, env_runner, **_):
        """Add an episode to those of the runner."""
        if not hasattr(env_runner, "ended"):
            env_runner.ended = []
        env_runner.ended.append((episode.get_observations(), episode.get_return()))


def log(values, step, _figure):
    """Hand one description on: to Tune, MLflow, TensorBoard, or as here to the terminal."""
    moved = values.get("behaviour/distance_to_previous", 0.0)
    print(f"{step:8d}  return {values['behaviour/mean_return']:5.0f}  moved by {moved:.3f}")


monitor = BehaviourMonitor(parameters={"n_components": 8}, log=log)
algorithm = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0 if options.smoke else options.runners)
    .training(train_batch_size_per_learner=512 if options.smoke else 4000)
    .callbacks(Behaviour)
    .debugging(seed=0)
    .build_algo()
)
for iteration in range(4 if options.smoke else options.iterations):
    result = algorithm.train()
    lists = algorithm.env_runner_group.foreach_env_runner(take_episodes)
    episodes, returns = zip(*(episode for ended in lists for episode in ended), strict=True)
    monitor.add(
        pivec.VisitedStates.from_arrays(
            [list(episodes)],
            labels=[f"ppo/{iteration}"],
            steps=[int(result["env_runners"]["num_env_steps_sampled_lifetime"])],
            returns=[list(returns)],
        )
    )
algorithm.stop()
last = monitor.changes[-1]
print(
    f"Compared {len(monitor.changes)} checkpoints of PPO on CartPole-v1: distance travelled "
    f"{last.path_length:.3f}, return {last.mean_return:.0f}"
)
