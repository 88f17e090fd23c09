"""Names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def attach(
    package: str, exports: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Give a package its ``__getattr__`` and ``__dir__``; exports are ``module[:attribute]``."""

    def getattribute(name: str) -> Any:
        if name in exports:
            module, _, attribute = exports[name].partition(":")
            return getattr(importlib.import_module(module), attribute or name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted(exports)

    return getattribute, names
