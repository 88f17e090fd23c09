"""Tables of rows, which recipes keep as numbers, and statistics of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = Sequence[dict[str, Any]]


def different(rows: Rows, name: str) -> list[Any]:
    """List what a column holds, each value once, in the order of the rows."""
    return list(dict.fromkeys(row[name] for row in rows))


def where(rows: Rows, **columns: Any) -> list[dict[str, Any]]:
    """Take the rows whose columns have these values."""
    return [row for row in rows if all(row[name] == value for name, value in columns.items())]


def column(rows: Rows, name: str, **columns: Any) -> list[Any]:
    """Return a column of the rows that `where` takes."""
    return [row[name] for row in where(rows, **columns)]


def markdown(heads: Sequence[str], lines: Iterable[Sequence[str]], left: int | None = None) -> str:
    """Write a table; all columns after the first ``left`` are aligned to the right."""
    marks = ["---" if left is None or i < left else "---:" for i in range(len(heads))]
    return "\n".join(
        "|" + "".join(f" {cell} |" if cell else " |" for cell in line)
        for line in (heads, marks, *lines)
    )


def shown(value: float | None, digits: int) -> str:
    """Write a number, a huge one with an exponent, and a dash where there is none."""
    if value is None or np.isnan(value):
        return "–"
    return f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.2g}"


def pearson(a: Array, b: Array) -> float:
    """Pearson correlation; NaN where one of the two does not vary."""
    varies = np.ptp(a) > 0 and np.ptp(b) > 0
    return float(np.corrcoef(a, b)[0, 1]) if varies else float("nan")


def spearman(a: Array, b: Array) -> float:
    """Rank correlation; NaN where one of the two does not vary."""
    from scipy.stats import rankdata

    return pearson(rankdata(a), rankdata(b))


def bootstrap_interval(samples: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Give the percentile interval of 95 % of the mean over the rows, by the bootstrap."""
    n = len(samples)
    # How often each row is drawn is all that counts.
    counts = rng.multinomial(n, np.full(n, 1 / n), size=10_000)
    low, high = np.percentile(counts @ samples / n, [2.5, 97.5], axis=0)
    return low, high
