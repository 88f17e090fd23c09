"""Thirty thousand policies on one machine: seconds and memory of each stage of `pivec compare`.

    python benchmarks/thirty_thousand.py [--policies 3000 10000 30000] [--keep FOLDER] [--dry]

Policies are small networks for CartPole-v1 in files of pivec's own: runs of 20 checkpoints that go
from chance to a way of balancing, which each run has for itself. The command that users have runs
in a process of its own, into an empty folder; episodes are as long as CartPole-v1 lets them be.
Memory is what that process and those that it started hold, mapped states included, looked at
twice a second.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from measure import table, write_section
from pivec.policies import NetworkPolicy, save_policy

EPISODES = 10
CHECKPOINTS = 20
KINDS = "soft", "sharp", "left"
HIDDEN = 8
GOAL, GOAL_SECONDS, GOAL_GB = 30_000, 600.0, 4.0
STAGES = "collect", "describe", "distances", "map", "report"
WHOLE = "whole command"


def run_of(number: int) -> list[NetworkPolicy]:
    """Checkpoints of a run, from a random network to one that leans on a direction of its own."""
    rng = np.random.default_rng([17, number])
    kind = KINDS[number % len(KINDS)]
    first = rng.normal(0.0, 0.5, (4, HIDDEN)), rng.normal(0.0, 0.5, (HIDDEN, 2))
    # Where the pole leans and turns to is where to push; how much each counts is the run's own.
    direction = np.array([0.1, 0.4, 1.0, 0.6]) * np.exp(rng.normal(0.0, 0.5, 4))
    side = rng.choice([-1.0, 1.0], HIDDEN)
    strength = rng.uniform(0.5, 2.0) * (3.0 if kind == "sharp" else 1.0)
    last = (
        np.outer(direction, side * rng.uniform(0.5, 1.5, HIDDEN)),
        strength * np.outer(side, [-1.0, 1.0]),
    )
    bias = rng.uniform(0.2, 0.4) * np.array([1.0, -1.0]) * (kind == "left")
    biases = np.zeros(HIDDEN, np.float32), bias
    return [
        NetworkPolicy(
            tuple(
                (((1 - part) * a + part * b).astype(np.float32), (part * c).astype(np.float32))
                for a, b, c in zip(first, last, biases, strict=True)
            ),
            "tanh",
            "categorical",
        )
        for part in np.linspace(0.0, 1.0, CHECKPOINTS)
    ]


def make(n: int, folder: Path) -> None:
    """Write n policies as files, a folder a run."""
    for number in range(n // CHECKPOINTS):
        name = f"{KINDS[number % len(KINDS)]}-{number // len(KINDS)}"
        for k, policy in enumerate(run_of(number), 1):
            save_policy(policy, folder / name / f"step_{1000 * k}.safetensors", {"step": 1000 * k})


def compare(policies: Path, out: Path, jobs: int) -> dict[str, Any]:
    """Run the command, and look at its memory and at which stages are done meanwhile."""
    command = [sys.executable, "-m", "pivec", "compare", "CartPole-v1", str(policies)]
    command += ["--out", str(out), "--episodes", str(EPISODES), "--jobs", str(jobs), "--quiet"]
    peaks = dict.fromkeys(STAGES, 0.0)
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            done = seconds_of(out)
            stage = next((name for name in STAGES if name not in done), STAGES[-1])
            peaks[stage] = max(peaks[stage], held_mb(process.pid))
            time.sleep(0.5)
    if process.returncode:
        raise SystemExit(f"pivec compare ended with {process.returncode}")
    whole = time.perf_counter() - start
    with (out / "map.csv").open(encoding="utf-8", newline="") as file:
        states = sum(int(row["states"]) for row in csv.DictReader(file))
    return {
        "seconds": seconds_of(out) | {WHOLE: whole},
        "peaks": peaks | {WHOLE: max(peaks.values())},
        "states": states,
        "store": sum(file.stat().st_size for file in (out / "states").iterdir()) / 1e6,
        "files": len([*(out / "states").iterdir()]),
    }


def seconds_of(out: Path) -> dict[str, float]:
    """Seconds of the stages that run.json has."""
    try:
        return json.loads((out / "run.json").read_text())["run"]["timings"]
    except FileNotFoundError:
        return {}


def held_mb(process: int) -> float:
    """Memory of a process and of all that it started, in MB; what they share counts once."""
    total = 0
    for number in [process, *below(process)]:
        try:
            text = Path(f"/proc/{number}/smaps_rollup").read_text()
        except OSError:  # it has just ended
            continue
        total += sum(int(row.split()[1]) for row in text.splitlines() if row.startswith("Pss:"))
    return total * 1024 / 1e6


def below(process: int) -> list[int]:
    """Processes that this one started, and those that these did."""
    try:
        text = " ".join(p.read_text() for p in Path(f"/proc/{process}/task").glob("*/children"))
    except OSError:
        return []
    own = [int(number) for number in text.split()]
    return own + [other for number in own for other in below(number)]


def report(runs: dict[int, dict[str, Any]], jobs: int) -> str:
    """Write a table of stages, with the power of the number of policies that each grows with."""
    sizes = list(runs)
    heads = ["stage", *(f"{n:,}: s" for n in sizes), "power of n", *(f"{n:,}: MB" for n in sizes)]
    rows = []
    for stage in (*STAGES, WHOLE):
        seconds = [runs[n]["seconds"][stage] for n in sizes]
        power = np.polyfit(np.log(sizes), np.log(seconds), 1)[0] if len(sizes) > 1 else np.nan
        peaks = (f"{runs[n]['peaks'][stage]:,.0f}" for n in sizes)
        rows.append([stage, *(f"{value:,.1f}" for value in seconds), f"{power:.2f}", *peaks])
    about = ", ".join(
        f"{n:,} policies {run['states'] / 1e6:.1f} M states in {run['files']:,} files of "
        f"{run['store']:,.0f} MB"
        for n, run in runs.items()
    )
    parts = [
        f"`pivec compare` with {EPISODES} episodes of each policy and {jobs} jobs, from files of "
        f"policies to the page: {about}. " + " ".join(__doc__.split("\n\n")[2].split()),
        table(heads, rows),
    ]
    if GOAL in runs:
        seconds, peak = runs[GOAL]["seconds"][WHOLE], runs[GOAL]["peaks"][WHOLE] / 1000
        goals = (("s", seconds, GOAL_SECONDS), ("GB", peak, GOAL_GB))
        held = [
            [
                f"{GOAL:,} policies, {unit}",
                value,
                f"< {goal:g}" if value < goal else f"**< {goal:g}, missed**",
            ]
            for unit, value, goal in goals
        ]
        parts.append(table(["what", "measured", "to reach"], held))
    return "\n\n".join(parts)


def main() -> None:
    """Make the policies, compare them, and write the section of the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--policies", type=int, nargs="+", default=[3000, 10_000, GOAL])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="work in this folder, and leave it")
    parser.add_argument("--dry", action="store_true", help="print, and leave RESULTS.md alone")
    options = parser.parse_args()
    runs = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        for n in options.policies:
            policies = folder / f"policies-{n}"
            if not policies.exists():
                make(n, policies)
            out = Path(tempfile.mkdtemp(prefix=f"out-{n}-", dir=folder))
            runs[n] = compare(policies, out, options.jobs)
            print(n, json.dumps(runs[n]), flush=True)
    text = report(runs, options.jobs)
    print(text)
    if not options.dry:
        write_section("thirty-thousand-policies", text)


if __name__ == "__main__":
    main()
