"""Answers in words: what `pivec same` and `pivec plan` print, and a JUnit file for a pipeline."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ElementTree, SubElement

import numpy as np
from rich.console import Console
from rich.table import Table

from pivec.files import atomic_write
from pivec.statistics import POWER, EquivalenceTest, Plan
from pivec.terminal import literal, printable, say

_ROWS = 20  # policies in a table on the terminal


def headline(answer: EquivalenceTest) -> str:
    """Say the verdict in a sentence.

    Examples
    --------
    >>> headline(EquivalenceTest("unclear", ("a", "b"), 0.01, 0.0, 0.04, 0.3, "permutation", 0.02,
    ...                   0.95, (20, 20), 160, "visitation"))
    'a and b: cannot tell yet, about 140 more episodes of each'
    """
    a, b = answer.labels
    if answer.verdict != "unclear":
        return f"{a} and {b}: {'the same' if answer.verdict == 'same' else 'different'}"
    more = answer.more_episodes
    how = "more episodes are needed" if more is None else f"about {more:,} more episodes of each"
    return f"{a} and {b}: cannot tell yet, {how}"


def reasons(answer: EquivalenceTest) -> list[str]:
    """Give the numbers behind the verdict, a line each."""
    sure = f"{100 * answer.level:g} %"
    shown = max(answer.distance, 0.0)  # less the noise it may lie a little below
    lines = [f"distance {shown:.4g} by {answer.method}, margin {answer.margin:g}"]
    if isfinite(answer.high):
        lines.append(
            f"at least {answer.low:.4g} and at most {answer.high:.4g}, each with {sure} certainty, "
            f"from {answer.episodes[0]} and {answer.episodes[1]} episodes"
        )
    lines.append(f"p = {answer.p_value:.3g} ({answer.test} test of no difference)")
    if answer.overlap is not None:
        apart = 100 * (1 - answer.overlap)
        lines.append(f"they spend {apart:.0f} % of their time in different places")
    if answer.verdict == "same" and answer.p_value <= 1 - answer.level:
        lines.append("there is a difference, but a smaller one than the margin")
    return lines


def print_sameness(answer: EquivalenceTest) -> None:
    """Print the verdict and its reasons."""
    say(headline(answer))
    for line in reasons(answer):
        say(f"  {line}")


def write_junit(path: str | Path, answer: EquivalenceTest, seconds: float) -> None:
    """Write the answer as a test that passes if the policies behave alike."""
    passed = answer.verdict == "same"
    counts = {"tests": "1", "failures": str(int(not passed)), "errors": "0"}
    root = Element("testsuites", counts)
    suite = SubElement(root, "testsuite", {"name": "pivec same", **counts})
    a, b = map(printable, answer.labels)
    case = SubElement(
        suite,
        "testcase",
        {"classname": "pivec.same", "name": f"{b} behaves as {a}", "time": f"{seconds:.3f}"},
    )
    text = "\n".join(map(printable, reasons(answer)))
    if passed:
        SubElement(case, "system-out").text = text
    else:
        failure = {"message": printable(headline(answer)), "type": answer.verdict}
        SubElement(case, "failure", failure).text = text
    with atomic_write(path) as file:
        ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def print_plan(plan: Plan) -> None:
    """Print what each policy needs, those that need most first."""
    columns = {f"± {plan.precision:g} to all": plan.to_all(plan.for_precision)}
    if len(plan.labels) > 1:
        columns[f"± {plan.precision:g} to its nearest"] = plan.to_nearest
    if plan.to_decide is not None:
        columns[f"same, margin {plan.margin:g}"] = plan.to_all(plan.to_decide)
    table = Table("policy", box=None)
    for title in columns:
        table.add_column(title, justify="right")
    order = np.argsort(-next(iter(columns.values())), kind="stable")
    for row in order[:_ROWS].tolist():
        table.add_row(literal(plan.labels[row]), *(_count(need[row]) for need in columns.values()))
    say(f"Episodes of each policy, from a pilot of {plan.pilot}:")
    Console().print(table)
    if len(order) > _ROWS:
        say(f"and {len(order) - _ROWS} policies that need fewer; --json has all pairs")
    say(f"±: how far the {100 * plan.level:g} % interval of a distance reaches to either side")
    if plan.to_decide is not None:
        say(f"same: for a verdict of `pivec same` that is right in {100 * POWER:g} % of cases")


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return plain values; None stands where no number of episodes suffices."""

    def plain(matrix: Any) -> Any:
        if matrix is None:
            return None
        return [[int(x) if isfinite(x) else None for x in row] for row in matrix.tolist()]

    return {
        "policies": list(plan.labels),
        "pilot": plan.pilot,
        "precision": plan.precision,
        "level": plan.level,
        "for_precision": plain(plan.for_precision),
        "margin": plan.margin,
        "to_decide": plain(plan.to_decide),
    }


def say_json(content: dict[str, Any]) -> None:
    """Print one object on one line."""
    say(json.dumps(content, allow_nan=False))


def _count(episodes: float) -> str:
    return f"{int(episodes):,}" if isfinite(episodes) else "–"
