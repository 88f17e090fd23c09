"""Makes the rows of PufferLib 3: put `pufferlib` of its source distribution on the PYTHONPATH.

Only the Python part is needed, with gymnasium, numpy, torch, psutil and rich. Its C part and its
environments are not: the weights come from a few steps of gradient descent, not from PuffeRL.
"""

from __future__ import annotations

import tempfile
from os import chdir

import gymnasium
import numpy as np
import torch
from rows import ROWS, write_row

chdir(tempfile.mkdtemp())  # PufferLib makes a link there

from pufferlib.emulation import GymnasiumPufferEnv  # noqa: E402
from pufferlib.models import Default, LSTMWrapper  # noqa: E402


def make(name, environment, what, has_memory):
    torch.manual_seed(0)
    env = GymnasiumPufferEnv(gymnasium.make(environment))
    policy = Default(env, hidden_size=8)
    if has_memory:
        policy = LSTMWrapper(env, policy, input_size=8, hidden_size=8)
    state = {"lstm_h": None, "lstm_c": None}
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
    weights = torch.randn(env.single_observation_space.shape[0], 2)
    for _ in range(100):  # towards actions that depend on observations
        observations = torch.randn(64, len(weights))
        wanted = observations @ weights
        answers, _ = policy.forward_eval(observations, dict(state))
        if isinstance(answers, torch.Tensor):
            loss = torch.nn.functional.cross_entropy(answers, wanted.argmax(1))
        else:
            loss = -answers.log_prob(wanted[:, :1]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    (ROWS / name).mkdir(parents=True, exist_ok=True)
    torch.save(policy.state_dict(), ROWS / name / "model_000100.pt")  # as PuffeRL does
    box = gymnasium.make(environment).action_space

    @torch.no_grad()
    def distribution(observations, start=True):
        if start:
            state.update(lstm_h=None, lstm_c=None)
        answers, _ = policy.forward_eval(torch.as_tensor(observations), state)
        if isinstance(answers, torch.Tensor):
            return torch.distributions.Categorical(logits=answers)
        return answers

    def act(observations, *start):
        actions = distribution(observations, *start).sample().numpy()
        return actions if has_memory else np.clip(actions, box.low, box.high)

    def answer(observations, starts=None):
        if starts is None:
            given = distribution(observations)
            actions = np.clip(given.mean.numpy(), box.low, box.high)
            return {"actions": actions, "mean": given.mean.numpy(), "std": given.stddev.numpy()}
        both = zip(observations, starts, strict=True)
        probabilities = np.concatenate([distribution(row[None], s).probs for row, s in both])
        return {"actions": probabilities.argmax(1), "probabilities": probabilities}

    write_row(
        name,
        environment,
        act,
        answer,
        recurrent=has_memory,
        library="PufferLib",
        version="3.0.0",
        what=what,
        policy="model_000100.pt",
        script="scripts/checkpoints/pufferlib_rows.py",
    )


if __name__ == "__main__":
    make("pufferlib-real", "Pendulum-v1", "Default policy, real actions", False)
    make("pufferlib-lstm", "CartPole-v1", "Default policy, LSTM, Discrete actions", True)
