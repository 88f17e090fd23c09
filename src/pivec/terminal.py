"""What commands print: safe text, tables, progress bars, and warnings collected and counted."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import ExitStack
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from unicodedata import category

from pivec.errors import PivecWarning
from pivec.text import shorten_names

if TYPE_CHECKING:
    from rich.text import Text


def say(text: str, *, error: bool = False) -> None:
    """Print one line on standard output or standard error, with control characters escaped."""
    stream = sys.stderr if error else sys.stdout
    if stream is None:  # closed
        return
    try:
        stream.write(shown(re.sub(r"\s*[\n\t]\s*", " ", text), stream) + "\n")
        stream.flush()
    except OSError as failure:
        # Discard what is still to be written, so that Python does not fail again on exit.
        with contextlib.suppress(OSError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
        if not error:
            failure.filename = failure.filename or "standard output"
            raise


def ask(question: str) -> str:
    """Ask the user; empty without a terminal or an answer."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        return ""
    try:
        return input(shown(question, sys.stdout)).strip()
    except (EOFError, KeyboardInterrupt):
        say("")  # ends the line of the question
        return ""


def literal(text: str) -> Text:
    """Make a text for a rich table on standard output, without markup."""
    from rich.text import Text

    return Text(shown(text, sys.stdout))


class Column(NamedTuple):
    """A column of a table on the terminal or on a page."""

    title: str
    text: Callable[[Any], str | Sequence[str]]  # what a row shows, in one or several lines
    value: Callable[[Any], float | None] | None = None  # the number that a page sorts by
    right: bool = True  # aligned
    names: bool = False  # of policies or runs, which are cut if the terminal is narrow

    @classmethod
    def number(cls, title: str, name: str, write: Callable[[Any], str] = str) -> Column:
        """Make a column of a numeric field of the rows."""
        field = attrgetter(name)
        return cls(title, lambda row: write(field(row)), field)


def text_columns(
    *titles: str, left: Container[int] = (0,), names: Container[int] = ()
) -> list[Column]:
    """Describe columns of rows that are sequences of text; those in ``left`` are aligned left."""
    return [
        Column(title, itemgetter(k), None, k not in left, k in names)
        for k, title in enumerate(titles)
    ]


_NAME = 20  # characters that always remain of a name


def print_table(columns: Sequence[Column], rows: Iterable[Any]) -> None:
    """Print a table; text in it is shown literally, and names are cut where they do not differ."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, table = Console(), Table(box=None, pad_edge=False)
    for column in columns:
        side = "right" if column.right else "left"
        table.add_column(literal(column.title), justify=side, overflow="fold", no_wrap=column.names)  # type: ignore[arg-type]
    texts = [[column.text(row) for column in columns] for row in rows]
    cells = [[[text] if isinstance(text, str) else text for text in row] for row in texts]
    columns_of_cells = zip(*([[c.title] for c in columns], *cells), strict=True)
    widths = [max(len(line) for cell in column for line in cell) for column in columns_of_cells]
    named = [k for k, column in enumerate(columns) if column.names]
    excess = sum(widths) + 2 * (len(columns) - 1) - console.width
    if named and excess > 0:
        names = list(dict.fromkeys(row[k][0] for row in cells for k in named))
        width = max(_NAME, (sum(widths[k] for k in named) - excess) // len(named))
        brief = dict(zip(names, shorten_names(names, width), strict=True))
        for row in cells:
            row[:] = [[brief[c[0]]] if k in named else c for k, c in enumerate(row)]
    for row in cells:
        table.add_row(*(Text("\n").join(map(literal, cell)) for cell in row))
    console.print(table)


def encodable(text: str) -> str:
    """Escape what UTF-8 cannot encode, such as parts of odd file names."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def printable(text: str) -> str:
    r"""Escape control characters and marks that change the direction of text.

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


# What streams without these characters print; others are escaped.
_ASCII = {
    "−": "-", "–": "-", "—": "-", "…": "...", "±": "+/-", "×": "x", "·": "*", "²": "^2",
    "→": "->", "↑": "(max)", "↓": "(min)", "≤": "<=", "≥": ">=", "≈": "~", "∞": "inf",
    "Δ": "delta ",
}  # fmt: skip
_REPLACING = "pivec.replacing"  # how characters that a stream cannot encode are handled


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    plain = (_ASCII.get(c, " " if category(c) == "Zs" else c) for c in text)
    return "".join(plain).encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error(_REPLACING, _replace)


def shown(text: str, stream: Any) -> str:
    r"""Return text as a stream can print it: `printable`, and in the characters of its encoding.

    Examples
    --------
    >>> import io
    >>> print(shown("é: −1 ± 2\n", io.TextIOWrapper(io.BytesIO(), encoding="ascii")))
    \xe9: -1 +/- 2\n
    """
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return printable(text).encode(encoding, _REPLACING).decode(encoding)


def print_any_character() -> None:
    """Let standard output print everything, including what other packages (help, tables) write."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors=_REPLACING)


