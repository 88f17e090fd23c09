"""Makes the rows of CleanRL: PPO and C51 trained by its own scripts, and its agent with an LSTM.

Needs a checkout of https://github.com/vwxyzjn/cleanrl as the only argument, and
`pip install torch gymnasium[classic-control] tyro tensorboard opencv-python-headless`.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from gymnasium import spaces
from rows import ROWS, write_row
from torch import nn

FACTS = {"library": "CleanRL", "script": "scripts/checkpoints/cleanrl_rows.py"}


def version(checkout: Path) -> str:
    command = ["git", "log", "-1", "--format=%h"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def run(checkout: Path, script: str, *arguments: str, name: str = "__main__") -> dict:
    """Run a script of CleanRL and give what it has made."""
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(checkout))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # it writes its logs where it is
        made = runpy.run_path(str(checkout / "cleanrl" / script), run_name=name)
        os.chdir(checkout)
    return made


def save(name: str, file: str, value: object) -> None:
    (ROWS / name).mkdir(parents=True, exist_ok=True)
    torch.save(value, ROWS / name / file)


def ppo(checkout: Path) -> None:
    agent = run(checkout, "ppo.py", "--total-timesteps", "2048", "--no-cuda")["agent"]
    # The script itself saves nothing; this is what its users add, and its other scripts have.
    save("cleanrl-ppo", "ppo.cleanrl_model", agent.state_dict())

    @torch.no_grad()
    def act(observations):
        return agent.get_action_and_value(torch.as_tensor(observations))[0].numpy()

    @torch.no_grad()
    def answer(observations):
        logits = agent.actor(torch.as_tensor(observations))
        return {"actions": logits.argmax(1), "probabilities": logits.softmax(1)}

    facts = {**FACTS, "version": version(checkout), "what": "PPO, MLP, Discrete actions"}
    write_row("cleanrl-ppo", "CartPole-v1", act, answer, policy="ppo.cleanrl_model", **facts)


def c51(checkout: Path) -> None:
    settings = ("--total-timesteps", "6000", "--learning-starts", "500", "--n-atoms", "51")
    quickly = ("--learning-rate", "2e-3", "--train-frequency", "4", "--batch-size", "32")
    target = ("--target-network-frequency", "100", "--v-min", "0", "--no-cuda")
    made = run(checkout, "c51.py", *settings, *quickly, *target)
    network, args = made["q_network"], made["args"]
    # As with --save-model, which goes on to play and needs an older Gymnasium for that.
    save("cleanrl-c51", "c51.cleanrl_model", {
        "model_weights": network.state_dict(), "args": vars(args)
    })  # fmt: skip

    @torch.no_grad()
    def act(observations):
        return network.get_action(torch.as_tensor(observations))[0].numpy()

    facts = {**FACTS, "version": version(checkout), "what": "C51, MLP"}
    answer = {"policy": "c51.cleanrl_model", **facts}
    write_row("cleanrl-c51", "CartPole-v1", act, lambda rows: {"actions": act(rows)}, **answer)


def lstm(checkout: Path) -> None:
    """Make the agent of ppo_atari_lstm.py with fewer filters and units; its weights are random."""
    torch.manual_seed(0)
    kind = run(checkout, "ppo_atari_lstm.py", name="agent")["Agent"]
    agent = kind(SimpleNamespace(single_action_space=spaces.Discrete(2)))
    for place, layer in {
        0: nn.Conv2d(1, 4, 8, stride=4), 2: nn.Conv2d(4, 8, 4, stride=2),
        4: nn.Conv2d(8, 8, 3, stride=1), 7: nn.Linear(8 * 7 * 7, 16),
    }.items():  # fmt: skip
        agent.network[place] = layer
    agent.lstm, agent.actor, agent.critic = nn.LSTM(16, 8), nn.Linear(8, 2), nn.Linear(8, 1)
    with torch.no_grad():  # so that it sees edges, and what it does hangs on what it sees
        edges = agent.network[0].weight
        edges -= edges.mean((2, 3), keepdim=True)
        edges *= 100
        for weight in (agent.network[7].weight, *agent.lstm.parameters(), agent.actor.weight):
            weight.mul_(4)
    save("cleanrl-ppo-lstm", "ppo_atari_lstm.cleanrl_model", agent.state_dict())
    none = torch.zeros(1, 1, 8), torch.zeros(1, 1, 8)
    memory = none

    @torch.no_grad()
    def act(observations, start):
        nonlocal memory
        rows, done = torch.Tensor(observations), torch.tensor([float(start)])
        action, _, _, _, memory = agent.get_action_and_value(rows, memory, done)
        return action.numpy()

    @torch.no_grad()
    def answer(observations, starts):
        rows, done = torch.Tensor(observations), torch.Tensor(np.asarray(starts, float))
        logits = agent.actor(agent.get_states(rows, none, done)[0])
        return {"actions": logits.argmax(1), "probabilities": logits.softmax(1)}

    wrappers = [
        "gymnasium.wrappers:AddRenderObservation",
        'gymnasium.wrappers:ResizeObservation{"shape": [84, 84]}',
        "gymnasium.wrappers:GrayscaleObservation",
        'gymnasium.wrappers:FrameStackObservation{"stack_size": 1}',
    ]
    world = 'CartPole-v1{"render_mode": "rgb_array"}'
    what = "PPO with an LSTM (the agent for Atari, narrower), images, Discrete actions"
    facts = {**FACTS, "version": version(checkout), "what": what, "recurrent": True}
    facts["policy"] = "ppo_atari_lstm.cleanrl_model"
    write_row("cleanrl-ppo-lstm", world, act, answer, wrappers, **facts)


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    ppo(place)
    c51(place)
    lstm(place)
