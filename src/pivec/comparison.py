"""The whole comparison: collect, describe, measure, map, report, each stage into one folder.

states/        the store
space/         the fitted characterization and what it described
distances.csv  distances.png  map.csv  map.png  report.html  run.json
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.atomic import check_folder, make_folder
from pivec.characterizations.registry import characterization
from pivec.characterizations.space import Space
from pivec.collection import collect
from pivec.distances import Measured
from pivec.distances import measure as measure_all
from pivec.errors import PivecWarning, UsageError
from pivec.maps import place, tsne_map
from pivec.policies.policy import canonical_order
from pivec.report import (
    ReportData,
    draw_distances,
    draw_map,
    policy_rows,
    write_distances_csv,
    write_map_csv,
    write_neighbours_csv,
    write_report,
)
from pivec.run_log import Log, notices, read_run
from pivec.states.constants import warn_of_constants
from pivec.states.store import Store
from pivec.states.visited import VisitedStates

STATES, SPACE = "states", "space"
_NO_DISTANCE = 1e-9  # a distance that is rounding


@dataclass(frozen=True)
class Comparison:
    """What `compare` found; all of it is on disk too.

    Attributes
    ----------
    folder : Path
        Where everything was written.
    space : Space
        The characterization, the descriptions of all policies, and their places on the map.
    measured : Measured
        Distances, nearest others, notable pairs, and the distance along each run.
    report : Path
        The page.
    """

    folder: Path
    space: Space
    measured: Measured
    report: Path

    @property
    def distances(self) -> NDArray[np.float64] | None:
        """All distances, (n_policies, n_policies); None where there are too many policies."""
        return self.measured.matrix

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the policies, in the order of the rows of ``distances``."""
        return self.space.descriptions.labels


def compare(
    env: str | Callable[[], Any] | None,
    policies: Any,
    out: str | Path = "pivec-out",
    *,
    episodes: int = 100,
    seed: int = 0,
    method: str = "supervector",
    parameters: Mapping[str, Any] | None = None,
    space: str | Path | None = None,
    progress: bool = False,
    command: str = "",
    **collecting: Any,
) -> Comparison:
    """Collect states, describe the policies, measure distances, draw the map, write the page.

    Run again with the same arguments it goes on where it was stopped: policies whose states are
    in ``out/states`` already do not act again.

    Parameters
    ----------
    env, policies, episodes, seed
        As for `pivec.collect`.
    out : path
        The folder that holds all results.
    method : str
        Name of the characterization. What it needs beside states (actions, the policies
        themselves) is kept too.
    parameters : mapping, optional
        Its arguments, such as ``{"n_components": 64}``; its random_state is ``seed`` unless given.
    space : path, optional
        A space (or the folder of an earlier comparison): the policies are placed in it, beside
        those it already holds, without fitting again.
    progress : bool
        Draw progress bars.
    command : str
        Kept in run.json.
    **collecting
        Further arguments of `pivec.collect`.

    Returns
    -------
    Comparison
    """
    folder = check_folder(out)
    earlier = None if space is None else Space.load(space)
    log = Log(command)
    made = earlier.method if earlier else characterization(method, **(parameters or {}))
    for what, option in (("actions", "actions"), ("policies", "keep_policies")):
        collecting[option] = collecting.get(option, False) or what in made.needs
    with log.timed("collect"):
        data = collect(
            env, policies, episodes, seed, store=folder / STATES, progress=progress, **collecting
        )
    settings = Store(folder / STATES).settings
    log.settings |= settings
    result = describe(
        data, folder, log, method, parameters, seed, settings, earlier, progress=progress
    )
    measured = measure(result, folder, log)
    result = draw(result, folder, log, seed, measured)
    report = write_page(result, folder, log, measured)
    return Comparison(folder, result, measured, report)


def describe(
    data: VisitedStates,
    folder: Path,
    log: Log,
    method: str = "supervector",
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    collected: Mapping[str, Any] | None = None,
    earlier: Space | None = None,
    progress: bool = False,
) -> Space:
    """Fit the characterization (or take that of ``earlier``), describe, write ``space/``."""
    warn_of_constants(data)
    with log.timed("describe"):
        if earlier is None:
            made = characterization(method, **_with_defaults(method, parameters, seed, progress))
            result = Space(made.fit(data), made.describe(data), collected=collected or {})
        else:
            _check_same_world(earlier, collected or {})
            described = earlier.method.describe(data)
            new = {*data.labels, *(info.identity for info in data.policies)}
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
            result = Space(earlier.method, both, positions, earlier.collected, len(known))
        result.save(folder / SPACE)
    log.settings |= {"method": result.method.name, "parameters": result.method.get_params()}
    log.write(folder)
    return result


