"""What is said of the three metrics beside the figure: the tables and the notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reproduction.evaluating import BEFORE
from reproduction.metrics.findings import shown
from reproduction.published import Rows, different, markdown, notes, short, where

FAST = "supervector, fast start"  # the library's own fit of the background model
_AUTHORS_WAY = (
    "Supervectors and the discriminator",
    "What differs in the fit",
    "The library's own fit",
)  # how these paragraphs begin
_METRICS = (("correlation", "correlation ↑", 2), ("error_percent", "error % ↓", 0),
            ("variance", "variance ↓", 2))  # fmt: skip


def tables(numbers: Mapping[str, Any]) -> str:
    """Write the averages of each environment, the errors, and how both fits agree."""
    summary, parts = numbers["averages"], []
    for environment in different(summary, "environment"):
        here = where(summary, environment=environment)
        parts.append(f"**{environment}** (columns: metric, trajectories; ± over sets and draws)")
        parts.append(_averages(here))
        few = min(different(here, "trajectories"))
        parts.append(f"**{environment}: errors of pairs with {few} trajectories**, in percent")
        parts.append(_errors(where(here, trajectories=few)))
    if fits := numbers.get("fits"):
        parts.append("**Supervectors by the paper's fit**: correlation of their distances with")
        parts.append(_fits(fits))
    return "\n\n".join(parts)


def _averages(here: Rows) -> str:
    """Write the metrics at the most and the fewest trajectories."""
    sizes = sorted(different(here, "trajectories"), reverse=True)
    ends = list(dict.fromkeys((sizes[0], sizes[-1])))
    heads = ["", *(f"{title}, {size}" for _, title, _ in _METRICS for size in ends)]
    lines = []
    for method in different(here, "method"):
        at = {row["trajectories"]: row for row in where(here, method=method)}
        cells = [
            _with_std(at[size][name], at[size][f"{name}_std"], digits)
            for name, _, digits in _METRICS
            for size in ends
        ]
        lines.append([method, *cells])
    return markdown(heads, lines, left=1)


def _errors(here: Rows) -> str:
    heads = ["", "mean", "median", "pairs above 1 000", "pairs told apart", "mean of those"]
    lines = [
        [
            row["method"],
            shown(row["error_percent"], 0),
            shown(row.get("median_error_percent"), 0),
            percent(row.get("share_far_off")),
            percent(row.get("share_apart")),
            shown(row.get("error_apart_percent"), 0),
        ]
        for row in here
    ]
    return markdown(heads, lines, left=1)


def _fits(fits: Rows) -> str:
    heads = ["", "trajectories", "those by the library's fit, same draw", "those of another draw"]
    lines = [
        [environment, str(size), *(shown(_mean(rows, name), 3) for name in AGREEMENT)]
        for environment in different(fits, "environment")
        for size in different(where(fits, environment=environment), "trajectories")
        for rows in [where(fits, environment=environment, trajectories=size)]
    ]
    return markdown(heads, lines, left=1)


AGREEMENT = ("other_fit", "other_draw")


def remarks(numbers: Mapping[str, Any]) -> list[str]:
    """Return the notes: what the metrics are, the error explained, and what differs."""
    summary, fits = numbers["averages"], numbers.get("fits", [])
    environments, sizes = different(summary, "environment"), different(summary, "trajectories")
    few = where(summary, trajectories=min(sizes))
    own, fast = (
        {row["environment"]: row for row in where(few, method=method)}
        for method in ("supervector", FAST)
    )

    def of(rows: Mapping[str, Any], name: str, digits: int | None = 0) -> str:
        values = {place: rows.get(place, {}).get(name) for place in environments}
        write = percent if digits is None else lambda value: shown(value, digits)
        return _by_place({place: write(value) for place, value in values.items()})

    agreement = {
        name: _by_place(
            {place: shown(_mean(where(fits, environment=place), name), 3) for place in environments}
        )
        for name in AGREEMENT
    }
    # What was not computed used no card; earlier numbers do not know.
    cards = [row.get("card") for row in numbers["units"] if row["correlation"] is not None]
    text = notes(
        "metrics",
        few=min(sizes),
        most=max(sizes),
        error=of(own, "error_percent"),
        median=of(own, "median_error_percent"),
        far_off=of(own, "share_far_off", None),
        share_apart=of(own, "share_apart", None),
        error_apart=of(own, "error_apart_percent"),
        variance=of(own, "variance", 2),
        fast_variance=of(fast, "variance", 2),
        correlation=of(own, "correlation", 2),
        fast_correlation=of(fast, "correlation", 2),
        cards="–" if None in cards else sum(cards),
        units=len(cards),
        **agreement,
    )
    if "methods" not in numbers:
        text = [BEFORE, *(part for part in text if not part.startswith(_AUTHORS_WAY))]
    return [*text, *numbers["remarks"]]


def _by_place(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{short(place)} {text}" for place, text in texts.items())


def _mean(rows: Rows, name: str) -> float | None:
    known: Sequence[float] = [row[name] for row in rows if row[name] is not None]
    return float(np.mean(known)) if known else None


def percent(share: float | None) -> str:
    """Write a share in percent, a dash for None."""
    return "–" if share is None else f"{share:.1%}".replace("%", " %")


def _with_std(mean: float | None, std: float | None, digits: int) -> str:
    number = shown(mean, digits)
    if mean is None or std is None or abs(mean) >= 1e6:
        return number
    return f"{number} ± {std:.{digits}f}"
