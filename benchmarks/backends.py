"""EnvPool against Gymnasium under trained policies: do they visit the same states?

Every policy plays the same number of episodes in both. For each state dimension (of all, of the
first and of the terminal states) and for lengths and returns, the Kolmogorov-Smirnov statistic D of
the two samples is compared with those of samples in which the episodes of each policy are dealt
anew to the two backends: states of an episode depend on each other, episodes do not. p is the
share of such deals whose largest D, each in units of its mean over the deals, reaches the real one.
Where lanes on arrays exist, single transitions are compared too.

Writes src/pivec/rollouts/backends.json, which says where ``--backend auto`` takes EnvPool.
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

from measure import write_section
from trained import checkpoints

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "src/pivec/rollouts/backends.json"
DEMO = ROOT / "src/pivec/demo_policies"
ENVIRONMENTS = (
    "CartPole-v1", "Pendulum-v1", "Acrobot-v1", "LunarLander-v3", "BipedalWalker-v3",
    "BipedalWalkerHardcore-v3",
)  # fmt: skip
# Few steps teach nobody to walk over obstacles; who walks on flat ground at least meets them.
TRAINED_IN = {"BipedalWalkerHardcore-v3": "BipedalWalker-v3"}
DEALS, GRID, LEVEL = 2000, 512, 0.01


def policies(name: str) -> list[str]:
    """Shipped policies where there are some; else the later half of a run of PPO."""
    if (DEMO / name).is_dir():
        return [str(DEMO / name)]
    found = checkpoints(TRAINED_IN.get(name, name))
    return found[len(found) // 2 :]


def quantities(data) -> dict[str, list[np.ndarray]]:
    """For each quantity its values, one array an episode."""
    episodes = list(data.episodes())
    found = {}
    for dimension in range(data.n_features):
        name = data.feature_names[dimension]
        found[f"{name}"] = [states[:, dimension] for states in episodes]
        found[f"{name} first"] = [states[:1, dimension] for states in episodes]
        found[f"{name} terminal"] = [states[-1:, dimension] for states in episodes]
    found["length"] = [np.array([len(states)], float) for states in episodes]
    found["return"] = [np.array([value]) for value in data.returns]
    return found


def counts(values: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Per episode how many values are at or below each of a grid of thresholds; last: all."""
    pool = np.concatenate(values)
    some = pool if len(pool) < 200_000 else rng.choice(pool, 200_000, replace=False)
    grid = np.unique(np.quantile(some, np.linspace(0, 1, GRID), method="nearest"))
    rows = [np.searchsorted(np.sort(one), grid, side="right") for one in values]
    return np.column_stack([np.array(rows, float), [len(one) for one in values]])


def distances(table: np.ndarray, deals: np.ndarray) -> np.ndarray:
    """D for every deal: ``deals`` (n, episodes) is 1 where an episode counts as the first's."""
    one = deals @ table
    other = table.sum(axis=0) - one
    return np.abs(one[:, :-1] / one[:, -1:] - other[:, :-1] / other[:, -1:]).max(axis=1)


def compare(one, other, deals: int, seed: int = 0) -> tuple[dict[str, tuple[float, float]], float]:
    """D and p of every quantity of two sets of states, and p of all of them together."""
    rng = np.random.default_rng(seed)
    owner = np.concatenate([_owners(one), _owners(other)])
    real = np.concatenate([np.ones(one.n_episodes), np.zeros(other.n_episodes)])
    dealt = np.tile(real, (deals + 1, 1))
    for row in dealt[1:]:
        for policy in np.unique(owner):
            mine = np.flatnonzero(owner == policy)
            row[mine] = rng.permutation(row[mine])
    left, right = quantities(one), quantities(other)
    found, units = {}, []
    for name in left:
        d = distances(counts(left[name] + right[name], rng), dealt)
        found[name] = (float(d[0]), float(np.mean(d[1:] >= d[0] - 1e-12)))
        units.append(d / max(d[1:].mean(), 1e-12))
    largest = np.max(units, axis=0)
    return found, float(np.mean(largest[1:] >= largest[0] - 1e-12))


