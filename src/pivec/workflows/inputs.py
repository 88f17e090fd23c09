"""The sides of a question: one policy of a file, a folder or a store, and the states it visited."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pivec.arguments import Range
from pivec.characterizations import Characterization, Descriptions
from pivec.errors import PivecWarning, UsageError
from pivec.options import CollectOptions
from pivec.policies import NamedPolicy, PolicyInfo, find_policy, first_names, name_policies
from pivec.rollouts import BACKENDS, Environment, environment_of
from pivec.states import RecordedStates, Store, VisitedStates, find_recorded, is_recorded
from pivec.workflows.collect import Collector

Level = Annotated[float, Range(0.5, above=True, most=0.9999)]

_ALIKE = ("deterministic", "max_steps", "max_states_per_policy", "actions", "backend")
_WORLD = ("environment", "arguments", "wrappers", "features", "deterministic", "max_steps")


@dataclass(frozen=True)
class Side:
    """One policy: what still has to act (or to be read), or what is there of it already."""

    name: str  # what the user calls it
    acting: Any = None
    data: VisitedStates | None = None
    described: Descriptions | None = None  # in a space that has no states
    info: PolicyInfo | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # how its states were collected

    @property
    def label(self) -> str:
        """What the policy is called."""
        return self.name if self.info is None else self.info.label

    @property
    def states(self) -> VisitedStates:
        """The states that it visited, which must be there."""
        if self.data is None:
            raise UsageError(f"the states of {self.label} are not there")
        return self.data


def find_side(thing: Any, options: CollectOptions) -> Side:
    """Find the policy that is meant: by a file, a store, ``random``, an object, `VisitedStates`.

    Of a folder or store of several policies it is the one that ``FOLDER:label`` names, or the last
    step of a run.
    """
    if isinstance(thing, VisitedStates):
        row = choose(thing.policies, "", "the data")
        return Side(thing.labels[row], data=thing.select([row]), info=thing.policies[row])
    label, name = "", str(thing)
    if isinstance(thing, str | os.PathLike):
        where, label = split_label(os.fspath(thing))
        if (store := find_store(where)) is not None:
            infos = store.policies
            info = infos[choose(infos, label, where)]
            return Side(name, data=store[info.label], info=info, settings=store.settings)
        if is_recorded(name):
            return Side(name, acting=name)
        thing = where
    allowed = options.trust, options.without_normaliser, options.skip_unreadable
    named = name_policies([thing], *allowed)
    chosen = named[choose([policy.info for policy in named], label, name)]
    return Side(name, acting=chosen, info=chosen.info)


def split_label(text: str) -> tuple[str, str]:
    """Separate a folder from the label behind it: ``runs:ppo/1000``.

    Examples
    --------
    >>> split_label("random"), split_label("/:ppo/1000")
    (('random', ''), ('/', 'ppo/1000'))
    """
    parts = os.path.expanduser(text).removeprefix("store:").split(":")
    for count in range(len(parts), 0, -1):
        if os.path.exists(where := ":".join(parts[:count])):
            return where, ":".join(parts[count:])
    return text, ""


def find_store(folder: str | Path) -> Store | None:
    """Open a store, or the states of a comparison, where there is one."""
    path = Path(folder)
    return Store.find(path) if Store.exists(path) or Store.exists(path / "states") else None


def choose(policies: Sequence[PolicyInfo], label: str, where: str) -> int:
    """Tell which policy of a folder is meant: that of the label, the only one, or the last step."""
    if not policies:
        raise UsageError(f"{where} holds no policies yet")
    labels = [info.label for info in policies]
    if label:
        return find_policy(policies, label, where)
    if len(policies) == 1:
        return 0
    steps = [info.step for info in policies if info.step is not None]
    last = max(steps, default=0)
    if len(steps) < len(policies) or steps.count(last) > 1 or len({p.group for p in policies}) > 1:
        raise UsageError(
            f"{where} has {len(policies)} policies, but one is asked for: name it behind a colon, "
            f"as in {where}:{labels[0]} (there are {first_names(labels)})"
        )
    row = steps.index(last)
    warnings.warn(
        f"{where} has {len(policies)} policies: the last step, {labels[row]}, is taken; name "
        f"another behind a colon, as in {where}:{labels[0]}",
        PivecWarning,
        stacklevel=2,
    )
    return row


def visit(
    sides: Sequence[Side],
    env: Any,
    options: CollectOptions,
    elsewhere: Mapping[str, Any],
    progress: bool = False,
) -> list[Side]:
    """Let those act whose states are not there; ``elsewhere`` is how others were collected.

    What the user leaves open is as there. No two sides play the same episodes: a policy that is on
    both sides gets another seed on the second.
    """
    if all(side.acting is None for side in sides):
        return list(sides)
    nobody = all(side.acting is None or is_recorded(side.acting) for side in sides)
    if env is None and nobody and not elsewhere.get("environment"):
        return [_read(side, options.max_states_per_policy) for side in sides]
    # What a store or space tells is trusted as little as what a policy's file does.
    source = next((side.name for side in sides if side.settings), "the space")
    telling = [PolicyInfo("", source=source, metadata=dict(elsewhere))]
    files = [side.info for side in sides if side.info is not None]
    acting = [side.acting.policy for side in sides if isinstance(side.acting, NamedPolicy)]
    environment = environment_of(env, telling if elsewhere else files, options, acting)
    options = replace(_alike(options, elsewhere), env_kwargs=None, wrappers=(), imports=())
    result: list[Side] = []
    for side in sides:
        seed = _other_seed(side, [*result, *sides], options.seed)
        chosen = replace(options, seed=seed)
        result.append(side if side.acting is None else _played(side, environment, chosen, progress))
    return result


def _read(side: Side, max_states: int | None) -> Side:
    """Read the states of a side that were recorded, with no environment."""
    if side.acting is None:
        return side
    read = RecordedStates(find_recorded(side.acting), max_states_per_policy=max_states)
    data = read.run()
    row = choose(data.policies, "", side.name)
    return replace(side, data=data.select([row]), info=data.policies[row], settings=read.settings)


def _played(side: Side, environment: Environment, options: CollectOptions, progress: bool) -> Side:
    collector = Collector(environment, [side.acting], options, progress=progress)
    data = collector.run()
    row = choose(data.policies, "", side.name)
    return replace(
        side, data=data.select([row]), info=data.policies[row], settings=collector.settings
    )


def _alike(options: CollectOptions, elsewhere: Mapping[str, Any]) -> CollectOptions:
    """Take from ``elsewhere`` what the user left at its default."""
    default = CollectOptions()
    open_ = [name for name in _ALIKE if getattr(options, name) == getattr(default, name)]
    taken = {name: elsewhere[name] for name in open_ if name in elsewhere}
    if taken.get("backend") not in BACKENDS:
        taken.pop("backend", None)
    return replace(options, **taken)


def _other_seed(side: Side, others: Sequence[Side], seed: int) -> int:
    """Give a seed of which no other side with the same policy has episodes."""
    if side.info is None or side.acting is None:
        return seed
    taken = {
        other.settings["seed"]
        for other in others
        if other.info is not None
        and other.info.identity == side.info.identity
        and "seed" in other.settings
    }
    free = seed
    while free in taken:
        free += 1
    if free != seed:
        warnings.warn(
            f"both sides are one policy, {side.info.label}: the second plays other episodes (seed "
            f"{free}), so what is tested is the environment and chance",
            PivecWarning,
            stacklevel=3,
        )
    return free


def check_sides(a: Side, b: Side) -> None:
    """Warn of sides that were collected otherwise, or share some of their episodes."""
    for key in _WORLD:
        if key in a.settings and key in b.settings and a.settings[key] != b.settings[key]:
            warnings.warn(
                f"{a.name} was collected with {key} = {a.settings[key]!r}, {b.name} with "
                f"{b.settings[key]!r}: what differs may come from that",
                PivecWarning,
                stacklevel=3,
            )
    if a.data is None or b.data is None:
        return
    copies = _copies(a.data, b.data)
    if copies and not copies == a.data.n_episodes == b.data.n_episodes:  # which intervals say
        warnings.warn(
            f"{copies} episodes are in both {a.name} and {b.name}: copies are not samples, so the "
            "verdict says little; collect one of them with another --seed",
            PivecWarning,
            stacklevel=3,
        )


def named_apart(a: Side, b: Side) -> Side:
    """Call ``b`` the second if both are called the same."""
    if a.label != b.label or b.info is None:
        return b
    info = replace(b.info, label=f"{b.label} (second)")
    records = [replace(record, info=info) for record in b.states.records]
    data = VisitedStates(records, b.states.feature_names, b.states.environment)
    return replace(b, data=data, info=info)


def describe_side(method: Characterization, side: Side) -> VisitedStates | Descriptions:
    """What intervals are made of: descriptions with influences, or the states themselves."""
    if side.described is not None:
        return side.described
    return (
        method.describe(side.states, influences=True) if method.traits.influences else side.states
    )


def squares(method: Characterization, distance: Any, margin: float) -> tuple[Any, float]:
    """Give distance and margin as squares, in which variances are."""
    return (distance, margin) if method.traits.squared else (distance * abs(distance), margin**2)


def _copies(a: VisitedStates, b: VisitedStates) -> int:
    """Count episodes that both have: those of one seed, or all if seeds are not known.

    Where there are few states, episodes of other seeds may be equal by chance.
    """
    left, right = list(a.episodes()), list(b.episodes())
    if (a.seeds < 0).any() or (b.seeds < 0).any():
        pairs = list(zip(left, right, strict=False))
        return len(pairs) * all(np.array_equal(i, j) for i, j in pairs)
    shared = zip(*np.intersect1d(a.seeds, b.seeds, return_indices=True)[1:], strict=True)
    return sum(np.array_equal(left[i], right[j]) for i, j in shared)
