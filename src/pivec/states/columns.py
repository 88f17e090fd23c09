"""Which column of a table tells what: by name, or as the user says."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pivec.errors import BadData, PivecWarning, UsageError, did_you_mean
from pivec.options import TableOptions

# What columns are usually called, small and with _ between words; the first that is there counts.
NAMES: dict[str, tuple[str, ...]] = {
    "training_step": ("training_step", "training_steps", "train_step", "checkpoint_step",
                      "checkpoint", "global_step"),
    "policy": ("policy", "label", "policy_label", "policy_name", "policy_id", "agent", "model",
               "checkpoint"),
    "group": ("group", "run", "run_name", "run_id"),
    "episode": ("episode", "episode_id", "episode_index", "episode_number", "trajectory",
                "trajectory_id", "traj", "traj_id"),
    "step": ("step", "time_step", "timestep", "time", "t", "frame_index", "timestamp"),
    "return": ("return", "returns", "episode_return", "total_reward"),
    "reward": ("reward", "rewards", "next.reward"),
    "seed": ("seed", "episode_seed"),
    "terminated": ("terminated", "terminal", "terminals", "termination", "terminations", "done",
                   "dones", "next.done"),
    "truncated": ("truncated", "truncation", "truncations", "timeout", "timeouts"),
}  # fmt: skip
_OF_ANY_KIND = {"policy", "group", "episode"}  # the others are numbers
_ACTION = re.compile(r"(actions?|act)(\[\d+\]|[_.]?\d+)?")
_INDEX = re.compile(r"(|index|unnamed:_\d+|__index_level_\d+__)")  # that pandas writes
_TOLD = 8  # columns that a sentence names
KEYS = ("policy", "group", "training_step")  # whose a row is
METADATA = b"pivec"  # under which a table that pivec wrote tells its features


@dataclass(frozen=True)
class Columns:
    """The columns of a table by what they tell; ``roles`` has those of `NAMES` that are there."""

    roles: Mapping[str, str]
    features: tuple[str, ...]
    actions: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # next_x of each feature x
    written: Mapping[str, Any] = field(default_factory=dict)  # what pivec itself wrote into it

    @property
    def all(self) -> list[str]:
        """Every column that is read of a policy."""
        own = [name for role, name in self.roles.items() if role not in KEYS]
        return list(dict.fromkeys([*own, *self.features, *self.actions, *self.after]))

    @property
    def keys(self) -> list[str]:
        """The columns that tell whose a row is."""
        return [self.roles[role] for role in KEYS if role in self.roles]


def find_columns(
    schema: pa.Schema, options: TableOptions, written: Mapping[str, Any] | None = None
) -> Columns:
    """Find what the columns of a table tell; what is left out is said.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"agent": ["a"], "t": [0], "x": [0.5], "y": [1.0], "action": [1]})
    >>> known = find_columns(table.schema, TableOptions())
    >>> dict(known.roles), known.features, known.actions
    ({'policy': 'agent', 'step': 't'}, ('x', 'y'), ('action',))
    """
    names, written = list(schema.names), written or {}
    if len(set(names)) < len(names):
        raise BadData("two of its columns have the same name: rename one of them")
    roles, spare = _roles(schema, options)
    left = [name for name in names if name not in {*roles.values(), *spare}]
    actions = _given(options.action_columns, names, "--action") or [
        name for name in left if _ACTION.fullmatch(_plain(name))
    ]
    features = _given(options.feature_columns, names, "--feature") or list(
        written.get("features", ())
    )
    if not features:
        left = [name for name in left if name not in actions]
        features = [name for name in left if is_numeric(schema.field(name).type)]
        features = [name for name in features if not _INDEX.fullmatch(_plain(name))]
        following = {_next(name) for name in features} & set(features)
        features = [name for name in features if name not in following]
        spare += [name for name in left if _plain(name) and name not in {*features, *following}]
    if not features:
        raise BadData(
            f"it has no columns of numbers for the states, only {_list(names)}: name them with "
            "--feature of `pivec import`"
        )
    if spare and not written and not options.feature_columns:
        warnings.warn(
            f"columns that are no part of the states are left out: {_list(spare)} (name those of "
            "the states with --feature of `pivec import`, in Python feature_columns=)",
            PivecWarning,
            stacklevel=2,
        )
    after = [_next(name) for name in features]
    is_whole = set(after) <= set(names)
    return Columns(
        roles, tuple(features), tuple(actions), tuple(after) if is_whole else (), written
    )


def _roles(schema: pa.Schema, options: TableOptions) -> tuple[dict[str, str], list[str]]:
    """Find the column of each role, and others of that name, which tell nothing more."""
    roles: dict[str, str] = {}
    spare: list[str] = []
    names = schema.names
    used = {*options.feature_columns, *options.action_columns}
    for role, usual in NAMES.items():
        given = getattr(options, f"{role}_column", None)
        if given is not None:
            [roles[role]] = _given([given], names, f"--{role.replace('_', '-')}-column")
            continue
        known = {_plain(name): name for name in names if name not in used}
        mine = [known[name] for name in usual if name in known]
        mine = [name for name in mine if name not in roles.values()]
        if role not in _OF_ANY_KIND:
            kinds = {name: schema.field(name).type for name in mine}
            timed = pa.types.is_temporal if role == "step" else is_numeric
            mine = [name for name in mine if is_numeric(kinds[name]) or timed(kinds[name])]
        if mine:
            roles[role], *others = mine
            spare += others
    return roles, [name for name in spare if name not in roles.values()]


def _given(wanted: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    """Check that columns the user names are there."""
    for name in wanted:
        if name not in names:
            raise UsageError(
                f"there is no column {name!r}, which {option} names"
                f"{did_you_mean(name, names)}: it has {_list(names)}"
            )
    return list(wanted)


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def _next(name: str) -> str:
    return f"next_{name}"


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return ", ".join(map(repr, names[:_TOLD])) + more


def is_numeric(kind: pa.DataType) -> bool:
    """Tell whether values of a column are numbers, or lists of them."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return is_numeric(kind.value_type)
    numbers = pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean
    return any(is_kind(kind) for is_kind in numbers)
