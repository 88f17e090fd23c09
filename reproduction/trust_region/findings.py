"""What the paper says of trust regions, beside what came out: intervals, tables, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reproduction.published import (
    Array,
    Rows,
    bootstrap_interval,
    column,
    different,
    markdown,
    notes,
    where,
)
from reproduction.recipes import PICTURE, Finding

# What the paper calls them, and the thresholds it chose.
TITLES = {
    "max-tv": "Max TV",
    "gaussian": "Gaussian",
    "supervector": "supervector",
    "visitation": "visitation",
    "none": "no constraint",
    "clipped": "clipped PPO",
}
_SUFFIXES = {"ends": "end points", "anew": "old policy played anew", "64": "64 units"}
PAPER_THRESHOLDS = {"max-tv": 0.4, "gaussian": 10.0, "supervector": 0.05}
PAPER_CLIPPED = 10.0
OPEN = "an interval reaches over 0"


def title(method: str) -> str:
    """Name a method for readers.

    Examples
    --------
    >>> title("gaussian-ends")
    'Gaussian, end points'
    """
    name, _, suffix = method.rpartition("-")
    return f"{TITLES[name]}, {_SUFFIXES[suffix]}" if suffix in _SUFFIXES else TITLES[method]


def interval(values: Array, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Mean over the first axis with its 95 % interval, by the bootstrap.

    Examples
    --------
    >>> interval(np.array([2.0, 2.0]), np.random.default_rng(0))
    (2.0, 2.0, 2.0)
    """
    rows = values if values.ndim > 1 else values[:, None]
    low, high = bootstrap_interval(rows, rng)
    if values.ndim > 1:
        return values.mean(axis=0), low, high
    return float(values.mean()), float(low[0]), float(high[0])


def remarks(numbers: Mapping[str, Any]) -> list[str]:
    """Say what a reader must know, and where the best threshold may lie beyond those searched."""
    edges = []
    for name in different(numbers["sweep"], "method"):
        tried = column(numbers["sweep"], "threshold", method=name)
        if numbers["chosen"][name] in (min(tried), max(tried)):
            edges.append(title(name))
    return notes("trust_region", edges=", ".join(edges) or "none")


def tables(numbers: Mapping[str, Any]) -> str:
    """Write the methods, and the search for thresholds, as Markdown."""
    chosen, runs = numbers["chosen"], where(numbers["runs"], part="repeat")
    heads = ["method", "threshold: paper", "ours", "repetitions", "mean return, all of training"]
    heads += ["last tenth", "less no constraint, paired", "updates an iteration"]
    heads += ["iterations stopped", "against itself"]
    rng = np.random.default_rng(0)  # of the bootstrap
    lines = []
    for name, row in numbers["methods"].items():
        mine = np.array(column(runs, "mean_return", method=name))
        paper = PAPER_THRESHOLDS.get(name)
        lines.append(
            [
                title(name),
                "" if paper is None else f"{paper:g}",
                f"{chosen[name]:g}" if name in chosen else "",
                f"{len(mine)}",
                _spoken(row["area"]),
                _spoken(row["end"]),
                "" if name.startswith("none") else _gain(name, mine, runs, rng),
                f"{row['updates']:.0f}",
                f"{row['stopped']:.0%}" if name in chosen else "",
                f"{row['self_stops']:.0%}" if name in chosen else "",
            ]
        )
    explanation = (
        "*Against itself*: share of the iterations in which the policy that collected the data "
        "exceeds the threshold against a second sample of its own episodes. All thresholds:"
    )
    searched = ["method", "threshold", "mean return", "updates an iteration", "against itself"]
    swept = [
        [
            title(entry["method"]),
            f"{entry['threshold']:g}",
            f"**{entry['area'][0]:.2f}**"
            if chosen[entry["method"]] == entry["threshold"]
            else f"{entry['area'][0]:.2f}",
            f"{entry['updates']:.1f}",
            f"{entry['self_stops']:.0%}",
        ]
        for entry in numbers["sweep"]
    ]
    return "\n\n".join([markdown(heads, lines), explanation, markdown(searched, swept)])


def _gain(name: str, mine: Array, runs: Rows, rng: np.random.Generator) -> str:
    """Write how much better a method is than no constraint with the same networks."""
    other = "none-64" if name.endswith("-64") else "none"
    free = np.array(column(runs, "mean_return", method=other))[: len(mine)]
    mean, low, high = interval(mine - free, rng)
    return f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"


def _spoken(values: Sequence[float]) -> str:
    mean, low, high = values
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


