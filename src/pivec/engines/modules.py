"""Modules of the driver's folders in workers that do not see them, as those of environments."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import threading
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from pivec.engines.source import Source


def own_folders() -> list[str]:
    """Return the folders that this process imports from, but those of Python and its packages."""
    installed = tuple(os.path.join(place, "") for place in {sys.prefix, sys.base_prefix})
    folders = [os.path.abspath(place) for place in [*sys.path, os.getcwd()]]
    own = [place for place in folders if not place.startswith(installed) and os.path.isdir(place)]
    return list(dict.fromkeys(own))


class DriverModules(MetaPathFinder):
    """Finds Python files by asking the driver, after all else that imports has found nothing."""

    def __init__(self, source: Source, folders: Sequence[str]) -> None:
        self._source, self._folders = source, folders
        self._asking = threading.local()

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: Any = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Find a module or package in the driver's folders, or a part of such a package."""
        if getattr(self._asking, "now", False):  # what asks imports something itself
            return None
        self._asking.now = True
        try:
            with contextlib.suppress(OSError):  # the driver is gone
                return self._find(name, self._folders if path is None else path)
        finally:
            self._asking.now = False
        return None

    def _find(self, name: str, folders: Sequence[str]) -> ModuleSpec | None:
        last = name.rpartition(".")[2]
        for folder in folders:
            listing = self._source.entries(folder)
            names = listing[1] if listing else ()
            package = os.path.join(folder, last)
            for file, inside in (
                (os.path.join(package, "__init__.py"), [package]),
                (f"{package}.py", None),
            ):
                wanted = f"{last}/" if inside else f"{last}.py"
                if wanted in names and (copy := self._source.find(file)).exists():
                    return importlib.util.spec_from_file_location(
                        name, copy, submodule_search_locations=inside
                    )
        return None


def use(source: Source | None, folders: Sequence[str] = ()) -> None:
    """Import by this source from now on; None imports what this machine has alone."""
    others = [finder for finder in sys.meta_path if not isinstance(finder, DriverModules)]
    mine = [] if source is None else [DriverModules(source, folders)]
    sys.meta_path[:] = [*others, *mine]
