"""Recorded states beside policies, or alone: files, ``npz:DIR``, ``minari:NAME``, ``store:DIR``.

They stand where a policy may, and are put into the store as they are; nobody acts.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pivec.atomic import is_uri
from pivec.errors import BadData, PivecError, UsageError
from pivec.options import Features, TableOptions
from pivec.policies.formats import is_policy_file
from pivec.reading import naming
from pivec.rollouts import spaces
from pivec.rollouts.episodes import PolicyEpisodes
from pivec.rollouts.features import feature_rows
from pivec.states.arrays import content_digest, lost_offsets
from pivec.states.files import find_files, is_recording
from pivec.states.folder import shown_place
from pivec.states.minari_data import datasets_in, find_minari
from pivec.states.record import (
    PolicyRecord,
    Recorded,
    check_finite,
    feature_called,
    record_of,
)
from pivec.states.store import Store
from pivec.states.tables import is_frame
from pivec.states.visited import VisitedStates

EXPECTED = "a table or array file, a folder of them, npz:DIR, minari:NAME or store:DIR"


def _find_store(where: str, _: TableOptions) -> list[Recorded]:
    """The policies of another store, or of a comparison."""
    store = Store.find(where if is_uri(where) else Path(where).expanduser())
    return [replace(x, collected=store.settings) for x in recorded_in(store.load())]


def recorded_in(data: VisitedStates) -> list[Recorded]:
    """Give the policies of data as they are; a fingerprint is the digest of the states.

    That of a policy would stay the same while it plays other episodes.
    """
    return [
        Recorded(
            replace(
                record.info, fingerprint=content_digest(record.episodes, *record.read_arrays())
            ),
            record.as_episodes,
            environment=data.environment,
            names=data.feature_names,
            is_flat=True,
            has_actions=record.has_actions,
        )
        for record in data.records
    ]


_FINDERS: dict[str, Callable[[str, TableOptions], list[Recorded]]] = {
    "npz:": partial(find_files, suffixes=frozenset({".npz"})),
    "table:": find_files,
    "minari:": lambda name, _: find_minari(name),
    "store:": _find_store,
}


def is_recorded(thing: object) -> bool:
    """Tell whether something that a user gives as a policy stands for recorded states."""
    if not isinstance(thing, str | os.PathLike):
        data = VisitedStates | Recorded
        return isinstance(thing, data) or is_frame(thing) or _is_episodes(thing)
    text = os.fspath(thing)
    if text.startswith(tuple(_FINDERS)):
        return True
    if is_uri(text):
        return Store.exists(text)
    path = Path(text).expanduser()
    with contextlib.suppress(OSError, ValueError):  # of names that are no paths
        if path.is_dir():
            return Store.exists(path) or _is_comparison(path)
        files = [path] if path.is_file() else map(Path, glob.glob(str(path), recursive=True))
        kinds = [is_recording(file) for file in files]
        return bool(kinds) and all(kinds)
    return False


def _is_comparison(folder: Path) -> bool:
    """Tell whether a folder holds states of a comparison, and no policies beside them."""
    if not Store.exists(folder / "states"):
        return False
    beside = (path for path in folder.rglob("*") if path.relative_to(folder).parts[0] != "states")
    return not any(is_policy_file(path, named=False) for path in beside if path.is_file())


def _is_episodes(thing: object) -> bool:
    """Tell whether something is episodes of one policy, as arrays."""
    if isinstance(thing, np.ndarray):
        return thing.ndim == 3
    return isinstance(thing, list) and all(isinstance(part, np.ndarray) for part in thing)


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


def find_recorded(spec: Any, options: TableOptions | None = None) -> list[Recorded]:
    """Find what ``npz:DIR``, ``minari:NAME``, ``store:DIR``, a file or data in memory stands for.

    ``options`` tell what the columns of tables mean, where their names do not.
    """
    chosen = options or TableOptions()
    if isinstance(spec, Recorded):
        return [spec]
    if isinstance(spec, VisitedStates):
        return recorded_in(spec)
    if is_frame(spec):
        return recorded_in(VisitedStates.from_pandas(spec, **vars(chosen)))
    if _is_episodes(spec):
        return recorded_in(VisitedStates.from_arrays([spec]))
    text = os.fspath(spec)
    if not text.startswith(tuple(_FINDERS)):
        is_store = Path(text).expanduser().is_dir() and is_recorded(text)
        text = f"{'store' if is_store else 'table'}:{text}"
    kind, colon, where = text.partition(":")
    if not where:
        raise UsageError(f"{spec!r} names no data: expected {EXPECTED}")
    with naming(kind + colon + shown_place(where), "recorded episodes", BadData):
        return _FINDERS[kind + colon](where, chosen)


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
        rows = rows_of(episode.states, space, features, where, recorded.names)
        if rows.shape[1] != width:
            raise BadData(
                f"the recorded states of {label} have {rows.shape[1]} values, but those of the "
                f"environment have {width}: was it recorded in another environment?"
            )
        check_finite(rows, where, recorded.names)
        if actions and episode.actions is None:
            raise UsageError(
                f"the recorded episodes of {label} have no actions: collect without --actions"
            )
        moves = None if episode.actions is None else episode.actions[: len(rows) - 1]
        seed = episode.seed if 0 <= episode.seed < 2**63 else -1
        kept.append(replace(episode, states=rows, actions=moves if actions else None, seed=seed))
    if not len(kept):
        raise BadData(f"{recorded.info.source} holds no episodes of {label}")
    record = record_of(recorded.info, kept.all(), kept.every)
    if record.info.fingerprint:
        return record
    digest = content_digest(record.episodes, *record.read_arrays())
    return replace(record, info=replace(record.info, fingerprint=digest))


def rows_of(
    observations: Any,
    space: Any,
    features: Features | None,
    where: str,
    names: Sequence[str] | None = None,
) -> Any:
    """Turn observations into states, (n_steps, n_values); ``where`` says whose they are."""
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
                name = feature_called(column, names)
                raise BadData(
                    f"feature {name} lies closer to {offset:.10g} than float32 can tell apart: "
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
