"""Single policies from files, folders, stores or data, and the states they visited."""

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
from pivec.files import is_uri
from pivec.options import CollectOptions
from pivec.policies import NamedPolicy, PolicyInfo, find_policy, first_names, name_policies
from pivec.rollouts import BACKENDS, environment_of
from pivec.states import (
    RecordedStates,
    Store,
    VisitedStates,
    find_recorded,
    is_recorded,
)
from pivec.workflows.collect import Collector

Level = Annotated[float, Range(0.5, above=True, most=0.9999)]

_INHERITED = ("deterministic", "max_steps", "max_states_per_policy", "actions", "backend")
_COMPARED = ("environment", "arguments", "wrappers", "features", "deterministic", "max_steps")


@dataclass(frozen=True)
class PolicyInput:
    """One policy: what is still to be run or read, or what is known of it already."""

    name: str  # as the user calls it
    source: Any = None  # a policy to run, or the name of recorded states
    data: VisitedStates | None = None
    described: Descriptions | None = None  # in a space without states
    info: PolicyInfo | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # how its states were collected

    @property
    def label(self) -> str:
        """The label of the policy."""
        return self.name if self.info is None else self.info.label

    @property
    def states(self) -> VisitedStates:
        """The states that it visited, which must be known."""
        if self.data is None:
            raise UsageError(f"the states of {self.label} are not stored")
        return self.data

    def with_states(self, data: VisitedStates, settings: Mapping[str, Any]) -> PolicyInput:
        """Add the states of the policy that is meant among those of ``data``."""
        row = choose(data.policies, "", self.name)
        return replace(self, data=data.select([row]), info=data.policies[row], settings=settings)


def find_input(thing: Any, options: CollectOptions) -> PolicyInput:
    """Find one policy by a file, a store, ``random``, an object or `VisitedStates`.

    Of a folder or store of several policies it is the one that ``FOLDER:label`` names, or the last
    step of a run.
    """
    if isinstance(thing, VisitedStates):
        return PolicyInput("the data").with_states(thing, {})
    label, name = "", str(thing)
    if isinstance(thing, str | os.PathLike):
        where, label = split_label(os.fspath(thing))
        if (store := find_store(where)) is not None:
            infos = store.policies
            info = infos[choose(infos, label, where)]
            return PolicyInput(name, data=store[info.label], info=info, settings=store.settings)
        if is_recorded(name):
            return PolicyInput(name, source=name)
        thing = where
    allowed = options.trust, options.without_normaliser, options.skip_unreadable
    named = name_policies([thing], *allowed)
    chosen = named[choose([policy.info for policy in named], label, name)]
    return PolicyInput(name, source=chosen, info=chosen.info)


def split_label(text: str) -> tuple[str, str]:
    """Separate a folder from the label after it: ``runs:ppo/1000``."""
    parts = os.path.expanduser(text).removeprefix("store:").split(":")
    for count in range(len(parts), 0, -1):
        if os.path.exists(where := ":".join(parts[:count])):
            return where, ":".join(parts[count:])
    return text, ""


def find_store(source: Any) -> Store | None:
    """Open the store, or the states of a comparison, that a path or URI names; None otherwise."""
    if not isinstance(source, str | os.PathLike):
        return None
    text = os.fspath(source).removeprefix("store:")
    place: Any = text if is_uri(text) else Path(text).expanduser()
    within = f"{text.rstrip('/')}/states" if is_uri(text) else Path(place) / "states"
    return Store.find(place) if Store.exists(place) or Store.exists(within) else None


def choose(policies: Sequence[PolicyInfo], label: str, where: str) -> int:
    """Find the policy of a folder that is meant: by label, the only one, or the last step."""
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
            f"{where} has {len(policies)} policies, but one is expected: name it after a colon, "
            f"as in {where}:{labels[0]} (there are {first_names(labels)})"
        )
    row = steps.index(last)
    warnings.warn(
        f"{where} has {len(policies)} policies: using the last step, {labels[row]}; name another "
        f"after a colon, as in {where}:{labels[0]}",
        PivecWarning,
        stacklevel=2,
    )
    return row


