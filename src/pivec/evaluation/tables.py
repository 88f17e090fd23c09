"""An evaluation as tables: CSV with every unit, Markdown and terminal with the averages."""

from __future__ import annotations

import csv
import os
from dataclasses import astuple, fields

from pivec.atomic import atomic_write
from pivec.evaluation.result import Evaluation, Row, Summary, fixed
from pivec.terminal import literal, say

HEADINGS = (
    "method",
    "trajectories",
    "correlation ↑",
    "error % ↓",
    "variance ↓",
    "seconds",
    "peak MB",
)


def write_csv(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Write all rows; numbers that are not known are empty."""
    with atomic_write(path, "w") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(Row)])
        for row in evaluation.rows:
            writer.writerow([_cell(value) for value in astuple(row)])


def markdown(evaluation: Evaluation) -> str:
    """Return a table for each environment, then notes and problems."""
    lines = ["# Evaluation", ""]
    for environment in evaluation.environments:
        lines += [f"## {_escaped(environment)}", "", _line(HEADINGS)]
        lines.append("| --- |" + " ---: |" * (len(HEADINGS) - 1))
        rows = [row for row in evaluation.summary() if row.environment == environment]
        lines += [_line(_cells(row)) for row in rows]
        lines.append("")
    if evaluation.notes:
        lines += [*(_escaped(note) for note in evaluation.notes), ""]
    if evaluation.problems:
        lines += ["## Problems", ""]
        for method, store, why in evaluation.problems:
            lines.append(f"- {_escaped(method)} on {_escaped(store)}: {_escaped(why)}")
        lines.append("")
    return "\n".join(lines)


def print_evaluation(evaluation: Evaluation) -> None:
    """Print the averages on the terminal, and what went wrong."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for environment in evaluation.environments:
        rows = [row for row in evaluation.summary() if row.environment == environment]
        table = Table(title=literal(environment), title_justify="left", box=None)
        table.add_column(HEADINGS[0], min_width=min(24, max(len(row.method) for row in rows)))
        for heading in ("n", *HEADINGS[2:]):
            table.add_column(heading, justify="right")
        previous = ""
        for row in rows:
            cells = _cells(row)
            # A method is named once, above its sizes.
            table.add_row(literal("" if row.method == previous else cells[0]), *cells[1:])
            previous = row.method
        console.print(table)
    say("n: trajectories of each policy; seconds and memory: of one fit")
    for note in evaluation.notes:
        say(note)
    for method, store, why in evaluation.problems:
        say(f"failed {method} on {store}: {why}")


def _cells(row: Summary) -> list[str]:
    correlation = row.correlation.text(3) if row.done else "failed"
    if 0 < row.done < row.asked:
        correlation += f" ({row.done} of {row.asked})"
    return [
        row.method,
        str(row.size),
        correlation,
        row.error.text(1),
        row.variance.text(3),
        fixed(row.seconds.mean, 2),
        fixed(row.peak_mb, 0),
    ]


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _escaped(text: str) -> str:
    """Keep text inside its cell."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else repr(value)  # noqa: PLR0124  (NaN)
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")
