"""What the scripts here share: real episodes, and whether pivec reads files of them correctly.

``python files.py ROW OUT`` checks the store in OUT, a folder of `pivec compare`, against what the
library itself says about the file in ROW.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import gymnasium
import numpy as np


def folder(name, source, returns, features=None):
    """Make the folder of a file, with what the library says about it, and return its path.

    That is the returns of the episodes of each policy, and the names of features if it has any.
    """
    path = Path(os.environ["PIVEC_ROWS"]) / name
    path.mkdir(parents=True)
    known = {"source": source, "returns": returns, "features": features}
    (path / "expected.json").write_text(json.dumps(known))
    return path


def log():
    """Rows of a log as people write them: two algorithms with two runs of three episodes each."""
    env, rng, rows = gymnasium.make("CartPole-v1"), np.random.default_rng(0), []
    for algo in ("ppo", "sac"):
        for run in range(2):
            for episode in range(3):
                observation, _ = env.reset(seed=100 * run + episode)
                step, is_over = 0, False
                while not is_over:
                    action = int(observation[2] > 0) if algo == "ppo" else int(rng.integers(2))
                    following, reward, terminated, truncated, _ = env.step(action)
                    is_over = terminated or truncated
                    rows.append(
                        {"algo": algo, "run": run, "episode": episode, "step": step}
                        | {f"obs_{i}": float(value) for i, value in enumerate(observation)}
                        | {"action": action, "reward": reward, "done": is_over}
                    )
                    observation, step = following, step + 1
    return rows


def main():
    from pivec.states import Store

    row, out = map(Path, sys.argv[1:])
    expected = json.loads((row / "expected.json").read_text())
    data = Store.find(out).load()
    found = {label: data[label].returns.tolist() for label in data.labels}
    if found.keys() != expected["returns"].keys():
        sys.exit(f"policies {', '.join(found)}, expected {', '.join(expected['returns'])}")
    for label, returns in expected["returns"].items():
        if len(found[label]) != len(returns) or not np.allclose(found[label], returns):
            sys.exit(f"{label} has returns {found[label]}, expected {returns}")
    if expected["features"] not in (None, list(data.feature_names)):
        sys.exit(f"features {', '.join(data.feature_names)}, expected {expected['features']}")
    print(f"ok ({data.n_policies} policies, {data.n_episodes} episodes, returns agree)")


if __name__ == "__main__":
    main()
