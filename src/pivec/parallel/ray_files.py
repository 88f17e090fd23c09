"""The driver's files on a Ray cluster: an actor beside the driver reads what workers ask for."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import secrets
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from pivec.parallel import files, offered
from pivec.parallel.offered import Answer, Stamp
from pivec.parallel.source import Source

# -----------------------------------------------------------------------------
# Modules of the driver's folders in workers that do not see them, as those of environments.


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
        """Ask for a file or folder; see `pivec.parallel.offered.answer`."""
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

    node, folders = ray.get_runtime_context().get_node_id(), own_folders()
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


def use_ray_files(handle: Handle | None) -> None:
    """In a worker: find the driver's files by asking, where they cannot be seen.

    None means that all machines see them, or that whoever gave them out has gone.
    """
    if handle is None:
        files.use(None)
        use(None)
        _used.clear()
    elif _used != [handle.folder, handle.token]:
        source = Source(handle.ask, handle.folder, handle.token)
        files.use(source)
        use(source, handle.modules)
        _used[:] = [handle.folder, handle.token]


_used: list[str] = []  # what is in use
