"""Readers of recorded states: tables, and array files with one policy each.

A reader opens a file and names its arrays by their meaning, with one row per state; `LogRows` then
divides the rows of a policy into episodes. Nothing is unpickled.

Tables are Parquet, CSV, Feather and Arrow files and frames in memory, whose columns are found by
their names. Of a file with row groups, one policy is in memory at a time.

In a `.npz` file, ``states`` (or ``observations``) has one of two layouts, in which each episode
includes its first and its terminal observation:

- padded, (episodes, steps, ...), with ``lengths`` (episodes,) if episodes differ in length;
- long, (n, ...), with ``episode`` (n,) and ``step`` (n,), which number the rows, in any order; or
  (n, features) in order, with ``terminals`` or ``timeouts`` (n,) or a fixed episode length.

All optional: ``actions`` in the same layout (the row of a terminal state is not read, and may be
missing if padded), ``returns``, ``seeds``, ``terminated``, ``truncated`` (episodes,),
``feature_names``, and ``policy``: its label, group and training step as text, and if the states are
thinned by what factor; see `pivec.rollouts`.

A `.npy` file has states alone, padded without lengths, or (n, ...) with a fixed episode length or
the rows where episodes start. HDF5 files have ``observations`` (n, ...) and, all optional and of as
many rows, ``actions``, ``rewards``, ``terminals``, ``timeouts`` and ``next_observations`` (D4RL).
"""

from __future__ import annotations

import codecs
import contextlib
import json
import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pivec.errors import (
    BadData,
    BadPolicyFile,
    MissingExtra,
    PivecWarning,
    UsageError,
    did_you_mean,
)
from pivec.files import BoundedZip, Budget, open_regular
from pivec.options import TableOptions
from pivec.parallel import confined
from pivec.policies import PolicyInfo, natural_key, parse_npy
from pivec.rollouts import Episode
from pivec.states.recorded import RecordedPolicy, npz_path
from pivec.states.store import json_digest
from pivec.states.visited import EPISODE, starts_of

Array = NDArray[Any]
MAX_BYTES = 1 << 34  # that a file may unpack to
METADATA = b"pivec"  # under which tables written by pivec describe their columns


@dataclass(frozen=True)
class LogRows:
    """The rows of one policy, one per state, in any order; arrays that are unknown are None."""

    states: Array  # (n, ...)
    actions: Array | None = None  # those of the last row of an episode need ``after``
    acted: Array | None = None  # where an action is known; None: everywhere
    episode: Array | None = None
    step: Array | None = None  # without ``episode``, one starts where this falls
    reward: Array | None = None
    total: Array | None = None  # return of the episode, the same in all its rows
    seed: Array | None = None  # likewise
    terminated: Array | None = None  # without both, these end an episode
    truncated: Array | None = None
    after: Array | None = None  # the state that follows each row
    length: int | None = None  # of episodes at most, if nothing else shows it
    by_number: bool = False  # order episodes by their numbers instead of their first rows
    pieces: Sequence[Array] | None = None  # the rows of each episode, if they are known
    outcomes: Mapping[str, Array] = field(default_factory=dict)  # the last known value counts
    every: int = 1  # thinning of states that pivec wrote, whose ``step`` then counts all
    unit: float = 1.0  # of ``step``

    def episodes(self) -> Iterator[Episode]:
        """Iterate over the episodes."""
        for number, rows in enumerate(self.divided()):
            states, acting = self.states[rows], rows[:-1]
            if self.after is not None:
                states, acting = np.concatenate([states, self.after[rows[-1:]]]), rows
            yield Episode(
                states,
                self._actions(acting, number),
                self._total(rows, number),
                int(self._common(self.seed, "seed", rows, number, -1)),
                self.terminated is not None and bool(self.terminated[rows].any()),
                self.truncated is not None and bool(self.truncated[rows].any()),
                *self._times(rows),
                self._outcomes(rows),
            )

    def _outcomes(self, rows: Array) -> dict[str, float | str]:
        known = {name: _last_known(values[rows]) for name, values in self.outcomes.items()}
        return {name: value for name, value in known.items() if value is not None}

    def _times(self, rows: Array) -> tuple[int, float]:
        """Return the number of steps, -1 if none are missing, and the time between states."""
        if self.step is None:
            return -1, np.nan
        times = self.step[rows]
        apart = np.diff(times)[:: 1 if self.every == 1 else 2]
        steps = -1 if self.every == 1 else int(np.nan_to_num(times[-1]).clip(0, 1 << 60))
        return steps, float(np.median(apart)) * self.unit if len(apart) else np.nan

    def divided(self) -> Sequence[Array]:
        """Return the rows of each episode, in order of time."""
        n = len(self.states)
        if not n:
            raise BadData("it holds no episodes: omit it")
        if self.pieces is not None:
            return self.pieces
        if self.episode is None:
            return np.split(np.arange(n), np.flatnonzero(self._is_start())[1:])
        _, first, code = np.unique(self.episode, return_index=True, return_inverse=True)
        place = code if self.by_number else first[code]
        order = np.lexsort((np.arange(n) if self.step is None else self.step, place))
        pieces = np.split(order, np.flatnonzero(np.diff(code[order])) + 1)
        for rows in pieces if self.step is not None else ():
            times = self.step[rows]  # type: ignore[index]
            if twice := np.flatnonzero(~(np.diff(times) > 0)).tolist():
                raise BadData(
                    f"episode {self.episode[rows[0]]} has the time {times[twice[0]]} twice: see "
                    "--policy-column, --episode-column and --step-column of `pivec import`"
                )
        return pieces

    def _is_start(self) -> NDArray[np.bool_]:
        """Find the rows where episodes start, where no column numbers them."""
        n = len(self.states)
        result: NDArray[np.bool_] = np.arange(n) == 0
        ends = [flag for flag in (self.terminated, self.truncated) if flag is not None]
        for flag in ends:
            result[1:] |= flag[:-1]
        if self.step is not None:  # which may count on over episodes that end
            falls = ~(np.diff(self.step, prepend=-np.inf) > 0)
            firsts = self.step[falls & ~result]
            if (other := firsts[firsts != self.step[0]]).size:
                raise BadData(
                    f"episodes start at the times {self.step[0]} and {other[0]}: sort the rows by "
                    "time, or name the column of episodes"
                )
            return result | falls
        if self.after is not None:
            result[1:] |= (self.after[:-1] != self.states[1:]).reshape(n - 1, -1).any(axis=1)
        if self.length is not None:
            before = np.maximum.accumulate(np.where(result, np.arange(n), 0))
            result |= (np.arange(n) - before) % self.length == 0
        elif not ends and self.after is None:
            raise BadData(
                f"it does not show where episodes start (its states have shape "
                f"{self.states.shape}): add episode, step or terminated, or use --episode-length "
                "of `pivec import`"
            )
        return result

    def _actions(self, rows: Array, number: int) -> Array | None:
        if self.actions is None:
            return None
        if self.acted is not None and not self.acted[rows].all():
            step = int(np.argmin(self.acted[rows]))
            raise BadData(f"step {step} of episode {number} has no action: add it, or omit all")
        if len(self.actions) <= rows.max(initial=0):
            raise BadData(f"it has {len(self.actions)} actions for {len(self.states)} states")
        return np.asarray(self.actions[rows])

    def _total(self, rows: Array, number: int) -> float:
        if self.total is None and self.reward is not None:
            values = np.asarray(self.reward[rows], dtype=np.float64)
            # No reward follows a terminal state, and some logs leave it open.
            last = -1 if self.after is None and np.isnan(values[-1]) else len(values)
            return float(values[:last].sum())
        return float(self._common(self.total, "return", rows, number, np.nan))

    def _common(
        self, values: Array | None, name: str, rows: Array, number: int, unknown: Any
    ) -> Any:
        """Return the value that all rows of an episode share."""
        if values is None:
            return unknown
        mine = values[rows]
        if not np.array_equal(mine, np.full_like(mine, mine[0]), equal_nan=mine.dtype.kind == "f"):
            raise BadData(
                f"the {name} of episode {number} is not the same in all its rows, {mine[0]} and "
                f"{mine[mine != mine[0]][0]}: rewards of steps are called reward"
            )
        return mine[0]