def _owners(data) -> np.ndarray:
    return np.repeat(np.arange(data.n_policies), np.diff(data.policy_starts))


def differing_transitions(name: str, data) -> float | None:
    """Share of EnvPool's transitions that Gymnasium's equations do not give, within 1e-3."""
    from pivec.rollouts import Environment, GymnasiumLanes, Layout, make_lanes

    states = list(data.episodes())
    before = np.concatenate([episode[:-1] for episode in states])
    after = np.concatenate([episode[1:] for episode in states])
    lanes = make_lanes(Environment(name), "gymnasium", Layout(1, len(before)))
    if isinstance(lanes, GymnasiumLanes):
        lanes.close()
        return None
    if name == "CartPole-v1":
        lanes._env.state = before.T.astype(float)
    elif name == "Pendulum-v1":
        lanes._states = np.stack([np.arctan2(before[:, 1], before[:, 0]), before[:, 2]]).astype(
            float
        )
    else:
        angles = np.arctan2(before[:, [1, 3]], before[:, [0, 2]])
        lanes._states = np.column_stack([angles, before[:, 4:]]).T.astype(float)
    lanes.step(np.arange(len(before)), data.actions)
    return float(np.mean(np.abs(lanes.observations - after).max(axis=1) > 1e-3))


def examine(name: str, episodes: int, jobs: int) -> dict:
    import pivec

    options = {"episodes": episodes, "actions": True, "jobs": jobs}
    reference = pivec.collect(name, policies(name), backend="gymnasium", **options)
    fast = pivec.collect(name, policies(name), backend="envpool", seed=1, **options)
    found, p = compare(reference, fast, DEALS)
    again = pivec.collect(name, policies(name), backend="gymnasium", seed=2, **options)
    _, p_itself = compare(reference, again, DEALS)
    transitions = differing_transitions(name, fast)
    worst = min(found, key=lambda key: (found[key][1], -found[key][0]))
    return {
        "same": p > LEVEL and not transitions,
        "p": round(p, 4),
        "p_gymnasium_with_itself": round(p_itself, 4),
        "largest_d": round(max(d for d, _ in found.values()), 4),
        "most_different": worst,
        "its_d": round(found[worst][0], 4),
        "its_p": round(found[worst][1], 4),
        "differing_transitions": transitions,
        "policies": reference.n_policies,
        "episodes": episodes,
        "mean_return": [round(float(d.mean_returns.mean()), 2) for d in (reference, fast)],
        "envpool": version("envpool"),
        "gymnasium": version("gymnasium"),
    }


def report(table: dict) -> str:
    columns = (
        "environment", "policies x episodes", "mean return", "p", "p of Gymnasium with itself",
        "most different quantity (D, p)", "differing transitions", "EnvPool by itself",
    )  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for name, entry in table.items():
        share = entry["differing_transitions"]
        lines.append(
            f"| {name} | {entry['policies']} x {entry['episodes']} | "
            f"{entry['mean_return'][0]} / {entry['mean_return'][1]} | {entry['p']} | "
            f"{entry['p_gymnasium_with_itself']} | {entry['most_different']} ({entry['its_d']}, "
            f"{entry['its_p']}) | {'not compared' if share is None else f'{share:.2%}'} | "
            f"{'yes' if entry['same'] else 'no'} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environments", nargs="*", default=ENVIRONMENTS)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    table = json.loads(TABLE.read_text())["environments"]
    for name in chosen.environments:
        table[name] = examine(name, chosen.episodes, chosen.jobs)
        print(name, json.dumps(table[name]))
    ordered = {name: table[name] for name in ENVIRONMENTS if name in table}
    TABLE.write_text(json.dumps({"environments": ordered}, indent=1) + "\n")
    write_section("backends", report(ordered))


if __name__ == "__main__":
    main()
