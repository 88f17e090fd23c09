"""Pictures of states, drawn in processes: an environment that crashes there ends nothing here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from pivec.atomic import make_folder
from pivec.engines.processes import map_processes
from pivec.engines.workers import usable_cores
from pivec.errors import UsageError
from pivec.explanations.drawing import WIDTH, Share, Studio, attempt, draw_stills, work
from pivec.explanations.replay import Replayer, Take
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
    if reason := replayer.problem():
        return [reason] * len(wanted)
    make_folder(folder)
    jobs: list[tuple[Take, dict[int, Path]]] = []
    for take, steps in wanted:
        sums = digests(replayer.environment, take, steps)
        jobs.append((take, {step: Path(folder) / f"{sums[step]}.webp" for step in steps}))
    missing = {
        number: (take.until(max(files)), {step: files[step] for step in absent})
        for number, (take, files) in enumerate(jobs)
        if (absent := [step for step, file in files.items() if not file.exists()])
    }
    reasons = produce(replayer.studio, draw_stills, missing, "pictures", progress)
    return [reasons.get(number) or files for number, (_, files) in enumerate(jobs)]


def digests(world: Environment, take: Take, steps: Sequence[int]) -> dict[int, str]:
    """Name steps by all that their pictures depend on: environment, actions and states until then.

    A function as a policy has its name as fingerprint, so what it did counts as well.
    """
    known: list[Any] = [world.name, dict(world.arguments), world.wrapper_names, world.imports]
    known += [gymnasium.__version__, take.fingerprint, take.seed, WIDTH]
    names = {}
    digest, done = hashlib.sha256(json.dumps(known, default=repr).encode()), 0
    for step in sorted(set(steps)):
        if not 0 <= step <= take.last:
            raise UsageError(f"there is no step {step} to draw: expected 0 to {take.last}")
        digest.update(np.ascontiguousarray(take.actions[done:step]).tobytes())
        digest.update(np.ascontiguousarray(take.states[done : step + 1]).tobytes())
        names[step], done = f"{digest.hexdigest()[:24]}-{step}", step
    return names


def produce(
    studio: Studio,
    function: Callable[[Studio, Any], None],
    jobs: Mapping[int, Any],
    unit: str,
    progress: bool = False,
) -> dict[int, str]:
    """Call ``function(studio, job)`` for all jobs in processes; say why, where it failed.

    A job that ends its process is the first that has not been heard of; those after it go on in
    another. An environment that cannot be sent there draws in this process.
    """
    left, reasons, deaths = dict(jobs), {}, 0
    with Progress("filming", len(jobs), unit=unit, show=progress) as bar:

        def note(number: int, reason: str | None) -> None:
            del left[number]
            bar.advance()
            if reason is not None:
                reasons[number] = reason

        while left:
            n, numbers = min(usable_cores(), len(left)), list(left)
            shares = [
                Share(studio, function, {k: left[k] for k in numbers[i::n]}) for i in range(n)
            ]
            replies = map_processes(work, shares, jobs=n, parts=Share.parts, threads=1)
            for reply in replies:
                share = shares[reply.number]
                if reply.content is not None:
                    note(*reply.content)
                elif isinstance(reply.failure, UsageError):  # it cannot travel
                    for number, job in share.jobs.items():
                        note(number, attempt(function, studio, job))
                elif reply.failure is not None:
                    deaths += 1
                    culprit = [number for number in share.jobs if number in left]
                    for number in culprit if deaths >= _DEATHS else culprit[:1]:
                        note(number, f"{studio.world.name} cannot be filmed: {reply.failure}")
    return reasons
