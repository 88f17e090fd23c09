"""Commands about a finished comparison: explain, groups, regions, unusual and serve."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pivec.cli.options import (
    FolderArgument,
    Json,
    Margin,
    Out,
    Quiet,
    Seed,
    command_line,
    complete_policy,
    complete_run,
    figure_format,
    patterns,
    with_options,
)
from pivec.errors import PivecError, UsageError
from pivec.files import file_name, make_folder
from pivec.options import EngineOptions, FigureOptions, ReplayOptions
from pivec.parallel import on_engine
from pivec.terminal import say
from pivec.text import n_policies

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pivec.explanations import Clip, Overview, PairExplanation, Unusual
    from pivec.workflows import Comparison

Page = Callable[..., str]  # of a result, the command, and the links to other pages
_BEHAVIOURS = 8  # whose typical policies are filmed

FolderOrData = Annotated[
    Path,
    typer.Argument(
        metavar="DIR|DATA",
        help="An output folder of `pivec compare`, a space, or recorded data such as a LeRobot "
        "dataset.",
    ),
]
Pair = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[A B]",
        help="Two policies, by label or the end of a label. Default: the nearest pair that "
        "differs, the farthest pair, and the typical policy of each behaviour class.",
        show_default=False,
        autocompletion=complete_policy,
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[POLICY]...",
        help="Policies, by label or the end of a label. Default: all.",
        show_default=False,
        autocompletion=complete_policy,
    ),
]
Run = Annotated[
    str | None,
    typer.Option(
        metavar="RUN",
        help="Explain what changed along this training run",
        autocompletion=complete_run,
    ),
]
Group = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATTERN",
        help="The runs of a group, such as ppo='ppo-*'; repeatable. Default: runs whose names "
        "differ only in the number at the end form a group.",
    ),
]
Last = Annotated[
    int | None, typer.Option(help="Use only the last N checkpoints of each run", min=1)
]


@with_options(ReplayOptions, FigureOptions)
@on_engine
def explain(
    folder: FolderArgument,
    pair: Pair = None,
    *,
    run: Run = None,
    group: Group = None,
    last: Last = None,
    top: Annotated[
        int, typer.Option(help="Maximum number of regions, if need be merged", min=1)
    ] = 6,
    frames: Annotated[
        bool, typer.Option(help="Draw states of both policies in these regions")
    ] = True,
    clips: Annotated[int, typer.Option(help="Number of clips", min=0, max=20)] = 2,
    level: Annotated[float, typer.Option(help="Confidence level", min=0.5, max=0.999)] = 0.95,
    as_json: Json = False,
    out: Out = None,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Explain how two policies differ, how a run changes, or how groups of runs differ.

    A few rules that separate two policies come first. Then the distance is decomposed into regions
    of states, of which similar ones are merged: how often each policy is there, and how features
    differ. Parts that may be due to chance are marked. Pictures and clips are made by replaying
    episodes.

    Example: pivec explain pivec-out ppo-0/step_20000 ppo-0/step_45000

    Along a run: pivec explain pivec-out --run ppo-0

    Groups of runs: pivec explain pivec-out --group ppo='ppo-*' --group a2c='a2c-*'

    Writes explain.html, explain.json, explain.png and the pictures to DIR/explain/.
    """
    from pivec.explanations import FOLDER, pair_folder
    from pivec.files import check_folder
    from pivec.report import (
        group_explanation_html,
        overview_html,
        pair_html,
        print_group_explanation,
        print_overview,
        print_pair,
        print_run,
        print_written,
        run_html,
    )
    from pivec.workflows import load_comparison

    kind, names = figure_format(options), list(pair or [])
    _check_question(names, run, group, last)
    comparison = load_comparison(folder)
    result: Any
    show: Callable[[Any], None]
    page: Page
    name, show, page = "", print_overview, overview_html
    if run is not None:
        result = comparison.explain_run(run, level=level)
        name, show, page = f"run-{run}", print_run, run_html
    elif group:
        chosen = patterns(group)
        result = comparison.explain_groups(chosen, last=last, level=level)
        name, show, page = (
            "groups-" + "--".join(chosen),
            print_group_explanation,
            group_explanation_html,
        )
    elif names:
        result = comparison.explain(*names, top=top, level=level)
        show, page = print_pair, pair_html
    else:
        result = _overview(comparison, top, level)
    home = comparison.folder / FOLDER / file_name(name, 120)
    home = check_folder(out or (pair_folder(comparison.stored, result) if names else home))
    if not as_json:
        show(result)
    progress, replay = not (quiet or as_json), ReplayOptions(**options)
    result = _with_media(result, comparison, home, frames, clips, replay, progress)
    _publish(comparison, result, home / "explain.html", page, kind, as_json)
    if not as_json:
        print_written(home, result)
    _update_site(comparison, home, as_json)


