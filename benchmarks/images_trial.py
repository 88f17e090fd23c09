"""Do distances grow along training where policies look at images? Breakout and CarRacing.

    python benchmarks/images_trial.py train breakout --minutes 10
    python benchmarks/images_trial.py compare breakout --episodes 30
    python benchmarks/images_trial.py show

PPO of Stable-Baselines3 learns, on a graphics card if there is one; its checkpoints are compared by
`pivec compare --features policy`, everything else as it is by default. ``show`` draws the distances
from the untrained policy and prints the table of docs/environments.md. Needs pivec[atari,train].
"""

from __future__ import annotations

import argparse
import csv
import time
import zipfile
from pathlib import Path

DATA = Path(__file__).parent / "data" / "images"
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "images-trial.png"
SAVED = (0.0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)  # of the steps of training
GAMES = {
    "breakout": {"env": "ALE/Breakout-v5", "steps": 1_200_000, "n_envs": 8},
    "carracing": {"env": "CarRacing-v3", "steps": 240_000, "n_envs": 6},
}
# Six times as fast as whole images of every frame, and still enough to see the road.
SMALL = (
    'gymnasium.wrappers:MaxAndSkipObservation{"skip": 4}',
    "gymnasium.wrappers:GrayscaleObservation",
    'gymnasium.wrappers:ResizeObservation{"shape": [42, 42]}',
    'gymnasium.wrappers:FrameStackObservation{"stack_size": 4}',
)
PPO = {  # RL Baselines3 Zoo's for Atari, without decay: how long there is to train is not known
    "n_steps": 128, "batch_size": 256, "n_epochs": 4, "learning_rate": 2.5e-4, "clip_range": 0.1,
    "ent_coef": 0.01, "vf_coef": 0.5,
}  # fmt: skip


def car():
    """CarRacing with five actions, every fourth frame small and grey, four at a time."""
    import gymnasium
    from gymnasium import wrappers

    env = gymnasium.make("CarRacing-v3", continuous=False)
    env = wrappers.ResizeObservation(
        wrappers.GrayscaleObservation(wrappers.MaxAndSkipObservation(env, 4)), (42, 42)
    )
    return wrappers.FrameStackObservation(env, 4)


def environments(game: str):
    """The environments of training, a process each."""
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

    count = GAMES[game]["n_envs"]
    if game == "carracing":
        return make_vec_env(car, count, seed=0, vec_env_cls=SubprocVecEnv)
    name = f"ale_py:{GAMES[game]['env']}"  # imported in every process, to register the games
    games = make_atari_env(
        name, count, seed=0, vec_env_cls=SubprocVecEnv, env_kwargs={"frameskip": 1}
    )
    return VecFrameStack(games, 4)


def train(game: str, minutes: float) -> None:
    """Train for so many steps or minutes; checkpoints hold the policy, not its optimiser."""
    import stable_baselines3
    from stable_baselines3.common.callbacks import BaseCallback

    folder, steps = DATA / game / "run_0", GAMES[game]["steps"]
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes

    class Save(BaseCallback):
        """Saves at the given steps, and ends training in time."""

        left = tuple(int(share * steps) for share in SAVED)

        def _on_training_start(self) -> None:
            self._on_step()

        def _on_step(self) -> bool:
            late = time.monotonic() > end
            if self.left and (late or self.num_timesteps >= self.left[0]):
                self.left = tuple(step for step in self.left if step > self.num_timesteps)
                path = folder / f"rl_model_{self.num_timesteps}_steps.zip"
                self.model.save(path)
                without_optimiser(path)
                told = self.model.ep_info_buffer or [{"r": float("nan")}]
                mean = sum(episode["r"] for episode in told) / len(told)
                print(game, self.num_timesteps, f"{mean:.1f}", flush=True)
            return not late

    model = stable_baselines3.PPO("CnnPolicy", environments(game), seed=0, **PPO)
    model.learn(steps, callback=Save())


def without_optimiser(path: Path) -> None:
    """Write a checkpoint anew, two thirds smaller."""
    with zipfile.ZipFile(path) as file:
        parts = {n: file.read(n) for n in file.namelist() if "optimizer" not in n}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)


