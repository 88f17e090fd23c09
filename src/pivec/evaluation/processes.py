"""A process for each unit: started, asked, waited for, and ended with its parent."""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
from typing import Any

from pivec.engines.children import Children, preamble
from pivec.errors import PivecError, UsageError
from pivec.evaluation.unit import Task
from pivec.notices import warn_again


class UnitFailed(Exception):
    """A unit did not finish; ``expected`` if it is the method's own refusal."""

    def __init__(self, message: str, *, expected: bool) -> None:
        super().__init__(message)
        self.expected = expected


class Processes(Children):
    """Runs units in processes of their own, at most ``jobs`` side by side; a context manager.

    Where the system allows, each job stays on its own share of the cores.
    """

    def __init__(self, jobs: int) -> None:
        super().__init__("pivec.evaluation.unit:answer")
        self._shares: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        for share in shares_of_cores(jobs):
            self._shares.put(share)

    def run(self, task: Task) -> None:
        """Run one unit, which leaves its file; `UnitFailed` if it does not."""
        try:
            request = pickle.dumps(task)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise _not_importable(task) from error
        if type(task.method).__module__ == "__main__":
            raise _not_importable(task)
        share = self._shares.get()
        try:
            self._ask(preamble(share) + request)
        finally:
            self._shares.put(share)

    def _ask(self, request: bytes) -> None:
        process = self.start()
        if process is None:
            raise UnitFailed("was not started", expected=False)
        try:
            out, err = process.communicate(request)
        finally:
            self.forget(process)
        message = _reply(out)
        if message is None:
            raise UnitFailed(_ended(process.returncode, err), expected=False)
        warn_again(message["warnings"])
        if "error" in message:
            raise UnitFailed(str(message["error"]), expected=bool(message["expected"]))


def shares_of_cores(jobs: int) -> list[list[int]]:
    """Share the cores of this process among jobs; empty shares leave a job all of them.

    Examples
    --------
    >>> shares_of_cores(1)
    [[]]
    """
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, but is {jobs}")
    if jobs == 1 or not hasattr(os, "sched_getaffinity"):
        return [[] for _ in range(jobs)]
    cores = sorted(os.sched_getaffinity(0))
    return [[cores[i % len(cores)], *cores[i + jobs :: jobs]] for i in range(jobs)]


def _not_importable(task: Task) -> PivecError:
    name = type(task.method).__qualname__
    return UsageError(
        f"{name} cannot be sent to another process: define it in a module that can be imported, "
        "or evaluate with isolate=False"
    )


def _reply(out: bytes) -> dict[str, Any] | None:
    try:
        message: dict[str, Any] = json.loads(out)
    except ValueError:
        return None
    return message


def _ended(code: int, err: bytes) -> str:
    if code == -getattr(signal, "SIGKILL", 9):
        return "its process was killed, most likely because memory ran out"
    if code < 0:
        return f"its process was ended by signal {-code}"
    lines = err.decode("utf-8", "replace").strip().splitlines()
    return f"its process ended with code {code}" + (f" ({lines[-1]})" if lines else "")