def _last_known(values: Array) -> float | str | None:
    """Return the last value that is not missing, of numbers or texts."""
    for value in values[::-1].tolist():
        if isinstance(value, str) and value:
            return value
        if not isinstance(value, str | None) and not math.isnan(value):
            return float(value)
    return None


# ---- names ----

# Usual names of columns and arrays by role, in lower case with _ between words; the first counts.
_ROLES: dict[str, tuple[str, ...]] = {
    "training_step": ("training_step", "training_steps", "train_step", "checkpoint_step",
                      "checkpoint", "ckpt", "global_step"),
    "policy": ("policy", "label", "policy_label", "policy_name", "policy_id", "agent", "agent_id",
               "agent_name", "model", "model_name", "algo", "algorithm", "algo_name", "method",
               "controller", "checkpoint"),
    "group": ("group", "run", "run_name", "run_id", "experiment", "exp", "exp_name"),
    "episode": ("episode", "episode_id", "episode_ids", "episode_index", "episode_number",
                "episode_num", "ep", "ep_id", "ep_num", "trajectory", "trajectory_id", "traj",
                "traj_id", "rollout", "rollout_id", "demo", "demo_id", "trial", "trial_id"),
    "step": ("step", "env_step", "env_steps", "episode_step", "ep_step", "step_id", "step_index",
             "time_step", "timestep", "timesteps", "time", "t", "frame_index", "frame", "tick",
             "timestamp"),
    "return": ("return", "returns", "episode_return", "episode_returns", "ep_return",
               "episode_reward", "ep_reward", "total_reward"),
    "reward": ("reward", "rewards", "rew", "rews", "next.reward"),
    "seed": ("seed", "seeds", "episode_seed"),
    "terminated": ("terminated", "terminal", "terminals", "termination", "terminations", "done",
                   "dones", "is_terminal", "next.done"),
    "truncated": ("truncated", "truncation", "truncations", "timeout", "timeouts"),
}  # fmt: skip
_KEYS = ("policy", "group", "training_step")  # which policy a row belongs to
_ARRAYS = {
    "states": ("states", "observations", "obs", "observation", "state"),
    "actions": ("actions", "action", "acts", "act"),
    "after": ("next_observations", "next_obs", "next_states", "next_observation", "next_state"),
    "starts": ("episode_starts", "is_first"),
    "lengths": ("lengths", "episode_lengths", "ep_lengths", "ep_lens"),
    **{{"return": "total"}.get(r, r): names for r, names in _ROLES.items() if r not in _KEYS},
}

# ---- array files ----

_DIVIDING = ("episode", "step", "terminated", "truncated", "starts", "lengths", "after")
_FLAGS = ("terminated", "truncated")
_ABOUT = ("policy", "feature_names")
OUTCOME = "outcome."  # before the names of outcomes in files written by pivec


def _array_roles(names: Iterable[str]) -> dict[str, str]:
    """Return the array of each role."""
    plain = {_plain(name): name for name in names}
    found = {
        role: [plain[name] for name in usual if name in plain] for role, usual in _ARRAYS.items()
    }
    return {role: names[0] for role, names in found.items() if names}


def array_policy(path: Path, info: PolicyInfo, options: TableOptions) -> RecordedPolicy:
    """Find the policy in an array file, or in a folder of `.npy` files."""
    suffix = path.suffix.lower()
    has_actions, names = None, None
    reading: tuple[tuple[str, str], ...] = ()
    if path.is_dir():
        reading = _array_reading(list(npy_files(path)))
    elif suffix == ".npz":
        known = _load_npz(path, _ABOUT)
        about, given = known.get("policy"), known.get("feature_names")
        names = None if given is None else tuple(map(str, given.ravel()))
        if about is not None and about.shape in ((3,), (4,)) and about.dtype.kind == "U":
            label, group, step, *_ = about.tolist()
            if npz_path(label).with_suffix("") == Path(info.label):  # the file was not renamed
                info = replace(info, label=label)
            is_known = step.isascii() and step.isdecimal()
            info = replace(info, group=group, step=int(step) if is_known else None)
            info = _thinned(info, _npz_thinning(about))
        else:
            with _open_npz(path) as archive:
                reading = _array_reading(_npz_names(archive))
    elif suffix != ".npy":
        has_actions = _hdf5_actions(path, options)
    read = partial(_read_arrays, path, options)
    return RecordedPolicy(info, read, names=names, has_actions=has_actions, reading=reading)


def npy_files(folder: Path) -> dict[str, Path]:
    """Return the `.npy` files of a folder by name, in natural order."""
    paths = [path for path in folder.iterdir() if path.suffix.lower() == ".npy"]
    paths = [path for path in paths if not path.name.startswith(".")]
    return {path.stem: path for path in sorted(paths, key=lambda path: natural_key(path.name))}


def is_one_policy(folder: Path) -> bool:
    """Return whether the `.npy` files of a folder are one policy.

    They are named as arrays, or each is an episode, (steps, features).
    """
    files = npy_files(folder)
    if "states" in _array_roles(files):
        return True
    return len(files) > 1 and all(_load_npy(path).ndim == 2 for path in files.values())