def compare(game: str, episodes: int, jobs: int) -> None:
    """Compare the checkpoints, as the command line does."""
    import pivec

    seen = (
        {"atari": True}
        if game == "breakout"
        else {"env_kwargs": {"continuous": False}, "wrappers": SMALL}
    )
    pivec.compare(
        GAMES[game]["env"],
        str(DATA / game / "run_0"),
        DATA / game / f"out-{episodes}",
        episodes=episodes,
        features="policy",
        jobs=jobs,
        progress=True,
        **seen,
    )


def show(episodes: int) -> None:
    """Draw the distances from the first checkpoint, and print them as a table."""
    found = [game for game in GAMES if (DATA / game / f"out-{episodes}").is_dir()]
    print("| | step | mean return | distance from step 0 | q |\n| --- | --- | --- | --- | --- |")
    lines = {GAMES[game]["env"]: along(DATA / game / f"out-{episodes}") for game in found}
    for game, rows in zip(found, lines.values(), strict=True):
        for row in rows:
            print(
                f"| {game} | {row['step']:,} | {row['return']:.1f} | {row['distance']:.2f} "
                f"({max(row['low'], 0):.2f} to {row['high']:.2f}) | {row['q']:.3f} |"
            )
    draw(lines)
    print(f"drawn: {FIGURE.name}")


def draw(lines: dict[str, list[dict[str, float]]]) -> None:
    """Draw one panel per environment, with the same scale of distances."""
    from pivec.figures import (
        GROUP_PALETTE,
        add_panel_title,
        axes_at,
        headed_figure,
        lined_axes,
        name_axes,
        save_figure,
    )
    from pivec.text import short_number

    wide, gap = 3.6, 0.4
    figure = headed_figure(
        0.95 + len(lines) * (wide + gap),
        3.3,
        "Distance from the untrained policy",
        "With 95 % intervals; panels have the same scale of distances, not of steps",
    )
    highest = max(row["high"] for rows in lines.values() for row in rows)
    for k, (name, rows) in enumerate(lines.items()):
        axes = axes_at(figure, 0.75 + k * (wide + gap), 0.55, wide, 2.35)
        lined_axes(axes)
        steps = [row["step"] for row in rows]
        middle = [row["distance"] for row in rows]
        below = [max(0.0, row["distance"] - max(row["low"], 0.0)) for row in rows]
        above = [row["high"] - row["distance"] for row in rows]
        looks = {"marker": "o", "ms": 5, "capsize": 3, "color": GROUP_PALETTE[0]}
        axes.errorbar(steps, middle, (below, above), **looks)
        axes.set(xlim=(0, None), ylim=(0, 1.05 * highest))
        axes.xaxis.set_major_formatter(lambda step, _: short_number(step))
        add_panel_title(axes, name)
        name_axes(axes, "training step", "" if k else "distance")
    save_figure(figure, FIGURE)


def along(out: Path) -> list[dict[str, float]]:
    """The pairs of the first checkpoint and each later one, in the order of training."""
    with open(out / "map.csv", encoding="utf-8") as file:
        policies = {row["label"]: row for row in csv.DictReader(file)}
    first = min(policies, key=lambda label: int(policies[label]["step"]))
    rows = []
    with open(out / "pairs.csv", encoding="utf-8") as file:
        for pair in csv.DictReader(file):
            ends = {pair["policy"], pair["other"]}
            if first in ends:
                other = policies[(ends - {first}).pop()]
                numbers = {name: float(pair[name]) for name in ("distance", "low", "high", "q")}
                step, value = int(other["step"]), float(other["mean_return"])
                rows.append({"step": step, "return": value, **numbers})
    return sorted(rows, key=lambda row: row["step"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("train", "compare", "show"))
    parser.add_argument("game", nargs="?", choices=GAMES, default="breakout")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if given.what == "train":
        train(given.game, given.minutes)
    elif given.what == "compare":
        compare(given.game, given.episodes, given.jobs)
    else:
        show(given.episodes)


if __name__ == "__main__":
    main()
