"""Makes the rows of SB3-contrib: `pip install sb3-contrib pettingzoo pygame`, then run this."""

from __future__ import annotations

import numpy as np
import sb3_contrib
import torch
from rows import make, save_sb3, write_row
from sb3_contrib import CrossQ, MaskablePPO, RecurrentPPO

FACTS = {
    "library": "SB3-contrib",
    "version": sb3_contrib.__version__,
    "script": "scripts/checkpoints/contrib_rows.py",
    "policy": "model.zip",
}


def crossq():
    model = CrossQ("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [8]}, seed=0)
    model.learn(400)
    save_sb3(model, "contrib-crossq")
    model.policy.set_training_mode(False)

    def answer(observations):
        with torch.no_grad():
            mean, log_std, _ = model.actor.get_action_dist_params(torch.as_tensor(observations))
        actions, _ = model.predict(observations, deterministic=True)
        return {"actions": actions, "mean": mean.numpy(), "std": log_std.exp().numpy()}

    what = "CrossQ, batch normalisation, real actions"
    facts = {**FACTS, "needs_trust": True, "what": what}  # the library itself must read it
    write_row("contrib-crossq", "Pendulum-v1", lambda rows: model.predict(rows)[0], answer, **facts)


def recurrent_ppo():
    settings = {"lstm_hidden_size": 8, "net_arch": [8], "shared_lstm": True}
    settings["enable_critic_lstm"] = False
    model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", policy_kwargs=settings, seed=0)
    model.learn(2048)
    save_sb3(model, "contrib-recurrent-ppo")
    state = None

    def act(rows, start):
        nonlocal state
        actions, state = model.predict(rows, None if start else state, np.array([start]))
        return actions

    @torch.no_grad()
    def answer(observations, starts):
        policy, states = model.policy, (torch.zeros(1, 1, 8), torch.zeros(1, 1, 8))
        actions, chances = [], []
        for row, start in zip(observations, starts, strict=True):
            given = torch.as_tensor(row[None]), states, torch.tensor([float(start)])
            distribution, states = policy.get_distribution(*given)
            actions.append(distribution.get_actions(deterministic=True))
            chances.append(distribution.distribution.probs)
        return {"actions": torch.cat(actions), "probabilities": torch.cat(chances)}

    facts = {**FACTS, "what": "RecurrentPPO, LSTM, Discrete actions", "recurrent": True}
    write_row("contrib-recurrent-ppo", "CartPole-v1", act, answer, **facts)


def maskable_ppo():
    game = 'pettingzoo:classic.connect_four_v3{"agent": "player_0"}'
    settings = {"policy_kwargs": {"net_arch": [8]}, "learning_rate": 3e-3, "seed": 0}
    model = MaskablePPO("MlpPolicy", make(game, ()), **settings)
    model.learn(8192)
    save_sb3(model, "contrib-maskable-ppo")

    def act(rows, masks):
        return model.predict(rows, action_masks=masks)[0]

    @torch.no_grad()
    def answer(observations, masks):
        chances = model.policy.get_distribution(torch.as_tensor(observations), masks).distribution
        actions, _ = model.predict(observations, deterministic=True, action_masks=masks)
        return {"actions": actions, "probabilities": chances.probs}

    facts = {**FACTS, "what": "MaskablePPO, MLP, Discrete actions, some of which are allowed"}
    write_row("contrib-maskable-ppo", game, act, answer, **facts)


if __name__ == "__main__":
    crossq()
    recurrent_ppo()
    maskable_ppo()
