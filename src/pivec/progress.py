"""Progress bars on the terminal: nothing is drawn where nobody looks."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from pivec.terminal import printable

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
