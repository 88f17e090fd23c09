"""Makes the rows of RLlib's new API stack: `pip install "ray[rllib]" torch`, then run this file.

Names of rows as arguments make these alone.
"""

from __future__ import annotations

import shutil
import sys

import numpy as np
import ray
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.utils.spaces.space_utils import unsquash_action
from ray.tune.registry import register_env
from rows import ROWS, write_row
from rows import make as made

FACTS = {
    "library": "RLlib",
    "version": ray.__version__,
    "script": "scripts/checkpoints/rllib_rows.py",
    "policy": "checkpoint_000000",
}
# The rest, on which neither weights nor actions depend, is left out so that rows stay small.
KEPT = ("rllib_checkpoint.json", "learner_group/learner/rl_module", "connector/")


# Images that are small enough to ship what sees them: stacks of stacked observations, 4 x 5 x 4.
IMAGES = tuple(f'gymnasium.wrappers:FrameStackObservation{{"stack_size": {n}}}' for n in (5, 4))


def make(name, environment, what, config, squash=None, wrappers=(), rounds=1):
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    register_env(name, lambda _: made(environment, wrappers))
    algorithm = config.environment(name).learners(num_learners=0).debugging(seed=0).build_algo()
    for _ in range(rounds):
        algorithm.train()
    folder = ROWS / name / FACTS["policy"]
    shutil.rmtree(folder, ignore_errors=True)
    algorithm.save_to_path(str(folder))
    for file in folder.rglob("*.*"):
        if not any(part in str(file) for part in KEPT):
            file.unlink()
    runner, module = algorithm.env_runner, algorithm.get_module()
    space = runner.env.single_action_space
    filters = [c for c in runner._env_to_module.connectors if isinstance(c, MeanStdFilter)]

    recurrent, memory = module.is_stateful(), None

    def remembered(observations, starts, explore):
        """Give the outputs of a module with a memory, for successive observations."""
        nonlocal memory
        rows = []
        for row, start in zip(observations, starts, strict=True):
            if start:
                first = module.get_initial_state()
                memory = {key: torch.as_tensor(value)[None] for key, value in first.items()}
            batch = {"obs": torch.as_tensor(row)[None, None], "state_in": memory}
            out = module.forward_exploration(batch) if explore else module.forward_inference(batch)
            memory = out["state_out"]
            rows.append(out["action_dist_inputs"][:, 0])
        return {"action_dist_inputs": torch.cat(rows)}

    def outputs(observations, explore, *starts):
        for connector in filters:
            (statistics,) = connector._filters.values()
            observations = np.stack([statistics(row, update=False) for row in observations])
        if recurrent:
            with torch.no_grad():
                return remembered(observations, *starts, explore)
        batch = {"obs": torch.as_tensor(np.asarray(observations, np.float32))}
        with torch.no_grad():
            return (
                module.forward_exploration(batch, t=10**9)
                if explore
                else module.forward_inference(batch)
            )

    def chosen(observations, explore, *starts):
        out = outputs(observations, explore, *starts)
        if "actions" in out:  # of DQN
            return out["actions"].numpy()
        kind = module.get_exploration_action_dist_cls()
        distribution = kind.from_logits(out["action_dist_inputs"])
        if explore:
            values = distribution.sample()
        elif squash:  # RLlib forgets it where it does not explore
            values = distribution._squash(distribution.loc)
        else:
            values = distribution.to_deterministic().sample()
        return unsquash_action(values.numpy(), space)

    def answer(observations, *starts):
        answers = {"actions": chosen(observations, False, *starts)}
        out = outputs(observations, False, *starts)
        if "action_dist_inputs" in out:
            given = (
                module.get_exploration_action_dist_cls()
                .from_logits(out["action_dist_inputs"])
                ._dist
            )
            if hasattr(given, "probs"):
                answers["probabilities"] = given.probs.numpy()
            else:
                answers |= {"mean": given.mean.numpy(), "std": given.stddev.numpy()}
        return answers

    greedy = isinstance(config, DQNConfig)
    act = lambda rows, *start: chosen(rows, not greedy, *([first] for first in start))  # noqa: E731
    write_row(name, environment, act, answer, wrappers, recurrent, **FACTS, what=what)
    algorithm.stop()


def model(**settings):
    return {"model_config": DefaultModelConfig(**{"fcnet_hiddens": [8, 8], **settings})}


def ppo(**connector):
    return (
        PPOConfig()
        .env_runners(num_env_runners=0, **connector)
        .training(train_batch_size=512, minibatch_size=64, num_epochs=4)
    )


def off_policy(config):
    buffer = {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 1000}
    return config.env_runners(num_env_runners=0).training(
        num_steps_sampled_before_learning_starts=10, replay_buffer_config=buffer
    )


if __name__ == "__main__":
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=100_000_000)
    make("rllib-ppo", "CartPole-v1", "PPO, MLP, Discrete actions", ppo().rl_module(**model()))
    convolutions = [[4, 3, 2], [5, 2, 1], [6, 2, 1, "valid"]]
    make(
        "rllib-ppo-images",
        "CartPole-v1",
        "PPO, convolutions, Discrete actions",
        ppo().rl_module(**model(conv_filters=convolutions, head_fcnet_hiddens=[8])),
        wrappers=IMAGES,
    )
    make(
        "rllib-ppo-real",
        "Pendulum-v1",
        "PPO, MLP, real actions, free deviations",
        ppo().rl_module(**model(vf_share_layers=False, free_log_std=True, fcnet_activation="relu")),
    )
    make(
        "rllib-ppo-lstm",
        "CartPole-v1",
        "PPO, LSTM, Discrete actions",
        ppo()
        .training(lr=0.003)
        .rl_module(**model(use_lstm=True, lstm_cell_size=8, max_seq_len=10)),
        rounds=20,
    )
    make(
        "rllib-ppo-filter",
        "Pendulum-v1",
        "PPO, MLP, real actions, MeanStdFilter",
        ppo(env_to_module_connector=lambda *_, **__: MeanStdFilter()).rl_module(**model()),
    )
    make(
        "rllib-dqn", "CartPole-v1", "DQN, dueling MLP", off_policy(DQNConfig()).rl_module(**model())
    )
    make(
        "rllib-sac",
        "Pendulum-v1",
        "SAC, MLP, real actions",
        off_policy(SACConfig()).rl_module(**model(fcnet_activation="relu", fusionnet_hiddens=[8])),
        squash=True,
    )
