"""Makes the row of LeRobot: `pip install lerobot`, then run this file."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.factory import make_pre_post_processors
from lerobot.policies.tdmpc.configuration_tdmpc import TDMPCConfig
from lerobot.policies.tdmpc.modeling_tdmpc import TDMPCPolicy
from rows import ROWS, write_row

NAME, STATE = "lerobot-tdmpc", "observation.state"


def main():
    torch.manual_seed(0)
    config = TDMPCConfig(
        input_features={STATE: PolicyFeature(type=FeatureType.STATE, shape=(3,))},
        output_features={"action": PolicyFeature(type=FeatureType.ACTION, shape=(1,))},
        device="cpu",
        use_mpc=False,
        n_action_repeats=2,
        state_encoder_hidden_dim=8,
        latent_dim=8,
        mlp_dim=8,
        q_ensemble_size=2,
        push_to_hub=False,
    )
    policy, edge = TDMPCPolicy(config), torch.full((1,), 2.0)
    statistics = {"action": {"min": -edge, "max": edge}}
    before, after = make_pre_post_processors(config, dataset_stats=statistics)
    model, high = policy.model, torch.tensor([1.0, 1.0, 8.0])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):  # towards actions that depend on observations
        states = (2 * torch.rand(32, 3) - 1) * high
        wanted = (states[:, 1:2] - 0.2 * states[:, 2:]).clamp(-1, 1)
        loss = (model.pi(model.encode({STATE: states})) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    policy.eval()
    folder = ROWS / NAME / "pretrained_model"
    for part in (policy, before, after):
        part.save_pretrained(folder)

    @torch.no_grad()
    def act(observations, start):
        if start:
            policy.reset()
        given = before({STATE: torch.as_tensor(observations)})
        return after(policy.select_action(given)).numpy()

    def answer(observations, starts):
        both = zip(observations, starts, strict=True)
        return {"actions": np.concatenate([act(row[None], start) for row, start in both])}

    write_row(
        NAME,
        "Pendulum-v1",
        act,
        answer,
        recurrent=True,
        needs_trust=True,
        needs="lerobot",
        library="LeRobot",
        version=version("lerobot"),
        what="TD-MPC, the policy without planning, actions repeated",
        policy="pretrained_model",
        script="scripts/checkpoints/lerobot_rows.py",
    )


if __name__ == "__main__":
    main()
