"""Makes the rows of Stable-Baselines3: `pip install stable-baselines3`, then run this file."""

from __future__ import annotations

import numpy as np
import stable_baselines3
import torch
from rows import make, save_sb3, write_row
from stable_baselines3 import PPO, SAC

FACTS = {
    "library": "Stable-Baselines3",
    "version": stable_baselines3.__version__,
    "script": "scripts/checkpoints/sb3_rows.py",
}


def sample(model):
    return lambda observations: model.predict(observations)[0]


def ppo():
    model = PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [8, 8]}, n_steps=256, seed=0)
    model.learn(2048)
    save_sb3(model, "sb3-ppo")

    def answer(observations):
        with torch.no_grad():
            chances = model.policy.get_distribution(torch.as_tensor(observations)).distribution
        return {
            "actions": model.predict(observations, deterministic=True)[0],
            "probabilities": chances.probs.numpy(),
        }

    facts = {**FACTS, "what": "PPO, MLP, Discrete actions", "policy": "model.zip"}
    write_row("sb3-ppo", "CartPole-v1", sample(model), answer, **facts)


def sac():
    model = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [8]}, seed=0)
    model.learn(500)
    save_sb3(model, "sb3-sac")

    def answer(observations):
        with torch.no_grad():
            mean, log_std, _ = model.actor.get_action_dist_params(torch.as_tensor(observations))
        return {
            "actions": model.predict(observations, deterministic=True)[0],
            "mean": mean.numpy(),
            "std": np.exp(log_std.numpy()),
        }

    facts = {**FACTS, "what": "SAC, MLP, real actions", "policy": "model.zip"}
    write_row("sb3-sac", "Pendulum-v1", sample(model), answer, **facts)


def multi_input():
    wrappers = ['gymnasium.wrappers:TimeAwareObservation{"flatten": false}']
    env = make("CartPole-v1", wrappers)
    model = PPO("MultiInputPolicy", env, policy_kwargs={"net_arch": [8, 8]}, n_steps=256, seed=0)
    model.learn(2048)
    save_sb3(model, "sb3-multi-input")

    def answer(observations):
        with torch.no_grad():
            seen, _ = model.policy.obs_to_tensor(observations)
            chances = model.policy.get_distribution(seen).distribution
        return {
            "actions": model.predict(observations, deterministic=True)[0],
            "probabilities": chances.probs.numpy(),
        }

    what = "PPO, MultiInputPolicy (Dict observations), Discrete actions"
    facts = {**FACTS, "what": what, "policy": "model.zip"}
    write_row("sb3-multi-input", "CartPole-v1", sample(model), answer, wrappers, **facts)


if __name__ == "__main__":
    ppo()
    sac()
    multi_input()
