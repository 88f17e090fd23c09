"""Policies that are the same under several names, counted once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pivec.errors import PivecWarning
from pivec.policies.paths import natural_key, read_step
from pivec.policies.policy import NamedPolicy, PolicyInfo

ALSO = "also"  # under which the metadata of a policy keep its other names
_NAMED = 5  # how many are named in a warning


def without_copies(policies: Sequence[NamedPolicy]) -> list[NamedPolicy]:
    """Keep one of those with equal fingerprints; warn, and keep the other names as metadata.

    Their episodes would be the same ones, not independent samples. The name that tells a training
    step stays, then that of a policy which knows its step, then the first in natural order.
    """
    same: dict[str, list[PolicyInfo]] = {}
    for named in policies:
        same.setdefault(named.info.identity, []).append(named.info)
    kept: dict[str, PolicyInfo] = {}
    names = []
    for infos in same.values():
        info, *others = sorted(infos, key=_precedence)
        if others:
            also = {ALSO: [other.label for other in others]}
            info = replace(info, metadata={**info.metadata, **also})
            names.append(f"{info.label} ({also_called(info)})")
        kept[info.label] = info
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        warnings.warn(
            f"{len(policies) - len(kept)} of {len(policies)} policies are copies of others, with "
            f"the same weights and settings, and count once: {', '.join(names[:_NAMED])}{more}",
            PivecWarning,
            stacklevel=3,
        )
    return [
        replace(named, info=kept[named.info.label])
        for named in policies
        if named.info.label in kept
    ]


def _precedence(info: PolicyInfo) -> tuple[Any, ...]:
    name = info.label.rpartition("/")[2]
    return read_step(name) is None, info.step is None, natural_key(info.label)


def other_names(info: PolicyInfo) -> list[str]:
    """Give the names of the copies of a policy."""
    names = info.metadata.get(ALSO)  # which a file may hold for reasons of its own
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def also_called(info: PolicyInfo) -> str:
    """Say the other names of a policy; empty if it has none.

    Examples
    --------
    >>> also_called(PolicyInfo("run/step_10", metadata={"also": ["run/best"]}))
    'also run/best'
    """
    names = other_names(info)
    return f"also {', '.join(names)}" if names else ""
