"""Commands about a finished comparison: explain, groups, regions, unusual and serve."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pivec.cli.options import (
    FolderArgument,
    Json,
    Out,
    Quiet,
    Seed,
    command_line,
    complete_policy,
    complete_run,
    patterns,
    with_options,
)
from pivec.errors import PivecError, UsageError
from pivec.options import EngineOptions, ReplayOptions
from pivec.parallel import on_engine
from pivec.terminal import literal, say

if TYPE_CHECKING:
    from pivec.explanations import Clip, PairExplanation, Regions
    from pivec.workflows import Comparison

_BEHAVIOURS = 8  # whose typical policies are filmed
_SHARPEST = 150  # dpi: a page of 64 regions is long enough

Pair = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[A B]",
        help="Two policies by label, or the end of it. Default: the nearest pair that differs, the "
        "farthest pair, and the typical policy of each behaviour class.",
        show_default=False,
        autocompletion=complete_policy,
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[POLICY]...",
        help="Policies by label, or the end of it. Default: all.",
        show_default=False,
        autocompletion=complete_policy,
    ),
]
Run = Annotated[
    str | None,
    typer.Option(
        metavar="RUN",
        help="Explain what changed along this training run.",
        autocompletion=complete_run,
    ),
]
Group = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATTERN",
        help="The runs of a group, as ppo='ppo-*'; repeatable. Default: runs whose names differ in "
        "the number at their end.",
    ),
]
Last = Annotated[
    int | None, typer.Option(help="Use only the last N checkpoints of each run.", min=1)
]


@with_options(ReplayOptions)
@on_engine
def explain(
    folder: FolderArgument,
    pair: Pair = None,
    *,
    run: Run = None,
    group: Group = None,
    last: Last = None,
    top: Annotated[int, typer.Option(help="Maximum number of regions.", min=1)] = 6,
    frames: Annotated[bool, typer.Option(help="Draw states of both in these regions.")] = True,
    clips: Annotated[int, typer.Option(help="Number of clips.", min=0, max=20)] = 2,
    level: Annotated[float, typer.Option(help="Confidence level.", min=0.5, max=0.999)] = 0.95,
    as_json: Json = False,
    out: Out = None,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Explain what differs between two policies, along a run, or between groups of runs.

    The distance is decomposed into regions of states, described by the environment's features: how
    often each policy is there, and how features differ while both are. Parts that may be chance
    are marked. Pictures and clips are made by replaying episodes.

    Example: pivec explain pivec-out ppo-0/step_20000 ppo-0/step_45000

    Along a run: pivec explain pivec-out --run ppo-0

    Groups of runs: pivec explain pivec-out --group ppo='ppo-*' --group a2c='a2c-*'

    Writes explain.html, explain.json, explain.png and the pictures to DIR/explain/.
    """
    from pivec.explanations import (
        FOLDER,
        Overview,
        make_clips,
        pair_folder,
        plan_first_episode,
        with_media,
    )
    from pivec.figures import save_png
    from pivec.files import atomic_write, check_folder, file_name, make_folder
    from pivec.report import (
        group_explanation_html,
        overview_html,
        pair_html,
        print_group_explanation,
        print_pair,
        print_run,
        print_written,
        run_html,
        say_json,
        write_page,
    )
    from pivec.workflows import load_comparison

    names = list(pair or [])
    _check_question(names, run, group, last)
    comparison = load_comparison(folder)
    stored, progress = comparison.stored, not (quiet or as_json)

    def place(name: Path) -> Path:
        return check_folder(out or stored.folder / name)

    def show(function: Callable[..., None], *values: Any) -> None:
        if not as_json:
            function(*values)

    def with_pictures(
        difference: PairExplanation, replayer: Any, home: Path, frames: bool = frames
    ) -> PairExplanation:
        """Add pictures and clips; if that fails, the numbers are shown all the same."""
        try:
            return with_media(difference, stored, replayer, home, frames, clips, progress)
        except PivecError as error:
            return replace(difference, notes=(*difference.notes, f"no pictures: {error}"))

    def write(home: Path, result: Any, page: Callable[[Any, str], str]) -> None:
        make_folder(home)
        content = result.to_json()
        with atomic_write(home / "explain.json", "w") as file:
            json.dump(content, file, indent=1, allow_nan=False)
        write_page(home / "explain.html", page(result, command_line()))
        save_png(result.figure(), home / "explain.png")
        if as_json:
            say_json(content)

    result: Any
    if run is not None:
        result = comparison.explain_run(run, level=level)
        home = place(Path(FOLDER, file_name(f"run-{run}", 120)))
        show(print_run, result)
        if result.largest is not None and clips:
            replayer = comparison.replayer(ReplayOptions(**options))
            largest = comparison.explain(*result.largest, level=level)
            result = replace(result, clips=with_pictures(largest, replayer, home, False).clips)
        write(home, result, run_html)
        show(say, f"Page: {home / 'explain.html'}")
        return
    if group:
        chosen = patterns(group)
        result = comparison.explain_groups(chosen, last=last, level=level)
        home = place(Path(FOLDER, file_name("groups-" + "--".join(chosen), 120)))
        show(print_group_explanation, result)
        write(home, result, group_explanation_html)
        show(say, f"Page: {home / 'explain.html'}")
        return
    replayer = comparison.replayer(ReplayOptions(**options))
    films: list[Clip]
    if names:
        result = comparison.explain(*names, top=top, level=level)
        home = check_folder(out or pair_folder(stored, result))
        show(print_pair, result)
        result = with_pictures(result, replayer, home)
        differences, films = [result], []
        write(home, result, pair_html)
    else:
        home, pairs = place(Path(FOLDER)), {}
        for title, labels in _notable_pairs(comparison).items():
            pairs[title] = comparison.explain(*labels, top=top, level=level)
            show(say, f"{title}:")
            show(print_pair, pairs[title])
        pairs = {title: with_pictures(pair, replayer, home) for title, pair in pairs.items()}
        differences = list(pairs.values())
        classes = comparison.findings.behaviours
        wanted = []
        medoids = classes.medoids[:_BEHAVIOURS] if classes is not None and clips else ()
        for number, medoid in enumerate(medoids, 1):
            n = classes.numbers.count(number)  # type: ignore[union-attr]
            title = f"Behaviour {number}: {n} {'policy' if n == 1 else 'policies'}"
            wanted.append(plan_first_episode(stored, replayer, comparison.labels[medoid], title))
        films = list(make_clips(wanted, replayer, home / "clips", progress)) if wanted else []
        overview = Overview(tuple(pairs.items()), tuple(films))
        write(home, overview, overview_html)
    show(lambda: print_written(home, *differences, clips=films))
    made = [clip.path for pair in differences for clip in pair.clips]
    made += [frame.path for pair in differences for frame in pair.frames]
    if out is None:
        _update_report(comparison, made, as_json)


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