class Gaps:
    """Differences of a method to others, repetition by repetition, which have the same path."""

    def __init__(self, values: Mapping[str, Array], better: str, others: Sequence[str]) -> None:
        rng = np.random.default_rng(0)  # of the bootstrap
        self.mean = values[better].mean()
        self.gaps = {other: interval(values[better] - values[other], rng) for other in others}

    @property
    def holds(self) -> bool | None:
        """Whether it is above all of them, by intervals of 95 %; None where it cannot be told."""
        if any(high < 0 for _, _, high in self.gaps.values()):
            return False
        return True if all(low > 0 for _, low, _ in self.gaps.values()) else None

    def __str__(self) -> str:
        spoken = "; ".join(
            f"{mean:+.2f} (95 %: {low:+.2f} to {high:+.2f}) over {title(other)}"
            for other, (mean, low, high) in self.gaps.items()
        )
        return f"{self.mean:.2f}: {spoken}"


def findings(numbers: Mapping[str, Any]) -> list[Finding]:
    """Judge what the paper says."""
    rows = where(numbers["runs"], part="repeat")
    whole, last = (
        {name: np.array(column(rows, measure, method=name)) for name in numbers["methods"]}
        for measure in ("mean_return", "last_tenth")
    )

    def compare(
        of: str,
        claim: str,
        paper: str,
        better: str,
        *others: str,
        values: Mapping[str, Array] = whole,
    ) -> Finding:
        gaps = Gaps(values, better, others)
        alone = numbers["methods"][better]["self_stops"]
        why = OPEN if gaps.holds is None else ""
        if gaps.holds is False and alone:
            why = f"two samples of one policy exceed its threshold in {alone:.0%} of the iterations"
        return Finding(of, claim, paper, str(gaps), gaps.holds, why=why)

    best = "Max TV is the best of the constraints"
    slow = "Gaussian ends (last tenth) above all others without clipping"
    clipped = "PPO with ratio clipping and 640 updates reaches notably higher results"
    highest, above = "to the highest score overall", f"above {PAPER_CLIPPED:g}"
    return [
        compare("trust-actions", best, "best suited", "max-tv", "gaussian", "supervector"),
        *(
            compare(f"trust-{name}", f"{capital} outperforms no constraint", "yes", name, "none")
            for name, capital in (("gaussian", "Gaussian"), ("supervector", "Supervector"))
        ),
        compare(
            *("trust-slow", slow, highest, "gaussian", "max-tv", "supervector", "none"),
            values=last,
        ),
        _peak(numbers),
        _thresholds(numbers),
        _occasionally(numbers),
        compare("trust-clipped", clipped, above, "clipped", "max-tv", "gaussian", "supervector"),
    ]


def _peak(numbers: Mapping[str, Any]) -> Finding:
    """Judge whether supervectors are quick, have their peak in the first two thirds, and drop."""
    claim = (
        "Supervector learns faster in the first fifth than Gaussian and no constraint, has its "
        "best tenth before two thirds of training, and is below it in the last"
    )
    if numbers["tenths"] is None:
        return Finding("trust-peak", claim, PICTURE, "–", None, why="its numbers were not kept")
    parts = {name: np.array(rows) for name, rows in numbers["tenths"].items()}
    mine = parts["supervector"].mean(axis=0)
    peak = int(mine.argmax())
    quick = Gaps(
        {name: rows[:, :2].mean(axis=1) for name, rows in parts.items()},
        *("supervector", ("gaussian", "none")),
    )
    drop = Gaps(
        {"peak": parts["supervector"][:, peak], "last": parts["supervector"][:, -1]},
        *("peak", ("last",)),
    )
    early = peak <= 5  # that tenth ends before two thirds of training
    verdicts = (early, quick.holds, drop.holds)
    holds = False if False in verdicts else None if None in verdicts else True
    mean, low, high = drop.gaps["last"]
    return Finding(
        "trust-peak",
        claim,
        PICTURE,
        f"first fifth {quick}; best in tenth {peak + 1} of 10, last one {-mean:+.2f} "
        f"(95 %: {-high:+.2f} to {-low:+.2f})",
        holds,
        why=OPEN if holds is None else "",
    )


def _thresholds(numbers: Mapping[str, Any]) -> Finding:
    chosen = [numbers["chosen"][name] for name in PAPER_THRESHOLDS]
    same = chosen == list(PAPER_THRESHOLDS.values())
    return Finding(
        "trust-thresholds",
        "The best thresholds of Max TV, Gaussian and supervector are the paper's",
        ", ".join(f"{value:g}" for value in PAPER_THRESHOLDS.values()),
        ", ".join(f"{value:g}" for value in chosen),
        same,
        why="" if same else "the paper's belong to its scripts' other mines, paths and networks",
    )


def _occasionally(numbers: Mapping[str, Any]) -> Finding:
    shares = {name: numbers["methods"][name]["stopped"] for name in PAPER_THRESHOLDS}
    return Finding(
        "trust-occasionally",
        "Each constraint ends the updates of some iterations, but not of all",
        "occasionally",
        ", ".join(f"{title(name)} {share:.0%}" for name, share in shares.items()),
        all(0 < share < 1 for share in shares.values()),
    )
