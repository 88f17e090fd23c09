"""Pictures of states, drawn in processes: an environment that crashes there ends nothing here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from pivec.engines.old_processes import map_processes
from pivec.engines.workers import usable_cores
from pivec.errors import UsageError
from pivec.explanations.film.drawing import WIDTH, Job, Share, attempt, draw_stills, work
from pivec.explanations.film.replay import Replayer, Take
from pivec.progress import Progress
from pivec.rollouts.environment import Environment

_DEATHS = 3  # of processes, before what is left is given up


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
    return fulfil(replayer, still_orders(replayer, wanted, folder), progress)


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
        shot = (take.until(max(absent)), absent) if absent else None
        orders.append(Order(files, shot and (draw_stills, shot)))
    return orders


def digests(world: Environment, take: Take, steps: Sequence[int]) -> dict[int, str]:
    """Name steps by all that their pictures depend on: environment, actions and states until then.

    A function as a policy has its name as fingerprint, so what it did counts as well.
    """
    last = max(steps, default=0)
    if not 0 <= min(steps, default=0) <= last <= take.last:
        raise UsageError(f"there is no step {last} to draw: expected 0 to {take.last}")
    known: list[Any] = [world.name, dict(world.arguments), world.wrapper_names, world.imports]
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


def fulfil(replayer: Replayer, orders: Sequence[Order], progress: bool = False) -> list[Any]:
    """Draw all orders in processes; give their files, or where it failed a sentence why.

    A job that ends its process is the first that has not been heard of; those after it go on in
    another. An environment that cannot be sent there draws in this process.
    """
    left = {k: order.job for k, order in enumerate(orders) if order.job is not None}
    if not left:
        return [order.files for order in orders]
    studio, reasons, deaths = replayer.studio, dict[int, str](), 0
    with Progress("filming", len(left), unit="episodes", show=progress) as bar:

        def note(number: int, reason: str | None) -> None:
            del left[number]
            bar.advance()
            if reason is not None:
                reasons[number] = reason

        while left:
            n, numbers = min(usable_cores(), len(left)), list(left)
            shares = [Share(studio, {k: left[k] for k in numbers[i::n]}) for i in range(n)]
            for reply in map_processes(work, shares, jobs=n, parts=Share.parts, threads=1):
                share = shares[reply.number]
                if reply.content is not None:
                    note(*reply.content)
                elif isinstance(reply.failure, UsageError):  # it cannot travel
                    for number, job in share.jobs.items():
                        note(number, attempt(studio, *job))
                elif reply.failure is not None:
                    deaths += 1
                    culprit = [number for number in share.jobs if number in left]
                    for number in culprit if deaths >= _DEATHS else culprit[:1]:
                        note(number, f"{studio.world.name} cannot be filmed: {reply.failure}")
    return [reasons.get(number, order.files) for number, order in enumerate(orders)]
