"""Collecting against a loop of Stable-Baselines3's evaluate_policy, in environment steps a second.

100 MLP policies of 64-64 play 20 episodes each: ten checkpoints of a PPO run, ten times under
other names. The loop evaluates the same ten checkpoints one after another, with fewer episodes,
because the whole would take an hour. In Gymnasium's Box2D fewer policies play, too.
"""

from __future__ import annotations

import argparse
import time

from measure import in_process, serve, write_section
from trained import RUNS, checkpoints

POLICIES, EPISODES = 100, 20
# Ways of playing: backend, processes, policies, episodes.
WAYS = {
    "CartPole-v1": [("gymnasium", 1, 100, 20)],
    "Pendulum-v1": [("gymnasium", 1, 100, 20)],
    "Acrobot-v1": [("gymnasium", 1, 100, 20)],
    "LunarLander-v3": [
        ("envpool", 1, 100, 20), ("gymnasium", 1, 10, 16), ("gymnasium", 2, 20, 16),
    ],
    "BipedalWalker-v3": [
        ("envpool", 1, 100, 20), ("gymnasium", 1, 8, 8), ("gymnasium", 2, 16, 8),
    ],
}  # fmt: skip
PEER_EPISODES = {"BipedalWalker-v3": 1, "LunarLander-v3": 2}
TARGETS = {
    "CartPole-v1": 300,
    "Pendulum-v1": 60,
    "Acrobot-v1": 60,
    "LunarLander-v3": 25,
    "BipedalWalker-v3": 12,
}


