"""Text from files, arguments and errors, made fit to be printed: it reaches a terminal as text."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from unicodedata import category

from pivec.errors import PivecWarning

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


# -----------------------------------------------------------------------------
# Progress bars on the terminal: nothing is drawn where nobody looks.


_remarks: set[str] = set()


def remark(text: str) -> None:
    """Say something once, above the bar, where a bar has been drawn."""
    if Progress.drawn and text not in _remarks:
        _remarks.add(text)
        sys.stderr.write(text + "\n")


class Progress:
    """A bar with a count, a free text and the time left; a context manager.

    Draws to standard error, and only if ``show`` is true and that is a terminal.

    Examples
    --------
    >>> with Progress("counting", total=3, show=False) as bar:
    ...     for i in range(3):
    ...         bar.advance(1, f"at {i}")
    >>> bar.done
    3
    """

    drawn = False

    def __init__(self, title: str, total: int, *, unit: str = "", show: bool = True) -> None:
        self.title, self.total, self.unit, self.done = title, total, unit, 0
        self._show = show and sys.stderr is not None and sys.stderr.isatty()
        self._bar: object | None = None
        self._last = 0.0
        self._counted, self._start = 0, time.monotonic()

    def __enter__(self) -> Progress:
        if self._show:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )
            from rich.progress import Progress as RichProgress

            bar = RichProgress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(self.unit),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),
                console=Console(stderr=True),
            )
            self._task = bar.add_task(printable(self.title), total=self.total, note="")
            bar.start()
            Progress.drawn = True
            self._bar = bar
        return self

    def advance(self, count: int = 1, note: str | None = None) -> None:
        """Count ``count`` more as done, with an optional note at the end of the line."""
        self.done += count
        self._update(note)

    def note(self, text: str) -> None:
        """Change the text at the end of the line; cheap enough to call often."""
        now = time.monotonic()
        if self._bar is not None and now - self._last > 0.2:
            self._last = now
            self._update(text)

    def count(self, steps: int) -> None:
        """Count small steps of the work, shown as steps a second."""
        self._counted += steps
        if self._bar is not None:
            self.note(f"{self._counted / (time.monotonic() - self._start):,.0f} steps/s")

    def _update(self, note: str | None) -> None:
        if self._bar is not None:
            fields = {} if note is None else {"note": printable(note)}
            self._bar.update(self._task, completed=self.done, **fields)  # type: ignore[attr-defined]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()  # type: ignore[attr-defined]
            self._bar = None


# -----------------------------------------------------------------------------
# Warnings, collected: each text once with a count, for the terminal, run.json and the page.


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # which some packages put around their warnings


class Notice(NamedTuple):
    """A warning: what it says, the name of its class, and how often it came."""

    text: str
    kind: str
    times: int = 1

    @property
    def own(self) -> bool:
        """Whether pivec says this, and not a package below it."""
        return self.kind == PivecWarning.__name__


class Notices:
    """Collects the warnings that are raised in a ``with`` block.

    Parameters
    ----------
    listener : callable, optional
        Hears of every text when it comes first, and nobody else does; every repetition is
        counted. Without one the warnings go on to whoever listened before, and are counted as
        often as the filters let them pass.

    Examples
    --------
    >>> with Notices(lambda notice: None) as notices:
    ...     for _ in range(3):
    ...         warnings.warn("the same again", PivecWarning)
    >>> notices.rows
    [Notice(text='the same again', kind='PivecWarning', times=3)]
    """

    def __init__(self, listener: Callable[[Notice], None] | None = None) -> None:
        self._listener = listener
        self._counts: dict[tuple[str, str], int] = {}
        self._after = ExitStack()

    def __enter__(self) -> Self:
        with warnings.catch_warnings():
            pass  # which makes Python forget what it has warned of, so that it is heard here too
        if self._listener is not None:
            self._after.enter_context(warnings.catch_warnings())
            warnings.simplefilter("always", PivecWarning)
            warnings.simplefilter("always", append=True)
        self._before = warnings.showwarning
        self._after.callback(setattr, warnings, "showwarning", self._before)
        warnings.showwarning = self._show
        return self

    def __exit__(self, *_: object) -> None:
        self._after.close()

    def _show(
        self, message: Warning | str, category: type[Warning], *where: Any, **more: Any
    ) -> None:
        kind = PivecWarning if issubclass(category, PivecWarning) else category
        key = (_COLOUR.sub("", str(message)).strip(), kind.__name__)
        known = key in self._counts
        self._counts[key] = self._counts.get(key, 0) + getattr(message, "times", 1)
        if self._listener is None:
            self._before(message, category, *where, **more)
        elif not known:
            self._listener(Notice(*key, self._counts[key]))

    @property
    def rows(self) -> list[Notice]:
        """What was collected: pivec's own first, then in the order in which they came."""
        return joined(Notice(*key, count) for key, count in list(self._counts.items()))

    def take(self) -> list[Notice]:
        """Give what was collected since the last call."""
        counts, self._counts = self._counts, {}
        return [Notice(*key, count) for key, count in counts.items()]


def joined(notices: Iterable[Notice]) -> list[Notice]:
    """Put notices of the same text together; pivec's own come first.

    Examples
    --------
    >>> joined([Notice("old", "DeprecationWarning"), Notice("a", "PivecWarning"),
    ...         Notice("a", "PivecWarning", 2)])
    [Notice(text='a', kind='PivecWarning', times=3),
     Notice(text='old', kind='DeprecationWarning', times=1)]
    """
    counts: dict[tuple[str, str], int] = {}
    for text, kind, times in notices:
        counts[text, kind] = counts.get((text, kind), 0) + times
    return sorted((Notice(*key, n) for key, n in counts.items()), key=lambda row: not row.own)


def warn_again(notices: Iterable[Iterable[Any]]) -> None:
    """Raise here what was collected in another process."""
    for row in notices:
        notice = Notice(*row)
        # Of the same name, but not ignored as deprecations are: that was decided there.
        category = PivecWarning if notice.own else type(notice.kind, (UserWarning,), {})
        message = category(notice.text)
        message.times = notice.times  # read by Notices
        warnings.warn(message, stacklevel=2)
