"""Policies with the same weights and settings under several names, which count once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pivec.errors import PivecWarning
from pivec.policies.paths import natural_key, read_step
from pivec.policies.policy import ALSO, NamedPolicy, PolicyInfo, also_called

_NAMED = 5  # how many copies are named in a warning


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
        info, *others = sorted(infos, key=precedence)
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
            stacklevel=4,
        )
    return [
        replace(named, info=kept[named.info.label])
        for named in policies
        if named.info.label in kept
    ]


def precedence(info: PolicyInfo) -> tuple[Any, ...]:
    """Give the key by which the first of several copies is the one that stays."""
    name = info.label.rpartition("/")[2]
    return read_step(name) is None, info.step is None, natural_key(info.label)
