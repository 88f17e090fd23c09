"""Results: a headline, rows of a table, a figure, and how a notebook shows them."""

from __future__ import annotations

import base64
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pivec.figures import to_png
from pivec.terminal import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]
SHOWN = 20  # rows in a notebook
_SHARPEST = 125


class Result:
    """A result with a headline, rows of a table and a figure."""

    @abstractmethod
    def headline(self) -> str:
        """Return the result in one sentence."""

    @abstractmethod
    def rows(self) -> list[Row]:
        """Return the rows of a table, most important first; all have the same keys."""

    @abstractmethod
    def figure(self) -> Figure:
        """Draw it with matplotlib."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({printable(self.headline())})"

    def table(self) -> Any:
        """Return the rows as a pandas DataFrame, or as dicts if pandas is not installed."""
        try:
            import pandas
        except ImportError:
            return self.rows()
        return pandas.DataFrame(self.rows())

    def _repr_html_(self) -> str:
        """Show the sentence, the first rows and the figure in a notebook; all text is escaped."""
        headline, rows = self.headline(), self.rows()
        image = base64.b64encode(to_png(self.figure(), _SHARPEST)).decode("ascii")
        return (
            f"{html_table(headline, rows[:SHOWN], len(rows))}"
            f'<img alt="{escape(printable(headline))}" style="max-width: 100%" '
            f'src="data:image/png;base64,{image}">'
        )


class Explanation(Result):
    """A result whose fields are also its content as JSON."""

    def to_json(self) -> dict[str, Any]:
        """Return the headline and all fields as plain values; None for NaN."""
        content: dict[str, Any] = plain(vars(self))
        return {"headline": self.headline()} | content


def html_table(headline: str, rows: Sequence[Row], total: int, more: str = ".table()") -> str:
    """Return a sentence and the first of so many rows as HTML; all text is escaped."""
    heads = "".join(f"<th>{escape(printable(name))}</th>" for name in (rows[0] if rows else ()))
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(_shown(value))}</td>' for value in row.values())}</tr>"
        for row in rows
    )
    rest = f"<p>{total - len(rows)} more rows: {more}</p>" if total > len(rows) else ""
    return (
        f"<p>{escape(printable(headline))}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>{rest}"
    )


def policies_table(
    headline: str,
    policies: Sequence[Any],
    episodes: Iterable[Any],
    states: Iterable[Any],
    returns: Iterable[Any],
    more: str,
) -> str:
    """Return one row per policy as HTML."""
    columns = zip(policies[:SHOWN], episodes, states, returns, strict=False)
    rows = [
        {
            "policy": info.label,
            "group": info.group,
            "step": info.step,
            "episodes": int(n),
            "states": int(length),
            "mean return": float(mean),
        }
        for info, n, length, mean in columns
    ]
    return html_table(headline, rows, len(policies), more)


def plain(value: Any) -> Any:
    """Convert arrays, mappings and dataclasses for JSON; NaN and infinity become None.

    Paths become relative to the folder above their own: pictures are in folders next to the JSON.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"a": np.array([1.0, np.nan]), "b": (True, "c")})
    {'a': [1.0, None], 'b': [True, 'c']}
    """
    if isinstance(value, Result) and hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, PurePath):
        return "/".join(value.parts[-2:])
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else printable(str(value))
