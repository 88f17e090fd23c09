"""The paper's metrics of a characterization (Section 6.2), and the results of `pivec evaluate`.

Only pairs of different policies count: the upper triangle without the diagonal. With fewer than
three policies, distances cannot be related to each other, and all metrics are NaN.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import BadData, UsageError
from pivec.files import cell, write_csv
from pivec.terminal import literal, printable, say

Array = NDArray[np.float64]
FEWEST_POLICIES = 3


def return_correlation(distances: ArrayLike, mean_returns: ArrayLike) -> float:
    """Pearson correlation of distances with the differences of the policies' mean returns.

    NaN if a mean return is unknown, or if all distances or all differences of returns are equal.

    Examples
    --------
    >>> d = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    >>> return_correlation(d, [0.0, 5.0, 10.0])
    1.0
    """
    d = checked_distances(distances)
    returns = np.asarray(mean_returns, dtype=np.float64)
    if returns.shape != (len(d),):
        raise UsageError(
            f"expected one mean return for each of the {len(d)} policies, but got shape "
            f"{returns.shape}"
        )
    if len(d) < FEWEST_POLICIES or not np.isfinite(returns).all():
        return np.nan
    far, apart = _pairs(d), _pairs(np.abs(returns[:, None] - returns[None, :]))
    if np.ptp(far) == 0.0 or np.ptp(apart) == 0.0:
        return np.nan
    # Scaled first, so that squares of very large or very small distances do not overflow.
    return float(np.corrcoef(far / np.abs(far).max(), apart / apart.max())[0, 1])


def min_max(distances: ArrayLike) -> Array:
    """Scale distances to [0, 1] by the smallest and the largest of the matrix; NaN if constant."""
    d = checked_distances(distances)
    low, high = (float(d.min()), float(d.max())) if d.size else (0.0, 0.0)
    if low == high:
        return np.full_like(d, np.nan)
    # Scaled first: the difference of huge distances may overflow.
    largest = max(abs(low), abs(high))
    result: Array = (d / largest - low / largest) / (high / largest - low / largest)
    return result


def pair_errors(distances: ArrayLike, anchor: ArrayLike) -> Array:
    """Relative error of each pair's normalized distance from the anchor's, in percent.

    The anchor has the most data. NaN for pairs whose normalized distance is 0 in it.
    """
    d, truth = min_max(distances), min_max(anchor)
    if d.shape != truth.shape:
        raise UsageError(
            f"expected distances of the anchor's {len(truth)} policies, but these are of {len(d)}"
        )
    values, true = _pairs(d), _pairs(truth)
    true[true == 0.0] = np.nan
    if len(d) < FEWEST_POLICIES:
        true[:] = np.nan
    return np.asarray(100.0 * np.abs(values - true) / true)


def mean_known(values: Array) -> float:
    """Mean of the values that are not NaN; NaN if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan


def is_significant(anchor: ArrayLike, halves: ArrayLike) -> NDArray[np.bool_]:
    """Whether each pair is farther apart than two halves of either policy's trajectories."""
    own = np.asarray(halves, dtype=np.float64)
    return np.asarray(_pairs(checked_distances(anchor)) > _pairs(np.maximum.outer(own, own)))


def distance_variance(repetitions: Sequence[ArrayLike]) -> float:
    """Mean coefficient of variation of the normalized distances over repetitions.

    For each pair the population standard deviation over the mean; pairs whose mean is 0 are left
    out. NaN with fewer than two repetitions, if no pair is left, or if a matrix is constant.
    """
    matrices = [min_max(matrix) for matrix in repetitions]
    sizes = sorted({len(matrix) for matrix in matrices})
    if len(sizes) > 1:
        raise UsageError(
            "expected distances of the same policies in every repetition, but there are "
            + " and ".join(map(str, sizes))
        )
    if len(matrices) < 2 or sizes[0] < FEWEST_POLICIES:
        return np.nan
    values = np.stack([_pairs(matrix) for matrix in matrices])
    means = values.mean(axis=0)
    kept = means != 0.0
    if not kept.any():
        return np.nan
    return float(np.mean(values[:, kept].std(axis=0) / means[kept]))


