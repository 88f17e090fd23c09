"""Makes the row of CleanRL's PPO, trained by its own script.

Needs a checkout of https://github.com/vwxyzjn/cleanrl as the only argument, and
`pip install torch gymnasium tyro tensorboard`.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from rows import ROWS, write_row


def ppo(checkout: Path) -> None:
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%h"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    sys.argv = ["ppo.py", "--total-timesteps", "2048", "--no-cuda"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # it writes its logs where it is
        agent = runpy.run_path(str(checkout / "cleanrl" / "ppo.py"), run_name="__main__")["agent"]
        os.chdir(checkout)
    (ROWS / "cleanrl-ppo").mkdir(parents=True, exist_ok=True)
    # The script itself saves nothing; this is what its users add, and its other scripts have.
    torch.save(agent.state_dict(), ROWS / "cleanrl-ppo" / "ppo.cleanrl_model")

    @torch.no_grad()
    def act(observations):
        return agent.get_action_and_value(torch.as_tensor(observations))[0].numpy()

    @torch.no_grad()
    def answer(observations):
        logits = agent.actor(torch.as_tensor(observations))
        return {"actions": logits.argmax(1), "probabilities": logits.softmax(1)}

    write_row(
        "cleanrl-ppo",
        "CartPole-v1",
        act,
        answer,
        library="CleanRL",
        version=commit,
        what="PPO, MLP, Discrete actions",
        policy="ppo.cleanrl_model",
        script="scripts/checkpoints/cleanrl_rows.py",
    )


if __name__ == "__main__":
    ppo(Path(sys.argv[1]).resolve())
