"""The command that tells what differs: between two policies, along a run, between groups."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pivec.cli import completion
from pivec.cli.answers import Json
from pivec.cli.comparing import SpaceArgument
from pivec.cli.explained import PAGE, Films, Showing, say_report
from pivec.cli.groups import patterns
from pivec.cli.options import Out, Quiet, with_options
from pivec.engines.engine import on_engine
from pivec.errors import UsageError
from pivec.options import ReplayOptions
from pivec.terminal import say

if TYPE_CHECKING:
    from pivec.distances import Measured
    from pivec.explanations.folder import Findings
    from pivec.explanations.pairs.difference import Difference


Pair = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="A B",
        help="Two policies by their names, or the ends of them. If not given: the nearest two that "
        "can be told apart, the farthest two, and the middle of each behaviour.",
        show_default=False,
        autocompletion=completion.policies,
    ),
]
Run = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="RUN",
        help="Tell instead what changed along this run of checkpoints.",
        autocompletion=completion.runs,
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATTERN",
        help="Tell instead what groups of runs share and others do not, as ppo='ppo-*'; twice or "
        "more, also for the same name.",
    ),
]
Last = Annotated[
    int | None,
    typer.Option(help="Of groups: so many checkpoints of each run, the last; else all.", min=1),
]
Top = Annotated[int, typer.Option(help="Regions that are shown, at most.", min=1)]
Frames = Annotated[bool, typer.Option(help="Draw states of both policies in these regions.")]
Clips = Annotated[
    int,
    typer.Option(
        help="Short films: the first where the difference is largest, the others of both policies "
        "from the same seeds.",
        min=0,
        max=20,
    ),
]
Level = Annotated[float, typer.Option(help="Certainty of intervals.", min=0.5, max=0.999)]


@with_options
@on_engine
def explain(
    space: SpaceArgument,
    pair: Pair = None,
    *,
    run: Run = None,
    group: Groups = None,
    last: Last = None,
    top: Top = 6,
    frames: Frames = True,
    clips: Clips = 2,
    level: Level = 0.95,
    as_json: Json = False,
    out: Out = None,
    replaying: ReplayOptions,
    quiet: Quiet = False,
) -> None:
    """Tell what differs between two policies: where one is and the other is not, with pictures.

    Their distance is taken apart into regions of states, told in the words of the environment:
    how often each policy is there, and how features differ while both are. Parts that may be
    chance are marked. Pictures and clips come from playing episodes again; where that cannot be
    done, the numbers are there all the same.

    Example: pivec explain pivec-out ppo-0/step_20000 ppo-0/step_45000

    Along a run: pivec explain pivec-out --run ppo-0

    Groups of runs: pivec explain pivec-out --group ppo='ppo-*' --group a2c='a2c-*'

    Leaves explain.html, explain.json, explain.png and the pictures in a folder of the pair, in
    explain/ beside the space.
    """
    from pivec.explanations.folder import Findings

    names = list(pair or [])
    _check_question(names, run, group, last)
    findings = Findings.open(space)
    showing = Showing(out, as_json, quiet, shlex.join(["pivec", *sys.argv[1:]]))
    if run is not None:
        _explain_run(findings, run, level, Films(findings, False, clips, replaying), showing)
    elif group:
        _explain_groups(findings, patterns(group), last, level, showing)
    else:
        films = Films(findings, frames, clips, replaying)
        if names:
            _explain_pair(findings, names, top, level, films, showing)
        else:
            _explain_space(findings, top, level, films, showing)


def _check_question(
    names: list[str], run: str | None, group: list[str] | None, last: int | None
) -> None:
    given = {"A B": names, "--run": run is not None, "--group": group}
    asked = [what for what, there in given.items() if there]
    if len(asked) > 1:
        raise UsageError(f"expected {asked[0]} or {asked[1]}, but got both: ask them by themselves")
    if last is not None and not group:
        raise UsageError("--last is about groups of runs: expected --group NAME=PATTERN with it")
    if len(names) not in (0, 2):
        raise UsageError(
            f"expected two policies after the folder, but got {len(names)} ({', '.join(names)})"
        )


def _explain_pair(
    findings: Findings, names: list[str], top: int, level: float, films: Films, showing: Showing
) -> None:
    from pivec.atomic import check_folder
    from pivec.explanations.pairs.pairs import folder_of, measure_difference
    from pivec.report.explained.console import print_difference, say_written
    from pivec.report.explained.pair import write_difference

    difference = measure_difference(findings, *names, top=top, level=level)
    folder = check_folder(showing.out or folder_of(findings, difference))
    replayer = films.replayer()
    if not showing.as_json:
        print_difference(difference)
    difference = films.add(difference, replayer, folder, showing.progress)
    showing.leave(
        folder, difference, lambda path: write_difference(path, difference, showing.command)
    )
    if not showing.as_json:
        say_written(folder, difference)
        _say_report(findings, showing, difference)


def _explain_space(
    findings: Findings, top: int, level: float, films: Films, showing: Showing
) -> None:
    from pivec.atomic import check_folder
    from pivec.comparison import distances_in
    from pivec.explanations.pairs.overview import Overview
    from pivec.explanations.pairs.pairs import FOLDER, measure_difference
    from pivec.report.data import behaviours_in
    from pivec.report.explained.console import print_difference, say_written
    from pivec.report.explained.pair import write_overview

    labels = findings.space.descriptions.labels
    if len(labels) < 2:
        raise UsageError(f"{findings.folder} has a single policy: expected two or more")
    folder = check_folder(showing.out or findings.folder / FOLDER)
    replayer = films.replayer()
    measured = distances_in(findings.space, findings.folder)
    differences = {}
    for title, names in _notable_pairs(measured, labels).items():
        differences[title] = measure_difference(findings, *names, top=top, level=level)
        if not showing.as_json:
            say(f"{title}:")
            print_difference(differences[title])
    pairs = tuple(
        (title, films.add(difference, replayer, folder, showing.progress))
        for title, difference in differences.items()
    )
    classes, words = behaviours_in(measured, labels), pairs[0][1].explanation.words
    watched = films.of_behaviours(classes, words, replayer, folder, showing.progress)
    overview = Overview(pairs, watched)
    showing.leave(folder, overview, lambda path: write_overview(path, overview, showing.command))
    if not showing.as_json:
        say_written(folder, *(pair for _, pair in pairs), clips=watched)
        _say_report(findings, showing, *(pair for _, pair in pairs))


def _say_report(findings: Findings, showing: Showing, *differences: Difference) -> None:
    if showing.out is None:  # elsewhere the page does not look
        made = [clip.picture for pair in differences for clip in pair.clips]
        made += [still.picture for pair in differences for still in pair.stills.values()]
        say_report(findings.folder, made)


def _notable_pairs(measured: Measured, labels: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Name the nearest pair that can be told apart, and the farthest; of two policies one pair."""
    near, far = measured.pairs, measured.farthest
    pairs = {"The farthest pair": (labels[far.i[0]], labels[far.j[0]])}
    first = next((k for k, alike in enumerate(near.alike) if not alike), None)
    if first is None:
        return pairs
    known = measured.n_known > 0  # otherwise nobody can tell
    title = "The nearest pair that can be told apart" if known else "The nearest pair"
    nearest = labels[near.i[first]], labels[near.j[first]]
    return {title: nearest} | (pairs if nearest not in pairs.values() else {})


