"""What `pivec.integrations.sb3.BehaviourCallback` adds to the time of training PPO.

Counted is the processor's time inside the callback and outside of it, in one and the same run, so
that others who use the machine do not matter. The space that the callback fits on the first
descriptions is compared with one fitted on all of them.
"""

from __future__ import annotations

import argparse
import tempfile
import time

from measure import in_process, serve, table, write_section

ENVIRONMENTS = ("CartPole-v1", "Pendulum-v1")
STEPS, DESCRIPTIONS, N_ENVS, WANTED = 50_000, 10, 4, 0.05


def train(name: str) -> dict[str, float]:
    import numpy as np
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    import pivec
    import pivec.integrations.sb3

    class Timed(pivec.integrations.sb3.BehaviourCallback):
        seconds = 0.0

        def _on_step(self) -> bool:
            start = time.process_time()
            goes_on = super()._on_step()
            self.seconds += time.process_time() - start
            return goes_on

    torch.set_num_threads(1)
    # Compiled kernels are loaded once a process: not a matter of training.
    trial = pivec.VisitedStates.from_arrays([[np.random.default_rng(0).normal(size=(200, 4))]])
    pivec.characterization("visitation").fit(trial).describe(trial)
    with tempfile.TemporaryDirectory() as folder:
        callback = Timed(STEPS // DESCRIPTIONS, store=folder)
        env = make_vec_env(name, N_ENVS, seed=0)
        model = PPO("MlpPolicy", env, n_steps=512, seed=0, device="cpu")
        start = time.process_time()
        model.learn(STEPS, callback=callback)
        total = time.process_time() - start
        data = pivec.load(folder)
        upper = np.triu_indices(len(data), 1)
        frozen = callback.monitor.method.distances(callback.monitor.descriptions)[upper]
        whole = [
            pivec.characterization("visitation", random_state=seed).fit(data).distances(data)[upper]
            for seed in (0, 1)
        ]
    return {
        "callback": callback.seconds,
        "training": total - callback.seconds,
        "described": len(callback.changes),
        "frozen": float(np.corrcoef(frozen, whole[0])[0, 1]),
        "seeds": float(np.corrcoef(*whole)[0, 1]),
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = []
    for name in ENVIRONMENTS:
        found = in_process(__file__, "train", {"name": name})
        more = found["callback"] / found["training"]
        rows.append(
            [
                name,
                found["training"],
                found["callback"],
                f"{more:.1%}",
                f"< {WANTED:.0%}",
                found["described"],
                found["frozen"],
                found["seeds"],
            ]
        )
        print(rows[-1], flush=True)
    text = (
        f"PPO of Stable-Baselines3, {N_ENVS} environments, {STEPS:,} steps, {DESCRIPTIONS} "
        "descriptions by visitation of 64 components with intervals, states kept in a store. "
        "Seconds of the processor in one run. The last two columns are correlations with the "
        "distances in a space fitted on all descriptions: of the callback's, whose space is fitted "
        "on the first three, and of another seed of the same fit:"
    )
    header = [
        "environment", "training, s", "callback, s", "more", "wanted", "descriptions",
        "frozen space", "another seed",
    ]  # fmt: skip
    write_section("callback", f"{text}\n\n{table(header, rows)}")


if __name__ == "__main__" and not serve({"train": train}):
    main()
