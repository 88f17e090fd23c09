"""What is said of the clip ratio beside the pictures: the tables, the findings, the notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pivec.paper.published import published
from pivec.paper.recipes import Finding

Rows = Sequence[dict[str, Any]]

A2C = "a2c"
FARTHER = ("LunarLander-v3", "BipedalWalker-v3")
NEGATIVE = ("BipedalWalker-v3", "LunarLander-v3", "Acrobot-v1")


def short(environment: str) -> str:
    """Leave the version out.

    Examples
    --------
    >>> short("CartPole-v1")
    'CartPole'
    """
    return environment.rpartition("-v")[0]


def table(summary: Rows) -> str:
    """Write both halves of the paper's table as Markdown, ours with the paper's in brackets."""
    environments = list(dict.fromkeys(row["environment"] for row in summary))
    settings = list(dict.fromkeys(row["setting"] for row in summary))
    by = {(row["environment"], row["setting"]): row for row in summary}
    parts = []
    for name, title, digits in (
        ("distance", "Distance travelled", 1),
        ("correlation", "Corr(R, d)", 2),
    ):
        theirs = published()["clipping"][name]
        head = " | ".join(short(each) for each in environments)
        lines = [f"**{title}**: ours (paper), mean ± standard deviation over runs", ""]
        lines += [f"| clip ratio | {head} |", "|" + " --- |" * (1 + len(environments))]
        for setting in settings:
            cells = []
            for each in environments:
                ours = by[each, setting]
                pair = ours[f"{name}_mean"], ours[f"{name}_std"]
                paper = _shown(theirs[each][setting], digits)
                cells.append(f"{_shown(pair, digits)} ({paper})")
            label = "A2C" if setting == A2C else setting
            lines.append(f"| {label} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _shown(pair: Sequence[float], digits: int) -> str:
    return f"{pair[0]:.{digits}f} ± {pair[1]:.{digits}f}"


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's correlation, of ranks with ties shared.

    Examples
    --------
    >>> round(rank_correlation([1, 2, 3], [0.1, 0.5, 90.0]), 6)
    1.0
    """
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def findings(rows: Rows, *, tell: bool) -> list[Finding]:
    """What the paper says of its table, beside what came out; ``tell`` whether it can be told."""
    environments = list(dict.fromkeys(row["environment"] for row in rows))
    found = []
    theirs = published()["clipping"]["distance"]
    for each in environments:
        pairs = _ratios(rows, each, "distance")
        ours = rank_correlation(*zip(*pairs, strict=True))
        printed = [(float(r), v[0]) for r, v in theirs[each].items() if r != A2C]
        paper = rank_correlation(*zip(*printed, strict=True))
        found.append(
            Finding(
                f"The distance travelled grows with the clip ratio: {short(each)}",
                f"Spearman {paper:.2f} of the printed means",
                f"Spearman {ours:.2f} over {len(pairs)} runs",
                ours > 0 if tell else None,
            )
        )
    for each in (name for name in FARTHER if name in environments):
        a2c, ppo = (np.mean(_of(rows, each, name, "distance")) for name in (A2C, "0.2"))
        found.append(
            Finding(
                f"A2C travels farther than PPO at 0.2: {short(each)}",
                f"{theirs[each][A2C][0]:g} against {theirs[each]['0.2'][0]:g}",
                f"{a2c:.1f} against {ppo:.1f}",
                bool(a2c > ppo) if tell else None,
            )
        )
    theirs = published()["clipping"]["correlation"]
    for each in (name for name in NEGATIVE if name in environments):
        middle = dict.fromkeys(r["setting"] for r in rows if _in_the_middle(r["setting"]))
        ours_means, beyond = (
            [float(np.mean(_of(rows, each, name, what))) for name in middle]
            for what in ("correlation", "correlation_beyond_chance")
        )
        found.append(
            Finding(
                f"The better the policy, the less it changes: Corr(R, d) < 0 for clip ratios from "
                f"0.1 to 0.5: {short(each)}",
                _range([theirs[each][name][0] for name in middle]),
                f"{_range(ours_means)}; of what sampling does not explain {_range(beyond)}",
                max(ours_means) < 0 if tell else None,
            )
        )
    return found


def _in_the_middle(setting: str) -> bool:
    return setting != A2C and 0.1 <= float(setting) <= 0.5


def _of(rows: Rows, environment: str, setting: str, name: str) -> list[float]:
    return [
        row[name] for row in rows if row["environment"] == environment and row["setting"] == setting
    ]


def _ratios(rows: Rows, environment: str, name: str) -> list[tuple[float, float]]:
    """Pairs of the clip ratio and a value, over the runs of PPO."""
    return [
        (float(row["setting"]), row[name])
        for row in rows
        if row["environment"] == environment and row["setting"] != A2C
    ]


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def notes(rows: Rows) -> list[str]:
    """What a reader must know to read the numbers."""
    share = [row["by_chance"] / row["distance"] for row in rows if row["distance"] > 0]
    return [
        (
            "Only the clip of the policy's ratio is changed. The clip of the value stays at 0.2, "
            "as the paper changes nothing else; where the settings let both fall to zero over "
            "training (CartPole), the changed one falls, too."
        ),
        (
            "The untrained policy is the first of a run's policies, and the last one is the policy "
            "after all steps. Runs of all clip ratios begin with the same networks and seeds."
        ),
        (
            "One background model for each environment, fitted on policies spread evenly over all "
            "runs. Its distances depend on it, so ours and the paper's may differ by a factor; "
            "compare the order."
        ),
        (
            "Even a policy that does not change seems to travel, since its states are a sample: "
            "`by_chance` in the numbers is that part, from the distance between the even and the "
            f"odd episodes; its median is {100 * float(np.median(share)):.0f} % of the distance "
            "travelled, and the grey areas in the learning curves."
        ),
        (
            "The paper's means are as printed. Three of them seem to have lost a zero: 1.7 "
            "(BipedalWalker, 0.1), 1.8 (LunarLander, 0.3) and 2.2 (CartPole, 5)."
        ),
    ]
