"""Pictures of states, drawn in processes: an environment that crashes there ends nothing here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.explanations.replay import (
    WIDTH,
    CannotReplay,
    Files,
    Job,
    Replayer,
    Take,
    attempt,
    draw_stills,
    work,
)
from pivec.explanations.visits import Frame, Near
from pivec.files import atomic_write, make_folder
from pivec.parallel import using
from pivec.rollouts import Environment
from pivec.states import VisitedStates
from pivec.terminal import Progress

_DEADLY = 3  # jobs that ended their processes, before what is left is given up


def film(
    replayer: Replayer,
    wanted: Sequence[tuple[Take, Sequence[int]]],
    folder: str | Path,
    progress: bool = False,
) -> list[dict[int, Path] | str]:
    """Draw some steps of episodes as WebP files.

    A state that differs by a bit from the take's, at any step up to those, leaves no picture of it.
    Pictures that are in the folder already are not drawn again.

    Parameters
    ----------
    replayer : Replayer
        Knows the environment.
    wanted : sequence of (Take, steps)
        Step 0 shows the first state.
    folder : path
        Where to keep the pictures.
    progress : bool
        Draw a progress bar.

    Returns
    -------
    list of dict or str
        For each take the files by their steps, or a sentence that says why there are none.
    """
    return fulfil(still_orders(replayer, wanted, folder), progress)


@dataclass(frozen=True)
class Order:
    """Files to be made, and the job that makes them; None if they are there."""

    files: Any
    job: Job | None = None


def still_orders(
    replayer: Replayer, wanted: Sequence[tuple[Take, Sequence[int]]], folder: str | Path
) -> list[Order]:
    """Order what `film` gives, to be fulfilled together with clips, which saves processes."""
    if reason := replayer.problem():
        return [Order(reason)] * len(wanted)
    orders = []
    for take, steps in wanted:
        sums = digests(replayer.environment, take, steps)
        files = {step: Path(folder) / f"{sums[step]}.webp" for step in steps}
        absent = {step: file for step, file in files.items() if not file.exists()}
        job = None
        if absent:
            job = Job(replayer.studio, draw_stills, (take.until(max(absent)), absent))
        orders.append(Order(files, job))
    return orders


def digests(world: Environment, take: Take, steps: Sequence[int]) -> dict[int, str]:
    """Name steps by all that their pictures depend on: environment, actions and states until then.

    A function as a policy has its name as fingerprint, so what it did counts as well.
    """
    last = max(steps, default=0)
    if not 0 <= min(steps, default=0) <= last <= take.last:
        raise UsageError(f"there is no step {last} to draw: expected 0 to {take.last}")
    known: list[Any] = [world.to_json()]
    known += [gymnasium.__version__, take.fingerprint, take.seed, WIDTH]
    digest = hashlib.sha256(json.dumps(known, default=repr).encode())
    names = {}
    for step in range(last + 1):
        digest.update(take.states[step].tobytes())
        if step in steps:
            names[step] = f"{digest.hexdigest()[:24]}-{step}"
        if step < last:
            digest.update(take.actions[step].tobytes())
    return names


def fulfil(orders: Sequence[Order], progress: bool = False) -> list[Any]:
    """Draw all orders in processes; give their files, or where it failed a sentence why.

    A job that ends its process costs itself alone; after a few of them the rest is not tried. An
    environment that cannot be sent there draws in this process.
    """
    left = {order.job: number for number, order in enumerate(orders) if order.job is not None}
    results = [order.files for order in orders]
    if not left:
        return results
    deadly: list[str] = []

    def jobs() -> Iterator[Job]:
        for job, number in left.items():
            if len(deadly) < _DEADLY:
                yield job
            else:
                results[number] = deadly[-1]

    with (
        Progress("filming", len(left), unit="episodes", show=progress) as bar,
        using(default="processes") as engine,
    ):
        for reply in engine.map(
            work, jobs(), name=lambda _: "an episode", parts=Job.parts, threads=1
        ):
            made = reply.content
            if isinstance(reply.failure, UsageError):  # it cannot travel
                made = attempt(reply.item)
            elif reply.failure is not None:
                made = f"{reply.item.studio.world.name} cannot be filmed: {reply.failure}"
                deadly.append(made)
            if isinstance(made, str):
                results[left[reply.item]] = made
            else:
                _write(made)
            bar.advance()
    return results


def _write(drawn: Files) -> None:
    for path, content in drawn.items():
        make_folder(path.parent)
        with atomic_write(path) as file:
            file.write(content)


# -----------------------------------------------------------------------------
# Pictures of regions: of a state near the middle of each, from few episodes played again.


EPISODES = 8  # of a policy and region that are chosen from
_ALIKE = 0.25  # deviations: a state that is no farther off than that shows the region as well
_ROUNDS = 3  # in which other policies are tried where some cannot be played again


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
