"""Recorded states put together with no environment, in memory or in a store."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pivec.errors import BadData, PivecWarning, UsageError
from pivec.options import TableOptions
from pivec.rollouts import spaces
from pivec.states.files import told_apart
from pivec.states.record import PolicyRecord, Recorded, check_unique, names_of
from pivec.states.recorded import EXPECTED, find_recorded, read_recorded, rows_of
from pivec.states.store import Store
from pivec.states.visited import VisitedStates

_WORLD = ("environment", "arguments", "wrappers", "imports", "features")  # that states are of


class Recordings:
    """Recorded states that are put together with no environment, as a `Collector` would.

    Actions are kept if every policy has them. The environment is that of the first source, if not
    given, and so are names of features, which may not differ.

    Attributes
    ----------
    settings : dict
        What a store of them keeps.
    """

    acting: tuple[str, ...] = ()

    def __init__(
        self,
        sources: Sequence[Recorded],
        store: str | Path | None = None,
        environment: str = "",
        max_states_per_policy: int | None = None,
    ) -> None:
        if not sources:
            raise UsageError(f"expected at least one of {EXPECTED}, but none is given")
        self._sources, self._store = told_apart(sources), store
        check_unique([source.info.label for source in self._sources])
        first = self._sources[0]
        known = spaces.feature_names(first.space) if first.space is not None else first.names
        if known is None:
            probe = rows_of(next(first.episodes()).states, first.space, None, first.info.label)
            known = names_of(None, probe.shape[1])
        self._names = tuple(known)
        for source in self._sources:
            if source.names not in (None, self._names):
                raise BadData(
                    f"{source.info.source or source.info.label} has the features "
                    f"{', '.join(source.names or ())[:200]}, but {first.info.label} has "
                    f"{', '.join(self._names)[:200]}: all need the same, in the same order"
                )
        world = dict(first.collected) | {"environment": environment or first.environment}
        self.settings: dict[str, Any] = {
            **{key: world[key] for key in _WORLD if world.get(key)},
            "environment": world["environment"],
            "arguments": world.get("arguments") or {},
            "backend": "recorded",
            "actions": all(map(_has_actions, self._sources)),
            "max_states_per_policy": max_states_per_policy,
        }
        self._warn_of_other_worlds(world)

    def run(self) -> VisitedStates:
        """Read what is not in the store yet, and return the states of all."""
        if self._store is None:
            records = [self._read(source) for source in self._sources]
            return VisitedStates(records, self._names, self.settings["environment"])
        labels = [source.info.label for source in self._sources]
        kept = Store(self._store, self.settings, self._names)
        with kept.writing():
            kept.claim([source.info for source in self._sources])
            for source in self._sources:
                if not kept.holds(source.info):
                    kept.add(self._read(source))
            kept.reorder(labels)
        return kept.load(labels)

    def _warn_of_other_worlds(self, world: Mapping[str, Any]) -> None:
        """Say where states come from something else than the first do."""
        for source in self._sources[1:]:
            theirs = dict(source.collected) | {"environment": source.environment}
            for key in _WORLD:
                if theirs.get(key) and world.get(key) and theirs[key] != world[key]:
                    warnings.warn(
                        f"{source.info.label} was recorded with {key} = {theirs[key]!r}, "
                        f"{self._sources[0].info.label} with {world[key]!r}: what differs may come "
                        "from that",
                        PivecWarning,
                        stacklevel=4,
                    )

    def _read(self, source: Recorded) -> PolicyRecord:
        actions, most = self.settings["actions"], self.settings["max_states_per_policy"]
        return read_recorded(source, source.space, None, actions, most, len(self._names))


def _has_actions(source: Recorded) -> bool:
    if source.has_actions is not None:
        return source.has_actions
    return next(source.episodes()).actions is not None


def import_recorded(
    specs: Sequence[Any],
    store: str | Path,
    *,
    environment: str = "",
    max_states_per_policy: int | None = None,
    options: TableOptions | None = None,
) -> VisitedStates:
    """Put recorded states into a store of their own, with no environment to make.

    ``specs`` are files, folders of files, ``npz:DIR``, ``minari:NAME`` and ``store:DIR``; see
    `Recordings`. ``options`` tell what the columns of tables mean, where their names do not.
    """
    sources = [source for spec in specs for source in find_recorded(spec, options)]
    return Recordings(sources, store, environment, max_states_per_policy).run()
