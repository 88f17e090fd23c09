"""What the scripts here share: real episodes, and whether pivec reads files of them correctly.

``python files.py ROW OUT`` checks OUT, a folder of `pivec compare`, against what the library itself
says about the files in ROW, and what `pivec unusual` wrote there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import gymnasium
import numpy as np


def folder(name, source, returns, features=None, outcomes=None, unusual=None):
    """Make the folder of a file, with what the library says about it, and return its path.

    That is the returns of the episodes of each policy, the names of features if it has any, the
    outcomes of each policy by name, and the number of the odd episode of the first policy.
    ``source`` is the name of the file, or the names of several.
    """
    path = Path(os.environ["PIVEC_ROWS"]) / name
    path.mkdir(parents=True, exist_ok=True)
    known = {"sources": [source] if isinstance(source, str) else source, "returns": returns}
    known |= {"features": features, "outcomes": outcomes or {}, "unusual": unusual}
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


REACH = {"robot0_eef_pos": 3, "robot0_eef_quat": 4, "robot0_gripper_qpos": 2, "object": 3}


def reaches(n, noise, seed, odd=()):
    """Episodes of a hand that moves to an object; rewards are 1 where it arrives.

    Odd episodes go to an object on the other side. Each is a dict of arrays: ``action``, ``reward``
    and ``done`` over steps, and those of ``REACH``, which also have the state after the last one.
    """
    rng, episodes = np.random.default_rng(seed), []
    for episode in range(n):
        side = -1 if episode in odd else 1
        hand = rng.normal(0, 0.02, 3)
        object_ = np.array([side * 0.5, 0.2, 0.1]) + rng.normal(0, 0.03, 3)
        seen, steps = [], []
        while True:
            angle, grip = 0.5 * hand[0], 0.04 - 0.03 * (np.abs(object_ - hand).max() < 0.1)
            seen.append((hand, [0, 0, np.sin(angle), np.cos(angle)], [grip, -grip], object_))
            if steps and steps[-1][-1]:
                break
            action = np.clip(0.1 * (object_ - hand) + rng.normal(0, noise, 3), -0.04, 0.04)
            hand = hand + action
            reward = float(np.linalg.norm(object_ - hand) < 0.05)
            steps.append((action, reward, bool(reward) or len(steps) == 59))
        columns = dict(zip(REACH, zip(*seen, strict=True), strict=True))
        columns |= zip(("action", "reward", "done"), zip(*steps, strict=True), strict=True)
        episodes.append({name: np.array(values) for name, values in columns.items()})
    return episodes


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
    for label, outcomes in expected["outcomes"].items():
        for name, values in outcomes.items():
            if (own := data[label].outcomes[name].tolist()) != values:
                sys.exit(f"{label} has outcomes {name} {own}, expected {values}")
    if expected["unusual"] is not None:
        first = json.loads((out / "unusual/unusual.json").read_text())["episodes"][0]["episode"]
        if first != expected["unusual"]:
            sys.exit(f"the most unusual episode is {first}, expected {expected['unusual']}")
    more = ", outcomes and odd episode too" if expected["outcomes"] else ""
    print(f"ok ({data.n_policies} policies, {data.n_episodes} episodes, returns agree{more})")


if __name__ == "__main__":
    main()
