"""Pictures of regions: of a state near the middle of each, from few episodes played again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pivec.explanations.film.frames import film
from pivec.explanations.film.replay import CannotReplay, Replayer, Take
from pivec.explanations.regions.visits import Near, Visit
from pivec.states.visited import VisitedStates

EPISODES = 8  # of a policy and region that are chosen from
_ALIKE = 0.25  # deviations: a state that is no farther off than that shows the region as well
_ROUNDS = 3  # in which other policies are tried where some cannot be played again


@dataclass(frozen=True)
class Frame:
    """The picture of a state that was visited."""

    visit: Visit
    path: Path


def region_frames(
    replayer: Replayer,
    near: Near,
    data: VisitedStates,
    regions: Collection[int],
    folder: str | Path,
    progress: bool = False,
) -> tuple[dict[int, Frame], list[str]]:
    """Draw a state near the middle of each of the regions.

    Returns
    -------
    dict from region to Frame
        Of those that could be drawn.
    list of str
        Why others could not, each reason once.
    """
    takes: dict[tuple[int, int], Take] = {}
    chosen: dict[int, int] = {}  # the row of `near` that shows a region
    reasons: dict[str, None] = {}  # as a set that keeps its order
    refused: set[int] = set()  # policies
    wanted = set(regions) & set(near.region.tolist())
    for _ in range(_ROUNDS):
        rows = choose(near, wanted - set(chosen), refused)
        pairs = sorted({(int(near.policy[row]), int(near.episode[row])) for row in rows.values()})
        new = [pair for pair in pairs if pair not in takes]
        played = replayer.stored_many([(data.labels[policy], number) for policy, number in new])
        for pair, take in zip(new, played, strict=True):
            if isinstance(take, CannotReplay):
                refused.add(pair[0])
                reasons.setdefault(str(take))
            else:
                takes[pair] = take
        for region, row in rows.items():
            if (int(near.policy[row]), int(near.episode[row])) in takes:
                chosen[region] = row
    steps: dict[tuple[int, int], dict[int, int]] = {}  # of each take, the step by region
    for region, row in chosen.items():
        pair = int(near.policy[row]), int(near.episode[row])
        steps.setdefault(pair, {})[region] = int(near.step[row])
    jobs = [(takes[pair], sorted(set(mine.values()))) for pair, mine in steps.items()]
    frames: dict[int, Frame] = {}
    for mine, files in zip(steps.values(), film(replayer, jobs, folder, progress), strict=True):
        if isinstance(files, str):
            reasons.setdefault(files)
            continue
        for region, step in mine.items():
            frames[region] = Frame(near.visit(chosen[region], data), files[step])
    return frames, list(reasons)


def choose(near: Near, regions: Collection[int], refused: Collection[int]) -> dict[int, int]:
    """Choose a row for each region, of few episodes: those that show several come first.

    A state counts if it is hardly farther from the middle than the nearest.
    """
    rows = np.flatnonzero(
        np.isin(near.region, list(regions)) & ~np.isin(near.policy, list(refused))
    )
    nearest = np.full(int(near.region.max(initial=0)) + 1, np.inf)
    np.minimum.at(nearest, near.region[rows], near.distance[rows])
    rows = rows[near.distance[rows] <= nearest[near.region[rows]] + _ALIKE]
    episodes: NDArray[np.intp] = near.policy[rows] * (near.episode.max(initial=0) + 1)
    _, episodes = np.unique(episodes + near.episode[rows], return_inverse=True)
    result: dict[int, int] = {}
    shown = np.zeros(len(nearest), dtype=np.bool_)
    while len(rows):
        excess = near.distance[rows] - nearest[near.region[rows]]
        # An episode is worth the regions that it shows, a little less where it is farther off.
        worth = np.bincount(episodes, 1.0 - excess)
        mine = episodes == worth.argmax()
        result |= dict(zip(near.region[rows[mine]].tolist(), rows[mine].tolist(), strict=True))
        shown[near.region[rows[mine]]] = True
        left = ~shown[near.region[rows]]
        rows, episodes = rows[left], episodes[left]
    return result
