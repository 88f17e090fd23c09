"""Building VisitedStates from plain arrays, with every mistake named."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import BadData, UsageError
from pivec.policies.policy import PolicyInfo
from pivec.rollouts.centring import Offsets, is_wide, lost_features, moved_names
from pivec.states.chunks import Arrays
from pivec.states.visited import VisitedStates


def from_arrays(
    policies: Sequence[Sequence[ArrayLike]],
    labels: Sequence[str] | None,
    groups: Sequence[str] | None,
    returns: Sequence[ArrayLike] | None,
    steps: Sequence[int | None] | None,
    actions: Sequence[Sequence[ArrayLike]] | None,
    feature_names: Sequence[str] | None,
    environment: str,
) -> VisitedStates:
    """Build a `VisitedStates`; see `VisitedStates.from_arrays`."""
    n = len(policies)
    if n == 0:
        raise BadData("expected at least one policy, but the list is empty")
    for name, values in (
        ("labels", labels),
        ("groups", groups),
        ("returns", returns),
        ("steps", steps),
        ("actions", actions),
    ):
        if values is not None and len(values) != n:
            raise UsageError(f"{name} needs one entry for each of {n} policies, has {len(values)}")
    names = list(labels) if labels is not None else [f"policy-{i}" for i in range(n)]
    # One array for all: filled in place, so that nothing is held twice.
    shapes = [
        [_shape(episode, names[i], e) for e, episode in enumerate(episodes)]
        for i, episodes in enumerate(policies)
    ]
    for i, some in enumerate(shapes):
        if not some:
            raise BadData(f"{names[i]} has no episodes: give each policy at least one")
    width = shapes[0][0][1]
    lengths = np.array([length for some in shapes for length, _ in some])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.empty((int(starts[-1]), width), dtype=np.float32)
    offsets = _offsets(policies, shapes, width)
    at = 0
    for i, episodes in enumerate(policies):
        for e, episode in enumerate(episodes):
            if shapes[i][e][1] != width:
                raise BadData(
                    f"episode {e} of {names[i]} has {shapes[i][e][1]} features, but the first "
                    f"episode has {width}: all states need the same"
                )
            flat[at : at + shapes[i][e][0]] = _moved(episode, offsets)
            _check_finite(flat[at : at + shapes[i][e][0]], names[i], e)
            at += shapes[i][e][0]
    policy_starts = np.concatenate([[0], np.cumsum([len(some) for some in shapes])])
    moves = (
        None if actions is None else [_moves(names[i], a, shapes[i]) for i, a in enumerate(actions)]
    )
    cuts = starts[policy_starts]
    chunks: list[Arrays] = [
        (flat[cuts[i] : cuts[i + 1]], None if moves is None else moves[i]) for i in range(n)
    ]
    total = len(lengths)
    rewards = _returns(returns, shapes, names)
    data = VisitedStates(
        chunks,
        starts,
        policy_starts,
        [
            PolicyInfo(
                str(names[i]),
                str(groups[i]) if groups is not None else "",
                None if steps is None or steps[i] is None else int(steps[i] or 0),
                fingerprint=_digest(
                    lengths[slice(*policy_starts[i : i + 2])],
                    rewards[slice(*policy_starts[i : i + 2])],
                    *chunks[i],
                ),
            )
            for i in range(n)
        ],
        returns=rewards,
        seeds=np.full(total, -1),
        terminated=np.zeros(total, dtype=bool),
        truncated=np.zeros(total, dtype=bool),
        feature_names=moved_names(_feature_names(feature_names, width), offsets),
        environment=environment,
        has_actions=moves is not None,
    )
    flat.flags.writeable = False
    data._flat = flat
    return data


def _digest(*arrays: NDArray[Any] | None) -> str:
    """Digest all that is known of a policy: what stands for its fingerprint."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is not None:
            digest.update(f"{array.dtype} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _shape(episode: ArrayLike, label: str, number: int) -> tuple[int, int]:
    shape = np.shape(episode)
    if len(shape) != 2 or shape[1] == 0:
        raise BadData(
            f"episode {number} of {label} must be an array of shape (n_steps, n_features), but "
            f"has shape {shape}"
        )
    if shape[0] == 0:
        raise BadData(f"episode {number} of {label} is empty: leave it out")
    return shape[0], shape[1]


def _offsets(
    policies: Sequence[Sequence[ArrayLike]], shapes: list[list[tuple[int, int]]], width: int
) -> Offsets:
    """Find features so far from zero that float32 would lose their spread."""
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    for some, episodes in zip(shapes, policies, strict=True):
        for shape, episode in zip(some, episodes, strict=True):
            rows = np.asarray(episode)
            if not is_wide(rows.dtype) or shape[1] != width:
                return {}
            np.minimum(low, rows.min(axis=0), out=low)
            np.maximum(high, rows.max(axis=0), out=high)
    return lost_features(low, high) if np.isfinite([low, high]).all() else {}


def _moved(episode: ArrayLike, offsets: Offsets) -> ArrayLike:
    if not offsets:
        return episode
    rows = np.array(episode, dtype=np.float64)
    for column, offset in offsets.items():
        rows[:, column] -= offset
    return rows


def _check_finite(states: NDArray[np.float32], label: str, number: int) -> None:
    if np.isfinite(states).all():
        return
    row, column = np.argwhere(~np.isfinite(states))[0]
    raise BadData(
        f"row {row} of episode {number} of {label} has {states[row, column]} in feature {column}, "
        "but states must be finite (within float32): remove or mend it"
    )


def _moves(
    label: str, episodes: Sequence[ArrayLike], shapes: list[tuple[int, int]]
) -> NDArray[Any]:
    arrays = [np.asarray(episode) for episode in episodes]
    wanted = [length - 1 for length, _ in shapes]
    if [len(array) for array in arrays] != wanted:
        raise BadData(
            f"{label} needs one action fewer than states in each episode ({wanted[:5]}...), but "
            f"has {[len(array) for array in arrays][:5]}..."
        )
    return np.concatenate(arrays)


def _returns(
    returns: Sequence[ArrayLike] | None, shapes: list[list[tuple[int, int]]], names: list[str]
) -> NDArray[np.float64]:
    if returns is None:
        return np.full(sum(len(some) for some in shapes), np.nan)
    rows = []
    for label, given, some in zip(names, returns, shapes, strict=True):
        row = np.asarray(given, dtype=np.float64)
        if row.shape not in ((), (len(some),)):
            raise UsageError(
                f"returns of {label} must be one number, or one for each of its {len(some)} "
                f"episodes, but have shape {row.shape}"
            )
        rows.append(np.broadcast_to(row, len(some)))
    return np.concatenate(rows)


def _feature_names(names: Sequence[str] | None, width: int) -> Sequence[str]:
    if names is None:
        return [f"x[{i}]" for i in range(width)]
    if len(names) != width:
        raise UsageError(f"feature_names needs {width} names, one a feature, but has {len(names)}")
    return list(names)
