"""The one way functions are compiled: by Numba, kept in its cache where that can be written.

Numba looks for a folder when a function is decorated, and raises if there is none (a read-only
installation with a home that cannot be written, as in containers), or later if the disk is full.
Here the function is compiled anew by every process then, which is said once.
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
    *liberties: str, sources: str = "", **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Make a decorator that compiles a function, without Python's lock and with NumPy's division.

    ``liberties`` of floating-point arithmetic are LLVM's flags, such as "contract". ``sources`` are
    patterns, with spaces between, of other files whose code is compiled into it: Numba looks at its
    own file only to see whether what is in the cache is still good, so the name that it goes by
    there carries a digest of them all.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        if sources:
            here = Path(function.__code__.co_filename).parent
            function.__qualname__ += f"_{_digest(here, sources)}"
        made = njit(fastmath=set(liberties), nogil=True, error_model="numpy", **options)(function)
        try:
            made._cache = _Cache(function)
        except (OSError, RuntimeError):
            _say_not_kept("neither the package's folder nor the home folder can be written")
        return made

    return decorate


@cache
def _digest(folder: Path, pattern: str) -> str:
    files = sorted(file for part in pattern.split() for file in folder.glob(part))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, where a full disk or a damaged file costs time and not the run."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        kept = None
        try:
            kept = super().load_overload(sig, target_context)
        except Exception as failure:  # pickles that were damaged raise anything
            _say_not_kept(repr(failure))
        if kept is None:
            remark("compiling, first time only")
        return kept

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as failure:  # as above: saving begins by loading the index
            _say_not_kept(repr(failure))


_said: list[str] = []


def _say_not_kept(reason: str) -> None:
    if not _said:
        _said.append(reason)
        warnings.warn(
            f"compiled code cannot be kept between runs ({reason}), so that each run compiles "
            "anew, which takes some seconds: let the environment variable NUMBA_CACHE_DIR name a "
            "folder that can be written",
            PivecWarning,
            stacklevel=2,
        )
