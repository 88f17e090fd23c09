"""Recorded states beside policies: ``npz:DIR``, ``minari:NAME`` and ``store:DIR``.

They stand where a policy may, and are put into the store as they are; nobody acts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, PivecError, UsageError
from pivec.policies.formats import is_policy_file
from pivec.policies.policy import PolicyInfo
from pivec.reading import naming, open_regular
from pivec.rollouts import spaces
from pivec.rollouts.centring import is_wide, lost_features
from pivec.rollouts.episodes import Episode, EpisodesOfOne
from pivec.rollouts.features import feature_rows
from pivec.rollouts.settings import Features
from pivec.states.npz import feature_names, files_in, read_npz
from pivec.states.raw import RawEpisode
from pivec.states.record import PolicyRecord, record_of
from pivec.states.store import Store
from pivec.states.stored import StoreSource
from pivec.states.visited import VisitedStates

PREFIXES = ("npz:", "minari:", "store:")


@dataclass(frozen=True)
class Recorded:
    """Episodes of one policy that somebody recorded, not yet read.

    ``space`` is the space of the observations where it is known; ``is_flat`` tells that they are
    states already, which nothing is to turn into rows.
    """

    info: PolicyInfo
    space: Any
    environment: str
    names: tuple[str, ...] | None
    source: Any
    part: Any
    is_flat: bool = False

    def episodes(self) -> Iterator[RawEpisode]:
        """Read one episode after another."""
        source = self.info.source
        with naming(source, "recorded episodes", BadData):
            if isinstance(self.source, Path):
                yield from read_npz(self.source)
            else:
                yield from self.source.episodes(self.part)


def is_recorded(thing: object) -> bool:
    """Tell whether something a user names as a policy stands for recorded states."""
    return isinstance(thing, str) and thing.startswith(PREFIXES)


def split_recorded(policies: Any) -> tuple[Any, list[Recorded]]:
    """Separate recorded states from the policies that have to act.

    Minari datasets in a folder that is named as policies are found as well.
    """
    if isinstance(policies, Mapping):
        acting: dict[Any, Any] = {}
        found: list[Recorded] = []
        for label, thing in policies.items():
            acts, several = _split_one(thing)
            if acts:
                acting[label] = thing
            found += [_renamed(one, label, len(several) == 1 and not acts) for one in several]
        return acting, found
    if isinstance(policies, Sequence) and not isinstance(policies, str):
        parts = [(thing, *_split_one(thing)) for thing in policies]
        return [thing for thing, acts, _ in parts if acts], [one for *_, s in parts for one in s]
    acts, found = _split_one(policies)
    return (policies if acts else []), found


def _split_one(thing: Any) -> tuple[bool, list[Recorded]]:
    """Whether something a user names holds policies that act, and what recorded states it holds."""
    if isinstance(thing, str) and thing.startswith(PREFIXES):
        return False, find_recorded(thing)
    if not isinstance(thing, str | os.PathLike):
        return True, []
    folder = Path(thing).expanduser()
    if not folder.is_dir():
        return True, []
    from pivec.states.minari_data import datasets_in

    datasets = datasets_in(folder)
    found = [one for path in datasets for one in find_recorded(f"minari:{path}")]
    acts = not found or any(
        is_policy_file(path, named=False) for path in folder.rglob("*") if path.is_file()
    )
    return acts, found


def _renamed(one: Recorded, label: str, alone: bool) -> Recorded:
    return replace(
        one, info=replace(one.info, label=label if alone else f"{label}/{one.info.label}")
    )


def find_recorded(spec: str) -> list[Recorded]:
    """Find what ``npz:DIR``, ``minari:NAME`` or ``store:DIR`` stands for."""
    kind, _, where = spec.partition(":")
    if not where:
        raise UsageError(f"{spec!r} names no data: expected npz:DIR, minari:NAME or store:DIR")
    with naming(spec, "recorded episodes", BadData):
        return _find(kind, where)


def _find(kind: str, where: str) -> list[Recorded]:
    if kind == "npz":
        folder = Path(where).expanduser()
        files = files_in(folder)
        return [_of_file(path, folder) for path in files]
    if kind == "store":
        store = StoreSource(where)
        return [
            Recorded(info, None, store.environment, store.feature_names, store, label, is_flat=True)
            for info, label in store.policies()
        ]
    from pivec.states.minari_data import MinariSource

    dataset = MinariSource(where)
    return [
        Recorded(info, dataset.space, dataset.environment, None, dataset, part)
        for info, part in dataset.policies()
    ]


def read_recorded(
    recorded: Recorded,
    space: Any,
    features: Features | None,
    actions: bool,
    max_states: int | None,
    width: int | None = None,
) -> PolicyRecord:
    """Turn recorded episodes into states.

    Parameters
    ----------
    recorded : Recorded
    space : Space or None
        Flattens the observations; without one they are arrays of numbers already.
    features : callable or None
        Turns a batch of observations into rows instead.
    actions : bool
        Keep the actions, which must be there.
    max_states : int or None
        As for `pivec.collect`.
    width : int, optional
        How many values a state has to have.
    """
    label = recorded.info.label
    if recorded.is_flat:
        space = features = None
    kept = EpisodesOfOne(0, max_states)
    for number, raw in enumerate(recorded.episodes()):
        rows = _rows(raw.observations, space, features, f"{label}, episode {number}")
        if width is not None and rows.shape[1] != width:
            raise BadData(
                f"the recorded states of {label} have {rows.shape[1]} values, but those of the "
                f"environment have {width}: was it recorded in another environment?"
            )
        if not np.isfinite(rows).all():
            step, column = np.argwhere(~np.isfinite(rows))[0]
            raise BadData(
                f"step {step} of episode {number} of {label} has {rows[step, column]} in feature "
                f"{column}, but states must be finite: remove or mend it"
            )
        if actions and raw.actions is None:
            raise UsageError(
                f"the recorded episodes of {label} have no actions: collect without --actions"
            )
        moves = raw.actions[: len(rows) - 1] if actions and raw.actions is not None else None
        episode = Episode(rows, moves, raw.total_reward, raw.seed, raw.terminated, raw.truncated)
        for _ in range(kept.every.bit_length() - 1):
            episode.halve()
        kept.done.append(None)
        kept.put(number, episode)
        kept.thin()
    if not kept.done:
        raise BadData(f"{recorded.info.source} holds no episodes of {label}")
    return record_of(recorded.info, kept.all(), kept.every)


def import_recorded(
    specs: Sequence[str],
    store: str | Path,
    *,
    environment: str = "",
    actions: bool | None = None,
    max_states_per_policy: int | None = None,
) -> VisitedStates:
    """Put recorded states into a store of their own, with no environment to make.

    Parameters
    ----------
    specs : sequence of str
        ``npz:DIR``, ``minari:NAME`` and ``store:DIR``.
    store : path
        The folder to write.
    environment : str
        The id of the environment; that of the Minari dataset if not given.
    actions : bool, optional
        Keep the actions; by default if every policy has them.
    max_states_per_policy : int, optional
        As for `pivec.collect`.
    """
    found = [one for spec in specs for one in find_recorded(spec)]
    if not found:
        raise UsageError(
            "expected at least one of npz:DIR, minari:NAME and store:DIR, but none is given"
        )
    check_unique([one.info.label for one in found])
    first = found[0]
    if actions is None:
        actions = all(next(one.episodes()).actions is not None for one in found)
    probe = _rows(next(first.episodes()).observations, first.space, None, first.info.label)
    names = first.names or (
        tuple(f"x[{i}]" for i in range(probe.shape[1]))
        if first.space is None
        else spaces.feature_names(first.space)
    )
    name = environment or first.environment
    settings = {
        "environment": name,
        "arguments": {},
        "backend": "recorded",
        "actions": actions,
        "max_states_per_policy": max_states_per_policy,
    }
    kept = Store(store, settings, names)
    with kept.writing():
        kept.claim([one.info for one in found])
        for one in found:
            if not holds(kept, one.info):
                kept.add(
                    read_recorded(one, one.space, None, actions, max_states_per_policy, len(names))
                )
        kept.reorder([one.info.label for one in found])
    return kept.load([one.info.label for one in found])


def holds(store: Store, info: PolicyInfo) -> bool:
    """Whether these very states are there: the label, and the same policy behind it."""
    return info.label in store and store.fingerprint(info.label) == info.fingerprint


def check_unique(labels: Sequence[str]) -> None:
    """Refuse two policies of one name."""
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise UsageError(
                f"two policies are called {label!r}: give one of them another name (from Python "
                "with a dict), or move its file"
            )
        seen.add(label)


def _rows(observations: Any, space: Any, features: Features | None, where: str) -> Any:
    try:
        if features is not None:
            rows = feature_rows(features, observations)
        elif space is not None:
            rows = spaces.flatten(space, observations)
        else:
            array = np.asarray(observations)
            if array.dtype.kind not in "biuf":
                raise BadData(f"states must be numbers, but are {array.dtype}")
            wide = array.reshape(len(array), -1)
            _check_spread(wide)
            rows = wide.astype(np.float32)
    except PivecError as error:
        raise type(error)(f"{where}: {error}") from error
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise BadData(f"{where}: the observations do not fit the environment: {error}") from error
    if rows.ndim != 2 or not len(rows):
        raise BadData(f"{where}: expected one row of numbers for each step, got {rows.shape}")
    return rows


def _check_spread(rows: NDArray[Any]) -> None:
    """Refuse features so far from zero that float32 would lose their spread."""
    if not is_wide(rows.dtype) or not len(rows) or not np.isfinite(rows).all():
        return
    low, high = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
    for column, offset in lost_features(low, high).items():
        raise BadData(
            f"feature {column} lies within {high[column] - low[column]:.3g} of "
            f"{offset:.10g}, closer than float32 can tell apart: subtract an offset first"
        )


def _of_file(path: Path, folder: Path) -> Recorded:
    inner = path.relative_to(folder) if path != folder else Path(path.name)
    label = inner.with_suffix("").as_posix()
    group = inner.parent.as_posix() if inner.parent != Path() else folder.stem
    try:
        with open_regular(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    info = PolicyInfo(label, group, None, f"npz:{path}", {}, digest)
    return Recorded(info, None, "", feature_names(path), path, None)
