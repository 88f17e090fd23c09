"""Recorded states beside policies: ``npz:DIR``, ``minari:NAME`` and ``store:DIR``.

They stand where a policy may, and are put into the store as they are; nobody acts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pivec.atomic import is_uri
from pivec.errors import BadData, PivecError, UsageError
from pivec.options import Features
from pivec.policies.formats import is_policy_file
from pivec.reading import naming
from pivec.rollouts import spaces
from pivec.rollouts.episodes import PolicyEpisodes
from pivec.rollouts.features import feature_rows
from pivec.states.arrays import lost_offsets
from pivec.states.folder import shown_place
from pivec.states.minari_data import datasets_in, find_minari
from pivec.states.npz import find_npz
from pivec.states.record import (
    PolicyRecord,
    Recorded,
    check_finite,
    check_unique,
    names_of,
    record_of,
)
from pivec.states.store import Store
from pivec.states.visited import VisitedStates


def _find_store(where: str) -> list[Recorded]:
    """The policies of another store; a fingerprint is the checksum of the states."""
    store = Store.find(where if is_uri(where) else Path(where).expanduser())
    data = store.load()
    return [
        Recorded(
            replace(record.info, fingerprint=str(store.rows[record.info.label]["sha256"])),
            record.as_episodes,
            environment=data.environment,
            names=data.feature_names,
            is_flat=True,
        )
        for record in data.records
    ]


_FINDERS: dict[str, Callable[[str], list[Recorded]]] = {
    "npz:": find_npz,
    "minari:": find_minari,
    "store:": _find_store,
}


def is_recorded(thing: object) -> bool:
    """Tell whether something a user names as a policy stands for recorded states."""
    return isinstance(thing, str) and thing.startswith(tuple(_FINDERS))


def split_recorded(policies: Any) -> tuple[Any, list[Recorded]]:
    """Separate recorded states from the policies that have to act.

    Minari datasets in a folder that is named as policies are found as well.
    """
    if isinstance(policies, Mapping):
        acting: dict[Any, Any] = {}
        recorded: list[Recorded] = []
        for label, thing in policies.items():
            acts, sources = _split(thing)
            if acts:
                acting[label] = thing
            alone = len(sources) == 1 and not acts
            for source in sources:
                name = label if alone else f"{label}/{source.info.label}"
                recorded.append(replace(source, info=replace(source.info, label=name)))
        return acting, recorded
    if isinstance(policies, Sequence) and not isinstance(policies, str):
        parts = [(thing, *_split(thing)) for thing in policies]
        remaining = [thing for thing, acts, _ in parts if acts]
        return remaining, [source for *_, sources in parts for source in sources]
    acts, recorded = _split(policies)
    return (policies if acts else []), recorded


def _split(thing: Any) -> tuple[bool, list[Recorded]]:
    """Whether something a user names holds policies that act, and what recorded states it holds."""
    if is_recorded(thing):
        return False, find_recorded(thing)
    folder = Path(thing).expanduser() if isinstance(thing, str | os.PathLike) else None
    if folder is None or not folder.is_dir():
        return True, []
    recorded = [
        source for path in datasets_in(folder) for source in find_recorded(f"minari:{path}")
    ]
    acts = not recorded or any(
        is_policy_file(path, named=False) for path in folder.rglob("*") if path.is_file()
    )
    return acts, recorded


def find_recorded(spec: str) -> list[Recorded]:
    """Find what ``npz:DIR``, ``minari:NAME`` or ``store:DIR`` stands for."""
    kind, colon, where = spec.partition(":")
    if not where:
        raise UsageError(f"{spec!r} names no data: expected npz:DIR, minari:NAME or store:DIR")
    with naming(kind + colon + shown_place(where), "recorded episodes", BadData):
        return _FINDERS[kind + colon](where)


def read_recorded(
    recorded: Recorded,
    space: Any,
    features: Features | None,
    actions: bool,
    max_states: int | None,
    width: int,
) -> PolicyRecord:
    """Turn recorded episodes into states of ``width`` values.

    ``space`` flattens the observations, or ``features`` turns them into rows; without either they
    are arrays of numbers already. ``actions`` must be there if they are to be kept.
    """
    label = recorded.info.label
    if recorded.is_flat:
        space = features = None
    kept = PolicyEpisodes(max_states)
    for number, episode in enumerate(recorded.episodes()):
        where = f"episode {number} of {label}"
        rows = _rows(episode.states, space, features, where)
        if rows.shape[1] != width:
            raise BadData(
                f"the recorded states of {label} have {rows.shape[1]} values, but those of the "
                f"environment have {width}: was it recorded in another environment?"
            )
        check_finite(rows, where)
        if actions and episode.actions is None:
            raise UsageError(
                f"the recorded episodes of {label} have no actions: collect without --actions"
            )
        moves = None if episode.actions is None else episode.actions[: len(rows) - 1]
        seed = episode.seed if 0 <= episode.seed < 2**63 else -1
        kept.append(replace(episode, states=rows, actions=moves if actions else None, seed=seed))
    if not len(kept):
        raise BadData(f"{recorded.info.source} holds no episodes of {label}")
    return record_of(recorded.info, kept.all(), kept.every)


def import_recorded(
    specs: Sequence[str],
    store: str | Path,
    *,
    environment: str = "",
    max_states_per_policy: int | None = None,
) -> VisitedStates:
    """Put recorded states into a store of their own, with no environment to make.

    ``specs`` are ``npz:DIR``, ``minari:NAME`` and ``store:DIR``. Actions are kept if every policy
    has them; the environment is that of the Minari dataset if not given.
    """
    sources = [source for spec in specs for source in find_recorded(spec)]
    if not sources:
        raise UsageError(
            "expected at least one of npz:DIR, minari:NAME and store:DIR, but none is given"
        )
    labels = [source.info.label for source in sources]
    check_unique(labels)
    first = sources[0]
    actions = all(next(source.episodes()).actions is not None for source in sources)
    probe = _rows(next(first.episodes()).states, first.space, None, first.info.label)
    known = spaces.feature_names(first.space) if first.space is not None else None
    names = names_of(first.names or known, probe.shape[1])
    settings = {
        "environment": environment or first.environment,
        "arguments": {},
        "backend": "recorded",
        "actions": actions,
        "max_states_per_policy": max_states_per_policy,
    }
    kept = Store(store, settings, names)
    with kept.writing():
        kept.claim([source.info for source in sources])
        for source in sources:
            if not kept.holds(source.info):
                kept.add(
                    read_recorded(
                        source, source.space, None, actions, max_states_per_policy, len(names)
                    )
                )
        kept.reorder(labels)
    return kept.load(labels)


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
            for column, offset in lost_offsets([wide]).items():
                raise BadData(
                    f"feature {column} lies closer to {offset:.10g} than float32 can tell apart: "
                    "subtract an offset first"
                )
            rows = wide.astype(np.float32)
    except PivecError as error:
        raise type(error)(f"{where}: {error}") from error
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise BadData(f"{where}: the observations do not fit the environment: {error}") from error
    if rows.ndim != 2 or not len(rows):
        raise BadData(f"{where}: expected one row of numbers for each step, got {rows.shape}")
    return rows
