"""The sets of policies that characterizations are tried on, and what tells one from another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.evaluation.metrics import FEWEST_POLICIES
from pivec.policies.policy import canonical_order
from pivec.states.store import Store
from pivec.states.visited import VisitedStates

Given = VisitedStates | str | Path


@dataclass(frozen=True)
class PolicySet:
    """The policies of one store.

    Attributes
    ----------
    label : str
        Its name in tables: the path, or a number.
    environment : str
        Sets of one environment are averaged; the label where it is not known.
    visited : str
        A digest of states, actions and returns, which the draws follow from: not of the files,
        which tell where policies came from, and when, nor of what they are called.
    identity : str
        A digest of that and of the policies, which some methods look at.
    data : VisitedStates
        In the canonical order of the policies.
    path : Path or None
        The store, where there is one on disk.
    """

    label: str
    environment: str
    visited: str
    identity: str
    data: VisitedStates
    path: Path | None = None

    @property
    def mean_returns(self) -> NDArray[np.float64]:
        """Mean return of each policy over all its trajectories."""
        return self.data.mean_returns

    @property
    def fewest(self) -> int:
        """Trajectories of the policy that has the fewest."""
        return int(np.diff(self.data.policy_starts).min())


def policy_sets(
    stores: Given | Sequence[Given] | Mapping[str, Given], largest: int
) -> list[PolicySet]:
    """Open all stores; each must have ``largest`` trajectories of every policy.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0]], [[1.0]]]] * 3)
    >>> [one.label for one in policy_sets([data], largest=2)]
    ['set 1']
    """
    if isinstance(stores, Mapping):
        labels: list[str | None] = [str(label) for label in stores]
        given: list[Given] = list(stores.values())
    else:
        given = [stores] if isinstance(stores, VisitedStates | str | Path) else list(stores)
        labels = [None] * len(given)
    if not given:
        raise UsageError("expected at least one store of states to evaluate on, but got none")
    result = [
        _opened(one, label, number)
        for number, (one, label) in enumerate(zip(given, labels, strict=True), start=1)
    ]
    _check_different(result)
    for one in result:
        _check_size(one, largest)
    return result


def write_set(data: VisitedStates, folder: Path) -> Path:
    """Write states in memory as a store, so that another process can map them."""
    settings = {"environment": data.environment, "actions": data.has_actions, "policies": True}
    store = Store(folder, settings, data.feature_names)
    with store.writing():
        for record in data.records:
            store.add(record)
    return folder


def _opened(given: Given, label: str | None, number: int) -> PolicySet:
    if isinstance(given, VisitedStates):
        name = label or f"set {number}"
        data = given.select(canonical_order(given.policies))
        return PolicySet(name, data.environment or name, *_digests_of(data), data)
    if not isinstance(given, str | Path):
        raise UsageError(
            f"a store is a path or VisitedStates, but got {type(given).__name__}: use "
            "`pivec.collect` or `pivec.load`"
        )
    name = label or str(given)
    store = Store.find(given)
    data = store.load()
    data = data.select(canonical_order(data.policies))
    return PolicySet(name, data.environment or name, *_digests_of(data), data, store.path)


def _digests_of(data: VisitedStates) -> tuple[str, str]:
    """Digest what was visited, and that with the policies themselves."""
    digest = hashlib.sha256()
    facts: tuple[NDArray[Any], ...] = (
        data.episode_starts,
        data.policy_starts,
        data.returns,
        data.terminated,
        data.truncated,
    )
    for array in facts:
        digest.update(np.ascontiguousarray(array).data)
    for number in range(data.n_policies):
        digest.update(np.ascontiguousarray(data.policy_states(number)).data)
        if data.has_actions and (actions := data[number].actions) is not None:
            digest.update(np.ascontiguousarray(actions).data)
    visited = digest.hexdigest()
    for info in data.policies:
        _add_text(digest, (info.group, info.step, info.fingerprint))
    return visited, digest.hexdigest()


def _add_text(digest: Any, parts: Iterable[object]) -> None:
    for part in parts:
        digest.update(f"{part}\0".encode("utf-8", "backslashreplace"))


def _check_different(sets: Sequence[PolicySet]) -> None:
    for i, one in enumerate(sets):
        for other in sets[:i]:
            if one.label == other.label or one.identity == other.identity:
                raise UsageError(
                    f"the stores {other.label!r} and {one.label!r} are the same: give each set of "
                    "policies once"
                )


def _check_size(one: PolicySet, largest: int) -> None:
    n = one.data.n_policies
    if n < FEWEST_POLICIES:
        raise UsageError(
            f"{one.label} holds {n} {'policy' if n == 1 else 'policies'}, but an evaluation "
            f"compares distances of at least {FEWEST_POLICIES}: collect more policies"
        )
    if one.fewest < largest:
        counts = np.diff(one.data.policy_starts)
        policy = one.data.labels[int(counts.argmin())]
        raise UsageError(
            f"{one.label} has {one.fewest} trajectories of {policy!r}, but {largest} are to be "
            f"drawn of every policy: collect more into a new store, best {2 * largest} "
            f"(`pivec collect ENV POLICY... --episodes {2 * largest} --out STORE`), or ask for "
            f"sizes up to {one.fewest}"
        )
