"""What `pivec unusual` prints: episodes far from their policy's others, and states outside."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from pivec.explanations.unusual.outside import Outside
from pivec.explanations.unusual.result import Unusual, UnusualEpisode
from pivec.terminal import literal, say
from pivec.text import percent, rounded

_EXPLAINED = 3  # episodes of which it is said what is unusual
_ROWS = 10  # policies with states outside
OUTSIDE = (
    "farther from all regions of the space than 99 % of the states of each policy that it was "
    "fitted on; deviations are those of the nearest region"
)


def print_unusual(result: Unusual) -> None:
    """Print the most unusual episodes, what is unusual about the first, and states outside."""
    say(result.headline())
    table = Table(box=None)
    table.add_column("policy", overflow="fold")
    for head in ("episode", "times as far", "return (usual)", "states (usual)", "most typical"):
        table.add_column(head, justify="right")
    for row in result.episodes:
        mine = result.of(row.policy)
        total = beside(row.total, mine.usual_return)
        length = beside(row.length, mine.usual_length)
        numbers = (str(row.episode), times(row), total, length, str(mine.typical))
        table.add_row(literal(row.policy), *numbers)
    Console().print(table)
    say("times as far: from the policy's other episodes, where 1 is its usual (median) episode")
    for row in result.episodes[:_EXPLAINED]:
        if row.reasons:
            say(f"Episode {row.episode} of {row.policy}:")
        for reason in row.reasons:
            say(f"  {reason}")
    if result.outside is not None:
        print_outside(result.outside)
    for note in result.notes:
        say(f"Note: {note}")


def print_outside(outside: Outside) -> None:
    """Print who goes where no policy has been; of policies that made the space hardly anybody."""
    say(outside.headline())
    rows = [row for row in outside.policies if row.outside][:_ROWS]
    if not rows or not (outside.placed or rows[0].is_notable):
        return
    table = Table(box=None)
    table.add_column("policy", overflow="fold")
    for head in ("outside", "states", "in episodes"):
        table.add_column(head, justify="right")
    table.add_column("by")
    for row in rows:
        numbers = (percent(row.share), str(row.outside), str(row.episodes))
        table.add_row(literal(row.policy), *numbers, literal(row.words))
    Console().print(table)
    say(f"outside: {OUTSIDE}")


def times(row: UnusualEpisode) -> str:
    """Write how many times as far as usual an episode is."""
    return "∞" if math.isinf(row.times) else f"{row.times:.2g}"


def beside(value: float | None, usual: float) -> str:
    """Write a number with the usual one behind it."""
    return (
        "–" if value is None or math.isnan(usual) else f"{rounded(value, 3)} ({rounded(usual, 3)})"
    )
