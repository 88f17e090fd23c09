"""Behaviour inside a loop of your own, as CleanRL writes them: PPO in one file, with TensorBoard.

Needs: pip install "pivec[torch]" tensorboard

Three things are added to the loop: a recorder around the environments, a monitor, and every few
updates the states that were recorded since the last time. Nothing is played for it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch.utils.tensorboard import SummaryWriter

import pivec
from pivec.integrations import BehaviourMonitor
from pivec.integrations.gymnasium import RecordVectorStates

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--out", type=Path, default=Path("runs/cleanrl"))
parser.add_argument("--smoke", action="store_true", help="a few seconds only")
options = parser.parse_args()
N_ENVS, N_STEPS, EVERY = 4, 128, 2 if options.smoke else 20  # updates from one to the next
updates = (4_096 if options.smoke else options.steps) // (N_ENVS * N_STEPS)

writer = SummaryWriter(str(options.out))


def log(values, step, figure):
    """Hand one description on to TensorBoard."""
    for name, value in values.items():
        writer.add_scalar(name, value, step)
    writer.add_figure("behaviour/map", figure, step, close=False)


store = options.out / "states"
envs = RecordVectorStates(gymnasium.make_vec("CartPole-v1", num_envs=N_ENVS), store)
envs.set_policy(label := "ppo/0", group="ppo", step=0)
monitor = BehaviourMonitor(parameters={"n_components": 8}, log=log)

torch.manual_seed(0)
torch.set_num_threads(1)
actor = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
critic = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=2.5e-3)
seen, _ = envs.reset(seed=0)
for update in range(updates):
    rollout = []
    for _ in range(N_STEPS):
        state = torch.as_tensor(seen)
        with torch.no_grad():
            chances = torch.distributions.Categorical(logits=actor(state))
            action = chances.sample()
        seen, reward, terminated, truncated, _ = envs.step(action.numpy())
        over = torch.as_tensor(np.logical_or(terminated, truncated))
        rollout.append((state, action, chances.log_prob(action), torch.as_tensor(reward), over))
    states, actions, before, rewards, overs = map(torch.stack, zip(*rollout, strict=True))
    returns, ahead = [], critic(torch.as_tensor(seen)).detach().squeeze(-1)
    for reward, over in zip(rewards.flip(0), overs.flip(0), strict=True):
        ahead = reward.float() + 0.99 * ahead * ~over
        returns.insert(0, ahead)
    targets = torch.stack(returns)
    for _ in range(4):
        values = critic(states).squeeze(-1)
        gains = (targets - values).detach()
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        after = torch.distributions.Categorical(logits=actor(states)).log_prob(actions)
        ratio = (after - before).exp()
        gained = torch.min(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean()
        optimizer.zero_grad()
        (0.5 * (targets - values).pow(2).mean() - gained).backward()
        optimizer.step()
    if (update + 1) % EVERY == 0:  # the only lines about behaviour inside of the loop
        envs.recorder.flush()
        monitor.add(pivec.load(store)[label])
        step = (update + 1) * N_ENVS * N_STEPS
        envs.set_policy(label := f"ppo/{step}", group="ppo", step=step)
envs.close()
writer.close()
print(
    f"{len(monitor.changes)} checkpoints of PPO on CartPole-v1, by the states visited in training:"
)
for change in monitor.changes:
    print(
        f"{change.label:>8}  return {change.mean_return:5.0f}  path length {change.path_length:.3f}"
    )
print(f"TensorBoard logs: {options.out}. States: {store}. To write a map and a report:")
print(f"pivec compare CartPole-v1 store:{store} --out comparison")
