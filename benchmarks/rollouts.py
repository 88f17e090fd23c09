"""Collecting against a loop of Stable-Baselines3's evaluate_policy, on the same checkpoints.

100 checkpoints of one PPO run on CartPole-v1 are trained once and kept under benchmarks/data/.
The loop is measured on every tenth of them and few episodes, because the whole would take an hour;
both are compared in environment steps a second.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from measure import in_process, serve, write_section

DATA = Path(__file__).parent / "data" / "cartpole_ppo"
POLICIES, EPISODES = 100, 100
PEER_EVERY, PEER_EPISODES = 10, 10


def train() -> None:
    """One PPO run of 100 000 steps with a checkpoint every 1 000."""
    if len(list(DATA.glob("*.zip"))) >= POLICIES:
        return
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import CheckpointCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    env = make_vec_env("CartPole-v1", 8, seed=0)
    model = PPO(
        "MlpPolicy", env, n_steps=32, batch_size=256, n_epochs=20, gamma=0.98, gae_lambda=0.8,
        learning_rate=1e-3, seed=0, device="cpu",
    )  # fmt: skip
    model.learn(100_000, callback=CheckpointCallback(1000 // 8, str(DATA)))


def files() -> list[str]:
    import re

    found = sorted(DATA.glob("*.zip"), key=lambda p: int(re.findall(r"\d+", p.name)[0]))
    return [str(path) for path in found[:POLICIES]]


def ours() -> dict[str, float]:
    import time

    import pivec

    start = time.perf_counter()
    data = pivec.collect("CartPole-v1", files(), episodes=EPISODES)
    seconds = time.perf_counter() - start
    steps = data.n_states - data.n_episodes
    return {"seconds": seconds, "steps": steps, "mean_return": float(data.mean_returns.mean())}


def stored() -> dict[str, float]:
    import tempfile
    import time

    import pivec

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        data = pivec.collect("CartPole-v1", files(), episodes=EPISODES, store=folder)
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "steps": data.n_states - data.n_episodes}


def peer() -> dict[str, float]:
    import time

    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    torch.set_num_threads(1)
    env = make_vec_env("CartPole-v1", 1, seed=0)
    steps, start = 0, time.perf_counter()
    for path in files()[PEER_EVERY // 2 :: PEER_EVERY]:
        model = PPO.load(path, device="cpu")
        _, lengths = evaluate_policy(
            model, env, n_eval_episodes=PEER_EPISODES, deterministic=False,
            return_episode_rewards=True,
        )  # fmt: skip
        steps += sum(lengths)
    return {"seconds": time.perf_counter() - start, "steps": steps}


def lanes(kind: str) -> dict[str, float]:
    """Acrobot-v1 under random actions: our lanes against Gymnasium's SyncVectorEnv."""
    import time

    import gymnasium
    import numpy as np

    from pivec.rollouts.environment import Environment
    from pivec.rollouts.lanes import SteppedLanes

    n, steps = 64, 400
    actions = np.random.default_rng(0).integers(3, size=(steps, n))
    start = time.perf_counter()
    if kind == "ours":
        side_by_side = SteppedLanes(Environment("Acrobot-v1"), n)
        everything = np.arange(n)
        for lane in range(n):
            side_by_side.reset(lane, lane)
        for row in actions:
            side_by_side.step(everything, row)
    else:
        env = gymnasium.make_vec("Acrobot-v1", num_envs=n, vectorization_mode="sync")
        env.reset(seed=0)
        for row in actions:
            env.step(row)
    return {"seconds": time.perf_counter() - start, "steps": n * steps}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    train()
    results = {
        name: min((in_process(__file__, name) for _ in range(2)), key=lambda r: r["seconds"])
        for name in ("ours", "stored", "peer")
    }
    speed = {name: r["steps"] / r["seconds"] for name, r in results.items()}
    rows = [
        ("pivec.collect, in memory", "ours"),
        ("pivec.collect, into a store", "stored"),
        (f"evaluate_policy ({POLICIES // PEER_EVERY} policies, {PEER_EPISODES} episodes)", "peer"),
    ]
    lines = [
        f"CartPole-v1, {POLICIES} checkpoints of PPO (64-64), {EPISODES} episodes each:",
        "",
        "| | seconds | steps a second | ratio | peak memory |",
        "| --- | --- | --- | --- | --- |",
    ]
    for title, name in rows:
        r = results[name]
        lines.append(
            f"| {title} | {r['seconds']:.1f} | {speed[name]:,.0f} | "
            f"{speed[name] / speed['peer']:.0f} | {r['peak_mb']:.0f} MB |"
        )
    mine, theirs = (in_process(__file__, f"lanes:{kind}") for kind in ("ours", "sync"))
    lines += [
        "",
        "Why lanes of our own: 64 Acrobot-v1 under random actions, in steps a second:",
        "",
    ]
    lines += [f"- ours {mine['steps'] / mine['seconds']:,.0f}"]
    lines += [f"- Gymnasium's SyncVectorEnv {theirs['steps'] / theirs['seconds']:,.0f}"]
    write_section("rollouts", "\n".join(lines))
    print("\n".join(lines))


PARTS = {
    "ours": ours,
    "stored": stored,
    "peer": peer,
    "lanes:ours": lambda: lanes("ours"),
    "lanes:sync": lambda: lanes("sync"),
}

if __name__ == "__main__" and not serve(PARTS):
    main()
