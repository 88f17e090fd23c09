"""Makes the rows of rsl_rl: `pip install rsl-rl-lib gymnasium`, then run this file.

With version 5 it makes `rsl_rl-ppo` and `rsl_rl-lstm`, with versions 3 and 4 (as in Isaac Lab 2)
`rsl_rl-3-ppo` and `rsl_rl-3-gru`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import gymnasium
import numpy as np
import torch
import yaml
from rows import ROWS, write_row
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

VERSION = version("rsl-rl-lib")
ENVIRONMENT = "Pendulum-v1"


class Environments(VecEnv):
    """Gymnasium's environments as rsl_rl wants them; actions are clipped to their box."""

    def __init__(self, n=4):
        self.envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(ENVIRONMENT)] * n)
        self.num_envs, self.num_actions, self.max_episode_length = n, 1, 200
        self.episode_length_buf = torch.zeros(n, dtype=torch.long)
        self.device, self.cfg = "cpu", {}
        self.observations, _ = self.envs.reset(seed=0)

    def get_observations(self):
        return TensorDict(
            {"policy": torch.as_tensor(self.observations)}, batch_size=[self.num_envs]
        )

    def step(self, actions):
        low, high = self.envs.single_action_space.low, self.envs.single_action_space.high
        self.observations, rewards, ended, cut, _ = self.envs.step(
            np.clip(actions.numpy(), low, high)
        )
        done = torch.as_tensor(ended | cut).long()
        extras = {"time_outs": torch.as_tensor(cut)}
        return self.get_observations(), torch.as_tensor(rewards).float(), done, extras


def settings(new, memory):
    """As Isaac Lab keeps them in params/agent.yaml; activations are elu, its default."""
    network = {"hidden_dims": [8, 8], "activation": "elu", "obs_normalization": True}
    network["class_name"] = "RNNModel" if memory else "MLPModel"
    rnn = {"rnn_type": memory, "rnn_hidden_dim": 6, "rnn_num_layers": 2} if memory else {}
    network |= rnn
    models = {
        "actor": {
            **network,
            "distribution_cfg": {"class_name": "GaussianDistribution", "std_type": "scalar"},
        },
        "critic": network,
    }
    policy = {
        "class_name": "ActorCriticRecurrent" if memory else "ActorCritic",
        **rnn,
        "actor_hidden_dims": [8, 8],
        "critic_hidden_dims": [8, 8],
        "activation": "tanh",
        "actor_obs_normalization": True,
        "critic_obs_normalization": True,
        "noise_std_type": "log",
    }
    return {
        "seed": 0,
        "num_steps_per_env": 64,
        "save_interval": 10,
        "logger": "tensorboard",
        "obs_groups": {"actor" if new else "policy": ["policy"], "critic": ["policy"]},
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 4},
        **(models if new else {"policy": policy}),
    }


def make(name, new, memory=""):
    torch.manual_seed(0)
    config = settings(new, memory)
    (ROWS / name).mkdir(parents=True, exist_ok=True)
    if not new:
        (ROWS / name / "params").mkdir(exist_ok=True)
        (ROWS / name / "params" / "agent.yaml").write_text(yaml.safe_dump(config))
    with tempfile.TemporaryDirectory() as folder:
        runner = OnPolicyRunner(Environments(), config, log_dir=folder)
        runner.learn(11)
        shutil.copy(Path(folder) / "model_10.pt", ROWS / name / "model_10.pt")
    space = runner.env.envs.single_action_space
    policy = runner.alg.get_policy() if new else runner.alg.policy
    policy.eval()

    @torch.no_grad()
    def moments(observations, start=True):
        if memory and start:
            policy.reset()
        if memory and start and not new:
            policy.memory_a.hidden_state = None
        given = TensorDict(
            {"policy": torch.as_tensor(observations)}, batch_size=[len(observations)]
        )
        if new:
            policy(given, stochastic_output=True)
            return policy.output_mean, policy.output_std
        policy.act(given)
        return policy.action_mean, policy.action_std

    def act(observations, *start):
        actions = torch.normal(*moments(observations, *start)).numpy()
        return np.clip(actions, space.low, space.high)

    def answer(observations, starts=None):
        if starts is None:
            mean, std = (value.numpy() for value in moments(observations))
        else:  # successive observations
            both = zip(observations, starts, strict=True)
            pairs = [moments(row[None], start) for row, start in both]
            mean, std = (torch.cat(values).numpy() for values in zip(*pairs, strict=True))
        return {"actions": np.clip(mean, space.low, space.high), "mean": mean, "std": std}

    network = f"{memory.upper()} of two layers" if memory else "MLP"
    write_row(
        name,
        ENVIRONMENT,
        act,
        answer,
        recurrent=bool(memory),
        library="rsl_rl",
        version=VERSION,
        what=f"PPO, {network}, normalised observations"
        + (", logarithms of deviations" * (not new)),
        policy="model_10.pt",
        script="scripts/checkpoints/rsl_rl_rows.py",
    )


if __name__ == "__main__":
    # Names of rows to make; all of this version by default.
    rows = {"rsl_rl-ppo": (True,), "rsl_rl-lstm": (True, "lstm")}
    if int(VERSION.split(".")[0]) < 5:
        rows = {"rsl_rl-3-ppo": (False,), "rsl_rl-3-gru": (False, "gru")}
    for name in sys.argv[1:] or rows:
        make(name, *rows[name])
