"""A space that grows: policies are added to it, and it stays as it was fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.space import Space
from pivec.policies.paths import natural_key
from pivec.policies.policy import PolicyInfo

_EARLIER = " (earlier)"


def grown_space(space: Space, new: Descriptions, infos: Sequence[PolicyInfo]) -> Space:
    """Put new policies into a space, without places on the map yet.

    ``infos`` are all policies that there are now, by the names that they have now. Rows come as
    they always would: those it was fitted on, then those added, by name, then those for reference.
    A policy that is no more, as its file was written over, is left out. But what the space was
    fitted on is where others are placed by: of that it stays for reference.
    """
    both = space.descriptions + new
    current = {info.identity: info for info in infos}
    is_there = np.array([info.identity in current for info in both.policies])
    is_placed = np.array([*space.is_placed, *[True] * len(new)])
    is_reference = np.array([*space.is_reference, *[False] * len(new)])
    fitted = np.flatnonzero(~is_placed & ~is_reference & is_there)
    added = np.flatnonzero(is_placed & is_there)
    rest = np.flatnonzero(is_reference | (~is_placed & ~is_there))
    by_name = [natural_key(current[both.policies[i].identity].label) for i in added]
    added = added[sorted(range(len(added)), key=by_name.__getitem__)]
    taken = {info.label for info in infos}
    policies = [current[both.policies[i].identity] for i in (*fitted, *added)]
    for i in rest:
        info = both.policies[i]
        clash = info.label in taken
        policies.append(replace(info, label=info.label + _EARLIER) if clash else info)
    order = np.concatenate([fitted, added, rest])
    positions = None
    if space.positions is not None:
        positions = np.concatenate([space.positions, np.full((len(new), 2), np.nan)])[order]
    return replace(
        space,
        descriptions=replace(both.select(order), policies=tuple(policies)),
        positions=positions,
        n_reference=len(rest),
        n_placed=len(added),
    )


def space_beside(earlier: Space, described: Descriptions) -> Space:
    """Put new policies before those of an earlier space; of a policy in both the new one stays."""
    new = {*described.labels, *(info.identity for info in described.policies)}
    known = [
        i
        for i, info in enumerate(earlier.descriptions.policies)
        if info.label not in new and info.identity not in new
    ]
    positions = None
    if earlier.positions is not None:
        unplaced = np.full((len(described), 2), np.nan)
        positions = np.concatenate([unplaced, earlier.positions[known]])
    both = described + earlier.descriptions.select(known)
    context = earlier.collected, len(known), earlier.reach, len(described)
    return Space(earlier.method, both, positions, *context)
