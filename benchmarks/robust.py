"""Distances that should not change: noise features, other units, copies of features and policies.

    python benchmarks/robust.py [--episodes 30] [--seeds 3] [--dry]

Each set of policies is changed in one way at a time, and described again as `compare` does. The
distances between the original policies (noise-removed) are compared with those of the clean data:
their correlation should be at least 0.99, and the slope of a regression through the origin between
0.9 and 1.1, with every seed of the background model. Other seeds for the clean data show how much
of a change is only that.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator

import numpy as np

import pivec
from measure import table, write_section
from pivec.errors import PivecWarning
from planted_worlds import DEMO

Policies = list[list[np.ndarray]]  # states of each episode of each policy
COPIES = 50  # near-copies of one policy: other episodes of it
SOURCES = (
    ("CartPole-v1", ("*/*",)),
    ("CartPole-v1", ("ppo-*/step_1024", "ppo-[01]/step_100096", "a2c-0/step_500000")),
    ("Pendulum-v1", ("*/*",)),
    ("Pendulum-v1", ("a2c-*/step_20000", "a2c-*/step_300000", "ppo-*/step_65536")),
)


def played(world: str, sources: tuple[str, ...], episodes: int) -> tuple[Policies, Policies]:
    """Play bundled policies, and near-copies of the last one."""
    files = [str(DEMO / world / f"{source}.safetensors") for source in sources]
    data = pivec.collect(world, files, episodes)
    again = pivec.collect(world, [data.policies[-1].source], COPIES * episodes, seed=1)
    policies, [more] = (
        [[episode.states for episode in record.as_episodes()] for record in part.records]
        for part in (data, again)
    )
    return policies, [more[i * episodes : (i + 1) * episodes] for i in range(COPIES)]


def simulated(episodes: int) -> tuple[Policies, Policies]:
    """Six random linear systems of four features, and near-copies of the last."""
    rng = np.random.default_rng(5)

    def policy(number: int, n: int) -> list[np.ndarray]:
        own = np.random.default_rng([7, number])
        axes, _ = np.linalg.qr(own.normal(size=(4, 4)))
        turn, place, noise = own.uniform(0.05, 0.5), own.normal(size=4), own.uniform(0.1, 0.4)
        step = np.eye(4)
        step[:2, :2] = [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]
        step = 0.97 * axes @ step @ axes.T
        states = [rng.normal(size=(n, 4))]
        for _ in range(99):
            states.append(states[-1] @ step.T + noise * rng.normal(size=(n, 4)))
        return list(place + np.stack(states, axis=1))

    more = policy(5, COPIES * episodes)
    policies = [policy(number, episodes) for number in range(6)]
    return policies, [more[i * episodes : (i + 1) * episodes] for i in range(COPIES)]


def changes(policies: Policies, copies: Policies) -> Iterator[tuple[str, Policies]]:
    """Yield changed data, with the original policies first."""
    rng = np.random.default_rng(0)
    whole = np.concatenate([states for policy in policies for states in policy])
    units, deviation = np.geomspace(1e-4, 1e4, whole.shape[1]), whole[:, :1].std()

    def each(change: Callable[[np.ndarray], np.ndarray]) -> Policies:
        return [[change(states) for states in policy] for policy in policies]

    def noise(n: int, size: int) -> np.ndarray:
        return rng.normal(size=(n, size))

    yield "ten noise features", each(lambda x: np.hstack([x, noise(len(x), 10)]))
    yield "units × 10⁻⁴ to 10⁴, offset", each(lambda x: units * (x + 3.0 * whole.std(axis=0)))
    yield "five copies of a feature", each(lambda x: np.hstack([x, *[x[:, :1]] * 5]))
    yield (
        "five noisy copies (r > 0.99)",
        each(lambda x: np.hstack([x, x[:, :1] + 0.05 * deviation * noise(len(x), 5)])),
    )
    yield "five constant features", each(lambda x: np.hstack([x, np.ones((len(x), 5))]))
    yield f"{COPIES} near-copies of a policy", policies + copies


def distances(policies: Policies, n: int, seed: int = 0) -> np.ndarray:
    """Fit the default characterization to all policies; measure distances between the first n."""
    data = pivec.VisitedStates.from_arrays(policies)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PivecWarning)
        method = pivec.Visitation(random_state=seed).fit(data)
    return method.intervals(data[:n]).distance[np.triu_indices(n, 1)]


def main() -> None:
    """Print a table, and write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="print, and leave RESULTS.md alone")
    options = parser.parse_args()
    rows = []
    for world, sources in (*SOURCES, ("linear systems", ())):
        both = played(world, sources, options.episodes) if sources else simulated(options.episodes)
        policies, n, seeds = both[0], len(both[0]), range(options.seeds)
        clean = [distances(policies, n, seed) for seed in seeds]
        found = [("other seeds", [*clean[1:], clean[0]])]
        for name, data in changes(*both):
            found.append((name, [distances(data, n, seed) for seed in seeds]))
        for name, changed in found:
            pairs = list(zip(clean, changed, strict=True))
            r = min(np.corrcoef(*pair)[0, 1] for pair in pairs)
            slope = max((a @ b / (a @ a) for a, b in pairs), key=lambda x: abs(x - 1.0))
            met = "met" if r >= 0.99 and 0.9 <= slope <= 1.1 else "**missed**"
            rows.append([f"{world} ({n} policies)", name, f"{r:.4f}", f"{slope:.3f}", met])
            print(*rows[-1], sep=" | ", flush=True)
    text = (
        "Distances between policies after a change that should not matter, compared with those of "
        f"the clean data ({options.episodes} episodes per policy, noise removed, default settings; "
        f"the worst of {options.seeds} seeds).\nTarget: correlation at least 0.99, slope through "
        "the origin 0.9 to 1.1.\n\n"
        + table(["policies", "change", "correlation", "slope", "target"], rows)
    )
    if not options.dry:
        write_section("robust-distances", text)


if __name__ == "__main__":
    main()
