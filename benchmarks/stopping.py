"""What stopping on precision does to intervals: cover after `until` and with episodes fixed before.

    python benchmarks/stopping.py [--draws 40] [--worlds CartPole-v1 Pendulum-v1]

Policies that ship with pivec play many episodes once. Each draw shuffles them, so that `until`
plays on in another order from a pilot of its own; what is called true is the distance from all
episodes, described in the space of that pilot. Beside it, the same numbers of episodes of another
draw.
"""

from __future__ import annotations

import argparse
import io
from contextlib import redirect_stdout
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import numpy as np

import pivec
from measure import write_section
from pivec.options import PrecisionOptions
from pivec.workflows.comparison import collect_until

ABOUT = (
    "Share of 95 % intervals that hold the distance from 1 500 episodes: after `--until`, and with "
    "the same numbers of episodes fixed before. Intervals of one draw share policies."
)
EPISODES, MOST = 1500, 500
UNTIL = {"CartPole-v1": 0.05, "Pendulum-v1": 0.02}


class Shuffled:
    """Stands for a collector: the episodes that were played, in another order."""

    def __init__(self, data: Any, pilot: int, rng: np.random.Generator) -> None:
        self._data, self.acting = data, data.labels
        self._orders = [rng.permutation(EPISODES) for _ in data.labels]
        self.options = SimpleNamespace(episodes=pilot)

    def run(self, episodes: dict[str, int]) -> Any:
        """Give the first episodes of each policy."""
        records = [
            record.only(order[: episodes[record.info.label]])
            for record, order in zip(self._data.records, self._orders, strict=True)
        ]
        return pivec.VisitedStates(records, self._data.feature_names)


def measure(data: Any, until: float, pilot: int, draws: int) -> dict[str, Any]:
    """Cover of intervals after stopping, and with the same numbers fixed before."""
    cover: dict[str, list[float]] = {"until": [], "fixed": []}
    episodes = []
    upper = np.triu_indices(len(data), 1)
    options = PrecisionOptions(until, at_most=MOST)
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        method = pivec.characterization("visitation", random_state=draw)
        played, _ = collect_until(Shuffled(data, pilot, rng), method, options)
        numbers = dict(zip(data.labels, np.diff(played.policy_starts).tolist(), strict=True))
        others = Shuffled(data, pilot, rng).run(numbers)
        truth = np.maximum(method.intervals(data).distance, 0.0)[upper]
        for name, part in (("until", played), ("fixed", others)):
            sure = method.intervals(part)
            inside = (sure.low[upper] <= truth) & (truth <= sure.high[upper])
            cover[name].append(float(inside.mean()))
        episodes.append(list(numbers.values()))
    return {name: np.mean(values) for name, values in cover.items()} | {
        "episodes": f"{np.min(episodes)} to {np.max(episodes)}"
    }


def main() -> None:
    """Print a row for each environment and pilot."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--worlds", nargs="+", default=list(UNTIL))
    chosen = parser.parse_args()
    print("| environment | pilot | until | episodes | cover after until | cover, fixed |")
    print("| --- | --- | --- | --- | --- | --- |")
    for world in chosen.worlds:
        shelf = files("pivec") / "demo_policies" / world
        runs = sorted(run.name for run in shelf.iterdir() if run.is_dir())[::3]
        paths = sorted(str(file) for run in runs for file in (shelf / run).iterdir())[1::3]
        data = pivec.collect(world, paths, EPISODES)
        for pilot in (5, 20):
            result = measure(data, UNTIL[world], pilot, chosen.draws)
            cells = (f"{world}, {len(data)} policies", pilot, UNTIL[world], result["episodes"])
            cover = (f"{result[name]:.3f}" for name in ("until", "fixed"))
            print("|", " | ".join(map(str, (*cells, *cover))), "|", flush=True)


if __name__ == "__main__":
    with redirect_stdout(io.StringIO()) as text:
        main()
    print(text.getvalue())
    write_section("stopping-on-precision", f"{ABOUT}\n\n{text.getvalue().strip()}")
