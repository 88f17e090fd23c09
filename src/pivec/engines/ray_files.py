"""The driver's files on a Ray cluster: an actor beside the driver reads what workers ask for."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pivec.engines import files, modules, offered
from pivec.engines.offered import Answer, Stamp
from pivec.engines.source import Source

_THREADS = 4  # that read side by side


class _Reader:
    """Runs on the driver's machine, in another process."""

    def __init__(self, paths: Sequence[str], folders: Sequence[str]) -> None:
        offered.offer(*paths)
        offered.offer_modules(*folders)

    def offer(self, paths: Sequence[str]) -> None:
        offered.offer(*paths)

    def answer(self, path: str, start: int | None, known: Stamp | None) -> Answer:
        return offered.answer(path, start, known)


@dataclass(frozen=True)
class Handle:
    """What workers need to ask; it travels with every task."""

    actor: Any
    folder: str  # in which the driver works
    token: str
    modules: Sequence[str] = ()  # folders that it imports from

    def ask(self, path: str, start: int | None, known: Stamp | None) -> Answer:
        """Ask for a file or folder; see `pivec.engines.offered.answer`."""
        import ray

        try:
            said: Answer = ray.get(self.actor.answer.remote(path, start, known))
        except ray.exceptions.RayError as error:
            reason = f"cannot be asked for on the machine of the driver ({type(error).__name__})"
            raise OSError(errno.EIO, reason, path) from error
        return said

    def offer(self, paths: Sequence[str]) -> None:
        """Send what is offered; it is known there before any later work is."""
        import ray

        if ray.is_initialized():  # or it would start a cluster of its own
            with contextlib.suppress(ray.exceptions.RayError):  # whoever asks is told
                ray.get(self.actor.offer.remote(list(paths)))


def start() -> Handle:
    """Let the cluster's workers ask for what this process offers; see `stop`."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node, folders = ray.get_runtime_context().get_node_id(), modules.own_folders()
    actor = (
        ray.remote(_Reader)
        .options(
            num_cpus=0,
            max_concurrency=_THREADS,
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}},
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        .remote(offered.offered(), folders)
    )
    handle = Handle(actor, os.getcwd(), secrets.token_hex(16), folders)
    offered.followers.append(handle.offer)
    return handle


def stop(handle: Handle) -> None:
    """End what `start` began."""
    import ray

    offered.followers.remove(handle.offer)
    ray.kill(handle.actor)


def use(handle: Handle | None) -> None:
    """In a worker: find the driver's files by asking, where they cannot be seen.

    None means that all machines see them, or that whoever gave them out has gone.
    """
    if handle is None:
        files.use(None)
        modules.use(None)
        _used.clear()
    elif _used != [handle.folder, handle.token]:
        source = Source(handle.ask, handle.folder, handle.token)
        files.use(source)
        modules.use(source, handle.modules)
        _used[:] = [handle.folder, handle.token]


_used: list[str] = []  # what is in use
