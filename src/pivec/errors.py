"""Errors and warnings; every error that users are meant to see is a PivecError."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """Return a suggestion of similar known names, to append to an error message.

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
    """An error whose message is one sentence: what was expected, what was given, what to do."""

    exit_code = 1
    lane: int | None = None  # number of the parallel environment it happened in


class UsageError(PivecError):
    """A wrong argument, name or setting."""

    exit_code = 2


class UnknownEnvironment(UsageError):
    """The environment is not known; ``fitting`` names those that the policies fit."""

    def __init__(self, fitting: str = "") -> None:
        self.fitting = fitting
        super().__init__(
            "no policy file names its environment: give it first, "
            f"as in `pivec compare CartPole-v1 runs`{'; ' * bool(fitting)}{fitting}"
        )


class BadPolicyFile(PivecError):
    """A policy file is damaged, not supported, or would run code."""


class BadData(PivecError):
    """States that cannot be used: NaN, a wrong shape, or none at all."""


class BadStore(PivecError):
    """A store that is damaged, or was written by a newer version."""


class EnvironmentFailure(PivecError):
    """The environment raised an exception during an episode."""


class PivecWarning(UserWarning):
    """Something was assumed, or is probably a mistake."""


class MissingExtra(PivecError):
    """An optional dependency is needed; the message says which extra to install."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f'{what} needs an optional package: pip install "pivec[{extra}]"')
