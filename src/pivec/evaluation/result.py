"""What an evaluation found: a row for each unit, the averages that the paper shows, as tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from pivec.csv_file import cell, write_csv
from pivec.terminal import literal, say

HEADINGS = (
    "method",
    "trajectories",
    "correlation ↑",
    "error % ↓",
    "median",
    "told apart",
    "variance ↓",
    "seconds",
    "peak MB",
)


@dataclass(frozen=True)
class Row:
    """One method on one draw of one set of policies; its fields are columns of evaluation.csv."""

    environment: str
    method: str
    store: str
    size: int  # trajectories drawn of each policy
    repetition: int  # from 1 on
    correlation: float = np.nan  # with the differences of mean returns
    error: float = np.nan  # percent off the anchor, mean over pairs; NaN for the anchor itself
    variance: float = np.nan  # of all repetitions at this size: the same in each of their rows
    seconds: float = np.nan  # wall time and the most memory of this unit
    peak_mb: float = np.nan
    median_error: float = np.nan  # over pairs, where `error` is their mean
    error_apart: float = np.nan  # mean over pairs farther apart than halves of either policy
    share_apart: float = np.nan  # of those among all pairs, by the anchor
    share_far_off: float = np.nan  # of pairs with an error above 1 000 %
    card: bool | None = None  # whether a graphics card had a part in it
    problem: str = ""  # why there is no result, else empty


@dataclass(frozen=True)
class Average:
    """Mean and standard deviation of some values; both NaN if there are none.

    Examples
    --------
    >>> print(Average.of([1.0, 3.0, np.nan]).text(2))
    2.00 ± 1.00
    """

    mean: float
    std: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Average:
        """Average the values that are known."""
        known = np.array([value for value in values if not np.isnan(value)])
        if not len(known):
            return cls(np.nan, np.nan, 0)
        return cls(float(known.mean()), float(known.std()), len(known))

    def text(self, decimals: int) -> str:
        """Write mean ± deviation; the mean alone of one value, a dash if there is none."""
        mean = fixed(self.mean, decimals)
        return mean if self.n < 2 else f"{mean} ± {fixed(self.std, decimals)}"


@dataclass(frozen=True)
class Summary:
    """One method at one size in one environment, averaged over sets and repetitions."""

    environment: str
    method: str
    size: int
    # Over sets of policies and repetitions; the anchor is left out of the error.
    correlation: Average
    error: Average
    variance: Average  # over sets of policies
    seconds: Average
    peak_mb: float  # the largest of all units
    done: int  # units that finished, and all of them
    asked: int
    # As the error.
    median_error: Average
    error_apart: Average
    share_apart: Average
    share_far_off: Average

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Summary:
        """Average rows of one method and size."""
        by_store = {row.store: row.variance for row in rows if not np.isnan(row.variance)}
        return cls(
            rows[0].environment,
            rows[0].method,
            rows[0].size,
            Average.of([row.correlation for row in rows]),
            Average.of([row.error for row in rows]),
            Average.of(list(by_store.values())),
            Average.of([row.seconds for row in rows]),
            max((row.peak_mb for row in rows if not np.isnan(row.peak_mb)), default=np.nan),
            sum(not row.problem for row in rows),
            len(rows),
            Average.of([row.median_error for row in rows]),
            Average.of([row.error_apart for row in rows]),
            Average.of([row.share_apart for row in rows]),
            Average.of([row.share_far_off for row in rows]),
        )

    def cells(self) -> list[str]:
        """Write what stands under the headings of a table."""
        correlation = self.correlation.text(3) if self.done else "failed"
        if 0 < self.done < self.asked:
            correlation += f" ({self.done} of {self.asked})"
        return [
            self.method,
            str(self.size),
            correlation,
            self.error.text(1),
            fixed(self.median_error.mean, 1),
            fixed(self.error_apart.mean, 1),
            self.variance.text(3),
            fixed(self.seconds.mean, 2),
            fixed(self.peak_mb, 0),
        ]


@dataclass(frozen=True)
class Evaluation:
    """How well characterizations did."""

    rows: tuple[Row, ...]  # one for each method, store, size and repetition
    notes: tuple[str, ...] = ()  # what to keep in mind when reading the numbers
    computed: int = 0  # units that were computed now; the others were kept from an earlier run
    files: tuple[Path, ...] = ()  # of the units, a row each, where they are kept

    @property
    def methods(self) -> tuple[str, ...]:
        """Labels of the methods, in the order given."""
        return tuple(dict.fromkeys(row.method for row in self.rows))

    @property
    def environments(self) -> tuple[str, ...]:
        """Environments, in the order given."""
        return tuple(dict.fromkeys(row.environment for row in self.rows))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of trajectories, the largest first."""
        return tuple(sorted({row.size for row in self.rows}, reverse=True))

    @property
    def problems(self) -> tuple[tuple[str, str, str], ...]:
        """What failed, once each: (method, store, why)."""
        failed = [(row.method, row.store, row.problem) for row in self.rows if row.problem]
        return tuple(dict.fromkeys(failed))

    def summary(self, environment: str | None = None) -> tuple[Summary, ...]:
        """Average as the paper does, a row for each environment (or one), method and size."""
        groups: dict[tuple[str, str, int], list[Row]] = {}
        for row in self.rows:
            if environment in (None, row.environment):
                groups.setdefault((row.environment, row.method, row.size), []).append(row)
        return tuple(Summary.of(rows) for rows in groups.values())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write all rows, exact to the last bit of every number; unknown ones are empty."""
        rows = ([cell(value) for value in astuple(row)] for row in self.rows)
        write_csv(path, [field.name for field in fields(Row)], rows)

    def to_markdown(self) -> str:
        """Return the summary, the notes and the problems as Markdown."""
        lines = ["# Evaluation", ""]
        for environment in self.environments:
            lines += [f"## {_escaped(environment)}", "", _line(HEADINGS)]
            lines.append("| --- |" + " ---: |" * (len(HEADINGS) - 1))
            lines += [_line(row.cells()) for row in self.summary(environment)]
            lines.append("")
        if self.notes:
            lines += [*map(_escaped, self.notes), ""]
        if self.problems:
            lines += ["## Problems", ""]
            for method, store, why in self.problems:
                lines.append(f"- {_escaped(method)} on {_escaped(store)}: {_escaped(why)}")
            lines.append("")
        return "\n".join(lines)


def print_evaluation(evaluation: Evaluation) -> None:
    """Print the averages on the terminal, and what went wrong."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for environment in evaluation.environments:
        rows = evaluation.summary(environment)
        table = Table(title=literal(environment), title_justify="left", box=None)
        table.add_column(HEADINGS[0], min_width=min(24, max(len(row.method) for row in rows)))
        for heading in ("n", *HEADINGS[2:]):
            table.add_column(heading, justify="right")
        previous = ""
        for row in rows:
            method, *numbers = row.cells()
            # A method is named once, above its sizes.
            table.add_row(literal("" if method == previous else method), *numbers)
            previous = method
        console.print(table)
    say(
        "n: trajectories of each policy; median: error of the median pair; told apart: error of "
        "pairs farther apart than two halves of either policy; seconds and memory: of one fit"
    )
    for note in evaluation.notes:
        say(note)
    for method, store, why in evaluation.problems:
        say(f"failed {method} on {store}: {why}")


def fixed(value: float, decimals: int) -> str:
    """Write a number with so many decimals, a huge one with an exponent, a dash for NaN.

    Examples
    --------
    >>> fixed(0.12345, 3), fixed(3e9, 1), fixed(np.nan, 3)
    ('0.123', '3e+09', '–')
    """
    if np.isnan(value):
        return "–"
    return f"{value:.{decimals}f}" if abs(value) < 1e6 else f"{value:.3g}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_escaped, cells)) + " |"


def _escaped(text: str) -> str:
    """Keep text inside its cell."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
