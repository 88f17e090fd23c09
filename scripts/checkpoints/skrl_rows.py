"""Makes the rows of skrl: `pip install "skrl[torch]"`, then run this file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import gymnasium
import skrl
import torch
import yaml
from rows import ROWS, write_row
from skrl.envs.wrappers.torch import wrap_env
from skrl.utils import set_seed
from skrl.utils.runner.torch import Runner

FACTS = {
    "library": "skrl",
    "version": skrl.__version__,
    "script": "scripts/checkpoints/skrl_rows.py",
    "policy": "checkpoints/agent_256.pt",
}


def configuration(folder, kind, policy, separate):
    """What Isaac Lab keeps as params/agent.yaml, and skrl's Runner takes."""
    activation = "tanh" if separate else "elu"
    network = [
        {"name": "net", "input": "OBSERVATIONS", "layers": [8, 8], "activations": activation}
    ]
    value = {"class": "DeterministicMixin", "network": network, "output": "ONE"}
    scaler = {"observation_preprocessor": "RunningStandardScaler"} if separate else {}
    return {
        "seed": 0,
        "models": {"separate": separate, "policy": {**policy, "network": network}, "value": value},
        "memory": {"class": "RandomMemory", "memory_size": 64},
        "agent": {
            "class": kind,
            "rollouts": 64,
            "learning_epochs": 2,
            "mini_batches": 4,
            **scaler,
            "experiment": {
                "directory": str(folder),
                "experiment_name": "run",
                "write_interval": 0,
                "checkpoint_interval": 256,
            },
        },
        "trainer": {"class": "SequentialTrainer", "timesteps": 256, "disable_progressbar": True},
    }


def make(name, environment, what, policy, separate):
    set_seed(0)
    env = wrap_env(gymnasium.make(environment))
    with tempfile.TemporaryDirectory() as folder:
        config = configuration(folder, "PPO", policy, separate)
        if separate:  # as Isaac Lab keeps it; without, the activation is assumed
            config["agent"]["experiment"]["directory"] = ""
            (ROWS / name / "params").mkdir(parents=True, exist_ok=True)
            (ROWS / name / "params" / "agent.yaml").write_text(yaml.safe_dump(config))
            config["agent"]["experiment"]["directory"] = folder
        runner = Runner(env, config)
        runner.run()
        target = ROWS / name / FACTS["policy"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(next(Path(folder).rglob("agent_256.pt")), target)
    agent = runner.agent
    agent.enable_models_training_mode(False)

    @torch.no_grad()
    def outputs(observations):
        given = torch.as_tensor(observations)
        inputs = {"observations": agent._observation_preprocessor(given)}
        return agent.policy.act(inputs, role="policy")

    def act(observations):
        return outputs(observations)[0].numpy().reshape(len(observations), *env.action_space.shape)

    def answer(observations):
        outputs(observations)
        if isinstance(env.action_space, gymnasium.spaces.Discrete):
            chances = agent.policy.distribution(role="policy").probs
            return {"actions": chances.argmax(1).numpy(), "probabilities": chances.numpy()}
        given = agent.policy.distribution(role="policy")
        box = (torch.as_tensor(edge) for edge in (env.action_space.low, env.action_space.high))
        actions = given.mean.clamp(*box)
        return {"actions": actions.numpy(), "mean": given.mean.numpy(), "std": given.stddev.numpy()}

    write_row(name, environment, act, answer, **FACTS, what=what)


if __name__ == "__main__":
    make(
        "skrl-ppo",
        "CartPole-v1",
        "PPO, shared MLP, Discrete actions",
        {"class": "CategoricalMixin", "output": "ACTIONS"},
        separate=False,
    )
    make(
        "skrl-ppo-real",
        "Pendulum-v1",
        "PPO, MLP, real actions, RunningStandardScaler",
        {"class": "GaussianMixin", "clip_actions": True, "output": "ACTIONS"},
        separate=True,
    )