def _notable_pairs(comparison: Comparison) -> dict[str, tuple[str, str]]:
    """Name the nearest pair that differs, and the farthest pair."""
    labels = comparison.labels
    if len(labels) < 2:
        raise UsageError(f"{comparison.folder} has a single policy: expected two or more")
    titles: dict[tuple[int, int], str] = {}
    for title, pair in comparison.findings.notable_pairs.items():
        if "cannot" not in title:
            titles.setdefault(pair, title)
    return {title: (labels[i], labels[j]) for (i, j), title in titles.items()}


def _update_report(comparison: Comparison, pictures: Sequence[Path | None], quiet: bool) -> None:
    """Write report.html again with new pictures, if there is one."""
    if not any(pictures) or not comparison.report.is_file():
        return
    comparison.write_report()
    if not quiet:
        say(f"The pictures are in {comparison.report} too")


@with_options(ReplayOptions)
def regions(
    folder: FolderArgument,
    *,
    frames: Annotated[
        bool, typer.Option("--frames", help="Draw a typical state of each region by replay.")
    ] = False,
    top: Annotated[int, typer.Option(help="Number of regions to print.", min=1)] = 20,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Describe the regions of a space: in words, which policies spend time there, and when.

    A region is described by what distinguishes it from all states ("pole angle 0.08 to 0.15 rad,
    cart velocity below −0.9 m/s"), and by visited states near its centre.

    Example: pivec regions pivec-out --frames

    Writes regions.json, regions.png and regions.html.
    """
    from pivec.figures import save_png
    from pivec.files import atomic_write, make_folder
    from pivec.report import regions_html, say_json, write_page
    from pivec.workflows import load_comparison

    comparison = load_comparison(folder)
    home = make_folder(out or comparison.folder)
    pictures = home / "frames" if frames else None
    result = comparison.regions(frames=pictures, progress=not quiet, **options)
    content = result.to_json()
    with atomic_write(home / "regions.json", "w") as file:
        json.dump(content, file, indent=1)
    save_png(result.figure(), home / "regions.png", _SHARPEST)
    write_page(home / "regions.html", regions_html(result))
    if as_json:
        say_json(content)
        return
    if not quiet:
        _print_regions(result, top)
    for note in result.notes:
        say(f"Note: {note}")
    say(f"Page: {home / 'regions.html'}")
    if home == comparison.folder:
        made = [region.frame.path for region in result if region.frame]
        _update_report(comparison, made, quiet)


def _print_regions(result: Regions, top: int) -> None:
    """Print the regions with the largest shares of time."""
    from rich.console import Console
    from rich.table import Table

    from pivec.text import percent, shorten_names

    table = Table(box=None)
    table.add_column("region", justify="right")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("where", ratio=1)
    table.add_column("when", max_width=11)
    table.add_column("most time", max_width=18, overflow="fold")
    table.add_column("", justify="right", no_wrap=True)
    shown = result.by_share()[:top]
    labels = shorten_names([region.highest[0] for region in shown], 36)
    for region, label in zip(shown, labels, strict=True):
        table.add_row(
            str(region.number),
            percent(region.share),
            literal(region.name),
            region.period,
            literal(label),
            percent(region.highest[1]),
        )
    Console().print(table)
    if (more := len(result) - top) > 0:
        say(f"{more} more region{'s' * (more > 1)}: --top {len(result)}, or the page")


@with_options(ReplayOptions)
def unusual(
    folder: FolderArgument,
    labels: Names = None,
    *,
    top: Annotated[int, typer.Option(help="Number of episodes to list.", min=1)] = 10,
    clips: Annotated[
        bool,
        typer.Option("--clips", help="Film a typical and an unusual episode of some."),
    ] = False,
    as_json: Json = False,
    out: Out = None,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Find episodes that differ from the others of their policy, and states outside the space.

    [bold]times as far[/bold]: the distance of an episode from the others of its policy, relative to
    the policy's median episode.

    A state is [bold]outside[/bold] if it is farther from all regions than 99 % of the states of
    each policy that the space was fitted on; policies placed with compare --space may have many.

    Example: pivec unusual pivec-out ppo-0/step_100096 --clips

    Writes unusual.json, unusual.png and unusual.html.
    """
    from pivec.figures import save_png
    from pivec.files import atomic_write, make_folder
    from pivec.report import print_unusual, say_json, unusual_html, write_page
    from pivec.workflows import load_comparison

    comparison = load_comparison(folder)
    home = make_folder(out or comparison.folder)
    result = comparison.unusual(
        labels,
        top=top,
        clips=home / "clips" if clips else None,
        progress=not (quiet or as_json),
        **options,
    )
    content = result.to_json()
    with atomic_write(home / "unusual.json", "w") as file:
        json.dump(content, file, indent=1, allow_nan=False)
    save_png(result.figure(), home / "unusual.png")
    write_page(home / "unusual.html", unusual_html(result, command_line()))
    if as_json:
        say_json(content)
        return
    if not quiet:
        print_unusual(result)
    say(f"Page: {home / 'unusual.html'}")


@with_options(EngineOptions)
@on_engine
def groups(
    folder: FolderArgument,
    *,
    group: Group = None,
    last: Last = None,
    out: Out = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    **_: Any,
) -> None:
    """Test whether groups of training runs behave differently, such as PPO and A2C.

    Runs are the samples, not policies or episodes. A permutation test (PERMANOVA) tests whether the
    groups differ, and how much of the variance between runs they explain; distances within and
    between groups, and the diversity of each group, have confidence intervals over runs.

    Example: pivec groups pivec-out --group ppo='ppo-*' --group a2c='a2c-*' --last 1

    Writes groups.json and groups.png.
    """
    from pivec.figures import save_png
    from pivec.files import atomic_write, make_folder
    from pivec.report import groups_figure, print_groups
    from pivec.workflows import load_comparison

    comparison = load_comparison(folder)
    result = comparison.groups(patterns(group) or None, last=last, seed=seed)
    home = make_folder(out or comparison.folder)
    with atomic_write(home / "groups.json", "w") as file:
        json.dump(result.to_json(), file, indent=1)
    environment = str(comparison.space.collected.get("environment", ""))
    save_png(groups_figure(result, environment), home / "groups.png")
    if not quiet:
        print_groups(result)
    say(f"Figure: {home / 'groups.png'}")


@with_options(ReplayOptions)
def serve(
    folder: FolderArgument,
    *,
    port: Annotated[int, typer.Option(help="Port; 0 is a free one.", min=0, max=65535)] = 0,
    browser: Annotated[
        bool, typer.Option("--open/--no-browser", help="Open the page in your browser.")
    ] = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Serve the report of a comparison as a live page.

    Select two policies to see their exact distance with its interval, what differs between them,
    and clips on request. Policies that are added to the folder ([bold]pivec watch[/bold], or
    compare again) appear on the open page.

    Only this computer can reach it, and only with the printed address. Ctrl-C stops it.

    Example: pivec serve pivec-out --open
    """
    from pivec.server import serve as serve_page

    serve_page(folder, port, options=ReplayOptions(**options), browser=browser, quiet=quiet)
