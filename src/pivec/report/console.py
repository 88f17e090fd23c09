"""Short tables on the terminal; text from files is shown literally."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from pivec.policies import PolicyInfo
from pivec.report.distance_figures import permanova_numbers, permanova_sentence, with_interval
from pivec.report.findings import UNSURE, Findings
from pivec.report.groups import GroupComparison
from pivec.states import Store
from pivec.statistics import LEVEL
from pivec.terminal import literal, say, shortened
from pivec.text import interval, n_policies, percent, told_apart


def print_summary(findings: Findings) -> None:
    """Print the few facts that tell whether policies behave differently, and by how much."""
    console, measured = Console(), findings.measured
    rows = [
        (title, row)
        for title, pairs in (("nearest", measured.nearest), ("farthest", measured.farthest))
        for row in findings.rows_of(pairs)[:3]
    ]
    names = [name for _, row in rows for name in (row.policy, row.other)]
    brief = dict(zip(names, told_apart(names, max(20, (console.width - 48) // 2)), strict=True))
    sure = any(math.isfinite(row.low) for _, row in rows)
    shared = any(math.isfinite(row.overlap) for _, row in rows)
    table = Table("", box=None)
    for head in ("policy", "policy"):
        table.add_column(head, overflow="fold")
    heads = [f"distance ({percent(LEVEL)} interval)" if sure else "distance"]
    for head in heads + ["apart"] * shared:
        table.add_column(head, no_wrap=True)
    for title, row in rows:
        distance = f"{row.distance:.{3 if sure else 4}g}"
        if math.isfinite(row.low):
            distance += f" ({interval(row.low, row.high)}){' *' * row.alike}"
        apart = [percent(1 - row.overlap)] * shared
        table.add_row(
            title, literal(brief[row.policy]), literal(brief[row.other]), distance, *apart
        )
    console.print(table)
    if measured.n_known:
        say(f"* {UNSURE}: {len(measured.alike)} of {measured.n_known} pairs")
    if findings.behaviours:
        say(f"{findings.behaviours_words} (no two policies of one are told apart; map.csv)")
    if shared:
        say("apart: share of their time that two policies spend in different places")
    if findings.distances_note:
        say(findings.distances_note)
    if not measured.travels:
        return
    table = Table("run", "checkpoints", "distance travelled", box=None)
    for run in sorted(measured.travels, key=lambda run: -run.total)[:10]:
        half = "" if run.half_widths is None else f" ± {run.half_widths[-1]:.2g}"
        table.add_row(literal(run.group), str(len(run.rows)), f"{run.total:.4g}{half}")
    console.print(table)


def print_environment(settings: Mapping[str, Any]) -> None:
    """Print the environment that was read off the policies' files, or that nobody acted."""
    parts = [str(settings.get("environment") or "not known")]
    if settings.get("backend") == "recorded":
        say(f"Recorded states, nobody acts; environment: {parts[0]}")
        return
    if settings.get("arguments"):
        parts.append(f"arguments {settings['arguments']}")
    if settings.get("wrappers"):
        parts.append(f"wrappers {[wrapper.get('name') for wrapper in settings['wrappers']]}")
    say(f"Environment, as the files tell: {', '.join(parts)}")


def print_normalisers(policies: Sequence[PolicyInfo]) -> None:
    """Print what normalised the policies' observations: a wrong one is an easy mistake to make."""
    applied = Counter(str(info.metadata.get("normaliser") or "") for info in policies)
    for name, count in applied.items():
        if name:
            say(f"Normaliser of the observations of {count} policies: {name}")


def print_store(store: Store) -> None:
    """Print the policies of a store, a row each."""
    say(f"{store.settings.get('environment', '')}, {len(store)} policies")
    table = Table("policy", "group", "step", "episodes", "states", "mean return", box=None)
    labels = told_apart(list(store.rows), max(24, Console().width - 50))
    for label, row in zip(labels, store.rows.values(), strict=True):
        step = "" if row["step"] is None else str(row["step"])
        numbers = (step, str(row["episodes"]), str(row["states"]), f"{row['mean_return']:.4g}")
        table.add_row(literal(label), literal(row["group"]), *numbers)
    Console().print(table)


def print_groups(result: GroupComparison) -> None:
    """Print which runs are in which group, how diverse each is, and whether groups differ."""
    console = Console()
    last = f"; of each run the last {n_policies(result.last)}" if result.last else ""
    say(f"Groups of runs, {result.grouping}{last}:")
    for group in result.groups:
        say(f"  {group.name}: {shortened(', '.join(group.runs), 200)}")
    if result.left_out:
        say(f"  in no group: {shortened(', '.join(result.left_out), 200)}")
    table = Table("within", "policies", "distance of runs", "of policies", "behaviours", box=None)
    for group in result.groups:
        figures = map(with_interval, (group.distance, group.policy_distance, group.behaviours))
        table.add_row(literal(group.name), str(group.n_policies), *figures)
    console.print(table)
    if result.pairs:
        table = Table("between", "distance of runs", "explained", "by chance", "p", box=None)
        for pair in result.pairs:
            shown = literal(" and ".join(pair.groups)), with_interval(pair.distance)
            table.add_row(*shown, *(permanova_numbers(pair.test) if pair.test else ()))
        console.print(table)
    if result.test is not None:
        say(permanova_sentence(result.test))
    else:
        say("No test: that takes two groups, and several runs of one of them")
    if any(math.isnan(group.behaviours.low) for group in result.groups):
        say("Intervals are about other runs, and take three runs of a group (two between groups)")
