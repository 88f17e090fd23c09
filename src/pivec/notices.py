"""Warnings, collected: each text once with a count, for the terminal, run.json and the page."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

from pivec.errors import PivecWarning

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
