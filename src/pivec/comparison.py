"""The whole comparison: collect, describe, measure, map, report, each stage into one folder.

states/        the store
space/         the fitted characterization and what it described
distances.csv  distances.png  map.csv  map.png  report.html  run.json
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.atomic import atomic_write
from pivec.characterizations.registry import characterization
from pivec.characterizations.space import Space
from pivec.distances import farthest_pairs, nearest_pairs, travels
from pivec.errors import UsageError
from pivec.maps import place, tsne_map, tsne_map_from_distances
from pivec.report import (
    MapRows,
    ReportData,
    draw_distances,
    draw_map,
    write_distances_csv,
    write_map_csv,
    write_report,
)
from pivec.states.collect import collect
from pivec.states.store import Store
from pivec.states.visited import VisitedStates

STATES, SPACE, RUN = "states", "space", "run.json"
_PACKAGES = ("pivec", "numpy", "gymnasium", "scikit-learn", "openTSNE", "pyarrow", "numba")


@dataclass
class Log:
    """What goes into run.json: how the folder was made, stage by stage."""

    command: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Measure one stage in seconds."""
        start = time.perf_counter()
        yield
        self.timings[stage] = round(time.perf_counter() - start, 3)

    def write(self, folder: Path) -> None:
        """Write run.json; stages that an earlier command ran are kept."""
        old = read_run(folder)
        record = {
            "command": self.command or old.get("command", ""),
            "settings": old.get("settings", {}) | self.settings,
            "versions": versions(),
            "timings": old.get("timings", {}) | self.timings,
        }
        with atomic_write(folder / RUN, "w") as file:
            json.dump(record, file, indent=1)


def read_run(folder: Path) -> dict[str, Any]:
    """Read run.json of a folder; empty if there is none."""
    try:
        record: dict[str, Any] = json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record


def versions() -> dict[str, str]:
    """Versions of everything that the numbers depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True)
class Comparison:
    """What `compare` found; all of it is on disk too.

    Attributes
    ----------
    folder : Path
        Where everything was written.
    space : Space
        The characterization, the descriptions of all policies, and their places on the map.
    distances : (n_policies, n_policies) array
    report : Path
        The page.
    """

    folder: Path
    space: Space
    distances: NDArray[np.float64]
    report: Path

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the policies, in the order of the rows of ``distances``."""
        return self.space.descriptions.labels


def compare(
    env: str | Callable[[], Any],
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
        Name of the characterization.
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
    folder = Path(out)
    earlier = None if space is None else Space.load(space)
    log = Log(command)
    with log.timed("collect"):
        data = collect(
            env, policies, episodes, seed, store=folder / STATES, progress=progress, **collecting
        )
    settings = Store(folder / STATES).settings
    log.settings |= settings
    result = describe(
        data, folder, log, method, parameters, seed, settings, earlier, progress=progress
    )
    distances = measure(result, folder, log)
    result = draw(result, folder, log, seed, distances)
    report = write_page(result, folder, log, distances)
    return Comparison(folder, result, distances, report)


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
    with log.timed("describe"):
        if earlier is None:
            made = characterization(method, **_with_defaults(method, parameters, seed, progress))
            result = Space(made.fit(data), made.describe(data), collected=collected or {})
        else:
            _check_same_world(earlier, collected or {})
            described = earlier.method.describe(data)
            known = [
                i for i, name in enumerate(earlier.descriptions.labels) if name not in data.labels
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


def measure(space: Space, folder: Path, log: Log) -> NDArray[np.float64]:
    """Measure all distances; write distances.csv and distances.png."""
    folder.mkdir(parents=True, exist_ok=True)
    described = space.descriptions
    with log.timed("distances"):
        distances = space.method.distances(described)
        write_distances_csv(folder / "distances.csv", described.labels, distances)
        draw_distances(
            folder / "distances.png", distances, map_rows(space), subtitle=_subtitle(space)
        )
    log.write(folder)
    return distances


def draw(
    space: Space,
    folder: Path,
    log: Log,
    seed: int = 0,
    distances: NDArray[np.float64] | None = None,
) -> Space:
    """Lay the policies out in the plane: map.csv, map.png, and their places in ``space/``."""
    folder.mkdir(parents=True, exist_ok=True)
    with log.timed("map"):
        positions, how = _positions(space, seed, distances)
        result = replace(space, positions=positions)
        result.save(folder / SPACE)
        rows = map_rows(result)
        write_map_csv(folder / "map.csv", rows)
        draw_map(folder / "map.png", rows, subtitle=_subtitle(space))
    log.settings["map"] = how
    log.write(folder)
    return result


def write_page(
    space: Space,
    folder: Path,
    log: Log,
    distances: NDArray[np.float64] | None = None,
) -> Path:
    """Write report.html from what the other stages left."""
    described = space.descriptions
    if space.positions is None:
        raise UsageError("the policies have no places on a map yet: run `pivec map` first")
    with log.timed("report"):
        matrix = space.method.distances(described) if distances is None else distances
        log.write(folder)
        run = read_run(folder)
        rows = map_rows(space)
        page = ReportData(
            title=_subtitle(space),
            environment=str(space.collected.get("environment", "")),
            **{name.name: getattr(rows, name.name) for name in fields(rows)},
            return_stds=described.return_stds,
            map_method=str(run["settings"].get("map", "")),
            distances=matrix,
            nearest=nearest_pairs(matrix),
            farthest=farthest_pairs(matrix),
            travel=[
                (run.group, list(run.steps), run.cumulative.tolist())
                for run in travels(described.groups, described.steps, matrix)
            ],
            settings={key: _text(value) for key, value in run["settings"].items()},
            timings=run["timings"],
            versions=run["versions"],
            command=run["command"],
            method=space.method.explanation,
            formula=space.method.formula,
        )
        path = folder / "report.html"
        write_report(path, page)
    log.write(folder)
    return path


def map_rows(space: Space) -> MapRows:
    """Return what tables and figures show of the policies; at the origin if not yet placed."""
    described = space.descriptions
    positions = space.positions
    return MapRows(
        labels=described.labels,
        groups=described.groups,
        steps=described.steps,
        positions=np.zeros((len(described), 2)) if positions is None else positions,
        mean_returns=described.mean_returns,
        n_episodes=described.n_episodes.tolist(),
        n_states=described.n_states.tolist(),
        sources=[info.source for info in described.policies],
        is_reference=space.is_reference,
    )


def _subtitle(space: Space) -> str:
    environment = space.collected.get("environment", "")
    policies = f"{len(space.descriptions)} policies"
    return f"{policies} in {environment}" if environment else policies


def _positions(
    space: Space, seed: int, distances: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], str]:
    described = space.descriptions
    points = described.points
    if points is None:
        matrix = space.method.distances(described) if distances is None else distances
        made = tsne_map_from_distances(matrix, random_state=seed)
        return made.positions, made.method
    if space.positions is None or not space.n_reference:
        made = tsne_map(points, random_state=seed)
        return made.positions, made.method
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
