"""Batches of observations as rows of numbers, in the order of Gymnasium's own `flatten`.

Far from zero float32 is coarse: near 1e9 neighbouring values are 64 apart, so 1e9 - 1 and 1e9 + 1
would be the same state. Such features are shifted before they are cast, and their names give the
offset: ``x[0] - 1e+09``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pivec.errors import BadData, UsageError
from pivec.policies import is_text

FAR = 1e5  # below it float32 has steps finer than a hundredth
_LEVELS = 256  # that many steps of float32 within a feature's spread are enough
_NOISE = 1024  # a spread of fewer steps of float64 is rounding
Offsets = dict[int, float]
_NUMBERS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def feature_names(space: spaces.Space[Any], prefix: str = "") -> tuple[str, ...]:
    """Name each number of a flattened observation: ``x[0]``, ``mode=1``, ``arm.joint[0]``."""
    name = prefix or "x"
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        places = np.ndindex(*space.shape)
        return tuple(f"{name}[{','.join(map(str, i))}]" if i else name for i in places)
    if isinstance(space, spaces.Discrete):
        return tuple(f"{name}={int(space.start) + i}" for i in range(int(space.n)))
    if isinstance(space, spaces.MultiDiscrete):
        ranges = zip(space.nvec.ravel(), np.asarray(space.start).ravel(), strict=True)
        return tuple(
            f"{name}[{j}]={int(start) + i}"
            for j, (count, start) in enumerate(ranges)
            for i in range(int(count))
        )
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        raise UsageError(
            f"observations of type {type(space).__name__} have no fixed length; expected Box, "
            "Discrete, MultiDiscrete, MultiBinary, Dict or Tuple: convert them with features="
        )
    return tuple(
        name
        for key, part in _parts(space)
        if not is_text(part)
        for name in feature_names(part, f"{prefix}.{key}" if prefix else str(key))
    )


def _parts(space: Any) -> list[tuple[Any, spaces.Space[Any]]]:
    """Parts of a Dict or Tuple space by key or index."""
    inner = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    return list(inner)


def text_parts(space: spaces.Space[Any]) -> list[str]:
    """Name the parts of observations that are text, which states leave out."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return []
    names = []
    for key, part in _parts(space):
        names += [str(key)] if is_text(part) else [f"{key}.{name}" for name in text_parts(part)]
    return names


def flatten(space: spaces.Space[Any], batch: Any, dtype: Any = np.float32) -> NDArray[Any]:
    """Turn a batch of elements of ``space`` into rows: Box flattened, Discrete one-hot, no text.

    An element outside of the space is an error with its row as ``lane``.
    """
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        array = np.asarray(batch)
        rows = array.reshape(len(array), -1)
        if rows.shape[1] != math.prod(space.shape):
            raise BadData(
                f"observations have {rows.shape[1]} values, but those of the environment have "
                f"{math.prod(space.shape)}"
            )
        return rows.astype(dtype, copy=False)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        array = np.asarray(batch)
        check_elements(space, array, "the observation")
        columns = (array - space.start).reshape(len(array), -1).T
        ranges = map(np.arange, np.ravel(_counts(space)))
        parts = [
            (column[:, None] == values).astype(dtype)
            for column, values in zip(columns, ranges, strict=True)
        ]
    else:
        numeric = [(key, part) for key, part in _parts(space) if not is_text(part)]
        parts = [flatten(part, batch[key], dtype) for key, part in numeric]
    return np.concatenate(parts, axis=1)


def check_elements(
    space: spaces.Space[Any], batch: NDArray[Any], what: str, lanes: NDArray[np.intp] | None = None
) -> None:
    """Refuse rows that are not elements of ``space``: not finite, not whole, or out of range.

    The bounds of a Box are not checked: environments clip, and many observe beyond them.
    """
    if isinstance(space, spaces.Box):
        fits = np.isfinite(batch)
    elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        fits = (batch >= space.start) & (batch < space.start + _counts(space))
    else:
        fits = (batch >= 0) & (batch <= 1)
    if batch.dtype.kind == "f" and np.issubdtype(space.dtype, np.integer):
        fits &= batch == np.floor(batch)
    if fits.all():
        return
    row = int(np.flatnonzero(~fits.reshape(len(fits), -1).all(axis=1))[0])
    error = BadData(f"{what} {batch[row].tolist()!r} is not one of {space}")
    error.lane = row if lanes is None else int(lanes[row])
    raise error