def shortened(text: str, length: int) -> str:
    """Cut out the middle of a long text.

    Examples
    --------
    >>> shortened("runs/walker/seed_1/model_1000000_steps.zip", 20)
    'runs/walk…_steps.zip'
    """
    if len(text) <= length:
        return text
    head = (length - 1) // 2
    return f"{text[:head]}…{text[head + 1 - length :]}"


_remarks: set[str] = set()


def remark(text: str) -> None:
    """Print something once, if a progress bar has been drawn."""
    if Progress.drawn and text not in _remarks:
        _remarks.add(text)
        sys.stderr.write(text + "\n")


class Progress:
    """A progress bar on standard error, drawn if ``show`` is true and that is a terminal."""

    drawn = False

    def __init__(self, title: str, total: int, *, unit: str = "", show: bool = True) -> None:
        self.title, self.total, self.unit, self.done = title, total, unit, 0
        self._show = show and sys.stderr is not None and sys.stderr.isatty()
        self._bar: Any = None
        self._counted, self._start, self._last = 0, time.monotonic(), 0.0

    def __enter__(self) -> Progress:
        if self._show:
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TextColumn(self.unit),
                progress.TimeElapsedColumn(),
                progress.TextColumn("left"),
                progress.TimeRemainingColumn(),
                progress.TextColumn("{task.fields[note]}", markup=False),
                console=Console(stderr=True),
            )
            title = shown(self.title, sys.stderr)
            self._task = self._bar.add_task(title, total=self.total, note="")
            self._bar.start()
            Progress.drawn = True
        return self

    @property
    def is_drawn(self) -> bool:
        """Whether the bar is on the screen now."""
        return self._bar is not None

    def advance(self, count: int = 1, note: str | None = None) -> None:
        """Count ``count`` more as done, with an optional note."""
        self.done += count
        self._update(note)

    def note(self, text: str) -> None:
        """Change the note; cheap enough to call often."""
        now = time.monotonic()
        if self._bar is not None and now - self._last > 0.2:
            self._last = now
            self._update(text)

    def count(self, steps: int) -> None:
        """Count small steps, shown as steps per second."""
        self._counted += steps
        if self._bar is not None:
            self.note(f"{self._counted / (time.monotonic() - self._start):,.0f} steps/s")

    def _update(self, note: str | None) -> None:
        if self._bar is not None:
            fields = {} if note is None else {"note": shown(note, sys.stderr)}
            self._bar.update(self._task, completed=self.done, **fields)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # which some packages put around their warnings


class CollectedWarning(NamedTuple):
    """A warning: its text, the name of its class, and how often it was raised."""

    text: str
    kind: str
    times: int = 1

    @property
    def own(self) -> bool:
        """Whether it is a warning of pivec, and not of another package."""
        return self.kind == PivecWarning.__name__


class WarningCollector:
    """Collects the warnings that are raised in a ``with`` block.

    Parameters
    ----------
    listener : callable, optional
        Called with each new text; repetitions are only counted. Without it warnings are shown as
        usual, and counted if the filters let them pass.
    """

    def __init__(self, listener: Callable[[CollectedWarning], None] | None = None) -> None:
        self._listener = listener
        self._counts: Counter[tuple[str, str]] = Counter()
        self._after = ExitStack()

    def __enter__(self) -> Self:
        with warnings.catch_warnings():
            pass  # which resets the registry of warnings that were shown already
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
        self._counts[key] += getattr(message, "times", 1)
        if self._listener is None:
            self._before(message, category, *where, **more)
        elif not known:
            self._listener(CollectedWarning(*key, self._counts[key]))

    @property
    def rows(self) -> list[CollectedWarning]:
        """All warnings, those of pivec first."""
        return joined(CollectedWarning(*key, count) for key, count in list(self._counts.items()))

    def take(self) -> list[CollectedWarning]:
        """Return the warnings since the last call."""
        rows = self.rows
        self._counts.clear()
        return rows


def joined(notices: Iterable[CollectedWarning]) -> list[CollectedWarning]:
    """Merge warnings of the same text; those of pivec come first."""
    counts: Counter[tuple[str, str]] = Counter()
    for text, kind, times in notices:
        counts[text, kind] += times
    rows = (CollectedWarning(*key, n) for key, n in counts.items())
    return sorted(rows, key=lambda row: not row.own)


def raise_again(notices: Iterable[Iterable[Any]]) -> None:
    """Raise warnings that were collected in another process."""
    for row in notices:
        notice = CollectedWarning(*row)
        # A UserWarning of the same name: filters were applied in the other process.
        category = PivecWarning if notice.own else type(notice.kind, (UserWarning,), {})
        message = category(notice.text)
        message.times = notice.times  # read by WarningCollector
        warnings.warn(message, stacklevel=2)