def checked_distances(distances: ArrayLike) -> Array:
    """Check that distances are a square matrix of finite numbers."""
    d = np.asarray(distances, dtype=np.float64)
    if d.ndim != 2 or d.shape[0] != d.shape[1]:
        raise UsageError(f"distances must be a square matrix, but have shape {d.shape}")
    if not np.isfinite(d).all():
        raise BadData(
            f"distances must be finite, but {int((~np.isfinite(d)).sum())} of {d.size} are not: "
            "look for policies whose states are constant or huge"
        )
    return d


def _pairs(matrix: Array) -> Array:
    return np.asarray(matrix[np.triu_indices(len(matrix), k=1)])


# Heading, field, decimals, and whether the deviation is shown, of the columns of a table.
_COLUMNS: tuple[tuple[str, str, int, bool], ...] = (
    ("correlation ↑", "correlation", 3, True),
    ("error % ↓", "error", 1, True),
    ("median", "median_error", 1, False),
    ("significant", "error_apart", 1, False),
    ("variance ↓", "variance", 3, True),
    ("seconds", "seconds", 2, False),
)
HEADINGS = ("method", "trajectories", *(column[0] for column in _COLUMNS), "peak MB")


@dataclass(frozen=True)
class Row:
    """One method on one draw of one set of policies: a row of evaluation.csv."""

    environment: str
    method: str
    store: str
    size: int  # trajectories per policy
    repetition: int  # from 1 on
    correlation: float = np.nan  # with the differences of mean returns
    error: float = np.nan  # percent off the anchor, mean over pairs; NaN for the anchor itself
    variance: float = np.nan  # over all repetitions at this size
    seconds: float = np.nan  # wall time and peak memory of this unit
    peak_mb: float = np.nan
    median_error: float = np.nan  # over pairs, where `error` is their mean
    error_apart: float = np.nan  # mean over pairs farther apart than halves of either policy
    share_apart: float = np.nan  # of those among all pairs, by the anchor
    share_far_off: float = np.nan  # of pairs with an error above 1 000 %
    card: bool | None = None  # whether a GPU was used
    problem: str = ""  # why there is no result


@dataclass(frozen=True)
class Average:
    """Mean and standard deviation of the values that are not NaN; NaN if there are none."""

    mean: float
    std: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Average:
        """Average the values that are not NaN."""
        known = np.array([value for value in values if not np.isnan(value)])
        if not len(known):
            return cls(np.nan, np.nan, 0)
        return cls(float(known.mean()), float(known.std()), len(known))


@dataclass(frozen=True)
class Summary:
    """One method at one size in one environment, averaged over sets and repetitions."""

    environment: str
    method: str
    size: int
    correlation: Average
    error: Average  # without the anchor
    variance: Average  # over sets of policies
    seconds: Average
    peak_mb: float  # the largest of all units
    done: int  # units that finished
    asked: int  # all units
    median_error: Average
    error_apart: Average
    share_apart: Average
    share_far_off: Average

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Summary:
        """Average rows of one method and size."""
        averaged = [field.name for field in fields(cls) if field.type == "Average"]
        averages = {name: Average.of(getattr(row, name) for row in rows) for name in averaged}
        by_store = {row.store: row.variance for row in rows if not np.isnan(row.variance)}
        return cls(
            rows[0].environment,
            rows[0].method,
            rows[0].size,
            peak_mb=max((row.peak_mb for row in rows if not np.isnan(row.peak_mb)), default=np.nan),
            done=sum(not row.problem for row in rows),
            asked=len(rows),
            **averages | {"variance": Average.of(by_store.values())},
        )

    def cells(self) -> list[str]:
        """Cells of a table with the columns ``HEADINGS``."""
        cells = []
        for _, name, decimals, with_deviation in _COLUMNS:
            average = getattr(self, name)
            cells.append(fixed(average.mean, decimals))
            if with_deviation and average.n > 1:
                cells[-1] += f" ± {fixed(average.std, decimals)}"
        if not self.done:
            cells[0] = "failed"
        elif self.done < self.asked:
            cells[0] += f" ({self.done} of {self.asked})"
        return [self.method, str(self.size), *cells, fixed(self.peak_mb, 0)]


