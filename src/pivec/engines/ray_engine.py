"""The engine of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pivec.engines.engine import Engine, Reply, Task


class RayEngine(Engine):
    """Works on items on the nodes of a Ray cluster."""

    def __init__(self, address: str = "", jobs: int | None = None) -> None:
        raise NotImplementedError

    def _map(self, task: Task, items: Iterable[Any]) -> Iterator[Reply]:
        raise NotImplementedError