def _explain_run(
    findings: Findings, run: str, level: float, films: Films, showing: Showing
) -> None:
    from pivec.explanations.pairs.pairs import measure_difference
    from pivec.explanations.runs.runs import RunChanges, explain_run
    from pivec.report.explained.runs import print_run, run_html

    def filmed(result: RunChanges, folder: Path) -> RunChanges:
        if result.largest is None or not films.clips:
            return result
        pair = measure_difference(findings, *result.largest, level=level)
        return replace(
            result, clips=films.add(pair, films.replayer(), folder, showing.progress).clips
        )

    result = explain_run(findings, run, level=level)
    _show(findings, result, f"run-{run}", print_run, run_html, showing, filmed)


def _explain_groups(
    findings: Findings,
    groups: dict[str, list[str]],
    last: int | None,
    level: float,
    showing: Showing,
) -> None:
    from pivec.explanations.groups.groups import explain_groups
    from pivec.report.explained.runs import group_difference_html, print_group_difference

    result = explain_groups(findings, groups, last=last, level=level)
    name = "groups-" + "--".join(groups)
    _show(findings, result, name, print_group_difference, group_difference_html, showing)


def _show(
    findings: Findings,
    result: Any,
    name: str,
    tell: Callable[[Any], None],
    page: Callable[[Any, str], str],
    showing: Showing,
    filmed: Callable[[Any, Path], Any] = lambda result, _: result,
) -> None:
    """Print a result, add what is filmed of it, and write it."""
    from pivec.atomic import check_folder, file_name
    from pivec.explanations.pairs.pairs import FOLDER
    from pivec.report.explained.shell import write_page

    folder = check_folder(showing.out or findings.folder / FOLDER / file_name(name, 120))
    if not showing.as_json:
        tell(result)
    result = filmed(result, folder)
    html = page(result, showing.command)
    showing.leave(folder, result, lambda path: write_page(path, html))
    if not showing.as_json:
        say(f"Page: {folder / PAGE}")
