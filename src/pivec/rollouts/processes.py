"""Several processes: policies are dealt out, each process plays its share, the parent gathers.

An episode follows from (seed, policy, number) alone, so the deal does not change the result. A
worker leaves Ctrl-C to its parent, and ends by itself when the parent is gone.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

import pivec.errors
from pivec.engines.workers import usable_cores
from pivec.errors import PivecError, UsageError
from pivec.notices import Notices, warn_again
from pivec.policies.policy import NamedPolicy
from pivec.progress import Progress
from pivec.rollouts.environment import Environment
from pivec.rollouts.episodes import PlayedPolicy
from pivec.rollouts.settings import PlaySettings

_SIGN_OF_LIFE = 0.3  # seconds between messages of a worker
_PATIENCE = 5.0  # seconds for a worker to end before it is killed


def play_in_processes(
    environment: Environment,
    policies: Sequence[NamedPolicy],
    settings: PlaySettings,
    progress: Progress | None,
    jobs: int,
) -> Iterator[PlayedPolicy]:
    """Play policies that know the spaces in ``jobs`` processes; yield each when it is done."""
    jobs = min(jobs, len(policies))
    if settings.threads is None:
        settings = replace(settings, threads=max(1, usable_cores() // jobs))
    # Dealt like cards: policies that lie together, as checkpoints of a run do, play equally long.
    shares = [_pickled(environment, policies[first::jobs], settings) for first in range(jobs)]
    context = multiprocessing.get_context("spawn")
    workers: list[Any] = []
    numbers: dict[Any, int] = {}
    try:
        for first in range(jobs):
            here, there = context.Pipe()
            worker = context.Process(target=_work, args=(there,), daemon=True)
            worker.start()
            there.close()
            workers.append(worker)
            numbers[here] = first
        # Not as an argument of the process: the parent would wait for ever for one that is dead.
        for line, first in numbers.items():
            try:
                line.send_bytes(shares[first])
            except ConnectionError as error:
                workers[first].join(_PATIENCE)
                raise _died(workers[first].exitcode) from error
        while numbers:
            for ready in wait(list(numbers)):
                connection: Any = ready
                first = numbers[connection]
                try:
                    kind, content = connection.recv()
                except (EOFError, ConnectionError) as error:
                    workers[first].join(_PATIENCE)
                    raise _died(workers[first].exitcode) from error
                if kind == "done":
                    del numbers[connection]
                elif kind == "steps" and progress is not None:
                    progress.count(content)
                elif kind == "warned":
                    warn_again(content)
                elif kind == "failed":
                    raise _failure(*content)
                elif kind == "played":
                    number, episodes, every = content
                    index = first + number * jobs
                    yield PlayedPolicy(index, policies[index], episodes, every)
    finally:
        _end(workers, list(numbers))


def _work(connection: Connection) -> None:
    """Play a share of the policies and send each to the parent; runs in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.append(os.getcwd())  # where modules of the user's policies may be
    with contextlib.suppress(BrokenPipeError, ConnectionError), Notices(lambda _: None) as notices:
        steps = _Steps(connection, notices)
        try:
            from pivec.rollouts.play import play_here

            environment, policies, settings = pickle.loads(  # noqa: S301
                connection.recv_bytes()  # our parent's
            )
            for played in play_here(environment, policies, settings, steps):
                connection.send(("played", (played.index, played.episodes, played.every)))
            steps.tell()
            connection.send(("done", None))
        except ConnectionError:
            raise
        except Exception as error:
            steps.tell()
            connection.send(("failed", (type(error).__name__, str(error), traceback.format_exc())))


class _Steps(Progress):
    """Progress of a worker: steps and warnings are counted, and told to the parent at times."""

    def __init__(self, connection: Connection, notices: Notices) -> None:
        super().__init__("", 0, show=False)
        self._connection, self._notices = connection, notices
        self._steps, self._told = 0, time.monotonic()

    def count(self, steps: int) -> None:
        """Count steps; fails when the parent is gone, which ends the worker."""
        self._steps += steps
        if time.monotonic() - self._told > _SIGN_OF_LIFE:
            self.tell()

    def tell(self) -> None:
        """Tell the parent what has come together since the last time."""
        self._connection.send(("steps", self._steps))
        self._steps, self._told = 0, time.monotonic()
        if notices := self._notices.take():
            self._connection.send(("warned", notices))


def _pickled(
    environment: Environment, policies: Sequence[NamedPolicy], settings: PlaySettings
) -> bytes:
    """Pack what a worker needs; whatever cannot travel is named."""
    try:
        return pickle.dumps((environment, list(policies), settings))
    except Exception:
        things: list[tuple[str, Any]] = [
            ("the environment", environment),
            ("features=", settings.features),
            *((f"the policy {named.info.label!r}", named.policy) for named in policies),
        ]
        for what, thing in things:
            try:
                pickle.dumps(thing)
            except Exception as error:
                raise UsageError(
                    f"{what} cannot be sent to another process ({error}): define it at the top "
                    "level of a module, or use one job"
                ) from error
        raise


def _died(code: int | None) -> PivecError:
    return PivecError(
        f"a process that was playing ended with code {code}: if several jobs are asked for in a "
        'script, call pivec below `if __name__ == "__main__":`, and see that memory suffices'
    )


def _failure(kind: str, message: str, trace: str) -> PivecError:
    known = getattr(pivec.errors, kind, None)
    cause = RuntimeError(f"in another process:\n{trace}")
    if isinstance(known, type) and issubclass(known, PivecError) and kind != "MissingExtra":
        failure: PivecError = known(message)
    elif kind == "MissingExtra":
        failure = PivecError(message)
    else:
        failure = PivecError(f"{kind} in a process that was playing: {message}")
    failure.__cause__ = cause
    return failure


def _end(workers: list[Any], connections: list[Any]) -> None:
    """See every worker off: those still at work are told to stop."""
    for connection in connections:
        connection.close()
    for worker in workers:
        if connections:
            worker.terminate()
    for worker in workers:
        worker.join(_PATIENCE)
        if worker.is_alive():
            worker.kill()
            worker.join()
