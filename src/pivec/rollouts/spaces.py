"""Batches of observations as rows of numbers, in the order of Gymnasium's own `flatten`."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pivec.errors import UsageError

_NUMBERS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def flat_size(space: spaces.Space[Any]) -> int:
    """Count the numbers in one flattened element of ``space``."""
    return len(feature_names(space))


def feature_names(space: spaces.Space[Any], prefix: str = "") -> tuple[str, ...]:
    """Name each number of a flattened observation.

    Examples
    --------
    >>> feature_names(spaces.Dict({"arm": spaces.Box(0, 1, (2,)), "mode": spaces.Discrete(3)}))
    ('arm[0]', 'arm[1]', 'mode=0', 'mode=1', 'mode=2')
    """
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        name = prefix or "x"
        if space.shape == ():
            return (name,)
        return tuple(
            name + "[" + ",".join(map(str, index)) + "]" for index in np.ndindex(*space.shape)
        )
    if isinstance(space, spaces.Discrete):
        name = prefix or "x"
        return tuple(f"{name}={int(space.start) + i}" for i in range(int(space.n)))
    if isinstance(space, spaces.MultiDiscrete):
        name = prefix or "x"
        counts, starts = space.nvec.ravel(), np.asarray(space.start).ravel()
        return tuple(
            f"{name}[{j}]={int(start) + i}"
            for j, (count, start) in enumerate(zip(counts, starts, strict=True))
            for i in range(int(count))
        )
    if isinstance(space, spaces.Dict):
        parts = [(str(key), part) for key, part in space.spaces.items()]
    elif isinstance(space, spaces.Tuple):
        parts = [(str(i), part) for i, part in enumerate(space.spaces)]
    else:
        raise UsageError(
            f"observations of the kind {type(space).__name__} have no fixed length; expected Box, "
            "Discrete, MultiDiscrete, MultiBinary, Dict or Tuple: turn them into numbers with "
            "features="
        )
    joined = (f"{prefix}.{key}" if prefix else key for key, _ in parts)
    return tuple(
        name
        for inner, (_, part) in zip(joined, parts, strict=True)
        for name in feature_names(part, inner)
    )


def flatten(space: spaces.Space[Any], batch: Any) -> NDArray[np.float32]:
    """Turn a batch of elements of ``space`` into rows: Box flattened, Discrete one-hot.

    Examples
    --------
    >>> flatten(spaces.Discrete(3), np.array([0, 2]))
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        array = np.asarray(batch)
        return array.reshape(len(array), -1).astype(np.float32, copy=False)
    if isinstance(space, spaces.Discrete):
        return _one_hot(np.asarray(batch) - space.start, int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        values = np.asarray(batch) - space.start
        columns = values.reshape(len(values), -1).T
        return np.concatenate(
            [
                _one_hot(column, int(count))
                for column, count in zip(columns, space.nvec.ravel(), strict=True)
            ],
            axis=1,
        )
    if isinstance(space, spaces.Dict):
        return np.concatenate(
            [flatten(part, batch[key]) for key, part in space.spaces.items()], axis=1
        )
    if isinstance(space, spaces.Tuple):
        return np.concatenate(
            [flatten(part, piece) for part, piece in zip(space.spaces, batch, strict=True)], axis=1
        )
    raise TypeError(f"cannot flatten {type(space).__name__}")


def assign(batch: Any, row: int, element: Any) -> None:
    """Write one element of a space into row ``row`` of a batch made by `empty_batch`."""
    if isinstance(batch, dict):
        for key, part in batch.items():
            assign(part, row, element[key])
    elif isinstance(batch, tuple):
        for part, piece in zip(batch, element, strict=True):
            assign(part, row, piece)
    else:
        batch[row] = element


def pick(batch: Any, rows: Any) -> Any:
    """Take rows (an index array or a slice) of a batch of any kind."""
    if isinstance(batch, dict):
        return {key: pick(part, rows) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(pick(part, rows) for part in batch)
    return batch[rows]


def batch_length(batch: Any) -> int:
    """Count the elements of a batch of any kind.

    Examples
    --------
    >>> batch_length({"a": (np.zeros((3, 2)), np.zeros(3))})
    3
    """
    while isinstance(batch, dict | tuple):
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    return len(batch)


def empty_batch(space: spaces.Space[Any], n: int) -> Any:
    """Make room for ``n`` elements of ``space``: an array, or a dict or tuple of them."""
    if isinstance(space, spaces.Dict):
        return {key: empty_batch(part, n) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(empty_batch(part, n) for part in space.spaces)
    if not isinstance(space, _NUMBERS):
        # Texts, graphs and the like, which only features= can read: room that holds valid ones.
        batch = np.empty(n, dtype=object)
        batch[:] = [space.sample()] * n
        return batch
    return np.zeros((n, *(space.shape or ())), dtype=space.dtype)


def first_batch(env: Any, n: int) -> Any:
    """Make room for ``n`` observations of ``env``, filled with one that it shows.

    Functions of observations then never see what no environment showed.
    """
    batch = empty_batch(env.observation_space, n)
    observation, _ = env.reset(seed=0)
    for row in range(n):
        assign(batch, row, observation)
    return batch


def _one_hot(values: NDArray[Any], count: int) -> NDArray[np.float32]:
    rows = np.zeros((len(values), count), dtype=np.float32)
    rows[np.arange(len(values)), values] = 1.0
    return rows
