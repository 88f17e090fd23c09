"""Makes the rows of Tianshou 2: `pip install tianshou`, then run this file."""

from __future__ import annotations

from importlib.metadata import version

import gymnasium
import numpy as np
import torch
from rows import ROWS, write_row
from tianshou.algorithm import DQN, PPO, SAC
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.modelfree.sac import SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from torch.distributions import Categorical, Independent, Normal

FACTS = {
    "library": "Tianshou",
    "version": version("tianshou"),
    "script": "scripts/checkpoints/tianshou_rows.py",
    "policy": "policy.pth",
}


def train(algorithm, environment, on_policy):
    envs = DummyVectorEnv([lambda: gymnasium.make(environment)])
    collector = Collector(algorithm, envs, VectorReplayBuffer(1000, 1))
    settings = {
        "max_epochs": 1,
        "epoch_num_steps": 256,
        "batch_size": 64,
        "test_step_num_episodes": 0,
    }
    settings |= {"training_collector": collector, "test_collector": None}
    if on_policy:
        collecting = {"collection_step_num_env_steps": 256, "update_step_num_repetitions": 2}
        algorithm.run_training(OnPolicyTrainerParams(**settings, **collecting))
    else:
        collecting = {
            "collection_step_num_env_steps": 64,
            "update_step_num_gradient_steps_per_sample": 0.2,
        }
        algorithm.run_training(OffPolicyTrainerParams(**settings, **collecting))


def make(name, environment, what, algorithm, on_policy=False, wrapped=False):
    train(algorithm, environment, on_policy)
    (ROWS / name).mkdir(parents=True, exist_ok=True)
    weights = algorithm.state_dict()
    torch.save({"model": weights} if wrapped else weights, ROWS / name / FACTS["policy"])
    policy = algorithm.policy.eval()

    @torch.no_grad()
    def chosen(observations, deterministic):
        policy.deterministic_eval = deterministic
        return policy.map_action(policy(Batch(obs=observations, info={})).act)

    @torch.no_grad()
    def answer(observations):
        answers = {"actions": chosen(observations, deterministic=True)}
        given = getattr(policy(Batch(obs=observations, info={})), "dist", None)
        if isinstance(given, Categorical):
            answers["probabilities"] = given.probs.numpy()
        elif given is not None:
            answers |= {"mean": given.mean.numpy(), "std": given.stddev.numpy()}
        return answers

    sample = lambda observations: chosen(observations, deterministic=False)  # noqa: E731
    write_row(name, environment, sample, answer, **FACTS, what=what)


def discrete_ppo():
    env = gymnasium.make("CartPole-v1")
    net = Net(state_shape=4, hidden_sizes=[8, 8])
    policy = ProbabilisticActorPolicy(
        actor=DiscreteActor(preprocess_net=net, action_shape=2),
        dist_fn=Categorical,
        action_space=env.action_space,
        action_scaling=False,
        action_bound_method=None,
    )
    critic = DiscreteCritic(preprocess_net=net)
    algorithm = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=1e-3))
    what = "PPO, MLP, Discrete actions"
    make("tianshou-ppo", "CartPole-v1", what, algorithm, on_policy=True)


def dqn():
    env = gymnasium.make("CartPole-v1")
    net = Net(state_shape=4, action_shape=2, hidden_sizes=[8, 8])
    policy = DiscreteQLearningPolicy(model=net, action_space=env.action_space)
    algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), target_update_freq=10)
    make("tianshou-dqn", "CartPole-v1", "DQN, MLP", algorithm, wrapped=True)


def actor(conditioned):
    return ContinuousActorProbabilistic(
        preprocess_net=Net(state_shape=3, hidden_sizes=[8, 8]),
        action_shape=1,
        unbounded=True,
        conditioned_sigma=conditioned,
    )


def critic(action_shape):
    net = Net(state_shape=3, action_shape=action_shape, hidden_sizes=[8], concat=bool(action_shape))
    return ContinuousCritic(preprocess_net=net)


def ppo():
    env = gymnasium.make("Pendulum-v1")
    policy = ProbabilisticActorPolicy(
        actor=actor(False),
        dist_fn=lambda given: Independent(Normal(*given), 1),
        action_space=env.action_space,
    )
    algorithm = PPO(policy=policy, critic=critic(0), optim=AdamOptimizerFactory(lr=1e-3))
    what = "PPO, MLP, real actions"
    make("tianshou-ppo-real", "Pendulum-v1", what, algorithm, on_policy=True)


def sac():
    env = gymnasium.make("Pendulum-v1")
    policy = SACPolicy(actor=actor(True), action_space=env.action_space)
    algorithm = SAC(
        policy=policy,
        policy_optim=AdamOptimizerFactory(lr=1e-3),
        critic=critic(1),
        critic_optim=AdamOptimizerFactory(lr=1e-3),
    )
    make("tianshou-sac", "Pendulum-v1", "SAC, MLP, real actions", algorithm)


if __name__ == "__main__":
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - Tianshou draws from it
    discrete_ppo()
    dqn()
    ppo()
    sac()