def _overview(comparison: Comparison, top: int, level: float) -> Overview:
    """Explain the nearest pair that differs, and the farthest pair."""
    from pivec.explanations import Overview

    labels = comparison.labels
    if len(labels) < 2:
        raise UsageError(f"{comparison.folder} has a single policy: expected two or more")
    notable = comparison.findings.notable_pairs
    differing = {title: pair for title, pair in notable.items() if "cannot" not in title}
    titles: dict[tuple[int, int], str] = {}
    for title, pair in (differing or notable).items():
        titles.setdefault(pair, title)
    return Overview(
        tuple(
            (title, comparison.explain(labels[i], labels[j], top=top, level=level))
            for (i, j), title in titles.items()
        )
    )


def _with_media(
    result: Any,
    comparison: Comparison,
    home: Path,
    frames: bool,
    clips: int,
    options: ReplayOptions,
    progress: bool,
) -> Any:
    """Add pictures and clips of replayed episodes to explanations; numbers stay if that fails."""
    from pivec.explanations import (
        GroupExplanation,
        PairExplanation,
        RunExplanation,
        make_clips,
        plan_first_episode,
        with_media,
    )

    along_run = isinstance(result, RunExplanation)
    if isinstance(result, GroupExplanation) or (along_run and not (result.largest and clips)):
        return result
    stored, replayer = comparison.stored, comparison.replayer(options)

    def of_pair(pair: PairExplanation, frames: bool = frames) -> PairExplanation:
        try:
            return with_media(pair, stored, replayer, home, frames, clips, progress)
        except PivecError as error:
            return replace(pair, notes=(*pair.notes, f"no pictures: {error}"))

    if isinstance(result, PairExplanation):
        return of_pair(result)
    if along_run:
        largest = comparison.explain(*result.largest, level=result.level)
        return replace(result, clips=of_pair(largest, frames=False).clips)
    films: Sequence[Clip] = ()
    if (classes := comparison.findings.behaviours) is not None and clips:
        wanted = []
        for number, medoid in enumerate(classes.medoids[:_BEHAVIOURS], 1):
            title = f"Behaviour class {number}: {n_policies(classes.numbers.count(number))}"
            wanted.append(plan_first_episode(stored, replayer, comparison.labels[medoid], title))
        films = make_clips(wanted, replayer, home / "clips", progress)
    pairs = tuple((title, of_pair(pair)) for title, pair in result.differences)
    return replace(result, differences=pairs, behaviours=films)


def _write(stem: Path, content: dict[str, Any], figure: Figure, kind: str) -> None:
    """Write a result as JSON and figure."""
    from pivec.figures import save_figure
    from pivec.files import atomic_write, make_folder

    make_folder(stem.parent)
    with atomic_write(stem.with_suffix(".json"), "w") as file:
        json.dump(content, file, indent=1, allow_nan=False)
    save_figure(figure, stem.with_suffix(f".{kind}"))


def _publish(
    comparison: Comparison, result: Any, file: Path, page: Page, kind: str, as_json: bool
) -> None:
    """Write a result as JSON, figure and page, and print the JSON if that is asked for."""
    from pivec.report import Links, say_json, write_page

    content = result.to_json()
    _write(file.with_suffix(""), content, result.figure(), kind)
    write_page(file, page(result, command_line(), Links(comparison.folder, file)))
    if as_json:
        say_json(content)


def _check_question(
    names: list[str], run: str | None, group: list[str] | None, last: int | None
) -> None:
    given = {"A B": names, "--run": run is not None, "--group": group}
    asked = [what for what, there in given.items() if there]
    if len(asked) > 1:
        raise UsageError(f"expected {asked[0]} or {asked[1]}, but got both")
    if last is not None and not group:
        raise UsageError("--last needs --group NAME=PATTERN")
    if len(names) not in (0, 2):
        raise UsageError(
            f"expected two policies after the folder, but got {len(names)} ({', '.join(names)})"
        )


