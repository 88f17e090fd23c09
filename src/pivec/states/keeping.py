"""How policies that workers played come into a store: written there by them, or sent to it."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from typing import Any, Self

from pivec.engines.offered import offer
from pivec.errors import PivecError
from pivec.rollouts.episodes import PlayedPolicy
from pivec.states.record import PolicyRecord, record_of_played
from pivec.states.shelf import policy_files
from pivec.states.store import Store


class Keeper:
    """Packs a policy where it was played; the store takes in what came of that.

    It travels to workers. One that sees the folder of the store writes the policy's file there; any
    other sends it. To a large store all are sent, where small files are gathered. Policies that
    played on have earlier episodes in ``kept``, by label.
    """

    def __init__(self, store: Store, kept: Mapping[str, PolicyRecord]) -> None:
        self._store: Store | None = store
        self._kept = kept
        self._folder, self._identity = store.folder, store.identity
        self._policies = bool(store.settings.get("policies"))
        self._token = ""  # a file that shows that a folder is the store's own

    def __enter__(self) -> Self:
        if self._kept:
            offer(self._folder.home)  # workers read what is kept
        if self._store is not None and not self._store.is_large:
            self._token = f".pivec-{secrets.token_hex(8)}"
            self._folder.write(self._token, b"")
        return self

    def __exit__(self, *_: object) -> None:
        if self._token:
            self._folder.remove(self._token)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_store": None}

    def __call__(self, played: PlayedPolicy) -> Any:
        """Give the record; in a worker its files, or the name of what was written."""
        record = record_of_played(played)
        if record.info.label in self._kept:
            record = self._kept[record.info.label].extended(record)
        if self._store is not None:
            return record
        files = policy_files(record, self._identity, self._policies)
        if not self._sees_store():
            return files
        for name, content in files.items():
            self._folder.write(name, content)
        return list(files)[-1]  # that of the states, which is the last to be there

    def _sees_store(self) -> bool:
        with contextlib.suppress(OSError, PivecError):
            return bool(self._token) and self._folder.has(self._token)
        return False


def take(store: Store, packing: Any) -> None:
    """Put into a store what a call of its `Keeper` gave."""
    if isinstance(packing, PolicyRecord):
        store.add(packing)
    elif isinstance(packing, str):
        store.take_in(packing)
    else:
        store.take_in(list(packing)[-1], packing)
