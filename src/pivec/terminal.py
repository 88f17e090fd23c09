"""What is printed: text from files, arguments and errors reaches a terminal only as text."""

from __future__ import annotations

import re
import sys
from unicodedata import category


def say(text: str, *, error: bool = False) -> None:
    """Print one line, on standard output or standard error, with nothing but text in it."""
    stream = sys.stderr if error else sys.stdout
    if stream is not None:
        stream.write(printable(re.sub(r"\s*[\n\t]\s*", " ", text)) + "\n")
        stream.flush()


def printable(text: str) -> str:
    r"""Write control characters, and marks that turn the direction of text, as escapes.

    Examples
    --------
    >>> print(printable("two\nlines \u202e"))
    two\nlines \u202e
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or category(c) == "Zs" else c.encode("unicode_escape").decode()
        for c in text
    )


def shortened(text: str, length: int) -> str:
    """Cut the middle out of a long text; names of checkpoints differ at both ends.

    Examples
    --------
    >>> shortened("runs/walker/seed_1/model_1000000_steps.zip", 20)
    'runs/walk…_steps.zip'
    """
    if len(text) <= length:
        return text
    head = (length - 1) // 2
    return f"{text[:head]}…{text[head + 1 - length :]}"