def _array_reading(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return how arrays with these names are read, for the user."""
    roles = _array_roles(names)
    if "states" not in roles:
        return (("episodes", f"one per file, from {names[0]} to {names[-1]}"),) if names else ()
    ends = [roles.pop(role) for role in _DIVIDING if role in roles]
    other = [name for name in names if name not in {*roles.values(), *ends}]
    lines = {"states": [roles.pop("states")], "episodes": ends, "also": roles.values()}
    return tuple((what, ", ".join(k)) for what, k in (lines | {"others": other}).items() if k)


def _npz_thinning(about: Array | None) -> Any:
    """Return the fourth text of ``policy``: how the states are thinned, if they are."""
    is_there = about is not None and about.shape == (4,) and about.dtype.kind == "U"
    text = str(about[3]) if about is not None and is_there else "1"
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text


def _thinned(info: PolicyInfo, every: Any) -> PolicyInfo:
    """Add how the states of a policy are thinned, as a file by pivec says."""
    if every == 1:
        return info
    if type(every) is not int or not 1 < every <= 1 << 20 or every & (every - 1):
        raise BadData(
            f"kept_every of {info.label!r} must be 2, 4, 8, ..., but is {every!r}: export it again"
        )
    return replace(info, metadata={**info.metadata, "kept_every": every})


def _read_arrays(path: Path, options: TableOptions) -> Iterator[Episode]:
    suffix = path.suffix.lower()
    is_cut = options.episode_length is not None or options.episode_starts is not None
    if path.is_dir():
        arrays = {name: _load_npy(file) for name, file in npy_files(path).items()}
    elif suffix == ".npy":
        arrays = {"states": _load_npy(path)}
    else:
        arrays = _load_npz(path) if suffix == ".npz" else _load_hdf5(path)
    if path.is_dir() and "states" not in _array_roles(arrays):
        yield from _of_files(arrays).episodes()
        return
    names = _array_roles(arrays)
    if "states" not in names:
        raise BadData(
            "it has no array called states or observations, only "
            + ", ".join(name for name in sorted(arrays) if name not in _ABOUT)
        )
    known = {
        role: arrays[name].astype(bool) if role in _FLAGS else arrays[name]
        for role, name in names.items()
        if arrays[name].ndim or role == "states"
    }
    states, n = known["states"], len(known["states"]) if known["states"].ndim else 0
    if 0 in states.shape[1:]:
        raise BadData(
            f"{names['states']} has shape {states.shape}: expected at least one feature per state"
        )
    # Steps of several environments at once, as rollout buffers have them: one after another.
    pair = states.shape[:2]
    stacked = ["starts", *_FLAGS] if pair[1:] == (1,) else ["starts"]
    if "starts" in known and known["starts"].shape == pair and pair[1] > 1:
        is_first = known["starts"].astype(bool)
        if is_first[:, 0].all() and not is_first[:, 1:].any():  # (episodes, steps)
            stacked = []
    if states.ndim > 2 and any(known[role].shape == pair for role in stacked if role in known):
        known = {
            role: values.swapaxes(0, 1).reshape(-1, *values.shape[2:])
            if values.shape[:2] == pair
            else values
            for role, values in known.items()
        }
        if "starts" in known:
            known["starts"] = known["starts"].astype(bool)
            known["starts"][:: pair[0]] = True
        states, n = known["states"], len(known["states"])
    # A flag for each of n images, (n, height, width); but pivec's own are of whole episodes.
    per_row = [known[role].shape == (n,) and not (role in _FLAGS and known[role].all())
               and names.get(role) not in _FLAGS
               for role in _DIVIDING[:-2] if role in known]  # fmt: skip
    is_padded = states.ndim > 2 and suffix not in (".hdf5", ".h5") and not any(per_row)
    is_padded &= not (is_cut and suffix == ".npy")
    is_divided = is_padded or is_cut or not known.keys().isdisjoint(_DIVIDING)
    if not states.ndim or not is_divided or (states.ndim < 2 and suffix == ".npy"):
        raise BadData(
            f"{names['states']} has shape {states.shape}, but needs (episodes, steps, ...), or "
            "(n, ...) with arrays episode and step, an array terminals, or --episode-length of "
            "`pivec import`; a vector of parameters needs a .json next to it that describes the "
            "layers"
        )
    others = {key: arrays[key] for key in arrays.keys() - {*names.values(), *_ABOUT}}
    log, unused = _array_log(known, names, others, options, is_padded)
    yield from replace(log, every=_npz_thinning(arrays.get("policy"))).episodes()
    if unused:  # after the last episode: the first one alone may be read before
        warnings.warn(
            f"{path} has arrays that are not used: {_shortened(unused)}",
            PivecWarning,
            stacklevel=2,
        )


def _of_files(arrays: Mapping[str, Array]) -> LogRows:
    """Return the rows of files with an episode each."""
    width = next(iter(arrays.values())).shape[1:]
    for name, array in arrays.items():
        if array.ndim != 2 or array.shape[1:] != width or not array.size:
            raise BadData(
                f"{name}.npy has shape {array.shape}, but the other files (steps, {width[0]}): "
                "expected one episode per file"
            )
    starts = np.cumsum([len(array) for array in arrays.values()])
    pieces = np.split(np.arange(starts[-1]), starts[:-1])
    return LogRows(np.concatenate(list(arrays.values())), pieces=pieces)


def _array_log(
    known: Mapping[str, Array],
    names: Mapping[str, str],
    others: Mapping[str, Array],
    options: TableOptions,
    is_padded: bool,
) -> tuple[LogRows, list[str]]:
    """Combine arrays: of each state, of shape (n,) or padded (episodes, steps); of each episode.

    Also return the names of arrays that are neither.
    """
    states = known["states"]
    shape = states.shape[: 1 + is_padded]
    n, tail = int(np.prod(shape)), states.shape[len(shape) :] or (1,)
    rows = {
        role: _per_state(values, shape, role)
        for role, values in known.items()
        if role not in ("starts", "lengths", "states")
    }
    fields: dict[str, Any] = {role: values for role, values in rows.items() if values is not None}
    of_episodes = rows.keys() - fields.keys()

    def mismatch(role: str, other: str = "") -> BadData:
        return BadData(
            f"{names[role]} has shape {known[role].shape}, but {names['states']} {states.shape}: "
            f"expected one value per state{other}"
        )

    for role in of_episodes - {"total", "seed", *_FLAGS}:
        raise mismatch(role)
    log = LogRows(states.reshape(n, *tail), length=options.episode_length, **fields)
    log = replace(log, by_number=log.episode is not None)
    if is_padded:
        log = replace(log, pieces=_padded_pieces(known, names, shape))
    elif (starts := _starts(known, n, options)) is not None:
        log = replace(log, pieces=np.split(np.arange(n), np.unique(starts[starts > 0])))
    pieces = log.divided()
    if is_padded and "reward" in fields and known["reward"].shape[1] < shape[1]:
        fields["reward"] = fields["reward"].astype(np.float64)
        fields["reward"][[piece[-1] for piece in pieces]] = np.nan  # of terminal states
    rank = np.zeros(n, dtype=np.int64)  # the episode of each row
    rank[np.concatenate(pieces)] = np.repeat(np.arange(len(pieces)), list(map(len, pieces)))
    for role in of_episodes:
        if known[role].shape != (len(pieces),):
            raise mismatch(role, f", or one for each of {len(pieces)} episodes")
        fields[role] = known[role][rank]
    outcomes, unused = {}, []
    for name, values in others.items():
        if _outcome_name(name) not in (EPISODE.names or ()) and values.shape == (len(pieces),):
            outcomes[_outcome_name(name)] = values[rank]
        elif _is_outcome(name) and values.shape == shape:
            outcomes[_outcome_name(name)] = values.reshape(n)
        else:
            unused.append(name)
    _split_done(fields, names)
    return replace(log, **fields, pieces=pieces, outcomes=outcomes), sorted(unused)


def _split_done(fields: dict[str, Any], names: Mapping[str, str]) -> None:
    """Let ``done`` be the end of episodes that were not truncated, where that is known as well."""
    if "truncated" in fields and _plain(names.get("terminated", "")).startswith("done"):
        fields["terminated"] = fields["terminated"] & ~fields["truncated"]


def _per_state(values: Array, shape: tuple[int, ...], role: str) -> Array | None:
    """Return the rows of an array that has one entry per state, which terminal ones may lack."""
    axes, n = len(shape), int(np.prod(shape))
    if role not in ("actions", "after") and values.shape[axes:] == (1,):
        values = values[..., 0]
    if values.shape[:axes] == shape:
        return values.reshape(n, *values.shape[axes:])
    if axes == 1:
        return values if role == "actions" and len(values) == n - 1 else None
    if values.ndim < 2 or len(values) != shape[0] or role not in ("reward", "actions", *_FLAGS):
        return None
    full = np.zeros((*shape, *values.shape[2:]), values.dtype)
    full[:, : values.shape[1]] = values[:, : shape[1]]
    return full.reshape(n, *values.shape[2:])


def _padded_pieces(
    known: Mapping[str, Array], names: Mapping[str, str], shape: tuple[int, ...]
) -> list[Array]:
    """Return the rows of each episode of a padded array, which end by length or by flags."""
    (n, steps), lengths = shape, known.get("lengths")
    flags = [known[role] for role in _FLAGS if role in known and known[role].ndim == 2]
    if lengths is None and flags:
        is_end = np.any(flags, axis=0)
        first, any_end = is_end.argmax(axis=1), is_end.any(axis=1)
        stays = np.maximum.accumulate(is_end, axis=1) == is_end
        if not (stays.all(axis=1) | (is_end.sum(axis=1) < 2)).all() or 0 < any_end.mean() < 0.5:
            name = names.get("terminated", names.get("truncated"))
            raise BadData(
                f"{name} ends several episodes in one row or hardly any: expected (episodes, "
                "steps); reshape arrays of (steps, environments) to one environment after another"
            )
        # Flags may be those of steps, one fewer than states.
        lengths = np.where(any_end, first + 1 + steps - is_end.shape[1], steps)
    lengths = np.full(n, steps) if lengths is None else lengths
    is_whole = lengths.dtype.kind in "iuf" and bool((lengths % 1 == 0).all())
    fits = is_whole and ((lengths >= 1) & (lengths <= steps)).all()
    if lengths.shape != (n,) or not fits:
        raise BadData(f"lengths needs one number from 1 to {steps} for each of {n} episodes")
    needed = lengths.max(initial=1) - 1
    if "actions" in known and (
        known["actions"].ndim < 2 or any(np.less(known["actions"].shape[:2], (n, needed)))
    ):
        raise BadData(f"actions of shape {known['actions'].shape} are too few for its states")
    ends = zip(range(0, n * steps, steps), lengths.astype(np.int64).tolist(), strict=True)
    return [np.arange(begin, begin + length) for begin, length in ends]


def _starts(known: Mapping[str, Array], n: int, options: TableOptions) -> Array | None:
    """Return the rows where episodes start, if they are given."""
    if options.episode_starts is not None:
        starts = np.load(options.episode_starts, allow_pickle=False)
    elif "starts" in known:
        starts = known["starts"].reshape(n) if known["starts"].size == n else known["starts"]
        starts = np.flatnonzero(starts) if starts.shape == (n,) else starts
    elif "lengths" in known and known["lengths"].sum() == n:
        starts = np.cumsum(known["lengths"])[:-1]
    else:
        return None
    is_whole = starts.ndim == 1 and starts.dtype.kind in "iu"
    if not is_whole or not ((starts >= 0) & (starts < n)).all():
        raise BadData(f"starts of episodes must be numbers of its rows, from 0 to {n - 1}")
    return np.asarray(starts)


@contextlib.contextmanager
def _open_npz(path: Path) -> Iterator[BoundedZip]:
    try:
        with open_regular(path) as file:
            yield BoundedZip(file, Budget(os.fstat(file.fileno()).st_size, str(path), MAX_BYTES))
    except (OSError, BadPolicyFile) as error:
        raise BadData(f"{path} is not a readable .npz of plain arrays: {error}") from error


def _npz_names(archive: BoundedZip) -> list[str]:
    return [name.removesuffix(".npy") for name in archive.members if name.endswith(".npy")]


def _load_npz(path: Path, only: Sequence[str] = ()) -> dict[str, Array]:
    """Read the arrays of a file, or some; those that are not used may be of any kind."""
    arrays = {}
    with _open_npz(path) as archive:
        names = [name for name in _npz_names(archive) if not only or name in only]
        used = {*_array_roles(names).values(), *_ABOUT}
        for name in names:
            try:
                arrays[name] = parse_npy(archive.read(f"{name}.npy"), "biufU")
            except BadPolicyFile as error:
                if name in used:
                    raise BadPolicyFile(f"{name}.npy in it: {error}") from error
                arrays[name] = np.empty(())
    return arrays


def _load_npy(path: Path) -> Array:
    with open_regular(path):  # raises if it is not a regular file
        return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _load_hdf5(path: Path) -> dict[str, Array]:
    arrays = {}
    with open_hdf5(path) as file:
        check_hdf5(file)
        budget = Budget(path.stat().st_size, str(path), MAX_BYTES)
        for name in _array_roles(file).values():
            array = file[name]
            kind = getattr(array, "dtype", None)  # a group has none
            if kind is None or kind.kind not in "biuf" or not getattr(array, "shape", None):
                raise BadData(f"{name} must be an array of numbers, but is {kind or 'a group'}")
            budget.spend(array.size * array.dtype.itemsize)
            arrays[name] = np.asarray(array)
    return arrays


def _hdf5_actions(path: Path, options: TableOptions) -> bool:
    """Check the names in an HDF5 file, and return whether there are actions."""
    with open_hdf5(path) as file:
        known = _array_roles(file)
        inside = ", ".join(map(repr, list(file)[:5])) or "nothing"
    if "states" not in known:
        raise BadData(
            f"it has no array observations, as D4RL's files have, but {inside}: a Minari dataset "
            "is named minari:NAME; convert other layouts to arrays or a table first"
        )
    shows_limits = {"truncated", "after"} & known.keys() or options.episode_length is not None
    if "terminated" in known and not shows_limits:
        warnings.warn(
            f"{path} has no timeouts: episodes that were truncated continue into the next one "
            "(--episode-length of `pivec import` separates them)",
            PivecWarning,
            stacklevel=2,
        )
    return "actions" in known


@contextlib.contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """Open an HDF5 file; no other file can be opened meanwhile."""
    try:
        import h5py
    except ImportError as error:
        raise MissingExtra("reading HDF5 files", "tables") from error
    codecs.lookup("ascii")  # a module that h5py needs for text
    with confined.opening(1), h5py.File(path, "r") as file:
        yield file


_MAX_DEPTH = 100


def check_hdf5(file: Any) -> None:
    """Check that the content of an HDF5 file is in the file itself.

    An array may be in another file, or be made of others; if these are missing, HDF5 gives zeros.
    """
    import h5py

    def problem(name: bytes, info: Any) -> str | None:
        """Return what is wrong with a link, which ends the visit; h5py loses exceptions."""
        text = name.decode(errors="replace")[:80]
        if name.count(b"/") > _MAX_DEPTH:  # paths are followed from the start each time
            return f"its groups are nested more than {_MAX_DEPTH} levels deep"
        if info.type not in (h5py.h5l.TYPE_HARD, h5py.h5l.TYPE_SOFT):
            return f"{text} must be in the file itself, but is a link to another file"
        try:
            if h5py.h5o.get_info(file.id, name).type != h5py.h5o.TYPE_DATASET:
                return None
            plist = h5py.h5d.open(file.id, name).get_create_plist()
            if plist.get_external_count() or plist.get_layout() == h5py.h5d.VIRTUAL:
                return f"{text} must be in the file itself, but is stored in another file"
        except Exception as error:
            is_hard = info.type == h5py.h5l.TYPE_HARD
            return f"{text} is damaged ({str(error)[:200]})" if is_hard else None
        return None

    if wrong := file.id.links.visit(problem, info=True):
        raise BadData(wrong)


# ---- opening tables ----


@dataclass(frozen=True)
class Table:
    """A table in parts, such as row groups: ``read`` returns some columns of one of them."""

    schema: pa.Schema
    lengths: Sequence[int]
    read: Callable[[int, list[str]], Any]


def table_of(thing: Any) -> Table:
    """Convert a pandas or polars frame, or a pyarrow table."""
    if hasattr(thing, "to_arrow"):  # of polars
        thing = thing.to_arrow()
    elif hasattr(thing, "iloc"):  # of pandas
        thing = pa.Table.from_pandas(thing, preserve_index=False)
    if not isinstance(thing, pa.Table):
        raise UsageError(
            "expected a pandas or polars DataFrame or a pyarrow Table, but got "
            f"{type(thing).__name__}"
        )
    return Table(thing.schema, [thing.num_rows], lambda _, names: thing.select(names))


def open_table(path: Path) -> Table:
    """Open a table file by its extension."""
    with open_regular(path) as file:  # raises if it is not a regular file
        size = file.seek(0, 2)
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        from pyarrow import json as json_lines

        longest = json_lines.ReadOptions(block_size=1 << 24)  # of a line
        whole = json_lines.read_json(path, longest)
        while any(pa.types.is_struct(kind) for kind in whole.schema.types):
            whole = whole.flatten()
        table = table_of(whole)
    elif suffix == ".parquet":
        import pyarrow.parquet as pq

        whole = pq.ParquetFile(path, memory_map=True)
        groups = [whole.metadata.row_group(i) for i in range(whole.metadata.num_row_groups)]
        lengths = [group.num_rows for group in groups]
        table = Table(
            whole.schema_arrow, lengths, lambda i, names: whole.read_row_group(i, columns=names)
        )
    elif suffix in (".csv", ".tsv"):
        from pyarrow import csv

        parse = csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
        table = table_of(csv.read_csv(path, parse_options=parse))
    else:
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(pa.BufferReader(source.read_buffer()))
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        for batch in batches:  # offsets in a damaged file may point beyond its end
            batch.validate(full=True)
        table = Table(
            reader.schema,
            [batch.num_rows for batch in batches],
            lambda i, names: pa.Table.from_batches([batches[i]]).select(names),
        )
    Budget(size, "it", MAX_BYTES).spend(4 * sum(table.lengths) * len(table.schema))
    return table


# ---- columns of tables ----

_COUNTERS = {"step", "env_step", "env_steps", "episode_step", "ep_step", "step_id", "step_index",
             "time_step", "timestep", "frame_index", "frame", "tick", "global_step"}  # fmt: skip
_OF_ANY_TYPE = {"policy", "group", "episode"}  # the others are numeric
_ACTION = re.compile(
    r"(actions?|act)(\[\d+\]|[_.]?\d+|[_.](?!.*(mask|prob|logp|value|mean|std|entropy)).+)?"
)
_NUMBER = r"^\s*([-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|nan|NaN|)\s*$"
_STATE = re.compile(r"(obs|observations?|states?)[._\[\d].*")  # of which there are several
_OUTCOMES = re.compile(
    r"(infos?[._]|next[._])?((is_)?(success|successful|failure|win|won)|succeeded|solved|failed|"
    r"(final_)?score|outcome|result|winner|task|task_(id|index|name))|outcome\..*"
)
_AT_END = re.compile(r"(infos?[._]|next[._])?((is_)?success|succeeded|solved)")  # of a step
# Names of columns that are never features, by what they are.
_NO_FEATURES = {
    "row number": r"|index|idx|row|row_(id|number)|unnamed:_\d+|__index_level_\d+__",
    "identifier": r"(.*[._])?(id|idx|index|uuid|seed)",
    "time": r"date|datetime|time|timestamp|wall_?(time|clock)|clock|elapsed(_time)?",
    "counter": r"(total|num|global|env)_(time)?steps?|(.*_)?(iter|iterations?|no|nr|num|counter)|"
    r"epoch|(ep|episode)_len(gth)?",
    "rewards": r"(.*[._])?(rewards?|returns?)([._].*)?",
    "info": r"infos?[._].*",
}
_RESERVED = {name for usual in _ROLES.values() for name in usual}
_KNOWN = ("row number", "--ignore-columns")  # which need no warning
_HEAD = 10_000  # rows that are looked at first
_MOST_CANDIDATES, _MOST_ADDED = 8, 2  # columns that may be needed to identify policies


@dataclass(frozen=True)
class Columns:
    """The columns of a table by their meaning; ``roles`` has those of `_ROLES` that are there."""

    roles: Mapping[str, str]
    features: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # next_x of each feature x
    keys: tuple[str, ...] = ()  # columns besides those of roles that identify policies
    written: Mapping[str, Any] = field(default_factory=dict)  # metadata of a table by pivec
    ignored: Mapping[str, str] = field(default_factory=dict)  # why a column is not used

    @property
    def all(self) -> list[str]:
        """Every column that is read of a policy."""
        own = [name for role, name in self.roles.items() if role not in _KEYS]
        used = (*own, *self.features, *self.actions, *self.after, *self.outcomes)
        return list(dict.fromkeys(used))

    @property
    def owner(self) -> list[str]:
        """Columns that identify a policy."""
        return [self.roles[role] for role in _KEYS if role in self.roles] + list(self.keys)

    def reading(self, features: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Return how the table is read, for the user."""
        also = [
            name if _plain(name) == role else f"{name} ({role.replace('_', ' ')})"
            for role, name in self.roles.items()
            if role not in (*_KEYS, "episode", "step")
        ]
        lines = {
            "policy": " + ".join(self.owner) or "the whole table",
            "episode": self.roles.get("episode", "found by its end or by time"),
            "step": self.roles.get("step", "the order of rows"),
            "features": ", ".join(features),
            "actions": ", ".join(self.actions),
            "outcomes": ", ".join(self.outcomes),
            "also": ", ".join(also),
        }
        return tuple((what, text) for what, text in lines.items() if text)


class _Codes:
    """Numbers of the combinations of values in columns of a table."""

    def __init__(self, table: Table) -> None:
        self._table, self._known = table, dict[str, Any]()
        self.n = sum(table.lengths)
        if not self.n:
            raise BadData("it has no rows: expected one per state")

    def column(self, name: str) -> Any:
        """Return a column, dictionary-encoded."""
        if name not in self._known:
            parts = [self._table.read(i, [name]) for i in range(len(self._table.lengths))]
            self._known[name] = _values(pa.concat_tables(parts), name).dictionary_encode()
        return self._known[name]

    def of(self, names: Iterable[str | None]) -> Array:
        """Return the number of each row's combination."""
        code = np.zeros(self.n, dtype=np.int64)
        for name in filter(None, names):
            encoded = self.column(name)
            missing = len(encoded.dictionary)
            mine = encoded.indices.fill_null(missing).to_numpy()
            code = np.unique(code * (missing + 1) + mine, return_inverse=True)[1]
        return code

    def count(self, *names: str | None) -> int:
        """Return how many combinations there are."""
        return int(self.of(names).max()) + 1

    def separates(self, keys: Sequence[str], episode: str | None, step: str | None) -> bool:
        """Return whether episodes have no time twice or, without times, are not interrupted."""
        if step is not None:
            return self.count(*keys, episode, step) == self.n
        code = self.of([*keys, episode])
        return episode is None or np.count_nonzero(np.diff(code)) == code.max()


def find_columns(table: Table, codes: _Codes, options: TableOptions) -> Columns:
    """Find the meaning of the columns of a table."""
    schema, names = table.schema, list(table.schema.names)
    text = (schema.metadata or {}).get(METADATA)
    written = {} if text is None else dict(json.loads(text))
    if written.get("columns") != names:  # its columns were changed since
        written = {}
    roles, ignored = _find_roles(schema, options)
    given = {
        which: _check_given(getattr(options, f"{which}_columns"), names, f"--{which}-columns")
        for which in ("feature", "action", "outcome", "ignore")
    }
    ignored |= dict.fromkeys(given["ignore"], "--ignore-columns")
    keys: list[str] = []
    if not written:
        chosen = {name for columns in given.values() for name in columns}
        roles, keys = _identify(codes, schema, roles, ignored, chosen, options)
    taken = {*roles.values(), *keys, *ignored}
    left = [name for name in names if name not in taken]
    actions = given["action"] or [
        name
        for name in left
        if _ACTION.fullmatch(_plain(name)) and _is_numeric(schema.field(name).type)
    ]
    features = given["feature"] or list(written.get("features", ()))
    outcomes = [*given["outcome"], *(name for name in left if name.startswith(OUTCOME))]
    columns = Columns(roles, (), tuple(actions), keys=tuple(keys), written=written)
    if not features:
        taken = {*actions, *outcomes}
        left = [name for name in left if name not in taken]
        found, others, reasons = _find_features(table, codes, columns, left, options)
        features, ignored, outcomes = found, ignored | reasons, [*outcomes, *others]
    if not features:
        unused = [name for name in ignored if not _is_numeric(schema.field(name).type)]
        raise BadData(
            f"it has no numeric columns for the states, only {_shortened(names)}"
            + f" (not numeric: {_shortened(unused)})" * bool(unused)
            + ": add or correct them, or name them with --feature-columns of `pivec import`"
        )
    after = tuple(f"next_{name}" for name in features)
    after = after if set(after) <= set(names) else ()
    used = {*features, *outcomes, *after}
    return replace(
        columns,
        features=tuple(features),
        outcomes=tuple(outcomes),
        after=after,
        ignored={} if written else {k: ignored[k] for k in names if k in ignored and k not in used},
    )


def _find_roles(schema: pa.Schema, options: TableOptions) -> tuple[dict[str, str], dict[str, str]]:
    """Find the column of each role, and others with a name of that role, which are not used."""
    roles: dict[str, str] = {}
    unused: dict[str, str] = {}
    given = {role: getattr(options, f"{role}_column", None) for role in _ROLES}
    for role, name in given.items():
        if name is not None:
            _check_given([name], schema.names, f"--{role.replace('_', '-')}-column")
    used = {*options.feature_columns, *options.action_columns, *options.outcome_columns,
            *options.ignore_columns}  # fmt: skip
    plain = {_plain(name): name for name in schema.names if name not in used}
    for role, usual in _ROLES.items():
        if (name := given[role]) is not None:
            roles[role] = name
            continue
        found = [plain[name] for name in usual if name in plain]
        # The episodes may be those of a policy each; any other column has one meaning.
        taken = {*roles.values(), *(given.values() if role != "policy" else ())}
        found = [
            name for name in found if name not in taken and _fits(role, schema.field(name).type)
        ]
        if found:
            roles[role], *others = found
            unused |= dict.fromkeys(others, f"{roles[role]} is used")
    return roles, {name: why for name, why in unused.items() if name not in roles.values()}


def _identify(
    codes: _Codes,
    schema: pa.Schema,
    roles: Mapping[str, str],
    ignored: dict[str, str],
    chosen: set[str],
    options: TableOptions,
) -> tuple[dict[str, str], list[str]]:
    """Choose what identifies policies: the fewest columns with which no episode has a time twice.

    Return the roles, and further columns that are needed.
    """
    roles, episode = dict(roles), roles.get("episode")
    keys: list[str] = []
    for role in _KEYS:  # which may count through the episodes of one policy instead
        name, step = roles.get(role), roles.get("step")
        if name is None:
            continue
        time = step or (name if _plain(name) in _COUNTERS else None)
        pieces, whole = codes.count(*keys, episode, name), codes.count(*keys, episode)
        is_time = bool(time) and 2 * pieces > codes.n and pieces >= 2 * whole
        is_given = name == episode or getattr(options, f"{role}_column") is not None
        if is_given or not is_time or not codes.separates(keys, episode, time):
            keys.append(name)
        else:
            del roles[role]
            if step is None:
                roles["step"] = name
            else:
                ignored[name] = "changes within episodes"
    step = roles.get("step")
    if episode is None or codes.separates(keys, episode, step):
        return roles, []
    kinds = {name: schema.field(name).type for name in schema.names}
    used = {*roles.values(), *ignored, *chosen}
    free = [name for name in schema.names if name not in used]
    candidates = [
        *(name for name in ignored if not pa.types.is_floating(kinds[name])),
        *(roles[role] for role in ("seed",) if role in roles),
        *(name for name in free if _is_text(kinds[name])),
        *(name for name in free if pa.types.is_integer(kinds[name]) and _reason(name)),
    ]
    explicit = {getattr(options, f"{role}_column", None) for role in _ROLES}
    candidates = [name for name in candidates if name not in {*explicit, *chosen}]
    candidates = sorted(candidates, key=_is_outcome)[:_MOST_CANDIDATES]
    for size in range(1, _MOST_ADDED + 1):
        for added in combinations(candidates, size):
            more = [*keys, *added]
            if 2 * codes.count(*more, episode) > codes.n or not codes.separates(
                more, episode, step
            ):
                continue  # every row has another value, or it does not help
            roles = {role: name for role, name in roles.items() if name not in added}
            for name in added:
                ignored.pop(name, None)
                if _is_text(kinds[name]):
                    roles.setdefault("policy", name)
            return roles, [name for name in added if name not in roles.values()]
    return roles, []


def _reason(name: str) -> str:
    """Return why a column of that name cannot be a feature; empty if it can."""
    plain = _plain(name)
    return next((why for why, regex in _NO_FEATURES.items() if re.fullmatch(regex, plain)), "")


def _outcome_name(name: str) -> str:
    return re.sub(r"^(outcome|infos?|next)\.", "", name)


def _is_outcome(name: str) -> bool:
    return bool(_OUTCOMES.fullmatch(_plain(name)))


def _find_features(
    table: Table, codes: _Codes, columns: Columns, left: list[str], options: TableOptions
) -> tuple[list[str], list[str], dict[str, str]]:
    """Divide columns into features, outcomes of episodes, and others with the reasons."""
    kinds = {name: table.schema.field(name).type for name in left}
    following = {f"next_{name}" for name in left}
    left = [name for name in left if name not in following]
    texts = {name for name in left if _is_text(kinds[name])}
    numeric = {name for name in left if _is_numeric(kinds[name])}
    # Columns that are called states leave no doubt about the others.
    named = {name for name in numeric if _STATE.fullmatch(_plain(name))}
    if {_plain(name).removeprefix("state.") for name in named} <= _RESERVED:  # of other meaning
        named = set()
    owner = codes.of(columns.owner)
    episode = _episode_codes(table, codes, columns, owner, options)
    scalars = [k for k in left if k in texts | numeric and not pa.types.is_nested(kinds[k])]
    constant = _constants(table, codes, scalars, episode)
    owner = owner[np.unique(episode, return_index=True)[1]]  # of each episode
    several, lengths = len(owner) > owner.max() + 1, np.bincount(episode).tolist()
    features: list[str] = []
    outcomes: list[str] = []
    doubtful: list[str] = []
    ignored: dict[str, str] = {}
    for name in left:
        values = constant.get(name, [])
        pairs = len(set(zip(owner.tolist(), values, strict=False)))
        differs, of_owner = len(set(values)) > 1, several and pairs == owner.max() + 1
        is_number = several and pairs == len(owner) and pa.types.is_integer(kinds[name])
        if _is_outcome(name) and (values or _AT_END.fullmatch(_plain(name))):
            outcomes.append(name)
        elif why := _reason(name):
            ignored[name] = why
        elif name in texts and differs and not of_owner:
            outcomes.append(name)
        elif name not in numeric:
            is_empty = pa.types.is_null(kinds[name])
            ignored[name] = "text" if name in texts else "empty" if is_empty else "not numeric"
        elif named and name not in named:
            ignored[name] = "not called a state"
        elif differs and (of_owner or is_number or values == lengths):
            ignored[name] = (
                "constant in each policy" if of_owner else "number or length of the episode"
            )
            doubtful.append(name)
        else:
            features.append(name)
    return features or doubtful, outcomes, ignored


def _episode_codes(
    table: Table, codes: _Codes, columns: Columns, owner: Array, options: TableOptions
) -> Array:
    """Return the number of each row's episode, or of its policy if that does not show in a row."""
    if "episode" in columns.roles:
        return codes.of([*columns.owner, columns.roles["episode"]])
    ends = {role: columns.roles[role] for role in ("step", *_FLAGS) if role in columns.roles}
    if not ends:
        return owner
    pieces = [
        rows[piece]
        for _, rows in _owners(codes, columns.owner)
        for piece in _rows_of(table, Columns(ends), rows, options).divided()
    ]
    result = np.zeros(codes.n, dtype=np.int64)
    result[np.concatenate(pieces)] = np.repeat(np.arange(len(pieces)), list(map(len, pieces)))
    return result


def _constants(
    table: Table, codes: _Codes, names: Sequence[str], episode: Array
) -> dict[str, list[Any]]:
    """Return the columns that are the same in all rows of an episode where known, by episode."""
    n = int(episode.max()) + 1
    if n == codes.n or not names:
        return {}
    head = table.read(0, list(names)).slice(0, _HEAD)
    found = {}
    for name in names:
        values = _same(_values(head, name).dictionary_encode(), episode[: len(head)], n)
        if values is not None and len(head) < codes.n:  # few columns do not differ in the head
            values = _same(codes.column(name), episode, n)
        if values is not None:
            found[name] = values
    return found


def _same(encoded: Any, episode: Array, n: int) -> list[Any] | None:
    """Return the value of a column in each episode, or None if one has several."""
    mine, code = episode[encoded.indices.is_valid()], encoded.indices.drop_null().to_numpy()
    values = np.full(n, len(encoded.dictionary))
    values[mine] = code
    if (values[mine] != code).any():
        return None
    known = [*encoded.dictionary.to_pylist(), None]
    return [known[value] for value in values.tolist()]


def _fits(role: str, kind: pa.DataType) -> bool:
    is_time = role == "step" and pa.types.is_temporal(kind)
    return role in _OF_ANY_TYPE or _is_numeric(kind) or is_time


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind))


