"""Policies in the plane, and in order.

- `tsne_map`: a `PolicyMap` from vectors or from distances alone.
- `positions_of`: where the policies of a space lie.
- `place`: new policies in an existing map, which does not move.
- `LandmarkMap`: a map of main directions that never moves, from distances alone.
- `BehaviourMeasures`: what archives of quality diversity sort solutions by.
- `compare_groups`: whether groups of runs differ, and how diverse each is.
- `leaf_order`, `group_order`: the order of rows in a heatmap.
"""

from __future__ import annotations

from pivec.maps.groups import GroupComparison, compare_groups, groups_in
from pivec.maps.landmarks import LandmarkMap
from pivec.maps.layout import positions_of
from pivec.maps.measures import BehaviourMeasures
from pivec.maps.order import group_order, leaf_order
from pivec.maps.place import place, place_by_distances
from pivec.maps.tsne import PolicyMap, tsne_map

__all__ = [
    "BehaviourMeasures",
    "GroupComparison",
    "LandmarkMap",
    "PolicyMap",
    "compare_groups",
    "group_order",
    "groups_in",
    "leaf_order",
    "place",
    "place_by_distances",
    "positions_of",
    "tsne_map",
]
