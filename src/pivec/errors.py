"""What can go wrong, in words: every error a user is meant to see is a PivecError."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """Name what is known and nearly called so, to stand in a sentence behind the wrong name.

    Examples
    --------
    >>> did_you_mean("supervectr", ["gaussian", "supervector"])
    ' (did you mean supervector?)'
    >>> did_you_mean("x", ["gaussian", "supervector"])
    ''
    """
    close = difflib.get_close_matches(name, list(known), n=most)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


class PivecError(Exception):
    """A failure that one sentence explains: what was expected, what came, what to do."""

    exit_code = 1
    lane: int | None = None  # which of the environments side by side it happened in


class UsageError(PivecError):
    """The request itself is mistaken (a wrong argument, name or setting)."""

    exit_code = 2


class UnknownEnvironment(UsageError):
    """Nobody tells the environment; ``fitting`` names those that the policies fit, in words."""

    def __init__(self, fitting: str = "") -> None:
        self.fitting = fitting
        super().__init__(
            "no file of these policies tells which environment it was trained in: name it first, "
            f"as in `pivec compare CartPole-v1 runs`{'; ' * bool(fitting)}{fitting}"
        )


class BadPolicyFile(PivecError):
    """A policy file is damaged, of a kind that is not supported, or tries to run code."""


class BadData(PivecError):
    """States that cannot be used: NaN, wrong shape, nothing in them."""


class BadStore(PivecError):
    """A store on disk that is damaged, or was written by a newer version."""


class EnvironmentFailure(PivecError):
    """The environment raised an exception while a policy was acting in it."""


class PivecWarning(UserWarning):
    """Something had to be assumed, or is probably not meant; one sentence, as an error has."""


class MissingExtra(PivecError):
    """An optional dependency is needed; the message says which extra to install."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f'{what} needs an optional package: pip install "pivec[{extra}]"')
