"""Building VisitedStates from plain arrays, with every mistake named."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import BadData, UsageError
from pivec.policies import PolicyInfo
from pivec.rollouts import Offsets, is_wide, lost_features, offset_names
from pivec.states.record import EPISODE, PolicyRecord, check_finite, names_of, starts_of
from pivec.states.visited import VisitedStates


def from_arrays(
    policies: Mapping[str, Sequence[ArrayLike]] | Sequence[Sequence[ArrayLike]],
    labels: Sequence[str] | None,
    groups: Sequence[str] | None,
    returns: Sequence[ArrayLike] | None,
    steps: Sequence[int | None] | None,
    actions: Sequence[Sequence[ArrayLike]] | None,
    feature_names: Sequence[str] | None,
    environment: str,
) -> VisitedStates:
    """Build a `VisitedStates`; see `VisitedStates.from_arrays`."""
    if isinstance(policies, Mapping):
        if labels is not None:
            raise UsageError("labels are the keys of the dict already: leave labels out")
        labels, policies = list(policies), list(policies.values())
    n = len(policies)
    if n == 0:
        raise BadData("expected at least one policy, but the list is empty")
    names = ("labels", "groups", "returns", "steps", "actions")
    for name, values in zip(names, (labels, groups, returns, steps, actions), strict=True):
        if values is not None and len(values) != n:
            raise UsageError(f"{name} needs one entry for each of {n} policies, has {len(values)}")
    labels = [f"policy-{i}" for i in range(n)] if labels is None else list(map(str, labels))
    width = np.shape(policies[0][0])[-1:] if len(policies[0]) else ()
    lengths = [_lengths(*pair, width) for pair in zip(policies, labels, strict=True)]
    offsets = lost_offsets(episode for episodes in policies for episode in episodes)
    flat = _filled(policies, labels, offsets, (sum(map(sum, lengths)), *width))
    cuts = starts_of([sum(counts) for counts in lengths])
    records = []
    for i, (label, counts) in enumerate(zip(labels, lengths, strict=True)):
        rows = np.zeros(len(counts), dtype=EPISODE)
        rows["length"], rows["seed"] = counts, -1
        rows["return"] = np.nan if returns is None else _returns(returns[i], label, len(counts))
        moves = None if actions is None else _moves(actions[i], label, counts)
        states = flat[cuts[i] : cuts[i + 1]]
        step = None if steps is None else steps[i]
        info = PolicyInfo(
            label,
            "" if groups is None else str(groups[i]),
            None if step is None else int(step),
            fingerprint=content_digest(rows, states, moves),
        )
        records.append(PolicyRecord.in_memory(info, rows, (states, moves)))
    features = offset_names(names_of(feature_names, flat.shape[1]), offsets)
    return VisitedStates(records, features, environment, states=flat)


def check_states(thing: Any, *others: type) -> None:
    """Refuse what is no `VisitedStates`, and say how to make them of it.

    Examples
    --------
    >>> check_states(np.zeros((3, 2)))
    Traceback (most recent call last):
    ...
    pivec.errors.UsageError: expected VisitedStates, but got ndarray: make states with ...
    """
    if isinstance(thing, (VisitedStates, *others)):
        return
    way = 'VisitedStates.from_arrays({"label": [states of an episode, ...]})'
    if hasattr(thing, "columns") or hasattr(thing, "column_names"):
        way = "VisitedStates.from_pandas(frame)"
    elif isinstance(thing, str | os.PathLike):
        way = "pivec.load(path), or of a table with `pivec import`"
    kind = type(thing).__name__
    expected = " or ".join(["VisitedStates", *(other.__name__ for other in others)])
    raise UsageError(f"expected {expected}, but got {kind}: make states with {way}")


def _lengths(episodes: Sequence[ArrayLike], label: str, width: tuple[int, ...]) -> list[int]:
    """States of each episode of one policy."""
    if not len(episodes):
        raise BadData(f"{label} has no episodes: give each policy at least one")
    lengths = []
    for number, episode in enumerate(episodes):
        shape = np.shape(episode)
        if len(shape) != 2 or shape[1] == 0:
            raise BadData(
                f"episode {number} of {label} must be an array of shape (n_steps, n_features), but "
                f"has shape {shape}"
            )
        if shape[0] == 0:
            raise BadData(f"episode {number} of {label} is empty: leave it out")
        if shape[1:] != width:
            raise BadData(
                f"episode {number} of {label} has {shape[1]} features, but the first episode has "
                f"{width[0]}: all states need the same"
            )
        lengths.append(shape[0])
    return lengths


def lost_offsets(episodes: Iterable[ArrayLike]) -> Offsets:
    """Find features so far from zero that float32 would lose their spread."""
    low, high = np.array(np.inf), np.array(-np.inf)
    for episode in episodes:
        rows = np.asarray(episode)
        if not is_wide(rows.dtype) or not len(rows):
            return {}
        low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    return lost_features(low, high) if np.isfinite([low, high]).all() else {}


def _filled(
    policies: Sequence[Sequence[ArrayLike]],
    labels: Sequence[str],
    offsets: Offsets,
    shape: tuple[int, ...],
) -> NDArray[np.float32]:
    """Fill one array with all states in place, so that nothing is held twice."""
    flat = np.empty(shape, dtype=np.float32)
    begin = 0
    for label, episodes in zip(labels, policies, strict=True):
        for number, episode in enumerate(episodes):
            rows = np.array(episode, dtype=np.float64) if offsets else np.asarray(episode)
            for column, offset in offsets.items():
                rows[:, column] -= offset
            states = flat[begin : begin + len(rows)]
            states[:] = rows
            check_finite(states, f"episode {number} of {label}")
            begin += len(rows)
    flat.flags.writeable = False
    return flat


def content_digest(episodes: NDArray[Any], states: NDArray[Any], moves: NDArray[Any] | None) -> str:
    """Digest all that is known of a policy: what stands for its fingerprint."""
    digest = hashlib.sha256()
    for array in (episodes["length"], episodes["return"], states, moves):
        if array is not None:
            digest.update(f"{array.dtype} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _moves(episodes: Sequence[ArrayLike], label: str, lengths: list[int]) -> NDArray[Any]:
    arrays = [np.asarray(episode) for episode in episodes]
    counts, wanted = [len(array) for array in arrays], [length - 1 for length in lengths]
    if counts != wanted:
        raise BadData(
            f"{label} needs one action fewer than states in each episode, {wanted[:5]} and so on, "
            f"but has {counts[:5]}"
        )
    return np.concatenate(arrays)


def _returns(values: ArrayLike, label: str, n: int) -> NDArray[np.float64]:
    returns = np.asarray(values, dtype=np.float64)
    if returns.shape not in ((), (n,)):
        raise UsageError(
            f"returns of {label} must be one number, or one for each of its {n} episodes, but have "
            f"shape {returns.shape}"
        )
    return returns
