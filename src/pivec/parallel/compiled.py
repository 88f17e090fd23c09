"""Compilation by Numba, with its cache if that can be written.

Numba itself raises if there is no folder for the cache (a read-only installation and home, as in
containers), or later if the disk is full. Here every process then compiles, with one warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache

from pivec.errors import PivecWarning
from pivec.terminal import remark


def compiler(
    *fastmath: str, sources: str = "", **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Make a decorator that compiles a function, which releases the GIL and divides as NumPy does.

    ``fastmath`` are LLVM's flags, such as "contract". ``sources`` are patterns, separated by
    spaces, of other files whose code is compiled into the function. Numba only checks the file of
    the function itself to see whether the cache is valid, so its name gets a digest of the others.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        if sources:
            here = Path(function.__code__.co_filename).parent
            function.__qualname__ += f"_{_digest(here, sources)}"
        made = njit(fastmath=set(fastmath), nogil=True, error_model="numpy", **options)(function)
        try:
            made._cache = _Cache(function)
        except (OSError, RuntimeError):
            _warn_once("neither the package's folder nor the home folder can be written")
        return made

    return decorate


@cache
def _digest(folder: Path, pattern: str) -> str:
    files = sorted(file for part in pattern.split() for file in folder.glob(part))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache; a full disk or a damaged file costs time only."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        kept = None
        try:
            kept = super().load_overload(sig, target_context)
        except Exception as failure:  # pickles that were damaged raise anything
            _warn_once(repr(failure))
        if kept is None:
            remark("compiling, first time only")
        return kept

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as failure:  # as above: saving begins by loading the index
            _warn_once(repr(failure))


_warned: list[str] = []


def _warn_once(reason: str) -> None:
    if not _warned:
        _warned.append(reason)
        warnings.warn(
            f"compiled code cannot be cached ({reason}), so every run compiles it again, which "
            "takes some seconds: set NUMBA_CACHE_DIR to a folder that can be written",
            PivecWarning,
            stacklevel=2,
        )
