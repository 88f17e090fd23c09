"""What can go wrong, in words: every error a user is meant to see is a PivecError."""

from __future__ import annotations


class PivecError(Exception):
    """A failure that one sentence explains: what was expected, what came, what to do."""

    exit_code = 1
    lane: int | None = None  # which of the environments side by side it happened in


class UsageError(PivecError):
    """The request itself is mistaken (a wrong argument, name or setting)."""

    exit_code = 2


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
