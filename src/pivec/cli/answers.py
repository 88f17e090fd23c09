"""The commands that answer a question about policies: parse, call, print."""

from __future__ import annotations

from collections.abc import Callable

COMMANDS: tuple[Callable[..., None], ...] = ()