def _check_given(wanted: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    for name in wanted:
        if name not in names:
            similar = did_you_mean(name, names)
            raise UsageError(
                f"there is no column {name!r} ({option}){similar}: it has {_shortened(names)}"
            )
    return list(wanted)


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more


def _is_numeric(kind: pa.DataType) -> bool:
    """Return whether the values of a column are numbers, or lists of them."""
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_numeric(kind.value_type)
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


# ---- policies of tables ----


def table_policies(
    table: Table, options: TableOptions, name: str = "policy", source: str = "", digest: str = ""
) -> list[RecordedPolicy]:
    """Find the policies of a table; ``name`` is that of a single one without a column."""
    if len(set(table.schema.names)) < len(table.schema.names):
        raise BadData("two of its columns have the same name: rename one of them")
    codes = _Codes(table)
    columns = find_columns(table, codes, options)
    ignored = {name: why for name, why in columns.ignored.items() if why not in _KNOWN}
    if ignored and not options.feature_columns:
        _check_text(table, list(ignored))
        reasons = [f"{name!r} ({why})" for name, why in ignored.items()]
        more = f" and {len(reasons) - 8} more" if len(reasons) > 8 else ""
        warnings.warn(
            f"columns that are not part of the states are ignored: {', '.join(reasons[:8])}{more}; "
            "choose others with --feature-columns of `pivec import`, in Python feature_columns=",
            PivecWarning,
            stacklevel=2,
        )
    names = _feature_names(table, columns)
    roles = [role for role in _KEYS if role in columns.roles]
    owners = list(_owners(codes, columns.owner))
    # The values of further columns identify runs.
    known = [(dict(zip(roles, key, strict=False)), key[len(roles) :]) for key, _ in owners]
    labels = [mine.get("policy") for mine, _ in known]
    infos = [_info(*mine, name, len(set(labels)) == len(labels)) for mine in known]
    if twice := [label for label, count in Counter(i.label for i in infos).items() if count > 1]:
        raise BadData(
            f"two policies are called {twice[0]!r}: name other columns with --policy-column, "
            "--group-column and --training-step-column of `pivec import`"
        )
    thinned = dict(columns.written.get("kept_every") or {})
    clock = "steps" if _plain(columns.roles.get("step", "step")) in _COUNTERS else "time"
    result = []
    for info, (_, rows) in zip(infos, owners, strict=True):
        every = thinned.get(info.label, 1)
        fingerprint = json_digest([digest, info.label, vars(options)]) if digest else ""
        result.append(
            RecordedPolicy(
                _thinned(replace(info, source=source, fingerprint=fingerprint), every),
                partial(_read_rows, table, columns, rows, options, every),
                environment=str(columns.written.get("environment", "")),
                names=names,
                is_flat=bool(columns.written),
                has_actions=bool(columns.actions),
                clock=clock,
                reading=() if columns.written else columns.reading(names),
            )
        )
    return result


def _check_text(table: Table, names: Sequence[str]) -> None:
    """Refuse columns of text that are numbers with a typing error."""
    import pyarrow.compute as pc

    for name in names:
        kind = table.schema.field(name).type
        if not _is_text(kind) or pa.types.is_dictionary(kind):
            continue
        row, n_numbers, n_values, wrong = 0, 0, 0, ""
        for part, length in enumerate(table.lengths):
            values = table.read(part, [name]).column(0)
            is_number = pc.fill_null(pc.match_substring_regex(values, _NUMBER), True)
            n_numbers, n_values = n_numbers + (pc.sum(is_number).as_py() or 0), n_values + length
            if not wrong and (first := pc.index(is_number, False).as_py()) >= 0:
                wrong = f"{values[first].as_py()!r:.40} in row {row + first + 1}"
            row += length
        if n_values > n_numbers > n_values / 2:
            raise BadData(
                f"its column {name!r} has numbers, but {wrong}: correct the value, or choose "
                "other columns with --feature-columns of `pivec import`"
            )


def _info(
    known: Mapping[str, str | None], more: Sequence[str | None], name: str, is_unique: bool
) -> PolicyInfo:
    """Name a policy by the values of its columns."""
    group, text, label = known.get("group") or "", known.get("training_step"), known.get("policy")
    step = None
    if text is not None:
        try:
            step = int(text)
        except ValueError:
            raise BadData(f"training steps must be whole numbers, but one is {text!r}") from None
    if label is None and "policy" in known:
        raise BadData("a row has no policy name: fill in the column, or omit the row")
    if label is None or not is_unique:
        run = "/".join(filter(None, [label, group, *more])) or name
        group = run if label is not None or more else group
        label = "/".join([run, *([] if step is None else [str(step)])])
    return PolicyInfo(label, group, step)


def _owners(codes: _Codes, keys: list[str]) -> Iterator[tuple[tuple[Any, ...], Array]]:
    """Yield the values of the key columns of each policy, and its rows."""
    code = codes.of(keys)
    order = np.argsort(code, kind="stable")
    pieces = np.split(order, np.flatnonzero(np.diff(code[order])) + 1)
    columns = [codes.column(key) for key in keys]
    for rows in sorted(pieces, key=lambda rows: int(rows[0])):  # by their first rows
        first = [column[int(rows[0])] for column in columns]
        yield tuple(value.cast(pa.string()).as_py() for value in first), rows


def _values(table: Any, name: str) -> Any:
    """Return a column in one piece and not dictionary-encoded."""
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _read_rows(
    table: Table, columns: Columns, rows: Array, options: TableOptions, every: int
) -> Iterator[Episode]:
    """Read the rows of one policy and divide them into episodes."""
    yield from replace(_rows_of(table, columns, rows, options), every=every).episodes()


def _rows_of(table: Table, columns: Columns, rows: Array, options: TableOptions) -> LogRows:
    parts = []
    for number, (begin, end) in enumerate(pairwise(starts_of(table.lengths).tolist())):
        first, last = np.searchsorted(rows, (begin, end))
        if first < last:
            part = table.read(number, columns.all)
            parts.append(part.take(rows[first:last] - begin))
    return log_rows(pa.concat_tables(parts), columns, options)


# Fields of `LogRows` by the role of their column, and what stands for a missing value.
_FIELDS: dict[str, tuple[str, float]] = {
    "episode": ("episode", np.nan),
    "step": ("step", np.nan),
    "reward": ("reward", np.nan),
    "return": ("total", np.nan),
    "seed": ("seed", -1),
    "terminated": ("terminated", 0),
    "truncated": ("truncated", 0),
}


_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "": 86400.0}  # in seconds; of dates a day


