"""What `pivec.sb3.BehaviourCallback` adds to the time of training: PPO with and without it.

Time is that of the processor, since others may be using the machine. The space that the callback
fits on the first descriptions is compared with one fitted on all of them.
"""

from __future__ import annotations

import argparse
import tempfile
import time

from measure import alternately, in_process, serve, table, write_section

ENVIRONMENTS = ("CartPole-v1", "Pendulum-v1")
STEPS, DESCRIPTIONS, N_ENVS, TIMES, WANTED = 50_000, 10, 4, 3, 0.05


def train(name: str, watched: bool) -> dict[str, float]:
    import numpy as np
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    import pivec
    import pivec.sb3

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        callback = None
        if watched:
            # Compiled kernels are loaded once a process: not a matter of training.
            walks = [[np.random.default_rng(0).normal(size=(200, 4))]]
            trial = pivec.VisitedStates.from_arrays(walks)
            pivec.characterization("supervector").fit(trial).describe(trial)
            callback = pivec.sb3.BehaviourCallback(STEPS // DESCRIPTIONS, store=folder)
        env = make_vec_env(name, N_ENVS, seed=0)
        model = PPO("MlpPolicy", env, n_steps=512, seed=0, device="cpu")
        start = time.process_time()
        model.learn(STEPS, callback=callback)
        result = {"seconds": time.process_time() - start, "described": 0.0}
        if callback is not None:
            data = pivec.load(folder)
            result["described"] = len(callback.changes)
            upper = np.triu_indices(len(data), 1)
            frozen = callback.monitor.method.distances(callback.monitor.descriptions)[upper]
            whole = [
                pivec.characterization("supervector", random_state=seed)
                .fit(data)
                .distances(data)[upper]
                for seed in (0, 1)
            ]
            result["frozen"] = float(np.corrcoef(frozen, whole[0])[0, 1])
            result["seeds"] = float(np.corrcoef(*whole)[0, 1])
    return result


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = []
    for name in ENVIRONMENTS:
        best = alternately(
            {
                kind: lambda name=name, kind=kind: in_process(
                    __file__, "train", {"name": name, "watched": kind == "with"}
                )
                for kind in ("without", "with")
            },
            TIMES,
        )
        plain, watched = best["without"], best["with"]
        more = watched["seconds"] / plain["seconds"] - 1
        rows.append(
            [
                name,
                plain["seconds"],
                watched["seconds"],
                f"{more:.1%}",
                f"< {WANTED:.0%}",
                watched["described"],
                watched["frozen"],
                watched["seeds"],
            ]
        )
        print(rows[-1], flush=True)
    text = (
        f"PPO of Stable-Baselines3, {N_ENVS} environments, {STEPS:,} steps, {DESCRIPTIONS} "
        "descriptions by supervectors of 64 components with their noise, states kept in a store. "
        f"Seconds of the processor, the best of {TIMES} runs. The last two columns are "
        "correlations with the distances in a space fitted on all descriptions: of the callback's, "
        "whose space is fitted on the first three, and of another seed of the same fit:"
    )
    header = [
        "environment", "without, s", "with, s", "more", "wanted", "descriptions", "frozen space",
        "another seed",
    ]  # fmt: skip
    write_section("callback", f"{text}\n\n{table(header, rows)}")


if __name__ == "__main__" and not serve({"train": train}):
    main()
