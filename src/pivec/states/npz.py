"""Recorded episodes in `.npz` files, one file a policy: read, and written back.

Every array is of numbers; nothing is unpickled. ``states`` (or ``observations``) comes in one of
two layouts, of which each episode holds the first observation, every later one and the terminal:

- padded, (episodes, steps, ...), with ``lengths`` (episodes,) if episodes differ in length;
- long, (n, ...), with ``episode`` (n,) and ``step`` (n,), which number the rows, in any order.

Beside it, all optional: ``actions`` in the same layout (the row of a terminal state is not read,
and may be missing if padded), ``returns``, ``seeds``, ``terminated``, ``truncated`` (episodes,),
and ``feature_names``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.atomic import atomic_write, make_folder
from pivec.errors import BadData, BadPolicyFile, UsageError
from pivec.policies.vectors import unpack_npz
from pivec.reading import Budget, open_regular
from pivec.states.raw import RawEpisode

_MOST = 1 << 34  # bytes a file may unpack to


def files_in(folder: Path) -> list[Path]:
    """Find the `.npz` files below a folder."""
    if folder.is_file() and folder.suffix == ".npz":
        return [folder]
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder of .npz files: check the path after npz:")
    found = sorted(path for path in folder.rglob("*.npz") if not path.name.startswith("."))
    if not found:
        raise UsageError(
            f"the folder {folder} holds no .npz file that may be read: expected one a policy"
        )
    return found


def read_npz(path: Path) -> Iterator[RawEpisode]:
    """Go through the episodes of one file."""
    arrays = _arrays(path)
    name = "states" if "states" in arrays else "observations"
    if name not in arrays:
        raise BadData(
            f"{path} has no array called states or observations; it has "
            + (", ".join(sorted(arrays)) or "none")
        )
    rows = _rows(path, name, arrays)
    if not rows:
        raise BadData(f"{path} holds no episodes: leave it out")
    actions = arrays.get("actions")
    for number, mine in enumerate(rows):
        yield RawEpisode(
            arrays[name][mine],
            _moves(path, actions, mine),
            _one(path, arrays, "returns", number, len(rows), np.nan),
            int(_one(path, arrays, "seeds", number, len(rows), -1)),
            bool(_one(path, arrays, "terminated", number, len(rows), False)),
            bool(_one(path, arrays, "truncated", number, len(rows), False)),
        )


def feature_names(path: Path) -> tuple[str, ...] | None:
    """Return the names of the values of a state, if the file has them."""
    names = _arrays(path, only="feature_names").get("feature_names")
    return None if names is None else tuple(str(name) for name in names.ravel())


def write_npz(path: Path, episodes: list[RawEpisode], names: tuple[str, ...]) -> None:
    """Write episodes of states in the long layout."""
    lengths = [len(episode.observations) for episode in episodes]
    arrays: dict[str, Any] = {
        "states": np.concatenate([episode.observations for episode in episodes]),
        "episode": np.repeat(np.arange(len(episodes)), lengths),
        "step": np.concatenate([np.arange(length) for length in lengths]),
        "returns": np.array([episode.total_reward for episode in episodes]),
        "seeds": np.array([episode.seed for episode in episodes]),
        "terminated": np.array([episode.terminated for episode in episodes]),
        "truncated": np.array([episode.truncated for episode in episodes]),
        "feature_names": np.array(names),
    }
    moves = [episode.actions for episode in episodes if episode.actions is not None]
    if moves:
        # The terminal state has no action: its row repeats the last one and is not read.
        arrays["actions"] = np.concatenate([np.concatenate([m, m[-1:]]) for m in moves])
    make_folder(path.parent)
    with atomic_write(path) as file:
        np.savez(file, **arrays)


def _arrays(path: Path, only: str = "") -> dict[str, NDArray[Any]]:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            budget = Budget(size, str(path), _MOST)
            return unpack_npz(file, str(path), budget, kinds="biufU", only=only)
    except (OSError, BadPolicyFile) as error:
        raise BadData(f"{path} is not a readable .npz of plain arrays: {error}") from error


def _rows(path: Path, name: str, arrays: dict[str, NDArray[Any]]) -> list[Any]:
    """For each episode the index of its rows, in order of the steps."""
    states = arrays[name]
    if "episode" in arrays or "step" in arrays:
        return _long_rows(path, arrays.get("episode"), arrays.get("step"), len(states))
    if states.ndim < 3:
        raise BadData(
            f"{path}: {name} has shape {states.shape}, but needs (episodes, steps, ...), or beside "
            "it arrays episode and step that number its rows"
        )
    lengths = np.asarray(arrays.get("lengths", np.full(len(states), states.shape[1])))
    whole = lengths.dtype.kind in "iu" or (lengths.dtype.kind == "f" and (lengths % 1 == 0).all())
    if lengths.shape != (len(states),) or not whole or lengths.min(initial=1) < 1:
        raise BadData(f"{path}: lengths needs one number from 1 for each of {len(states)} episodes")
    if lengths.max(initial=0) > states.shape[1]:
        raise BadData(
            f"{path}: an episode of length {lengths.max()} does not fit in {states.shape[1]} steps"
        )
    return [(number, slice(0, int(length))) for number, length in enumerate(lengths)]


def _long_rows(path: Path, episode: Any, step: Any, n: int) -> list[Any]:
    if episode is None or step is None or episode.shape != (n,) or step.shape != (n,):
        raise BadData(f"{path}: episode and step are both needed, one number for each of {n} rows")
    order = np.lexsort((step, episode))
    cuts = np.flatnonzero(np.diff(episode[order], prepend=np.nan))
    pieces = [piece for piece in np.split(order, cuts) if len(piece)]
    for piece in pieces:
        if not np.array_equal(step[piece], np.arange(len(piece))):
            raise BadData(
                f"{path}: the steps of episode {episode[piece[0]]} must be 0, 1, 2, ... with none "
                f"missing or twice, but begin {step[piece][:6].tolist()}"
            )
    return pieces


def _moves(path: Path, actions: Any, mine: Any) -> NDArray[Any] | None:
    if actions is None:
        return None
    if isinstance(mine, tuple):
        number, steps = mine
        moves = actions[number, : steps.stop - 1] if number < len(actions) else actions[:0]
        wanted = steps.stop - 1
    else:
        moves = actions[mine[:-1]] if mine.max() < len(actions) else actions[:0]
        wanted = len(mine) - 1
    if len(moves) != wanted:
        raise BadData(f"{path}: actions has shape {actions.shape}, which is too few for its states")
    return np.asarray(moves)


def _one(path: Path, arrays: dict[str, Any], name: str, number: int, n: int, default: Any) -> Any:
    values = arrays.get(name)
    if values is None:
        return default
    if values.shape != (n,):
        raise BadData(f"{path}: {name} needs one value for each of {n} episodes")
    return values[number]