def measure(space: Space, folder: Path, log: Log) -> Measured:
    """Measure all distances; write distances.csv, and distances.png if the matrix fits in one."""
    make_folder(folder)
    described = space.descriptions
    with log.timed("distances"):
        measured = measure_all(space.method, described)
        if len(described) > 1 and measured.farthest[0][2] <= _NO_DISTANCE:
            warnings.warn(
                f"all distances are 0: {space.method.name} sees no difference between the "
                f"{len(described)} policies; look at what is kept of their states (--features)",
                PivecWarning,
                stacklevel=2,
            )
        if measured.matrix is None:
            write_neighbours_csv(
                folder / "distances.csv",
                described.labels,
                measured.neighbours,
                measured.neighbour_distances,
            )
        else:
            write_distances_csv(folder / "distances.csv", described.labels, measured.matrix)
            draw_distances(
                folder / "distances.png",
                measured.matrix,
                policy_rows(space),
                subtitle=_subtitle(space),
            )
    log.write(folder)
    return measured


def draw(
    space: Space,
    folder: Path,
    log: Log,
    seed: int = 0,
    measured: Measured | None = None,
) -> Space:
    """Lay the policies out in the plane: map.csv, map.png, and their places in ``space/``."""
    make_folder(folder)
    with log.timed("map"):
        positions, how = _positions(space, seed, measured)
        result = replace(space, positions=positions)
        result.save(folder / SPACE)
        rows = policy_rows(result)
        write_map_csv(folder / "map.csv", rows)
        draw_map(folder / "map.png", rows, subtitle=_subtitle(space))
    log.settings["map"] = how
    log.write(folder)
    return result


def write_page(
    space: Space,
    folder: Path,
    log: Log,
    measured: Measured | None = None,
) -> Path:
    """Write report.html from what the other stages left."""
    described = space.descriptions
    if space.positions is None:
        raise UsageError("the policies have no places on a map yet: run `pivec map` first")
    make_folder(folder)
    with log.timed("report"):
        found = measured or measure_all(space.method, described)
        log.write(folder)
        run = read_run(folder)
        page = ReportData(
            title=_title(space),
            environment=str(space.collected.get("environment", "")),
            rows=policy_rows(space),
            measured=found,
            map_method=str(run["settings"].get("map", "")),
            settings={key: _text(value) for key, value in run["settings"].items()},
            timings=run["timings"],
            versions=run["versions"],
            command=run["command"],
            notices=notices(run),
            method=space.method.explanation,
            formula=space.method.formula,
        )
        path = folder / "report.html"
        write_report(path, page)
    log.write(folder)
    return path


def _title(space: Space) -> str:
    environment = space.collected.get("environment", "")
    return f"Behaviour in {environment}" if environment else "Behaviour of policies"


def _subtitle(space: Space) -> str:
    environment = space.collected.get("environment", "")
    policies = f"{len(space.descriptions) - space.n_reference} policies"
    return f"{policies} in {environment}" if environment else policies


def _positions(
    space: Space, seed: int, measured: Measured | None
) -> tuple[NDArray[np.float64], str]:
    described = space.descriptions
    points = described.points
    order = canonical_order(described.policies)
    back = np.argsort(order)
    if points is None:
        found = measured or measure_all(space.method, described)
        if found.matrix is None:
            raise UsageError(
                f"a map of {len(described)} policies needs vectors, which {space.method.name} "
                "does not give: use supervector, or fewer policies"
            )
        distances = found.matrix[np.ix_(order, order)]
        made = tsne_map(distances, metric="precomputed", random_state=seed)
        return made.positions[back], made.method
    if space.positions is None or not space.n_reference:
        made = tsne_map(points[order], random_state=seed)
        return made.positions[back], made.method
    # The map of the earlier space stays as it is; only the new policies are placed.
    old = np.array(space.is_reference)
    positions = space.positions.copy()
    positions[~old] = place(points[old], positions[old], points[~old])
    return positions, "placed in an earlier map"


def _with_defaults(
    method: str, parameters: Mapping[str, Any] | None, seed: int, progress: bool
) -> dict[str, Any]:
    """Add the seed and the progress bar for characterizations that have them."""
    known = characterization(method).get_params()
    wanted = {"random_state": seed, "progress": progress}
    return {k: v for k, v in wanted.items() if k in known} | dict(parameters or {})


def _check_same_world(earlier: Space, collected: Mapping[str, Any]) -> None:
    for key in ("environment", "arguments", "features"):
        if key in earlier.collected and earlier.collected[key] != collected.get(key):
            raise UsageError(
                f"the space was made with {key} = {earlier.collected[key]!r}, but these states "
                f"have {collected.get(key)!r}: policies can only be placed among others that act "
                "in the same environment"
            )


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={part}" for key, part in value.items())
    return str(value)