def log_rows(table: Any, columns: Columns, options: TableOptions) -> LogRows:
    """Convert the rows of one policy to arrays."""
    column = {name: _values(table, name) for name in columns.all}
    known: dict[str, Any] = {"length": options.episode_length}
    for role, (attribute, unknown) in _FIELDS.items():
        if (name := columns.roles.get(role)) is None:
            continue
        values = column[name]
        if role == "episode" and not _is_numeric(values.type):
            values = values.dictionary_encode().indices
        known[attribute] = _numbers(values, name, unknown)
        if role == "step" and pa.types.is_temporal(values.type):
            known["unit"] = _UNITS[getattr(values.type, "unit", "")]
        if role in _FLAGS:
            known[attribute] = known[attribute].astype(bool)
    _split_done(known, columns.roles)
    known["outcomes"] = {
        _outcome_name(name): column[name].to_numpy(zero_copy_only=False)
        if _is_text(column[name].type)
        else _numbers(column[name], name)
        for name in columns.outcomes
    }
    if columns.actions:
        known["acted"] = np.all([column[name].is_valid() for name in columns.actions], axis=0)
        moves = [_numbers(column[name], name, 0) for name in columns.actions]
        known["actions"] = moves[0] if len(moves) == 1 else np.column_stack(moves)
        if "action_shape" in columns.written:
            shape = columns.written["action_shape"]
            known["actions"] = known["actions"].reshape(table.num_rows, *shape)
    if columns.after:
        known["after"] = np.column_stack([_numbers(column[name], name) for name in columns.after])
    states = np.zeros((table.num_rows, 1))
    if columns.features:
        states = np.column_stack([_numbers(column[name], name) for name in columns.features])
    return LogRows(states, **known)


