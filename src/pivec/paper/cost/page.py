"""What is said of the cost beside the figure: the table, the findings, the notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pivec.paper.recipes import Finding

Rows = Sequence[dict[str, Any]]

RATINGS = ("Low", "High", "V.High", "N/A", "")


def at_most_policies(rows: Rows) -> list[dict[str, Any]]:
    """Return the rows with the most policies, the fastest first."""
    most = max(row["policies"] for row in rows)
    return sorted((row for row in rows if row["policies"] == most), key=lambda row: row["seconds"])


def growth(rows: Rows, method: str) -> float:
    """Return the power of the number of policies with which the seconds grow.

    Examples
    --------
    >>> rows = [{"method": "a", "policies": n, "seconds": n**2} for n in (2, 8)]
    >>> growth(rows, "a")
    2.0
    """
    mine = sorted((row for row in rows if row["method"] == method), key=lambda row: row["policies"])
    few, many = mine[0], mine[-1]
    if few["policies"] == many["policies"]:
        return math.nan
    ratio = many["policies"] / few["policies"]
    return math.log(many["seconds"] / few["seconds"]) / math.log(ratio)


def table(rows: Rows) -> str:
    """Write seconds and memory beside the paper's rating, the fastest first."""
    counts = sorted({row["policies"] for row in rows})
    heads = [f"s, {n} policies" for n in counts] + ["grows as policies to the"]
    heads += [f"added MB, {counts[-1]} policies", "peak MB"]
    lines = [f"| characterization | row of Table 1 | paper | {' | '.join(heads)} |"]
    lines.append("| --- | --- | --- |" + " ---: |" * len(heads))
    for last in at_most_policies(rows):
        mine = {row["policies"]: row for row in rows if row["method"] == last["method"]}
        cells = [f"{mine[n]['seconds']:.3g}" for n in counts]
        power = growth(rows, last["method"])
        cells.append("–" if math.isnan(power) else f"{power:.1f}")
        cells += [f"{last['added_mb']:.0f}", f"{last['peak_mb']:.0f}"]
        rated = last["paper"] or "–"
        lines.append(
            f"| {last['method']} | {last['row_of_the_table'] or '–'} | {rated} "
            f"| {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def findings(rows: Rows, *, tells: bool) -> list[Finding]:
    """What the table says, beside what came out."""
    last = at_most_policies(rows)
    by = {rating: [row for row in last if row["paper"] == rating] for rating in RATINGS}
    found = []
    costly = by["High"] + by["V.High"]
    if by["Low"] and costly:
        slowest = by["Low"][-1]
        fastest = min(costly, key=lambda row: row["seconds"])
        found.append(
            Finding(
                "What is rated Low takes less time than what is rated High or V.High",
                "ratings, without numbers",
                f"slowest Low: {slowest['method']} {slowest['seconds']:.3g} s; fastest High: "
                f"{fastest['method']} {fastest['seconds']:.3g} s",
                slowest["seconds"] < fastest["seconds"] if tells else None,
            )
        )
    own = next((row for row in last if row["method"] == "supervector"), None)
    neural = [row for row in last if row["method"] in ("discriminator", "encoder")]
    if own is not None and neural:
        told = ", ".join(f"{row['method']} {row['seconds']:.3g} s" for row in neural)
        found.append(
            Finding(
                "Supervectors are cheaper than the discriminator and the encoder",
                "Low, Low and High",
                f"supervector {own['seconds']:.3g} s, {told}",
                all(own["seconds"] < row["seconds"] for row in neural) if tells else None,
            )
        )
    if own is not None:
        power = growth(rows, "supervector")
        found.append(
            Finding(
                "Supervectors are scalable",
                "no number",
                f"seconds grow as the policies to the power of {power:.1f}; "
                f"{own['added_mb']:.0f} MB for {own['policies']}",
                power < 1.5 if tells and not math.isnan(power) else None,
            )
        )
    return found


def notes() -> list[str]:
    """What a reader must know to read the numbers."""
    what = (
        "Seconds are the wall time of fit, describe and distances on the cores of this machine, "
        "after a warm-up; states are collected before. Added MB is the peak of the process less "
        "what it held after the warm-up, with its libraries loaded."
    )
    how = (
        "The paper rates the methods as they are published; here the discriminators of all "
        "policies are trained as one batched network, transitions and cells are counted sparsely, "
        "and trajectories are padded and encoded together."
    )
    return [what, how]
