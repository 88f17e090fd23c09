"""Makes the rows of rl_games: `pip install rl-games gymnasium`, then run this file."""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

import gymnasium
import numpy as np
import torch
import yaml
from rl_games.algos_torch.players import rescale_actions
from rl_games.common import env_configurations, vecenv
from rl_games.torch_runner import Runner
from rows import ROWS, write_row

FACTS = {
    "library": "rl_games",
    "version": version("rl-games"),
    "script": "scripts/checkpoints/rl_games_rows.py",
}


class Environments(vecenv.IVecEnv):
    """Gymnasium's environments as rl_games wants them."""

    def __init__(self, name, n):
        self.envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(name)] * n)

    def step(self, actions):
        observations, rewards, ended, cut, _ = self.envs.step(actions)
        return observations, rewards.astype(np.float32), ended | cut, {}

    def reset(self):
        return self.envs.reset(seed=0)[0]

    def get_env_info(self):
        spaces = {"observation_space": self.envs.single_observation_space}
        return {**spaces, "action_space": self.envs.single_action_space, "agents": 1}


def configuration(environment, discrete):
    nothing = {"name": "default"}
    real = {
        "mu_activation": "None",
        "sigma_activation": "None",
        "mu_init": nothing,
        "sigma_init": {"name": "const_initializer", "val": 0},
        "fixed_sigma": True,
    }
    mlp = {"units": [8, 8], "activation": "relu" if discrete else "elu", "initializer": nothing}
    return {
        "seed": 0,
        "algo": {"name": "a2c_discrete" if discrete else "a2c_continuous"},
        "model": {"name": "discrete_a2c" if discrete else "continuous_a2c_logstd"},
        "network": {
            "name": "actor_critic",
            "separate": False,
            "space": {"discrete": None} if discrete else {"continuous": real},
            "mlp": mlp,
        },
        "config": {
            "name": "run",
            "env_name": environment,
            "device": "cpu",
            "device_name": "cpu",
            "reward_shaper": {"scale_value": 0.1},
            "normalize_input": not discrete,
            "normalize_advantage": True,
            "normalize_value": False,
            "gamma": 0.99,
            "tau": 0.95,
            "learning_rate": 3e-4,
            "grad_norm": 1.0,
            "entropy_coef": 0.0,
            "truncate_grads": True,
            "e_clip": 0.2,
            "clip_value": True,
            "num_actors": 4,
            "horizon_length": 64,
            "minibatch_size": 64,
            "mini_epochs": 2,
            "critic_coef": 1,
            "kl_threshold": 0.008,
            "lr_schedule": None,
            "bounds_loss_coef": 0.0,
            "max_epochs": 3,
            "save_frequency": 0,
            "score_to_win": 10**6,
        },
    }


def make(name, environment, what, discrete):
    vecenv.register("GYMNASIUM", lambda config, n, **_: Environments(config, n))
    env_configurations.register(environment, {"vecenv_type": "GYMNASIUM"})
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        runner = Runner()
        runner.load({"params": configuration(environment, discrete)})
        runner.reset()
        agent = runner.algo_factory.create(runner.algo_name, base_name="run", params=runner.params)
        agent.train()
        file = max(Path(folder).rglob("*.pth"), key=lambda path: path.stat().st_mtime)
        (ROWS / name / "nn").mkdir(parents=True, exist_ok=True)
        shutil.copy(file, ROWS / name / "nn" / "run.pth")
        os.chdir(ROWS)
    if discrete:
        (ROWS / name / "params").mkdir(exist_ok=True)
        text = yaml.safe_dump({"params": configuration(environment, discrete)})
        (ROWS / name / "params" / "agent.yaml").write_text(text)
    model = agent.model.eval()
    space = agent.env_info["action_space"]

    @torch.no_grad()
    def outputs(observations):
        given = {"is_train": False, "prev_actions": None, "obs": torch.as_tensor(observations)}
        return model(given)

    def boxed(values):
        low, high = (torch.as_tensor(edge) for edge in (space.low, space.high))
        return rescale_actions(low, high, torch.clamp(values, -1.0, 1.0)).numpy()

    def act(observations):
        actions = outputs(observations)["actions"]
        return actions.numpy() if discrete else boxed(actions)

    def answer(observations):
        given = outputs(observations)
        if discrete:
            chances = given["logits"].softmax(1)
            return {"actions": chances.argmax(1).numpy(), "probabilities": chances.numpy()}
        mean, std = given["mus"], given["sigmas"]
        return {"actions": boxed(mean), "mean": mean.numpy(), "std": std.numpy()}

    write_row(name, environment, act, answer, **FACTS, what=what, policy="nn/run.pth")


if __name__ == "__main__":
    make("rl_games-ppo", "CartPole-v1", "PPO, MLP, Discrete actions", discrete=True)
    what = "PPO, MLP, real actions, normalised observations"
    make("rl_games-ppo-real", "Pendulum-v1", what, discrete=False)