def _numbers(column: Any, name: str, unknown: float = np.nan) -> Array:
    """Return the numbers of a column, (n,) or of lists (n, k)."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int64())
    if not column.null_count:
        return _array(column, name)
    values = _array(column.drop_null(), name)
    if np.isnan(unknown) and values.dtype.kind != "f":
        values = values.astype(np.float64)
    full = np.full((len(column), *values.shape[1:]), unknown, dtype=values.dtype)
    full[column.is_valid().to_numpy(zero_copy_only=False)] = values
    return full


def _array(column: Any, name: str) -> Array:
    n = len(column)
    width: tuple[int, ...] = ()
    while hasattr(column, "flatten") and pa.types.is_nested(column.type):
        lengths = column.value_lengths().unique().to_pylist()
        if len(lengths) > 1:
            raise BadData(
                f"the lists of the column {name!r} have several lengths, {lengths[0]} and "
                f"{lengths[1]}: all states need the same"
            )
        column, width = column.flatten(), (-1,)
    array = column.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "biuf":
        raise BadData(f"the column {name!r} must be numeric, but is {column.type}")
    return np.asarray(array.reshape(n, *width))


def _feature_names(table: Table, columns: Columns) -> tuple[str, ...]:
    """Name the values of a state: a list has several."""
    names: list[str] = []
    first = next((i for i, n in enumerate(table.lengths) if n), None)
    for name in columns.features:
        if first is None or not pa.types.is_nested(table.schema.field(name).type):
            names.append(name)
            continue
        value = _values(table.read(first, [name]).slice(0, 1), name)
        names += [f"{name}[{i}]" for i in range(_array(value, name).shape[1])]
    return tuple(columns.written.get("feature_names", names))