def _update_site(comparison: Comparison, home: Path, quiet: bool) -> None:
    """Link the other pages of a comparison to one that was written there, and show its pictures."""
    from pivec.report import link_pages, rewrite_report

    if not home.resolve().is_relative_to(comparison.folder.resolve()):
        return
    link_pages(comparison.folder)
    if comparison.report.is_file():
        rewrite_report(comparison.folder, comparison.findings)
        if not quiet:
            say(f"Also updated: {comparison.report}")


@with_options(ReplayOptions, FigureOptions)
def regions(
    folder: FolderArgument,
    *,
    frames: Annotated[
        bool,
        typer.Option("--frames", help="Replay episodes to draw a typical state of each region"),
    ] = False,
    top: Annotated[int, typer.Option(help="Number of regions to print", min=1)] = 20,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Describe the regions of a space, which policies visit them, and when.

    A region is described by the features that distinguish it from all states ("pole angle 0.08 to
    0.15 rad, cart velocity below −0.9 m/s"), and by visited states near its centre.

    Example: pivec regions pivec-out --frames

    Writes regions.json, regions.png and regions.html.
    """
    from pivec.report import print_regions, regions_html
    from pivec.workflows import load_comparison

    kind, comparison = figure_format(options), load_comparison(folder)
    home = make_folder(out or comparison.folder)
    pictures = home / "frames" if frames else None
    result = comparison.regions(frames=pictures, progress=not quiet, **options)
    _publish(comparison, result, home / "regions.html", regions_html, kind, as_json)
    if not (quiet or as_json):
        print_regions(result, top)
    if not as_json:
        for note in result.notes:
            say(f"Note: {note}")
        say(f"Page: {home / 'regions.html'}")
    _update_site(comparison, home, quiet or as_json)


@with_options(ReplayOptions, FigureOptions)
def unusual(
    folder: FolderOrData,
    labels: Names = None,
    *,
    top: Annotated[int, typer.Option(help="Number of episodes to list", min=1)] = 10,
    clips: Annotated[
        bool,
        typer.Option("--clips", help="Record clips of typical and unusual episodes"),
    ] = False,
    as_json: Json = False,
    out: Out = None,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Find unusual episodes of each policy or of a dataset, and states outside the space.

    [bold]times as far[/bold]: the distance of an episode from the others of its policy, relative to
    the policy's median episode.

    A state is [bold]outside[/bold] if it is farther from all regions than 99 % of the states of
    each policy that the space was fitted on; policies placed with compare --space may have many.

    Example: pivec unusual pivec-out ppo-0/step_100096 --clips

    Recorded data are compared first, with results in pivec-out: pivec unusual demos/

    Writes unusual.json, unusual.png and unusual.html; for LeRobot datasets also delete-NAME.json,
    the settings of lerobot-edit-dataset to delete episodes at least twice as far as usual.
    """
    from pivec.report import print_unusual, unusual_html
    from pivec.states import RecordedPolicy, split_recorded
    from pivec.workflows import compare, load_comparison

    kind, recorded = figure_format(options), list[RecordedPolicy]()
    if not (folder / "space").exists() and not (folder / "states").exists():
        acting, recorded = split_recorded([os.fspath(folder)])
        if acting and recorded:
            raise UsageError(f"{folder} holds policies besides recorded data: name the data alone")
    if recorded:
        shown = not (quiet or as_json)
        comparison = compare(recorded, out=out or Path("pivec-out"), progress=shown)
    else:
        comparison = load_comparison(folder)
    home = make_folder(out or comparison.folder)
    result = comparison.unusual(
        labels,
        top=top,
        clips=home / "clips" if clips else None,
        progress=not (quiet or as_json),
        **options,
    )
    _publish(comparison, result, home / "unusual.html", unusual_html, kind, as_json)
    if not (quiet or as_json):
        print_unusual(result)
    for words in _write_deletions(comparison, result, home):
        if not as_json:
            say(words)
    if not as_json:
        say(f"Page: {home / 'unusual.html'}")
    _update_site(comparison, home, quiet or as_json)


def illustrate(comparison: Comparison, kind: str, progress: bool) -> None:
    """Show frames of datasets with videos: of regions, and clips of unusual episodes."""
    from pivec.report import regions_html, unusual_html
    from pivec.states import is_filmed
    from pivec.states.robots import import_av

    known = comparison.space.descriptions.policies
    if not any(map(is_filmed, known)) or not comparison.stored.has_regions:
        return
    home, notes = comparison.folder, list[str]()
    try:
        import_av()
        regions = comparison.regions(frames=home / "frames", progress=progress)
        _publish(comparison, regions, home / "regions.html", regions_html, kind, False)
        unusual = comparison.unusual(clips=home / "clips", progress=progress)
        _publish(comparison, unusual, home / "unusual.html", unusual_html, kind, False)
        notes = [*regions.notes, *unusual.notes]
    except PivecError as error:
        notes = [f"not everything has pictures: {error}"]
    for note in dict.fromkeys(notes):
        say(f"Note: {note}")
    _update_site(comparison, home, True)


def _write_deletions(comparison: Comparison, result: Unusual, home: Path) -> Iterator[str]:
    """Write which episodes of LeRobot datasets to delete, as LeRobot takes it; say how."""
    from pivec.files import atomic_write
    from pivec.report import UNUSUAL
    from pivec.states import dataset_episode

    for info in comparison.space.descriptions.policies:
        kind, _, folder = info.source.partition(":")
        if kind != "lerobot" or info.label not in {row.policy for row in result.policies}:
            continue
        rows = [row for row in result.episodes if row.policy == info.label and row.times >= UNUSUAL]
        if not rows:
            yield f"No episode of {info.label} is {UNUSUAL:g} times as far as usual: none to delete"
            continue
        episodes = sorted(dataset_episode(info, row.episode) for row in rows)
        root = os.path.abspath(os.path.expanduser(folder))
        known = {"repo_id": info.label, "root": root, "new_repo_id": f"{info.label}_edited"}
        edit = {"type": "delete_episodes", "episode_indices": episodes}
        file = home / f"delete-{file_name(info.label)}.json"
        with atomic_write(file, "w") as written:
            json.dump(known | {"operation": edit}, written, indent=1)
        flags = known | {f"operation.{name}": str(value) for name, value in edit.items()}
        words = [word for name, value in flags.items() for word in (f"--{name}", value)]
        command = shlex.join(["lerobot-edit-dataset", *words])
        yield f"To delete the {len(rows)} farthest episodes of {info.label} ({file}): {command}"


@with_options(EngineOptions, FigureOptions)
@on_engine
def groups(
    folder: FolderArgument,
    *,
    group: Group = None,
    last: Last = None,
    margin: Margin = None,
    out: Out = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Test whether groups of training runs behave differently, such as PPO and A2C.

    The samples are runs, not policies or episodes. A permutation test (PERMANOVA) shows whether the
    groups differ, and how much of the variance between runs they explain. Distances within and
    between groups, and the diversity of each group, have confidence intervals over runs.

    Example: pivec groups pivec-out --group ppo='ppo-*' --group a2c='a2c-*' --last 1

    Writes groups.json and groups.png.
    """
    from pivec.report import groups_figure, print_groups
    from pivec.workflows import load_comparison

    kind, comparison = figure_format(options), load_comparison(folder)
    result = comparison.groups(patterns(group) or None, last=last, seed=seed, margin=margin)
    home = out or comparison.folder
    figure = groups_figure(result, comparison.stored.environment)
    _write(home / "groups", result.to_json(), figure, kind)
    if not quiet:
        print_groups(result)
    say(f"Figure: {home / f'groups.{kind}'}")


@with_options(ReplayOptions)
def serve(
    folder: FolderArgument,
    *,
    port: Annotated[int, typer.Option(help="Port; 0 selects a free port", min=0, max=65535)] = 0,
    browser: Annotated[
        bool, typer.Option("--open/--no-browser", help="Open the page in your browser")
    ] = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Serve the report of a comparison as a live page.

    Select two policies to see their exact distance with its interval, how they differ, and, on
    request, clips. Policies that are added to the folder (by [bold]pivec watch[/bold] or another
    [bold]pivec compare[/bold]) appear on the open page, which says whether its distances are exact.
    While [bold]pivec watch[/bold] waits for the first checkpoints, it says how many there are.

    The page is only reachable from this computer, at the printed address. Press Ctrl-C to stop.

    Example: pivec serve pivec-out --open
    """
    from pivec.server import serve as serve_page

    serve_page(folder, port, options=ReplayOptions(**options), browser=browser, quiet=quiet)