def policies(name: str, n: int = POLICIES):
    """Checkpoints of one run, again and again under other names."""
    from dataclasses import replace

    from pivec.policies import NamedPolicy, load_policies

    found = load_policies(checkpoints(name))
    return [
        NamedPolicy(
            one.policy,
            replace(
                one.info,
                label=f"{one.info.label} again {i}",
                fingerprint=f"{one.info.fingerprint} again {i}",  # or they would count as copies
            ),
        )
        for i in range(-(-n // len(found)))
        for one in found
    ][:n]


def ours(name: str, backend: str, jobs: int, n: int, episodes: int) -> dict[str, float]:
    from dataclasses import replace

    from pivec.options import CollectOptions
    from pivec.parallel import using
    from pivec.rollouts import Environment, bind, play_here, play_policies

    environment, chosen = Environment(name), policies(name, n)
    settings = CollectOptions(episodes=episodes, backend=backend)
    # Imports are not counted, as they are not for the loop.
    for _ in play_here(environment, bind(environment, chosen[:1]), replace(settings, max_steps=1)):
        pass
    answering = timed_answers() if jobs == 1 else []
    start = time.perf_counter()
    played = {}
    with using("auto", jobs):
        play_policies(environment, chosen, settings, played.__setitem__)
    steps = sum(len(episode.states) - 1 for one in played.values() for episode in one.episodes)
    result = {"seconds": time.perf_counter() - start, "steps": steps}
    if jobs == 1:
        result["answers"] = sum(answering) / result["seconds"]
    return result


def timed_answers() -> list[float]:
    """Give a list that takes the seconds of all answers of policies from now on."""
    from pivec.rollouts import play as table

    seconds, make = [], table.make_actors

    def make_timed(*arguments):
        answers = make(*arguments)
        actions = answers.actions

        def timed(*given):
            start = time.perf_counter()
            answered = actions(*given)
            seconds.append(time.perf_counter() - start)
            return answered

        answers.actions = timed
        return answers

    table.make_actors = make_timed
    return seconds


def peer(name: str) -> dict[str, float]:
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    torch.set_num_threads(1)
    # Its default, rgb_array, would make LunarLander simulate particles for the picture.
    env = make_vec_env(name, 1, seed=0, env_kwargs={"render_mode": None})
    models = [PPO.load(path, device="cpu") for path in checkpoints(name)]
    steps, start = 0, time.perf_counter()
    for model in models:
        _, lengths = evaluate_policy(
            model,
            env,
            n_eval_episodes=PEER_EPISODES.get(name, 4),
            deterministic=False,
            return_episode_rewards=True,
        )
        steps += sum(lengths)
    return {"seconds": time.perf_counter() - start, "steps": steps}


def memory() -> dict[str, float]:
    """1 000 policies of 100 CartPole episodes into a store."""
    import tempfile

    import pivec

    chosen = policies("CartPole-v1", 1000)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        data = pivec.collect("CartPole-v1", chosen, episodes=100, store=folder)
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "steps": data.n_states - data.n_episodes}


def lanes(kind: str) -> dict[str, float]:
    """MountainCar-v0 under random actions: our lanes against Gymnasium's SyncVectorEnv."""
    import gymnasium
    import numpy as np

    from pivec.rollouts import Environment, GymnasiumLanes

    n, steps = 64, 400
    actions = np.random.default_rng(0).integers(3, size=(steps, n))
    start = time.perf_counter()
    if kind == "ours":
        side_by_side = GymnasiumLanes(Environment("MountainCar-v0"), n)
        everything = np.arange(n)
        for lane in range(n):
            side_by_side.reset(lane, lane)
        for row in actions:
            side_by_side.step(everything, row)
    else:
        env = gymnasium.make_vec("MountainCar-v0", num_envs=n, vectorization_mode="sync")
        env.reset(seed=0)
        for row in actions:
            env.step(row)
    return {"seconds": time.perf_counter() - start, "steps": n * steps}


PARTS = {
    **{
        f"{name}:{way[0]}:{way[1]}": lambda name=name, way=way: ours(name, *way)
        for name, ways in WAYS.items()
        for way in ways
    },
    **{f"{name}:peer": lambda n=name: peer(n) for name in WAYS},
    "memory": memory,
    "lanes:ours": lambda: lanes("ours"),
    "lanes:sync": lambda: lanes("sync"),
}


def best(part: str, tries: int = 2) -> dict[str, float]:
    """The faster of some tries: others may be using the machine."""
    return max(
        (in_process(__file__, part) for _ in range(tries)), key=lambda r: r["steps"] / r["seconds"]
    )


def table(names: list[str]) -> list[str]:
    lines = [
        "| environment | backend, processes | steps a second | ratio | wanted | answers | peak |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in names:
        loop = best(f"{name}:peer")
        slow = loop["steps"] / loop["seconds"]
        lines.append(f"| {name} | evaluate_policy | {slow:,.0f} | 1 | | | |")
        for backend, jobs, n, episodes in WAYS[name]:
            r = best(f"{name}:{backend}:{jobs}")
            speed = r["steps"] / r["seconds"]
            share = f"{r['answers']:.1%}" if "answers" in r else ""
            few = "" if n == POLICIES else f" ({n} x {episodes} episodes)"
            lines.append(
                f"| {name} | {backend}, {jobs}{few} | {speed:,.0f} | {speed / slow:.1f} | "
                f"{TARGETS[name]} | {share} | {r['peak_mb']:.0f} MB |"
            )
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environments", nargs="*", default=list(WAYS))
    parser.add_argument("--brief", action="store_true", help="print, and leave the rest out")
    chosen = parser.parse_args()
    for name in chosen.environments:
        checkpoints(name)
    title = (
        f"{POLICIES} MLP policies of 64-64 (PPO), {EPISODES} episodes each unless said otherwise; "
        "answers is the share of the time that the policies take:"
    )
    lines = [
        title,
        "",
        *table(chosen.environments),
    ]
    if chosen.brief:
        print("\n".join(lines))
        return
    r = in_process(__file__, "memory")
    stored = (
        f"1 000 policies of 100 CartPole-v1 episodes into a store: {r['steps']:,} steps in "
        f"{r['seconds']:.0f} s, peak memory {r['peak_mb']:.0f} MB."
    )
    lines += [
        "",
        stored,
        "",
        "Why lanes of our own: 64 MountainCar-v0 under random actions, in steps a second:",
        "",
    ]
    for title, kind in (("ours", "ours"), ("Gymnasium's SyncVectorEnv", "sync")):
        r = best(f"lanes:{kind}")
        lines.append(f"- {title} {r['steps'] / r['seconds']:,.0f}")
    write_section("rollouts", "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__" and not serve(PARTS):
    assert set(WAYS) == set(RUNS)
    main()
