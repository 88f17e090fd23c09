"""The sets of policies that characterizations are tried on, and what tells one from another."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pivec.errors import UsageError
from pivec.evaluation.metrics import FEWEST_POLICIES
from pivec.policies.policy import canonical_order
from pivec.states.folder import shown_place
from pivec.states.store import Store, load
from pivec.states.visited import VisitedStates

Given = VisitedStates | str | Path


@dataclass(frozen=True)
class PolicySet:
    """The policies of one store.

    Draws follow from ``visited``, a digest of states, actions and returns: not of the files, which
    tell where policies came from, and when, nor of what they are called. ``identity`` is a digest
    of that and of the policies, which some methods look at.
    """

    label: str  # in tables: the path, or a number
    environment: str  # sets of one are averaged; the label where it is not known
    visited: str
    identity: str
    data: VisitedStates  # in the canonical order of the policies
    on_disk: bool = False  # whether the states are mapped from a store

    @property
    def fewest(self) -> int:
        """Trajectories of the policy that has the fewest."""
        return int(np.diff(self.data.policy_starts).min())

    def travelling(self, folder: Path) -> Travelling:
        """Make what units are computed on; those in memory go to a new store in ``folder``."""
        return Travelling(self.data, None if self.on_disk else folder / self.identity)


@dataclass
class Travelling:
    """States that come to another process as files of a store, which it maps."""

    data: VisitedStates
    folder: Path | None  # for a store, unless they have one

    def __reduce__(self) -> tuple[Any, ...]:
        if self.folder is not None:
            self.data = load(write_set(self.data, self.folder), verify=False)
            self.folder = None
        return Travelling, (self.data, None)


def policy_sets(
    stores: Given | Sequence[Given] | Mapping[str, Given], largest: int
) -> list[PolicySet]:
    """Open all stores; each must have ``largest`` trajectories of every policy."""
    if isinstance(stores, Mapping):
        given = [(str(label), store) for label, store in stores.items()]
    else:
        listed = [stores] if isinstance(stores, VisitedStates | str | Path) else stores
        given = [
            (f"set {number}" if isinstance(store, VisitedStates) else shown_place(store), store)
            for number, store in enumerate(listed, start=1)
        ]
    if not given:
        raise UsageError("expected at least one store of states to evaluate on, but got none")
    sets = [_opened(label, store) for label, store in given]
    for i, policies in enumerate(sets):
        for other in sets[:i]:
            if policies.label == other.label or policies.identity == other.identity:
                raise UsageError(
                    f"the stores {other.label!r} and {policies.label!r} are the same: give each "
                    "set of policies once"
                )
        _check_size(policies, largest)
    return sets


def write_set(data: VisitedStates, folder: Path) -> Path:
    """Write states in memory as a store, so that another process can map them."""
    settings = {"environment": data.environment, "actions": data.has_actions, "policies": True}
    store = Store(folder, settings, data.feature_names)
    with store.writing():
        for record in data.records:
            store.add(record)
    return folder


def _opened(label: str, given: Given) -> PolicySet:
    if isinstance(given, VisitedStates):
        data = given
    elif isinstance(given, str | Path):
        data = Store.find(given).load()
    else:
        raise UsageError(
            f"a store is a path or VisitedStates, but got {type(given).__name__}: use "
            "`pivec.collect` or `pivec.load`"
        )
    ordered = data.select(canonical_order(data.policies))
    digests, on_disk = _digests_of(ordered), data is not given
    return PolicySet(label, data.environment or label, *digests, ordered, on_disk)


def _digests_of(data: VisitedStates) -> tuple[str, str]:
    """Digest what was visited, and that with the policies themselves."""
    digest = hashlib.sha256()
    arrays = [
        data.episode_starts, data.policy_starts, data.returns, data.terminated, data.truncated,
    ]  # fmt: skip
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    for number in range(data.n_policies):
        digest.update(np.ascontiguousarray(data.policy_states(number)).data)
        if data.has_actions and (actions := data[number].actions) is not None:
            digest.update(np.ascontiguousarray(actions).data)
    visited = digest.hexdigest()
    for info in data.policies:
        for part in (info.group, info.step, info.fingerprint):
            digest.update(f"{part}\0".encode("utf-8", "backslashreplace"))
    return visited, digest.hexdigest()


def _check_size(policies: PolicySet, largest: int) -> None:
    n, fewest = policies.data.n_policies, policies.fewest
    if n < FEWEST_POLICIES:
        raise UsageError(
            f"{policies.label} holds {n} {'policy' if n == 1 else 'policies'}, but an evaluation "
            f"compares distances of at least {FEWEST_POLICIES}: collect more policies"
        )
    if fewest < largest:
        policy = policies.data.labels[int(np.diff(policies.data.policy_starts).argmin())]
        raise UsageError(
            f"{policies.label} has {fewest} trajectories of {policy!r}, but {largest} are to be "
            f"drawn of every policy: collect more, best {2 * largest} (`pivec collect ENV "
            f"POLICY... --episodes {2 * largest} --out STORE`), or ask for sizes up to {fewest}"
        )