@dataclass(frozen=True)
class Evaluation:
    """The result of `pivec evaluate`."""

    rows: tuple[Row, ...]  # one per method, store, size and repetition
    notes: tuple[str, ...] = ()  # caveats
    computed: int = 0  # units that were computed now; the others are from an earlier run
    files: tuple[Path, ...] = ()  # of the units, if they are stored

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
        """Numbers of trajectories, largest first."""
        return tuple(sorted({row.size for row in self.rows}, reverse=True))

    @property
    def problems(self) -> tuple[tuple[str, str, str], ...]:
        """Distinct failures: (method, store, reason)."""
        failed = [(row.method, row.store, row.problem) for row in self.rows if row.problem]
        return tuple(dict.fromkeys(failed))

    def summary(self, environment: str | None = None) -> tuple[Summary, ...]:
        """Average as in the paper, one row per environment (or for one), method and size."""
        groups: dict[tuple[str, str, int], list[Row]] = {}
        for row in self.rows:
            if environment in (None, row.environment):
                groups.setdefault((row.environment, row.method, row.size), []).append(row)
        return tuple(Summary.of(rows) for rows in groups.values())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write all rows, with all digits of every number; unknown ones are empty."""
        rows = ([cell(value) for value in astuple(row)] for row in self.rows)
        write_csv(path, [field.name for field in fields(Row)], rows)

    def to_markdown(self) -> str:
        """Return the summary, the notes and the problems as Markdown."""
        lines = ["# Evaluation", ""]
        for environment in self.environments:
            table = [HEADINGS, *(row.cells() for row in self.summary(environment))]
            rows = [f"| {' | '.join(map(_escaped, cells))} |" for cells in table]
            ruler = "| --- |" + " ---: |" * (len(HEADINGS) - 1)
            lines += [f"## {_escaped(environment)}", "", rows[0], ruler, *rows[1:], ""]
        if self.notes:
            lines += [*map(_escaped, self.notes), ""]
        if self.problems:
            problems = (tuple(map(_escaped, problem)) for problem in self.problems)
            lines += ["## Problems", "", *(f"- {m} on {s}: {why}" for m, s, why in problems), ""]
        return "\n".join(lines)


def print_evaluation(evaluation: Evaluation) -> None:
    """Print the averages and the failures."""
    from rich.console import Console
    from rich.table import Table

    for environment in evaluation.environments:
        rows = evaluation.summary(environment)
        table = Table(title=literal(environment), title_justify="left", box=None)
        table.add_column(
            literal(HEADINGS[0]), min_width=min(24, max(len(row.method) for row in rows))
        )
        for heading in ("n", *HEADINGS[2:]):
            table.add_column(literal(heading), justify="right")
        previous = ""
        for row in rows:
            method, *numbers = row.cells()
            table.add_row(literal("" if method == previous else method), *map(literal, numbers))
            previous = method
        Console().print(table)
    say(
        "n: trajectories per policy; median: error of the median pair; significant: error of pairs "
        "farther apart than two halves of either policy; seconds and memory: of one fit"
    )
    for note in evaluation.notes:
        say(note)
    for method, store, why in evaluation.problems:
        say(f"failed {method} on {store}: {why}")


def fixed(value: float, decimals: int) -> str:
    """Format a number with a fixed number of decimals, or an exponent if huge; NaN is a dash."""
    if np.isnan(value):
        return "–"
    return f"{value:.{decimals}f}" if abs(value) < 1e6 else f"{value:.3g}"


def _escaped(text: str) -> str:
    return printable(" ".join(text.split())).replace("\\", "\\\\").replace("|", "\\|")
