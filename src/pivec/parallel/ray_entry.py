"""The first lines that run in a Ray worker: they are sent as they are, for pivec may not be there.

So nothing is imported at the top, and nothing but these functions is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def piece(session: dict[str, Any], content: bytes) -> Iterator[bytes | str]:
    """Work on an item: rows of `pivec.parallel.ray_worker`, or what is wrong with the worker."""
    problem = enter(session)
    if problem:
        yield problem
        return
    from pivec.parallel import ray_worker

    yield from ray_worker.piece(session, content)


def part(session: dict[str, Any], content: bytes, shared: list[Any]) -> bytes | str:
    """Work on a part: a row of `pivec.parallel.ray_worker`, or what is wrong with the worker."""
    problem = enter(session)
    if problem:
        return problem
    from pivec.parallel import ray_worker

    return ray_worker.part(session, content, shared)


def enter(session: dict[str, Any]) -> str:
    """Make this process find what the driver finds; say why that cannot be, or nothing."""
    import importlib
    import os
    import sys

    # Numerical libraries count the threads they may use when they are loaded.
    os.environ.update(dict.fromkeys(session["thread_variables"], str(session["threads"])))
    path = [place for place in session["path"] if os.path.exists(place)]
    if sys.path[: len(path)] != path:
        sys.path[:] = [*path, *(place for place in sys.path if place not in path)]
    if os.path.isdir(session["folder"]):
        os.chdir(session["folder"])
    try:
        version = importlib.import_module("pivec").__version__
    except ImportError as error:
        return f"has no pivec: install pivec {session['versions']['pivec']} there ({error})"
    there = session["versions"]["pivec"]
    if version != there:
        return f"has pivec {version}, but here it is {there}: install the same there"
    return ""
