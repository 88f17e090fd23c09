"""What happens in the process of a run: the task comes in, the algorithm runs, progress goes out.

Messages are lines of JSON on what was standard output; whatever libraries print goes to the log.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pivec.engines.children import telling
from pivec.errors import PivecError
from pivec.notices import Notice, Notices
from pivec.rollouts.environment import Environment
from pivec.training.checkpoints import Maker
from pivec.training.runs import RunFolder

_SECONDS = 0.3  # between messages


@dataclass(frozen=True)
class Task:
    """One run, as it is sent to its process."""

    environment: Environment
    values: Mapping[str, Any]
    checkpoints: int | list[int] | None
    folder: Path
    identity: Mapping[str, Any]
    maker: Maker


def work(request: IO[bytes]) -> None:
    """Carry out the task that comes in, and tell about it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this
    sys.path.append(os.getcwd())  # where modules of the user's environments may be
    with telling() as told:
        try:
            task: Task = pickle.load(request)  # noqa: S301  (our parent's)
            threading.Thread(target=_end_with_parent, daemon=True).start()
            with RunFolder(task.folder, task.identity).claimed(), Notices(_log) as notices:
                try:
                    carry_out(task, told)
                finally:
                    _tell(told, warned=[row for row in notices.rows if row.own])
            _tell(told, finished=True)
        except BrokenPipeError:
            return  # the parent is gone
        except PivecError as error:
            _tell(told, error=str(error), kind=type(error).__name__)
        except Exception as error:
            traceback.print_exc()
            kind = type(error).__name__
            _tell(told, error=f"{kind} while training: {error}", kind=kind)


def carry_out(task: Task, told: IO[str]) -> None:
    """Train to the end, from where the run stands."""
    last = -_SECONDS
    folder = RunFolder(task.folder, task.identity)

    def report(done: int, steps: int, mean_return: float | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SECONDS:
            last = now
            _tell(told, done=done, steps=steps, mean_return=mean_return)

    if task.maker.algorithm in ("ppo", "a2c"):
        from pivec.training.reinforcement import learn

        learn(task.environment, task.values, task.checkpoints or 1, folder, task.maker, report)
        return
    from threadpoolctl import threadpool_limits

    if task.maker.algorithm in ("es", "nsr-es"):
        from pivec.training.novelty_runs import search as run
    else:
        from pivec.training.evolution import evolve as run
    with threadpool_limits(limits=1):
        run(task.environment, task.values, task.checkpoints, folder, task.maker, report)


def _log(notice: Notice) -> None:
    """Keep a warning in the log, where those of other packages stay."""
    print(f"{notice.kind}: {notice.text}", file=sys.stderr)  # noqa: T201


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the parent holds open, and end as well."""
    while os.read(0, 1):
        pass
    os._exit(1)


def _tell(told: IO[str], **message: Any) -> None:
    told.write(json.dumps(message) + "\n")
    told.flush()
