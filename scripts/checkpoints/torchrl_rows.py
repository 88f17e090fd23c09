"""Makes the rows of TorchRL: `pip install torchrl gymnasium`, then run this file."""

from __future__ import annotations

import shutil
from importlib.metadata import version

import torch
from rows import ROWS, write_row
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.checkpoint import Checkpoint
from torchrl.collectors import Collector
from torchrl.envs import GymEnv
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss, SACLoss
from torchrl.objectives.value import GAE


def perceptron(n_in, n_out):
    return MLP(in_features=n_in, out_features=n_out, num_cells=[8, 8])


def train(env, actor, loss, advantage=None):
    frames = 0
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    for batch in Collector(env, actor, frames_per_batch=100, total_frames=500):
        frames += batch.numel()
        for _ in range(4):
            if advantage is not None:
                advantage(batch)
            losses = loss(batch)
            optimizer.zero_grad()
            sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
            optimizer.step()
    return frames


def make(name, environment, what, actor, loss, advantage, policy):
    frames = train(GymEnv(environment, categorical_action_encoding=True), actor, loss, advantage)
    place = ROWS / name / policy
    if place.is_dir():
        shutil.rmtree(place)
    kind = "archive" if place.suffix else "directory"
    parts = {"policy": actor, "loss_module": loss, "trainer_state": {"frames": frames}}
    Checkpoint(format=kind, **parts).save(place)
    actor.eval()

    @torch.no_grad()
    def distribution(observations):
        given = TensorDict({"observation": torch.as_tensor(observations)}, [len(observations)])
        return actor.get_dist(given)

    def act(observations):
        return distribution(observations).sample().numpy()

    def answer(observations):
        given = distribution(observations)
        if isinstance(given, Categorical):
            return {"actions": given.probs.argmax(-1).numpy(), "probabilities": given.probs.numpy()}
        base = given.base_dist.base_dist
        actions = given.deterministic_sample.numpy()
        return {"actions": actions, "mean": base.loc.numpy(), "std": base.scale.numpy()}

    write_row(
        name,
        environment,
        act,
        answer,
        library="TorchRL",
        version=version("torchrl"),
        what=what,
        policy=policy,
        script="scripts/checkpoints/torchrl_rows.py",
    )


def ppo():
    module = TensorDictModule(perceptron(4, 2), in_keys=["observation"], out_keys=["logits"])
    actor = ProbabilisticActor(
        module, in_keys=["logits"], distribution_class=Categorical, return_log_prob=True
    )
    critic = ValueOperator(perceptron(4, 1), in_keys=["observation"])
    loss = ClipPPOLoss(actor, critic)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    what = "PPO, checkpoint folder, MLP, Discrete actions"
    make("torchrl-ppo", "CartPole-v1", what, actor, loss, advantage, "checkpoint")


def sac():
    network = nn.Sequential(perceptron(3, 2), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": -2.0, "high": 2.0},
    )
    value = ValueOperator(perceptron(4, 1), in_keys=["observation", "action"])
    loss = SACLoss(actor, value, target_entropy=-1.0)
    what = "SAC, checkpoint archive, MLP, real actions"
    make("torchrl-sac", "Pendulum-v1", what, actor, loss, None, "checkpoint.zip")


if __name__ == "__main__":
    torch.manual_seed(0)
    ppo()
    sac()
