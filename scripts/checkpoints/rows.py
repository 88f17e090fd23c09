"""Rows of the table in docs/libraries.md: files of a real library, and what its own model answers.

Each `*_rows.py` beside this file makes rows with a library that is installed by hand. A row is a
folder in tests/data/libraries with the files as the library writes them, `row.toml` and
`answers.npz`; tests/policies/test_libraries.py holds what pivec reads against these answers.
Run this file to write the table of all rows into the page.
"""

from __future__ import annotations

import os
import tomllib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
# scripts/newcomers.sh has fresh files written elsewhere.
ROWS = Path(os.environ.get("PIVEC_ROWS", ROOT / "tests" / "data" / "libraries"))
PAGE = ROOT / "docs" / "libraries.md"
HEADING = (
    "| library | checkpoint | `policy` | environment | loads | safe | numbers to 1e-5 | returns |"
)
OBSERVATIONS, EPISODES = 100, 30

Act = Callable[..., Any]


def make(environment: str, wrappers: Sequence[str]) -> Any:
    """Make an environment, with wrappers around it as `pivec compare --wrappers` takes them."""
    import gymnasium

    if environment in gymnasium.registry and not wrappers:
        return gymnasium.make(environment)
    from pivec.rollouts import Environment

    return Environment.of(environment, wrappers=wrappers).make()


def play(env: Any, act: Act, recurrent: bool) -> dict[str, Any]:
    """Returns of episodes of a library's own model, and observations on its way.

    ``act`` takes a batch of one observation and gives a batch of one action, as the environment
    gets it. One with a memory is also told whether an episode begins; its observations are then
    successive ones. Where the environment tells which actions are allowed, so is ``act``.
    """
    masked = env.has_wrapper_attr("action_masks")
    returns, observations, told = [], [], []
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=episode)
        total, start, done = 0.0, True, False
        while not done:
            observations.append(observation)
            told.append(env.get_wrapper_attr("action_masks")() if masked else start)
            batch = stacked([observation])
            action = np.asarray(act(batch, *told[-1:] * (masked or recurrent)))[0]
            if action.shape == ():
                action = action.item()
            observation, reward, terminated, truncated, _ = env.step(action)
            total, start, done = total + float(reward), False, terminated or truncated
        returns.append(total)
    env.close()
    rng = np.random.default_rng(0)
    few = len(observations) < OBSERVATIONS
    chosen = rng.choice(len(observations), OBSERVATIONS, replace=few)
    if recurrent:
        chosen = np.arange(OBSERVATIONS)
    more = {"masks" if masked else "starts": np.array(told)[chosen]}
    return {
        "returns": np.array(returns),
        "observations": stacked([observations[i] for i in chosen]),
        **(more if masked or recurrent else {}),
    }


def stacked(observations: Sequence[Any]) -> Any:
    """A batch of observations, which may be dictionaries."""
    if not isinstance(observations[0], dict):
        return np.stack([np.asarray(observation) for observation in observations])
    return {key: stacked([each[key] for each in observations]) for key in observations[0]}


def save_sb3(model: Any, name: str) -> None:
    """Save a model of Stable-Baselines3, without what it tells of this machine."""
    file = ROWS / name / "model.zip"
    file.parent.mkdir(parents=True, exist_ok=True)
    model.save(file, exclude=["_last_obs", "ep_info_buffer"])
    with zipfile.ZipFile(file) as saved:
        parts = {part: saved.read(part) for part in saved.infolist()}
    with zipfile.ZipFile(file, "w") as kept:
        for part, content in parts.items():
            if part.filename != "system_info.txt":
                kept.writestr(part, content)


def write_row(
    name: str,
    environment: str,
    act: Act,
    answer: Callable[..., Mapping[str, Any]],
    wrappers: Sequence[str] = (),
    recurrent: bool = False,
    **facts: str | bool,
) -> None:
    """Write what the library's own model answers, and the facts of a row whose files are there.

    ``answer`` takes observations and gives ``actions`` (deterministic) and ``probabilities``, or
    ``mean`` and ``std``. Of a ``recurrent`` model it also takes which of the successive
    observations are the first ones of episodes; or else which actions are allowed, where that is
    told.
    """
    arrays = play(make(environment, wrappers), act, recurrent)
    observations, returns = arrays["observations"], arrays["returns"]
    told = [arrays[key] for key in ("starts", "masks") if key in arrays]
    arrays |= {key: np.asarray(value) for key, value in answer(observations, *told).items()}
    if isinstance(observations, dict):
        del arrays["observations"]
        arrays |= {f"observations.{key}": rows for key, rows in observations.items()}
    np.savez_compressed(ROWS / name / "answers.npz", **arrays)
    lines = {"environment": environment, "needs_trust": False, **facts}
    text = "".join(
        f"{key} = {str(value).lower() if isinstance(value, bool) else _quoted(value)}\n"
        for key, value in lines.items()
    )
    text += f"wrappers = {list(wrappers)}\n" if wrappers else ""
    (ROWS / name / "row.toml").write_text(text)
    sizes = sum(file.stat().st_size for file in (ROWS / name).rglob("*"))
    print(f"{name}: {sizes / 1000:.0f} kB, returns {returns.mean():.1f}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def read_rows() -> dict[str, dict[str, Any]]:
    """All rows by the names of their folders."""
    return {
        file.parent.name: tomllib.loads(file.read_text())
        for file in sorted(ROWS.glob("*/row.toml"))
    }


def table() -> str:
    """The table of all rows, a line each."""
    lines = [HEADING, "| " + " | ".join(["---"] * (HEADING.count("|") - 1)) + " |"]
    for name, row in read_rows().items():
        with np.load(ROWS / name / "answers.npz") as answers:
            numbers = [k for k in ("actions", "probabilities", "mean", "std") if k in answers]
            returns = answers["returns"]
        world = row["environment"], *row.get("wrappers", ())
        mean, error = returns.mean(), returns.std() / len(returns) ** 0.5
        digits = 0 if error >= 0.5 else 2
        cells = (
            f"{row['library']} {row['version']}",
            row["what"],
            f"`{row['policy']}`",
            ", ".join(f"`{n}`" if ":" in n else n for n in world),
            f"with `pip install {row['needs']}`" if "needs" in row else "yes",
            "with `--trust`" if row["needs_trust"] else "yes",
            ", ".join(numbers).replace("mean, std", "means, deviations"),
            f"as its own ({mean:.{digits}f} ± {error:.{digits}f})",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    before, _, after = PAGE.read_text().partition(HEADING)
    rest = after[after.index("\n\n") + 1 :]
    PAGE.write_text(before + table() + rest)