def collect_inputs(
    inputs: Sequence[PolicyInput],
    env: Any,
    options: CollectOptions,
    stored: Mapping[str, Any],
    progress: bool = False,
) -> list[PolicyInput]:
    """Collect the states that are not known; ``stored`` is how others were collected.

    Options that the user did not set are taken from there. No two inputs play the same episodes: a
    policy that is given twice gets another seed the second time.
    """
    if all(item.source is None for item in inputs):
        return list(inputs)
    runs_none = all(item.source is None or is_recorded(item.source) for item in inputs)
    if env is None and runs_none and not stored.get("environment"):
        return [_read(item, options.max_states_per_policy) for item in inputs]
    # What a store or space names is trusted as little as what a policy file names.
    place = next((item.name for item in inputs if item.settings), "the space")
    files = [item.info for item in inputs if item.info is not None]
    infos = [PolicyInfo("", source=place, metadata=dict(stored))] if stored else files
    acting = [item.source.policy for item in inputs if isinstance(item.source, NamedPolicy)]
    environment = environment_of(env, infos, options, acting)
    default = CollectOptions()
    inherited = {
        name: stored[name]
        for name in _INHERITED
        if name in stored and getattr(options, name) == getattr(default, name)
    }
    if inherited.get("backend") not in BACKENDS:
        inherited.pop("backend", None)
    options = replace(options, **inherited, env_kwargs=None, wrappers=(), imports=())
    result: list[PolicyInput] = []
    for item in inputs:
        if item.source is not None:
            chosen = replace(options, seed=_free_seed(item, [*result, *inputs], options.seed))
            collector = Collector(environment, [item.source], chosen, progress=progress)
            result.append(item.with_states(collector.run(), collector.settings))
        else:
            result.append(item)
    return result


def _read(item: PolicyInput, max_states: int | None) -> PolicyInput:
    """Read recorded states, without an environment."""
    if item.source is None:
        return item
    recordings = RecordedStates(find_recorded(item.source), max_states_per_policy=max_states)
    return item.with_states(recordings.run(), recordings.settings)


def _free_seed(item: PolicyInput, others: Sequence[PolicyInput], seed: int) -> int:
    """Return a seed with which no other input has episodes of the same policy."""
    if item.info is None:
        return seed
    taken = {
        other.settings["seed"]
        for other in others
        if other.info is not None
        and other.info.identity == item.info.identity
        and "seed" in other.settings
    }
    free = seed
    while free in taken:
        free += 1
    if free != seed:
        warnings.warn(
            f"{item.info.label} is compared with itself: the second sample has other episodes "
            f"(seed {free})",
            PivecWarning,
            stacklevel=3,
        )
    return free


def warn_of_mismatch(a: PolicyInput, b: PolicyInput) -> None:
    """Warn of inputs that were collected differently, or share some of their episodes."""
    for key in _COMPARED:
        if key in a.settings and key in b.settings and a.settings[key] != b.settings[key]:
            warnings.warn(
                f"{a.name} was collected with {key} = {a.settings[key]!r}, {b.name} with "
                f"{b.settings[key]!r}: differences may come from that",
                PivecWarning,
                stacklevel=3,
            )
    if a.data is None or b.data is None:
        return
    copies = _copies(a.data, b.data)
    if copies and not copies == a.data.n_episodes == b.data.n_episodes:  # which intervals report
        warnings.warn(
            f"{copies} episodes are in both {a.name} and {b.name}, so they are not independent: "
            "collect one of them with another --seed",
            PivecWarning,
            stacklevel=3,
        )


def with_unique_label(a: PolicyInput, b: PolicyInput) -> PolicyInput:
    """Rename ``b`` if both have the same label."""
    if a.label != b.label or b.info is None:
        return b
    info = replace(b.info, label=f"{b.label} (second)")
    records = [replace(record, info=info) for record in b.states.records]
    data = VisitedStates(records, b.states.feature_names, b.states.environment)
    return replace(b, data=data, info=info)


def describe_input(method: Characterization, item: PolicyInput) -> VisitedStates | Descriptions:
    """Return what intervals are made of: descriptions with influences, or the states."""
    if item.described is not None:
        return item.described
    return (
        method.describe(item.states, influences=True) if method.traits.influences else item.states
    )


def squares(method: Characterization, distance: Any, margin: float) -> tuple[Any, float]:
    """Return distance and margin as squares, the units of variances."""
    return (distance, margin) if method.traits.squared else (distance * abs(distance), margin**2)


def _copies(a: VisitedStates, b: VisitedStates) -> int:
    """Count episodes that both have: those of one seed, or all if seeds are not known.

    With few states, episodes of different seeds may be equal by chance.
    """
    left, right = list(a.episodes()), list(b.episodes())
    if (a.seeds < 0).any() or (b.seeds < 0).any():
        pairs = list(zip(left, right, strict=False))
        return len(pairs) * all(np.array_equal(i, j) for i, j in pairs)
    shared = zip(*np.intersect1d(a.seeds, b.seeds, return_indices=True)[1:], strict=True)
    return sum(np.array_equal(left[i], right[j]) for i, j in shared)
