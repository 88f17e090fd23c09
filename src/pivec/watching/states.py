"""The states of a watch: those that arrive play, and the store grows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pivec.collection import Collector
from pivec.errors import BadData, BadPolicyFile, EnvironmentFailure, PivecError, UsageError
from pivec.options import CollectOptions
from pivec.policies.arriving import Arrivals, named_together
from pivec.policies.paths import natural_key
from pivec.policies.policy import NamedPolicy, PolicyInfo
from pivec.states import Store
from pivec.states.index import info_of
from pivec.states.recorded import is_recorded
from pivec.states.visited import VisitedStates

_OF_POLICIES = UsageError, BadPolicyFile, BadData, EnvironmentFailure


class GrowingStates:
    """A store, and who arrives to be collected into it.

    Attributes
    ----------
    arrivals : Arrivals
        Those that act; recorded states beside them are read once.
    settings : mapping
        How states are collected, as the store keeps it; empty before `collect`.
    """

    def __init__(
        self, env: Any, policies: Any, options: CollectOptions, folder: Path, every: float
    ) -> None:
        single = isinstance(policies, str | os.PathLike) or not isinstance(policies, Iterable)
        specs = [policies] if single else list(policies)
        if not all(isinstance(spec, str | os.PathLike) for spec in specs):
            raise UsageError(
                "policies must be paths, folders, globs and the like, which may come and change: "
                "for objects there is `pivec.compare`"
            )
        self._recorded: list[Any] = [spec for spec in specs if is_recorded(spec)]
        acting = [spec for spec in specs if not is_recorded(spec)]
        allowed = options.trust, options.without_normaliser
        self.arrivals = Arrivals(acting, every, *allowed, but=folder.parent)
        self._env, self._options, self._folder = env, options, folder
        self._has_played = False
        self.settings: Mapping[str, Any] = {}

    @property
    def exist(self) -> bool:
        """Whether there are any yet."""
        return Store.exists(self._folder)

    def collect(self, arrived: Sequence[NamedPolicy], progress: bool = False) -> list[PolicyInfo]:
        """Let those play whose states are not kept; give all whose are, by the names of all."""
        kept = [info_of(row) for row in Store(self._folder).rows.values()] if self.exist else []
        named = named_together([*kept, *(policy.info for policy in arrived)])
        names = {info.identity: info for info in named}
        if any(names.get(info.identity) != info for info in kept):
            store = Store(self._folder)
            with store.writing():
                store.claim(named)
        acting = {policy.info.identity: policy for policy in arrived}
        self._play(
            [replace(acting[key], info=names[key]) for key in acting if key in names], progress
        )
        store = Store(self._folder)
        with store.writing():
            store.reorder(sorted(store.rows, key=natural_key))
        self.settings = store.settings
        return [info_of(row) for row in store.rows.values()]

    def load(self, infos: Sequence[PolicyInfo]) -> VisitedStates:
        """Give the states of policies; of more episodes than are asked for the first."""
        data = Store(self._folder).load([info.label for info in infos])
        records = [record.first(self._options.episodes) for record in data.records]
        return VisitedStates(records, data.feature_names, data.environment)

    def _play(self, policies: Sequence[NamedPolicy], progress: bool) -> None:
        """Collect states; who cannot act is set aside, unless nobody can."""
        if not policies and not self._recorded:
            return
        failed: list[tuple[NamedPolicy, PivecError]] = []
        try:
            self._run([*policies, *self._recorded], progress)
            return
        except _OF_POLICIES as error:
            if len(policies) < 2:
                if not self._has_played:
                    raise
                failed = [(policy, error) for policy in policies]
        for policy in policies if len(policies) > 1 else ():
            try:
                self._run([policy], progress=False)
            except _OF_POLICIES as error:
                failed.append((policy, error))
        if not self._has_played:
            raise failed[0][1]
        for policy, reason in failed:
            self.arrivals.refuse(policy, reason)

    def _run(self, policies: Sequence[Any], progress: bool) -> None:
        Collector(self._env, policies, self._options, self._folder, progress).run()
        self._has_played, self._recorded = True, []
