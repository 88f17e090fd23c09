"""Makes the row of what SB3-contrib itself must read: `pip install sb3-contrib`, then run this."""

from __future__ import annotations

import sb3_contrib
import torch
from rows import ROWS, write_row
from sb3_contrib import CrossQ

FACTS = {
    "library": "SB3-contrib",
    "version": sb3_contrib.__version__,
    "script": "scripts/checkpoints/contrib_rows.py",
    "policy": "model.zip",
    "needs_trust": True,
}


def crossq():
    model = CrossQ("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [8]}, seed=0)
    model.learn(400)
    (ROWS / "contrib-crossq").mkdir(parents=True, exist_ok=True)
    model.save(ROWS / "contrib-crossq" / "model.zip", exclude=["_last_obs", "ep_info_buffer"])
    model.policy.set_training_mode(False)

    def answer(observations):
        with torch.no_grad():
            mean, log_std, _ = model.actor.get_action_dist_params(torch.as_tensor(observations))
        actions, _ = model.predict(observations, deterministic=True)
        return {"actions": actions, "mean": mean.numpy(), "std": log_std.exp().numpy()}

    facts = {**FACTS, "what": "CrossQ, batch normalisation, real actions"}
    write_row("contrib-crossq", "Pendulum-v1", lambda rows: model.predict(rows)[0], answer, **facts)


if __name__ == "__main__":
    crossq()
