"""The policies of one store as recorded states for another: ``store:DIR``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pivec.errors import BadStore
from pivec.policies.policy import PolicyInfo
from pivec.states.raw import RawEpisode, raw_episodes
from pivec.states.store import Store


class StoreSource:
    """A store that somebody else wrote, such as a training run that recorded itself."""

    def __init__(self, path: str) -> None:
        self._store = Store.find(Path(path).expanduser())
        if not len(self._store):
            raise BadStore(f"{path} holds no policies yet: record some first")
        self.environment = str(self._store.settings.get("environment", ""))
        self.feature_names = self._store.feature_names

    def policies(self) -> Iterator[tuple[PolicyInfo, str]]:
        """Go through the policies; a fingerprint is the checksum of the states."""
        for label, row in self._store.rows.items():
            [info] = self._store.load([label]).policies
            yield replace(info, fingerprint=str(row["sha256"])), label

    def episodes(self, label: str) -> Iterator[RawEpisode]:
        """Go through the episodes of one policy."""
        yield from raw_episodes(self._store[label])
