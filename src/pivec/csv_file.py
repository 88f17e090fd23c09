"""CSV files (RFC 4180, UTF-8), exact to the last bit of every number.

Cells hold text literally. A label such as ``=cmd()`` is a formula to some spreadsheet programs;
it is written as it is, so that files can be read back without loss. Import such files as text.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable
from typing import Any

from pivec.atomic import atomic_write
from pivec.terminal import encodable


def write_csv(
    path: str | os.PathLike[str], columns: Iterable[str], rows: Iterable[Iterable[Any]]
) -> None:
    """Write a line of names and rows of cells; a file is replaced when the new one is whole."""
    with atomic_write(path, "w") as file:
        # It writes the shortest text of a float that reads back as the same number.
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def cell(value: Any) -> Any:
    r"""Make a value what a cell shows: what is not known is empty.

    Examples
    --------
    >>> [cell(value) for value in (None, float("nan"), True, 0.1, "a\udcff")]
    ['', '', 'true', 0.1, 'a\\udcff']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return encodable(value) if isinstance(value, str) else value
