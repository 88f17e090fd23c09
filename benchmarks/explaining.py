"""What differs: how sure the parts of a distance are, and what telling and showing it costs.

    python benchmarks/explaining.py [--draws 25]

Policies that ship with pivec play many episodes once. What is called true is the part from all of
them; a draw explains pairs from 25 of them, in a space fitted on that draw.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import pivec
from measure import write_section
from trust_data import DATA, samples, twice

ABOUT = (
    "Share of 95 % intervals from 25 episodes that hold the value from 1 000 episodes in the same "
    "space: parts of the distance by region (of all 64 regions, and of the six with the largest "
    "parts), shares of time, and shifts of features within regions. Then how often two samples of "
    "one policy have any region that is not marked as noise (5 % or less is what is promised)."
)
EPISODES, DRAWN, LEADING = 1000, 25, 6


def cover(world: str, draws: int) -> dict[str, float]:
    """Measure how often intervals of parts hold what many episodes give."""
    shelf = files("pivec") / "demo_policies" / world
    runs = sorted(run.name for run in shelf.iterdir() if run.is_dir())[::3]
    paths = sorted(str(file) for run in runs for file in (shelf / run).iterdir())[1::3]
    data = pivec.collect(world, paths, EPISODES)
    inside: dict[str, list[np.ndarray]] = {"all": [], "leading": [], "shares": [], "shifts": []}
    marked = []
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        first, second = samples(data, (DRAWN, DRAWN), rng)
        method = pivec.characterization("visitation", random_state=draw).fit(twice(first, second))
        for i in range(len(data)):
            j = int(rng.integers(len(data) - 1))
            j += j >= i
            truth, told = method.decompose(data[i], data[j]), method.decompose(first[i], first[j])
            value = np.maximum(truth.regions.estimate, 0.0)
            holds = (told.regions.low <= value) & (value <= told.regions.high)
            inside["all"].append(holds)
            inside["leading"].append(holds[told.order[:LEADING]])
            for name, prefix in (("shares", "share"), ("shifts", "shift")):
                low, high = getattr(told, f"{prefix}_low"), getattr(told, f"{prefix}_high")
                true = getattr(truth, prefix)
                known = np.isfinite(low) & np.isfinite(true)
                inside[name].append(((low <= true) & (true <= high))[known])
            marked.append(not method.decompose(first[i], second[i]).regions.noise.all())
    result = {name: float(np.concatenate(values).mean()) for name, values in inside.items()}
    return result | {"marked": float(np.mean(marked)), "policies": len(data), "pairs": len(marked)}


def seconds(*arguments: Any) -> float:
    """Time a command of pivec, start of Python included."""
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pivec", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - begin


def costs() -> str:
    """Time the commands on LunarLander, checkpoints of the evidence on distances."""
    folder = DATA / "report" / "LunarLander-v3"
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "out"
        seconds(
            *("compare", "LunarLander-v3", folder, "--episodes", 50, "--backend", "gymnasium"),
            *("--out", out, "--quiet"),
        )
        labels = pivec.Space.load(out).descriptions.labels
        pair = [next(x for x in labels if x.endswith(end)) for end in ("step_42880", "step_300000")]
        lines = []
        for words, *command in (
            ("`pivec explain`, two policies, table and page alone", "explain", out, *pair,
             "--no-frames", "--clips", 0),
            ("the same with frames and two clips", "explain", out, *pair),
            ("`pivec regions`, 64 regions", "regions", out),
            ("the same with frames", "regions", out, "--frames"),
            ("`pivec unusual`", "unusual", out),
        ):  # fmt: skip
            for made in ("explain", "frames", "clips"):
                shutil.rmtree(out / made, ignore_errors=True)
            lines.append(f"| {words} | {seconds(*command, '--quiet'):.1f} s |")
    return "\n".join(
        ["| LunarLander-v3, 32 policies, 50 episodes each | |", "| --- | --- |", *lines]
    )


def main() -> None:
    """Measure, and write the section of the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=25)
    draws = parser.parse_args().draws
    heads = "environment", "parts", "leading parts", "shares of time", "shifts", "marked, equal"
    rows = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for world in ("CartPole-v1", "Pendulum-v1"):
        result = cover(world, draws)
        cells = (f"{100 * result[key]:.1f} %" for key in list(result)[:5])
        where = f"{world}, {result['policies']} policies, {result['pairs']} pairs"
        rows.append(f"| {where} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    timed = costs()
    print(timed)
    write_section("what-differs", "\n\n".join([ABOUT, "\n".join(rows), timed]))


if __name__ == "__main__":
    main()
