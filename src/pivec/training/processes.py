"""A process for each run: started, heard from, and ended with its parent.

Libraries of training seed global generators and start threads. In a process of its own a run does
neither to its caller, and several go side by side, one core each.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pivec.errors
from pivec.engines.children import Children, preamble
from pivec.errors import PivecError, UsageError
from pivec.notices import warn_again
from pivec.training.child import Task
from pivec.training.runs import STATE

LOG = "log.txt"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

Listener = Callable[[dict[str, Any]], None]


class Processes(Children):
    """Runs tasks in processes of their own; a context manager that ends what still runs."""

    def __init__(self) -> None:
        super().__init__("pivec.training.child:work")

    def run(self, task: Task, listen: Listener) -> None:
        """Run one task to its end; ``listen`` hears of its progress, in this thread."""
        request = preamble() + pickled(task)
        log = task.folder / STATE / LOG
        with open(log, "ab") as errors:
            process = self.start(
                errors=errors, environment={**os.environ, **dict.fromkeys(_THREADS, "1")}
            )
            if process is None:
                raise PivecError("training was stopped")
            try:
                self._talk(process, request, listen, task.folder.name, log)
            finally:
                self.forget(process)
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        with contextlib.suppress(OSError):
                            pipe.close()

    def _talk(
        self,
        process: subprocess.Popen[bytes],
        request: bytes,
        listen: Listener,
        name: str,
        log: Path,
    ) -> None:
        finished = False
        with contextlib.suppress(BrokenPipeError):
            if process.stdin is not None:
                process.stdin.write(request)
                process.stdin.flush()  # and stays open: its end tells the child to end too
        for line in process.stdout or ():
            message: dict[str, Any] = json.loads(line)
            if "error" in message:
                raise _failure(name, message["kind"], message["error"])
            if "warned" in message:
                warn_again(message["warned"])
                continue
            finished = finished or "finished" in message
            listen(message)
        code = process.wait()
        if not finished:
            raise PivecError(f"{name}: {_ended(code, log)}")


def pickled(task: Task) -> bytes:
    """Pack what a process needs; an environment that cannot travel is named."""
    try:
        request = pickle.dumps(task)
    except Exception as error:
        raise UsageError(
            f"the environment {task.environment.name} cannot be sent to another process: define "
            "the function that makes it at the top level of a module"
        ) from error
    if getattr(task.environment.factory, "__module__", "") == "__main__":
        raise UsageError(
            f"the environment {task.environment.name} is defined in the script that runs, which "
            "another process cannot import: define it in a module of its own"
        )
    return request


def _failure(name: str, kind: str, message: str) -> PivecError:
    known = getattr(pivec.errors, kind, None)
    text = f"{name}: {message}"
    if kind != "MissingExtra" and isinstance(known, type) and issubclass(known, PivecError):
        failure: PivecError = known(text)
        return failure
    return PivecError(text)


def _ended(code: int, log: Path) -> str:
    if code == -getattr(signal, "SIGKILL", 9):
        return "its process was killed; the same command goes on from its last checkpoint"
    if code < 0:
        return f"its process was ended by signal {-code}"
    return f"its process ended with code {code}, see {log}"
