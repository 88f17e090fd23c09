"""Pictures of states, drawn in processes: an environment that crashes there ends nothing here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from pivec.atomic import atomic_write, make_folder
from pivec.engines.engine import using
from pivec.errors import UsageError
from pivec.explanations.film.drawing import WIDTH, Files, Job, attempt, draw_stills, work
from pivec.explanations.film.replay import Replayer, Take
from pivec.progress import Progress
from pivec.rollouts.environment import Environment

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
