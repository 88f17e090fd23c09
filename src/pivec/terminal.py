"""Text from files, arguments and errors, made fit to be printed: it reaches a terminal as text."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING
from unicodedata import category

if TYPE_CHECKING:
    from rich.text import Text


def say(text: str, *, error: bool = False) -> None:
    """Print one line, on standard output or standard error, with nothing but text in it."""
    line = printable(re.sub(r"\s*[\n\t]\s*", " ", text)) + "\n"
    stream = sys.stderr if error else sys.stdout
    if stream is None:  # closed by whoever started this
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    line = line.encode(encoding, "backslashreplace").decode(encoding)
    try:
        stream.write(line)
        stream.flush()
    except OSError as failure:
        _mute(stream.fileno())
        if not error:  # and where errors cannot be said there is nobody to tell
            failure.filename = failure.filename or "standard output"
            raise


def ask(question: str) -> str:
    """Ask who sits at the terminal; empty where there is none, and of who does not want to tell."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        return ""
    try:
        return input(printable(question)).strip()
    except (EOFError, KeyboardInterrupt):
        say("")  # ends the line of the question
        return ""


def _mute(number: int) -> None:
    """Let what is still to be written go nowhere, so that Python does not fail at its end too."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def literal(text: str) -> Text:
    """Make a text for a table on the terminal, which takes nothing in it for markup."""
    from rich.text import Text

    return Text(printable(text))


def encodable(text: str) -> str:
    r"""Write what UTF-8 cannot hold (parts of odd file names) as backslash escapes.

    Examples
    --------
    >>> encodable("a\udcff")
    'a\\udcff'
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


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
