"""How much faster PPO and A2C train with networks that answer in NumPy while they play.

Compared is Stable-Baselines3 as it is, in turns in one process, with the same environments and the
paper's settings. Counted is the processor's time, so that others who use the machine do not matter.
"""

from __future__ import annotations

import argparse
import time
from types import MethodType
from typing import Any

from measure import in_process, serve, table, write_section

ENVIRONMENTS = ("CartPole-v1", "Acrobot-v1", "Pendulum-v1", "LunarLander-v3")
SECONDS, TURNS = 2.0, 3  # of each of the two in a turn


def compare(name: str, algorithm: str) -> dict[str, float]:
    import torch
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

    from pivec.rollouts import Environment
    from reproduction.training.reinforcement import make_model
    from reproduction.training.runs import settings_for

    values = settings_for(algorithm, name)
    update = values["n_envs"] * values["n_steps"]

    def model(plain: bool) -> Any:
        made = make_model(Environment(name), values, algorithm, 0)
        if plain:
            made.collect_rollouts = MethodType(OnPolicyAlgorithm.collect_rollouts, made)
            if algorithm == "ppo":  # as the library makes it
                parameters = made.policy.parameters()
                made.policy.optimizer = torch.optim.Adam(
                    parameters, values["learning_rate"], eps=1e-5
                )
        made.learn(update)
        return made

    models = {"library": model(True), "ours": model(False)}
    steps, seconds = dict.fromkeys(models, 0), dict.fromkeys(models, 0.0)
    for _ in range(TURNS):
        for who, made in models.items():
            start = time.process_time()
            while time.process_time() - start < SECONDS:
                updates = max(1, 1000 // update)
                made.learn(updates * update, reset_num_timesteps=False)
                steps[who] += updates * update
            seconds[who] += time.process_time() - start
    return {who: steps[who] / seconds[who] for who in models}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = []
    for name in ENVIRONMENTS:
        for algorithm in ("ppo", "a2c"):
            found = in_process(__file__, "compare", {"name": name, "algorithm": algorithm})
            ratio = f"{found['ours'] / found['library']:.2f}"
            rows.append([name, algorithm, found["library"], found["ours"], ratio])
            print(rows[-1], flush=True)
    text = (
        "Environment steps a second of training with the paper's settings, learning included, on "
        "one core: Stable-Baselines3 as it is, and with networks that answer in NumPy while they "
        "play (and Adam in one call):"
    )
    header = ["environment", "algorithm", "library, steps/s", "ours, steps/s", "times"]
    write_section("training", f"{text}\n\n{table(header, rows)}")


if __name__ == "__main__" and not serve({"compare": compare}):
    main()
