"""What an evaluation found: a row for each unit, and the averages that the paper shows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NAN = float("nan")


@dataclass(frozen=True)
class Row:
    """One method on one draw of one set of policies.

    Attributes
    ----------
    environment, method, store : str
    size : int
        Trajectories drawn of each policy.
    repetition : int
        From 1 on.
    correlation : float
        With the differences of mean returns.
    error : float
        Percent off the anchor; NaN for the anchor itself.
    variance : float
        Of all repetitions at this size: the same in each of their rows.
    seconds, peak_mb : float
        Wall time and the most memory of this unit.
    problem : str
        Why there is no result, else empty.
    """

    environment: str
    method: str
    store: str
    size: int
    repetition: int
    correlation: float = NAN
    error: float = NAN
    variance: float = NAN
    seconds: float = NAN
    peak_mb: float = NAN
    problem: str = ""


@dataclass(frozen=True)
class Average:
    """Mean and standard deviation of some values; both NaN if there are none.

    Examples
    --------
    >>> print(Average.of([1.0, 3.0, NAN]).text(2))
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
            return cls(NAN, NAN, 0)
        return cls(float(known.mean()), float(known.std()), len(known))

    def text(self, decimals: int) -> str:
        """Write mean ± deviation; the mean alone of one value, a dash if there is none."""
        mean = fixed(self.mean, decimals)
        return mean if self.n < 2 else f"{mean} ± {fixed(self.std, decimals)}"


@dataclass(frozen=True)
class Summary:
    """One method at one size in one environment, averaged over sets and repetitions.

    Attributes
    ----------
    environment, method : str
    size : int
    correlation, error : Average
        Over sets of policies and repetitions; the anchor is left out of the error.
    variance : Average
        Over sets of policies.
    seconds : Average
    peak_mb : float
        The largest of all units.
    done, asked : int
        Units that finished, and all of them.
    """

    environment: str
    method: str
    size: int
    correlation: Average
    error: Average
    variance: Average
    seconds: Average
    peak_mb: float
    done: int
    asked: int


@dataclass(frozen=True)
class Evaluation:
    """How well characterizations did.

    Attributes
    ----------
    rows : tuple of Row
        One for each method, store, size and repetition.
    notes : tuple of str
        What to keep in mind when reading the numbers.
    computed : int
        Units that were computed now; the others were kept from an earlier run.
    """

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    computed: int = 0

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

    def summary(self) -> tuple[Summary, ...]:
        """Average as the paper does, a row for each environment, method and size."""
        groups: dict[tuple[str, str, int], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.environment, row.method, row.size), []).append(row)
        return tuple(_summary(rows) for rows in groups.values())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write all rows, exact to the last bit of every number."""
        from pivec.evaluation.tables import write_csv

        write_csv(self, path)

    def to_markdown(self) -> str:
        """Return the summary, the notes and the problems as Markdown."""
        from pivec.evaluation.tables import markdown

        return markdown(self)


def fixed(value: float, decimals: int) -> str:
    """Write a number with so many decimals, a huge one with an exponent, a dash for NaN.

    Examples
    --------
    >>> fixed(0.12345, 3), fixed(3e9, 1), fixed(NAN, 3)
    ('0.123', '3e+09', '–')
    """
    if np.isnan(value):
        return "–"
    return f"{value:.{decimals}f}" if abs(value) < 1e6 else f"{value:.3g}"


def _summary(rows: Sequence[Row]) -> Summary:
    first = rows[0]
    by_store = {row.store: row.variance for row in rows if not np.isnan(row.variance)}
    peaks = [row.peak_mb for row in rows if not np.isnan(row.peak_mb)]
    return Summary(
        first.environment,
        first.method,
        first.size,
        Average.of([row.correlation for row in rows]),
        Average.of([row.error for row in rows]),
        Average.of(list(by_store.values())),
        Average.of([row.seconds for row in rows]),
        max(peaks, default=NAN),
        sum(not row.problem for row in rows),
        len(rows),
    )
