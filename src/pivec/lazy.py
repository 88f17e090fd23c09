"""Packages whose modules are imported when one of their names is first used."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from typing import Any


def lazy_exports(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Its names are those that the stub ``__init__.pyi`` next to ``file`` imports, which is also what
    type checkers read (the pattern of ``lazy_loader.attach_stub``).
    """
    with open(f"{file.removesuffix('.py')}.pyi", encoding="utf-8") as text:
        stub = ast.parse(text.read())
    modules = {
        alias.name: str(node.module)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names = sorted(modules)

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    return get, names.copy, names