def assign(batch: Any, row: int, element: Any) -> None:
    """Write one element of a space into a row of a batch made by `empty_batch`, never broadcast."""
    if isinstance(batch, dict):
        for key, part in batch.items():
            assign(part, row, element[key])
    elif isinstance(batch, tuple):
        for part, piece in zip(batch, element, strict=True):
            assign(part, row, piece)
    elif batch.dtype.hasobject:
        batch[row] = element
    else:
        array = np.asarray(element)
        if array.shape != batch.shape[1:] or array.dtype.kind not in "biuf":
            raise BadData(
                f"an observation has shape {array.shape} and type {array.dtype}, but the space "
                f"has shape {batch.shape[1:]} and type {batch.dtype}"
            )
        with np.errstate(invalid="ignore"):  # NaN has no integer
            batch[row] = array
        if batch.dtype.kind != "f" and not np.array_equal(batch[row], array):
            raise BadData(
                f"the observation {array.tolist()!r} does not fit a space of type {batch.dtype}"
            )


def pick(batch: Any, rows: Any) -> Any:
    """Take rows (an index array or a slice) of a batch of any kind."""
    if isinstance(batch, dict):
        return {key: pick(part, rows) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(pick(part, rows) for part in batch)
    return batch[rows]


def equal(a: Any, b: Any) -> bool:
    """Whether two batches of the same space are equal; objects are not compared."""
    if isinstance(a, dict | tuple):
        keys = a if isinstance(a, dict) else range(len(a))
        return all(equal(a[key], b[key]) for key in keys)
    return bool(a.dtype.hasobject or np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def batch_length(batch: Any) -> int:
    """Count the elements of a batch of any kind."""
    while isinstance(batch, dict | tuple):
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    return len(batch)


def empty_batch(space: spaces.Space[Any], n: int) -> Any:
    """Allocate ``n`` elements of ``space``: an array, or a dict or tuple of arrays."""
    if isinstance(space, spaces.Dict):
        return {key: empty_batch(part, n) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(empty_batch(part, n) for part in space.spaces)
    if not isinstance(space, _NUMBERS):
        # Texts, graphs and the like, which only features= can read; filled with valid elements.
        batch = np.empty(n, dtype=object)
        batch[:] = [space.sample()] * n
        return batch
    return np.zeros((n, *(space.shape or ())), dtype=space.dtype)


def _counts(space: spaces.Discrete | spaces.MultiDiscrete) -> Any:
    return space.n if isinstance(space, spaces.Discrete) else space.nvec


def lost_features(low: NDArray[np.float64], high: NDArray[np.float64]) -> Offsets:
    """Find columns whose spread float32 cannot resolve, with the offset to subtract.

    Examples
    --------
    >>> lost_features(np.array([0.0, 1e9 - 1]), np.array([1.0, 1e9 + 1]))
    {1: 1000000000.0}
    """
    largest, spread = np.maximum(np.abs(low), np.abs(high)), high - low
    with np.errstate(over="ignore"):
        step = np.spacing(largest.astype(np.float32)).astype(np.float64)
    lost = (largest >= FAR) & (_LEVELS * step > spread) & (spread > _NOISE * np.spacing(largest))
    middle = low + spread / 2
    return {int(column): float(np.float32(middle[column])) for column in np.flatnonzero(lost)}


def offset_names(names: Sequence[str], offsets: Offsets) -> tuple[str, ...]:
    """Names of features with the offsets that were subtracted."""
    return tuple(
        f"{name} - {offsets[i]:.10g}" if i in offsets else name for i, name in enumerate(names)
    )


def is_wide(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of this type may need more digits than float32 has."""
    return dtype.kind in "iuf" and dtype.itemsize >= (4 if dtype.kind in "iu" else 8)


def has_wide_parts(space: spaces.Space[Any]) -> bool:
    """Whether any Box in ``space`` may need more digits than float32 has."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return any(has_wide_parts(part) for _, part in _parts(space))
    return isinstance(space, spaces.Box) and is_wide(space.dtype)
