"""What is said of the cost beside the figure: the table, the findings, the notes."""

from __future__ import annotations

import math
from typing import Any

from reproduction.published import Rows, column, different, markdown, where
from reproduction.recipes import Finding

MAGNITUDE = 10.0
BATCHED = "trajectories are encoded together here, and not one at a time"
ARRAYS = (
    "whole trajectories and transitions are compared as arrays here; a discriminator is a network "
    "of its own for every policy"
)
RATINGS = ("Low", "High", "V.High", "N/A", "")


def at_most_policies(rows: Rows) -> list[dict[str, Any]]:
    """Return the rows with the most policies, the fastest first."""
    most = max(different(rows, "policies"))
    return sorted(where(rows, policies=most), key=lambda row: row["seconds"])


def of_method(rows: Rows, method: str) -> list[dict[str, Any]]:
    """Return the rows of a characterization, from few policies to many."""
    return sorted(where(rows, method=method), key=lambda row: row["policies"])


def growth(rows: Rows, method: str) -> float:
    """Return the power of the number of policies with which the seconds grow."""
    mine = of_method(rows, method)
    few, many = mine[0], mine[-1]
    if few["policies"] == many["policies"]:
        return math.nan
    ratio = many["policies"] / few["policies"]
    return math.log(many["seconds"] / few["seconds"]) / math.log(ratio)


def rounded(seconds: float) -> str:
    """Write three digits, and thousands without an exponent.

    Examples
    --------
    >>> rounded(1096.4), rounded(0.0168)
    ('1100', '0.0168')
    """
    return f"{float(f'{seconds:.3g}'):g}"


def table(rows: Rows) -> str:
    """Write seconds and memory beside the paper's rating, the fastest first."""
    counts = sorted(different(rows, "policies"))
    heads = ["characterization", "row of Table 1", "paper", *(f"s, {n} policies" for n in counts)]
    heads += ["grows as policies to the", f"added MB, {counts[-1]} policies", "peak MB"]
    lines = []
    for last in at_most_policies(rows):
        power = growth(rows, last["method"])
        lines.append(
            [
                last["method"],
                last["row_of_the_table"] or "–",
                last["paper"] or "–",
                *map(rounded, column(of_method(rows, last["method"]), "seconds")),
                "–" if math.isnan(power) else f"{power:.1f}",
                f"{last['added_mb']:.0f}",
                f"{last['peak_mb']:.0f}",
            ]
        )
    return markdown(heads, lines, left=3)


def findings(rows: Rows) -> list[Finding]:
    """What the table says, beside what came out."""
    last = at_most_policies(rows)
    cheap = where(last, paper="Low")
    costly = [row for row in last if row["paper"] in ("High", "V.High")]
    own = where(last, method="supervector")
    neural = [row for row in last if row["method"] in ("discriminator", "encoder")]
    result = []
    if cheap and costly:
        slowest, fastest = cheap[-1], costly[0]
        holds = slowest["seconds"] < fastest["seconds"]
        result.append(
            Finding(
                "cost-ratings",
                "What is rated Low takes less time than what is rated High or V.High",
                "ratings, without numbers",
                f"slowest Low: {_seconds(slowest)}; fastest High: {_seconds(fastest)}",
                holds,
                why="" if holds else ARRAYS,
            )
        )
    if own and neural:
        result.append(
            Finding(
                "cost-ratings",
                "Supervectors are cheaper than the discriminator and the encoder",
                "Low, Low and High",
                ", ".join(_seconds(row) for row in [*own, *neural]),
                all(own[0]["seconds"] < row["seconds"] for row in neural),
            )
        )
    at = {row["method"]: row["seconds"] for row in neural}
    if len(at) == 2:
        ratio = at["encoder"] / at["discriminator"]
        result.append(
            Finding(
                "cost-encoder",
                "The encoder takes ten times as long as the discriminator, or longer",
                "an order of magnitude",
                ", ".join(_seconds(row) for row in neural) + f": {ratio:.2g} times",
                ratio >= MAGNITUDE,
                why="" if ratio >= MAGNITUDE else BATCHED,
            )
        )
    if own:
        power = growth(rows, "supervector")
        result.append(
            Finding(
                "cost-scalable",
                "Supervectors are scalable",
                "no number",
                f"seconds grow as the policies to the power of {power:.1f}; "
                f"{own[0]['added_mb']:.0f} MB for {own[0]['policies']}",
                None if math.isnan(power) else power < 1.5,
            )
        )
    return result


def _seconds(row: dict[str, Any]) -> str:
    return f"{row['method']} {rounded(row['seconds'])} s"
