"""Where a watch begins: with the space that its folder holds, an earlier one, or none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pivec.characterizations.base import Characterization
from pivec.characterizations.space import Space
from pivec.comparison import SPACE, STATES
from pivec.errors import UsageError
from pivec.options import CollectOptions
from pivec.policies.policy import PolicyInfo
from pivec.run_log import RunLog
from pivec.states import Store

_OF_SPEED = {"progress", "n_jobs", "device"}  # parameters that numbers do not depend on


def own_policies(space: Space) -> list[PolicyInfo]:
    """Policies of a space that are there for themselves."""
    return list(space.descriptions.policies[: len(space.descriptions) - space.n_reference])


def known_space(
    log: RunLog, collecting: CollectOptions, method: Characterization, earlier: Space | None
) -> Space | None:
    """Load the space that the folder holds, which must be of the same command.

    Without one it is the ``earlier`` space, all of it for reference, or none.
    """
    folder = log.folder
    if not (folder / SPACE).exists():
        if earlier is None:
            return None
        if earlier.positions is None:
            raise UsageError("the space has no map to place policies in: run `pivec map` first")
        return replace(earlier, n_reference=len(earlier.descriptions), n_placed=0)
    space = Space.load(folder)
    asked = {"method": method.name, "episodes": collecting.episodes}
    known = {"method": space.method.name, "episodes": log.settings.get("episodes")}
    if space.method.name == method.name:
        asked |= _numbers(method)
        known |= _numbers(space.method)
    for key, value in asked.items():
        if known[key] not in (value, None):
            raise UsageError(
                f"{folder} was made with {key} = {known[key]!r}, but now {value!r} is asked for: "
                "use the same, or another folder"
            )
    kept = Store(folder / STATES).rows if Store.exists(folder / STATES) else {}
    if not {row["fingerprint"] for row in kept.values()} >= {
        i.identity for i in own_policies(space)
    }:
        raise UsageError(
            f"{folder} holds a space, but not the states of all its policies: choose another "
            "folder, with this one as --space"
        )
    return space


def _numbers(method: Characterization) -> dict[str, Any]:
    """Give the parameters that numbers depend on, as they come back from a file."""
    parameters = json.loads(method.parameters_json())
    return {key: value for key, value in parameters.items() if key not in _OF_SPEED}
