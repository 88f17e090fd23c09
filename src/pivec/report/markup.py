"""HTML for the sections of the page; every text from outside is escaped here.

Text is escaped by `html.escape`, data for the script are JSON without ``<``, ``>`` and ``&``.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pivec.figures import to_png
from pivec.terminal import printable
from pivec.text import thousands

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Rows of a table of policies or runs; the files beside the page hold all.
MAX_ROWS = 500
ON_PAPER = 25  # rows of a tall table that are printed, as print.css says
SHARPEST = 125  # dpi: twice what the page is wide


def shown_text(text: str) -> str:
    """Escape a text for HTML, control characters made visible.

    Examples
    --------
    >>> shown_text("<b>")
    '&lt;b&gt;'
    """
    return escape(printable(text))


def section(name: str, title: str, *parts: str) -> str:
    """Put parts under a heading that links can name."""
    return (
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{title}</h2>\n'
        + "\n".join(part for part in parts if part)
        + "\n</section>"
    )


def table(
    heads: Sequence[str], numbers: Container[int], rows: Iterable[str], more: str = ""
) -> str:
    """Put rows under heads; the columns of those ``numbers`` hold numbers."""
    columns = "".join(
        f'<th scope="col"{" class=n" if k in numbers else ""}>{head}</th>'
        for k, head in enumerate(heads)
    )
    return f"<table{more}><thead><tr>{columns}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def number_cell(shown: str, value: float | None) -> str:
    """Make a cell that sorts by its value; ``shown`` is markup made here, never outside text."""
    known = value is not None and math.isfinite(value)
    return f'<td class="n"{f" data-v={value!r}" if known else ""}>{shown}</td>'


def count_cell(count: int | None) -> str:
    """Make a cell of a whole number, or a dash."""
    return number_cell("–" if count is None else thousands(count), count)


def dot(colour: str) -> str:
    """Make the dot of a colour that stands before the name of a group or run."""
    return f'<span class="dot" style="background:{colour}"></span>'


def cut_note(n: int, what: str, most: int = MAX_ROWS) -> str:
    """Say where a table does not show all there is."""
    if n <= most:
        return ""
    return f'<p class="note">The table shows {thousands(most)} of {thousands(n)} {what}.</p>'


def paper_note(n: int, what: str) -> str:
    """Say on paper alone that a table has more rows; print.css leaves them out."""
    if n <= ON_PAPER:
        return ""
    return f'<p class="note print-only">Printed are {ON_PAPER} of {thousands(n)} {what}.</p>'


def picture(figure: Figure) -> str:
    """Render a figure as the address of an image that is part of the page."""
    return "data:image/png;base64," + base64.b64encode(to_png(figure, SHARPEST)).decode("ascii")


def json_for_script(data: Any) -> str:
    r"""Write JSON that cannot end the script element it stands in.

    Examples
    --------
    >>> print(json_for_script("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def resource(name: str) -> str:
    """Read a file of web/."""
    return files("pivec.report").joinpath("web", name).read_text(encoding="utf-8")


def filled(name: str, parts: Mapping[str, str]) -> str:
    """Fill a template; in one pass, so what is put in is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], resource(name)).strip()
