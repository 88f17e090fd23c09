"""The whole comparison: collect, describe, measure, map, report, each stage into one folder.

states/        the store
space/         the fitted characterization and what it described
distances.csv  distances.png  pairs.csv  map.csv  map.png  report.html  run.json

Of more than 1000 policies distances.npz takes the place of distances.csv.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pivec.atomic import check_folder, make_folder
from pivec.characterizations.base import Characterization
from pivec.characterizations.growth import space_beside
from pivec.characterizations.refits import background_share, background_words
from pivec.characterizations.registry import characterization
from pivec.characterizations.space import Space
from pivec.collection import Collector
from pivec.distances import Measured
from pivec.engines.engine import on_engine
from pivec.errors import UsageError
from pivec.explanations.unusual.outside import space_reach, warn_of_outside
from pivec.maps import groups_in, positions_of
from pivec.options import CollectOptions, DescribeOptions, PrecisionOptions, split_options
from pivec.precision import check_precision, play_until
from pivec.report import (
    Comparison,
    ReportData,
    alike_pairs,
    map_figure,
    matrix_figure,
    pair_rows,
    policy_rows,
    save_png,
    write_distances,
    write_map_csv,
    write_pairs_csv,
    write_report,
)
from pivec.report.compared import SPACE, STATES, distances_in, subtitle_of
from pivec.run_log import RunLog
from pivec.states.moments import warn_of_constants
from pivec.states.recorded import split_recorded
from pivec.states.recordings import Recordings
from pivec.states.visited import VisitedStates

__all__ = ["SPACE", "STATES", "Comparison", "compare", "distances_in"]
_INFLUENCES = 1 << 30  # bytes of influences that a space may hold


def compare(
    env: Any,
    policies: Any = None,
    out: str | Path = "pivec-out",
    *,
    episodes: int = 100,
    seed: int = 0,
    progress: bool = False,
    command: str = "",
    **options: Any,
) -> Comparison:
    """Collect states, describe the policies, measure distances, draw the map, write the page.

    Run again with the same arguments it goes on where it was stopped: policies whose states are
    in ``out/states`` already do not act again.

    Parameters
    ----------
    env, policies, episodes, seed
        As for `pivec.collect`. Data in hand come alone, with no environment: ``compare(data)`` of
        `VisitedStates`, a pandas or polars frame with a row a state, a dict from labels to lists
        of episodes (arrays of states), or the path of a table, a store or ``minari:NAME``.
    out : path
        The folder that holds all results.
    progress : bool
        Draw progress bars.
    command : str
        Kept in run.json.
    **options
        Fields of `pivec.options.DescribeOptions` (``method="gaussian"``,
        ``parameters={"n_components": 64}``, ``space=`` an earlier one), of `PrecisionOptions`
        (``until=0.02``, ``at_most=1000``) and of `CollectOptions`. What the characterization needs
        beside states (actions, the policies themselves) is kept too.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> walks = {who: [rng.normal(p, 1, (20, 2)) for _ in range(9)] for p, who in enumerate("abc")}
    >>> result = compare(walks, out=tempfile.mkdtemp(), components=4)
    >>> bool(result.distances[0, 1] < result.distances[0, 2])
    True
    """
    if policies is None:
        env, policies = None, env
    collecting, describing, precision = split_options(
        {"episodes": episodes, "seed": seed} | options, DescribeOptions, PrecisionOptions
    )
    log = RunLog(check_folder(out), command)
    return compare_with(env, policies, log, collecting, describing, progress, precision)


@on_engine
def compare_with(
    env: str | Callable[[], Any] | None,
    policies: Any,
    log: RunLog,
    collecting: CollectOptions,
    describing: DescribeOptions,
    progress: bool = False,
    precision: PrecisionOptions | None = None,
) -> Comparison:
    """Run all stages into the folder of ``log``, as `compare` does."""
    precision = precision or PrecisionOptions()
    check_precision(precision, collecting)
    method, earlier = start(describing, collecting.seed, progress)
    collecting = with_needs(collecting, method)
    with log.stage("collect"):
        collector = _collector(env, policies, collecting, log.folder / STATES, progress)
        log.settings |= collector.settings
        if collector.acting:
            log.settings["episodes"] = collecting.episodes
        data, stopped = play_until(collector, method, precision, earlier is not None, progress)
    space = describe(data, log, method, earlier, collector.settings, stopped)
    measured = measure(space, log, data)
    space = draw(space, log, collecting.seed, measured)
    return Comparison(log.folder, space, measured, write_page(space, log, measured))


def _collector(
    env: Any, policies: Any, options: CollectOptions, store: Path, progress: bool
) -> Collector | Recordings:
    """Let policies act; or take states that are recorded, and need no environment."""
    if env is None:
        acting, recorded = split_recorded(policies)
        if recorded and isinstance(acting, list | dict) and not acting:
            most = options.max_states_per_policy
            return Recordings(recorded, store, max_states_per_policy=most)
    return Collector(env, policies, options, store, progress)


def start(
    options: DescribeOptions, seed: int, progress: bool = False
) -> tuple[Characterization, Space | None]:
    """Make the characterization, or take that of an earlier space, which is returned too."""
    if options.space is not None:
        earlier = Space.load(options.space)
        return earlier.method, earlier
    given = dict(options.parameters or {})
    if options.components is not None:
        given["n_components"] = options.components
    if options.backgrounds is not None:
        given["backgrounds"] = options.backgrounds
    method = characterization(options.method, **given)
    known = method.get_params()
    defaults = {"random_state": seed, "progress": progress}
    method.set_params(**{k: v for k, v in defaults.items() if k in known and k not in given})
    return method, None


def with_needs(options: CollectOptions, method: Characterization) -> CollectOptions:
    """Keep what the characterization needs beside states."""
    return replace(
        options,
        actions=options.actions or "actions" in method.needs,
        keep_policies=options.keep_policies or "policies" in method.needs,
    )


def describe(
    data: VisitedStates,
    log: RunLog,
    method: Characterization,
    earlier: Space | None,
    collected: Mapping[str, Any],
    stopped: str | None = None,
) -> Space:
    """Fit the characterization unless ``earlier`` has it fitted, describe, write ``space/``.

    ``stopped`` tells how `play_until` ended, which has fitted it too.
    """
    with log.stage("describe"):
        warn_of_constants(data)
        if earlier is not None:
            check_same_world(earlier, collected)
        elif stopped is None:
            method.fit(data)
        share = background_share(method, data) if earlier is None else None
        influences = _keeps_influences(method, data)
        if earlier is not None and "influences" not in earlier.descriptions.arrays:
            influences = False  # of some policies alone they could not be kept
        described = method.describe(data, influences=influences)
        if earlier is None:
            result = Space(method, described, collected=collected, reach=space_reach(method, data))
        else:
            warn_of_outside(earlier, data)
            result = space_beside(earlier, described)
        result.save(log.folder / SPACE)
        log.settings |= {"method": method.name, "parameters": method.get_params()}
        log.settings["precision"] = stopped
        log.settings["background"] = share and asdict(share)
    return result


def _keeps_influences(method: Characterization, data: VisitedStates) -> bool:
    """Tell whether to keep how each episode moves its policy: intervals then need no states."""
    if not method.has_influences:
        return False
    width = len(method.describe(data.select([0]), influences=True).arrays["influences"][0])
    return data.n_episodes * width * 4 <= _INFLUENCES


def measure(space: Space, log: RunLog, data: VisitedStates | None = None) -> Measured:
    """Measure all distances; write them (see `write_distances`), pairs.csv and distances.png.

    ``data`` are the states, for intervals of a method that needs them; those that a comparison
    left in the folder are found.
    """
    described, folder = space.descriptions, make_folder(log.folder)
    with log.stage("distances"):
        measured = distances_in(space, log.folder, data)
        write_distances(folder, described.labels, measured)
        write_pairs_csv(folder / "pairs.csv", pair_rows(described.labels, measured.pairs))
        figure = matrix_figure(space, measured, subtitle_of(space))
        save_png(figure, folder / "distances.png")
    return measured


def draw(space: Space, log: RunLog, seed: int = 0, measured: Measured | None = None) -> Space:
    """Lay the policies out in the plane: map.csv, map.png, and their places in ``space/``."""
    folder = make_folder(log.folder)
    with log.stage("map"):
        measured = measured or distances_in(space, log.folder)
        positions, log.settings["map"] = positions_of(space, seed, measured)
        result = replace(space, positions=positions)
        result.save(folder / SPACE)
        rows = policy_rows(result, measured)
        write_map_csv(folder / "map.csv", rows)
        figure = map_figure(rows, subtitle_of(space), joins=alike_pairs(measured))
        save_png(figure, folder / "map.png")
    return result


def write_page(space: Space, log: RunLog, measured: Measured | None = None) -> Path:
    """Write report.html from what the other stages left."""
    path = make_folder(log.folder) / "report.html"
    with log.stage("report"):
        write_report(path, report_of(space, log, measured))
    return path


def report_of(space: Space, log: RunLog, measured: Measured | None = None) -> ReportData:
    """Put together what the page shows, from what the other stages left."""
    if space.positions is None:
        raise UsageError("the policies have no places on a map yet: run `pivec map` first")
    measured = measured or distances_in(space, log.folder)
    words = [space.method.explanation, background_words(log.settings)]
    return ReportData(
        environment=str(space.collected.get("environment", "")),
        rows=policy_rows(space, measured),
        measured=measured,
        groups=groups_in(space, measured.intervals),
        log=log,
        method="\n\n".join(filter(None, words)),
        formula=space.method.formula,
        space=space,
    )


def check_same_world(earlier: Space, collected: Mapping[str, Any]) -> None:
    """Refuse to place policies in a space of another environment."""
    for key in ("environment", "arguments", "features"):
        if key in earlier.collected and earlier.collected[key] != collected.get(key):
            raise UsageError(
                f"the space was made with {key} = {earlier.collected[key]!r}, but these states "
                f"have {collected.get(key)!r}: policies can only be placed among others that act "
                "in the same environment"
            )
