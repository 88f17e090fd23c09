"""The command that tells what differs: between two policies, along a run, between groups."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pivec.cli import completion
from pivec.cli.compare import SpaceArgument
from pivec.cli.options import Out, Quiet, Seed, with_options
from pivec.cli.same import Json
from pivec.errors import PivecError, UsageError
from pivec.options import EngineOptions, ReplayOptions
from pivec.parallel import on_engine
from pivec.terminal import literal, say

if TYPE_CHECKING:
    from pivec.explanations import Clip, ComparisonFolder, PairExplanation, Regions, Replayer
    from pivec.report import Findings
    from pivec.statistics import BehaviourClasses

# -----------------------------------------------------------------------------
# What `pivec explain` films, and where its results go.


PAGE = "explain.html"
_BEHAVIOURS = 8  # that are filmed


@dataclass(frozen=True)
class Films:
    """What is filmed, and how."""

    findings: ComparisonFolder
    frames: bool
    clips: int
    replaying: ReplayOptions

    def add(
        self, difference: PairExplanation, replayer: Replayer, folder: Path, progress: bool
    ) -> PairExplanation:
        """Add pictures and clips to a difference; what fails leaves the rest whole."""
        from pivec.explanations import with_media

        chosen = self.frames, self.clips
        try:
            return with_media(difference, self.findings, replayer, folder, *chosen, progress)
        except PivecError as error:
            return replace(difference, notes=(*difference.notes, f"no pictures: {error}"))

    def of_behaviours(
        self,
        classes: BehaviourClasses | None,
        words: Sequence[str],
        replayer: Replayer,
        folder: Path,
        progress: bool,
    ) -> tuple[Clip, ...]:
        """Film the policy in the middle of each behaviour, the largest first."""
        from pivec.explanations import alone, shot

        if classes is None or not self.clips:
            return ()
        wanted = []
        for number, medoid in enumerate(classes.medoids[:_BEHAVIOURS], 1):
            n = classes.numbers.count(number)
            title = f"Behaviour {number}: {n} {'policy' if n == 1 else 'policies'}"
            label = self.findings.policies[medoid].label
            wanted.append(alone(self.findings, replayer, label, title, words))
        return shot(wanted, replayer, folder / "clips", progress)

    def replayer(self) -> Replayer:
        """Make what plays episodes again; before anything else, since names may be mistaken."""
        from pivec.explanations import Replayer

        chosen = self.replaying
        policies = list(chosen.policies) or None
        return Replayer(self.findings, chosen.env, policies, chosen.collecting)


@dataclass(frozen=True)
class Showing:
    """Where results go, and what is said of them."""

    out: Path | None
    as_json: bool
    quiet: bool
    command: str

    @property
    def progress(self) -> bool:
        """Whether to draw bars."""
        return not (self.quiet or self.as_json)

    def leave(self, folder: Path, result: Any, page: Callable[[Path], None]) -> None:
        """Write explain.json, explain.html and explain.png; print the first if that is wanted."""
        from pivec.figures import save_png
        from pivec.files import atomic_write, make_folder
        from pivec.report import say_json

        make_folder(folder)
        content = result.to_json()
        with atomic_write(folder / "explain.json", "w") as file:
            json.dump(content, file, indent=1, allow_nan=False)
        page(folder / PAGE)
        save_png(result.figure(), folder / "explain.png")
        if self.as_json:
            say_json(content)


def say_report(folder: Path, made: Sequence[Path | None]) -> None:
    """Say how pictures that were made come to the page of the comparison, if it has one."""
    if (folder / "report.html").is_file() and any(made):
        say(f"To see pictures in report.html too: pivec report {shlex.quote(str(folder))}")


# -----------------------------------------------------------------------------
# The command that shows the regions of a space: parse, call, print.


FRAMES = "frames"  # the folder of pictures
_SHARPEST = 150  # dpi: a page of 64 regions is long enough

Frames = Annotated[
    bool,
    typer.Option(
        "--frames",
        help="Draw a state near the middle of each region: episodes are played again from their "
        "seeds, with the policies' files.",
    ),
]
Top = Annotated[int, typer.Option(help="Print so many regions; the files have all.", min=1)]


@with_options
def regions(
    space: SpaceArgument,
    *,
    frames: Frames = False,
    top: Top = 20,
    out: Out = None,
    as_json: Json = False,
    replaying: ReplayOptions,
    quiet: Quiet = False,
) -> None:
    """Show the regions of a space: in words, who spends time there, and when in an episode.

    A region is told by what sets it apart from all states ("pole angle 0.08 to 0.15 rad, cart
    velocity below −0.9 m/s"), and by states near its middle that were really visited.

    Example: pivec regions pivec-out --frames

    Leaves regions.json, regions.png and the page regions.html beside the space.
    """
    from pivec.explanations import ComparisonFolder, summarize_regions
    from pivec.figures import save_png
    from pivec.files import atomic_write, make_folder
    from pivec.report import say_json, write_regions_page

    findings = ComparisonFolder.open(space)
    folder = make_folder(out or findings.folder)
    pictures = folder / FRAMES if frames else None
    result = summarize_regions(findings, frames=pictures, progress=not quiet, **vars(replaying))
    content = result.to_json(folder)
    with atomic_write(folder / "regions.json", "w") as file:
        json.dump(content, file, indent=1)
    save_png(result.figure(), folder / "regions.png", _SHARPEST)
    write_regions_page(folder / "regions.html", result)
    if as_json:
        say_json(content)
        return
    if not quiet:
        _print(result, top)
    for note in result.notes:
        say(f"Note: {note}")
    say(f"Page: {folder / 'regions.html'}")
    if folder == findings.folder:  # elsewhere the page does not look
        say_report(folder, [region.frame.path for region in result if region.frame])


def _print(result: Regions, top: int) -> None:
    """Print those in which most time is spent, a line each."""
    from rich.console import Console
    from rich.table import Table

    from pivec.text import percent, told_apart

    table = Table(box=None)
    table.add_column("region", justify="right")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("where", ratio=1)
    table.add_column("when", max_width=11)
    table.add_column("most time", max_width=18, overflow="fold")
    table.add_column("", justify="right", no_wrap=True)
    shown = result.by_share()[:top]
    labels = told_apart([region.highest[0] for region in shown], 36)
    for region, label in zip(shown, labels, strict=True):
        table.add_row(
            str(region.number),
            percent(region.share),
            literal(region.name),
            region.when_words,
            literal(label),
            percent(region.highest[1]),
        )
    Console().print(table)
    if (more := len(result) - top) > 0:
        say(f"{more} more region{'s' * (more > 1)}: --top {len(result)}, or the page")


# -----------------------------------------------------------------------------
# The command that finds unusual episodes and states: parse, call, print.


Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="POLICY",
        help="Policies by their names, or the ends of them; all if none is given.",
        show_default=False,
        autocompletion=completion.policies,
    ),
]
Top_unusual = Annotated[int, typer.Option(help="How many episodes to list.", min=1)]
Clips = Annotated[
    bool,
    typer.Option(
        "--clips",
        help="Film the most typical and the most unusual episode of the first policies in the list "
        "side by side: they are played again from their seeds, with the policies' files.",
    ),
]


@with_options
@on_engine
def unusual(
    space: SpaceArgument,
    names: Names = None,
    *,
    top: Top_unusual = 10,
    clips: Clips = False,
    as_json: Json = False,
    out: Out = None,
    replaying: ReplayOptions,
    quiet: Quiet = False,
) -> None:
    """Find episodes that are unlike their policy's others, and states where no policy has been.

    [bold]times as far[/bold]: how far an episode lies from its policy's others, where 1 is the
    policy's usual (median) episode.

    A state is [bold]outside[/bold] if it is farther from all regions of the space than 99 % of the
    states of each policy that the space was fitted on; policies placed in an earlier space
    (compare --space) may have many of them.

    Example: pivec unusual pivec-out ppo-0/step_100096 --clips

    Leaves unusual.json, unusual.png and the page unusual.html beside the space.
    """
    from pivec.explanations import ComparisonFolder, Replayer, find_unusual
    from pivec.figures import save_png
    from pivec.files import atomic_write, make_folder
    from pivec.report import print_unusual, say_json, write_unusual

    findings = ComparisonFolder.open(space)
    folder = make_folder(out or findings.folder)
    films, replayer = folder / "clips" if clips else None, None
    if clips:
        acting = list(replaying.policies) or None
        replayer = Replayer(findings, replaying.env, acting, replaying.collecting)
    progress = not (quiet or as_json)
    result = find_unusual(
        findings, names, top=top, clips=films, replayer=replayer, progress=progress
    )
    content = result.to_json()
    with atomic_write(folder / "unusual.json", "w") as file:
        json.dump(content, file, indent=1, allow_nan=False)
    save_png(result.figure(), folder / "unusual.png")
    write_unusual(folder / "unusual.html", result, shlex.join(["pivec", *sys.argv[1:]]))
    if as_json:
        say_json(content)
        return
    if not quiet:
        print_unusual(result)
    say(f"Page: {folder / 'unusual.html'}")


# -----------------------------------------------------------------------------
# The command that compares groups of runs: parse, call, print.


Group = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATTERN",
        help="The runs of a group, as ppo='ppo-*'; may be repeated, also for the same name. If not "
        "given, runs whose names differ in the number at their end are a group.",
    ),
]
Last = Annotated[
    int | None,
    typer.Option(help="Look at so many checkpoints of each run, the last; else at all.", min=1),
]


@with_options
@on_engine
def groups(
    space: SpaceArgument,
    group: Group = None,
    last: Last = None,
    out: Out = None,
    seed: Seed = 0,
    *,
    running: EngineOptions,  # noqa: ARG001  (of `on_engine`)
    quiet: Quiet = False,
) -> None:
    """Find out whether groups of runs behave differently: PPO and A2C, say, of several runs each.

    Runs are the samples, not policies or episodes. A permutation test (PERMANOVA) tells whether
    the groups differ, and how much of the variance between runs they explain; distances within
    and between groups, and the diversity of each group, have intervals about other runs.

    Example: pivec groups pivec-out --group ppo='ppo-*' --group a2c='a2c-*' --last 1

    Leaves groups.json and groups.png beside the space.
    """
    from pivec.characterizations import Space
    from pivec.figures import save_png
    from pivec.files import atomic_write, make_folder
    from pivec.report import SPACE, compare_groups, groups_figure, measure_space, print_groups

    described = Space.load(space)
    beside = space.parent if space.name == SPACE else space
    intervals = None
    if "influences" not in described.descriptions.arrays:  # then the states are needed
        intervals = measure_space(described, beside).intervals
    result = compare_groups(described, patterns(group), last=last, seed=seed, intervals=intervals)
    folder = make_folder(out or beside)
    with atomic_write(folder / "groups.json", "w") as file:
        json.dump(result.to_json(), file, indent=1)
    environment = str(described.collected.get("environment", ""))
    save_png(groups_figure(result, environment), folder / "groups.png")
    if not quiet:
        print_groups(result)
    say(f"Figure: {folder / 'groups.png'}")


def patterns(texts: list[str] | None) -> dict[str, list[str]]:
    """Read NAME=PATTERN, several of them for a name if need be.

    Examples
    --------
    >>> patterns(["on=ppo-*", "on=a2c-*", "off=sac-*"])
    {'on': ['ppo-*', 'a2c-*'], 'off': ['sac-*']}
    """
    result: dict[str, list[str]] = {}
    for text in texts or []:
        name, _, pattern = text.partition("=")
        if not name or not pattern:
            raise UsageError(f"--group expects NAME=PATTERN, but got {text!r}")
        result.setdefault(name, []).append(pattern)
    return result


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
Last_explain = Annotated[
    int | None,
    typer.Option(help="Of groups: so many checkpoints of each run, the last; else all.", min=1),
]
Top_explain = Annotated[int, typer.Option(help="Regions that are shown, at most.", min=1)]
Frames_explain = Annotated[
    bool, typer.Option(help="Draw states of both policies in these regions.")
]
Clips_explain = Annotated[
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
    last: Last_explain = None,
    top: Top_explain = 6,
    frames: Frames_explain = True,
    clips: Clips_explain = 2,
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
    from pivec.explanations import ComparisonFolder

    names = list(pair or [])
    _check_question(names, run, group, last)
    findings = ComparisonFolder.open(space)
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
    findings: ComparisonFolder,
    names: list[str],
    top: int,
    level: float,
    films: Films,
    showing: Showing,
) -> None:
    from pivec.explanations import explain_pair, pair_folder
    from pivec.files import check_folder
    from pivec.report import print_difference, say_written, write_difference

    difference = explain_pair(findings, *names, top=top, level=level)
    folder = check_folder(showing.out or pair_folder(findings, difference))
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
    findings: ComparisonFolder, top: int, level: float, films: Films, showing: Showing
) -> None:
    from pivec.explanations import FOLDER, Overview, explain_pair
    from pivec.files import check_folder
    from pivec.report import (
        Findings,
        measure_space,
        print_difference,
        say_written,
        write_overview,
    )
    from pivec.run_log import RunLog

    labels = findings.space.descriptions.labels
    if len(labels) < 2:
        raise UsageError(f"{findings.folder} has a single policy: expected two or more")
    folder = check_folder(showing.out or findings.folder / FOLDER)
    replayer = films.replayer()
    measured = measure_space(findings.space, findings.folder)
    shown = Findings.of(findings.space, measured, RunLog(findings.folder))
    differences = {}
    for title, names in _notable_pairs(shown).items():
        differences[title] = explain_pair(findings, *names, top=top, level=level)
        if not showing.as_json:
            say(f"{title}:")
            print_difference(differences[title])
    pairs = tuple(
        (title, films.add(difference, replayer, folder, showing.progress))
        for title, difference in differences.items()
    )
    words = pairs[0][1].decomposition.words
    watched = films.of_behaviours(shown.behaviours, words, replayer, folder, showing.progress)
    overview = Overview(pairs, watched)
    showing.leave(folder, overview, lambda path: write_overview(path, overview, showing.command))
    if not showing.as_json:
        say_written(folder, *(pair for _, pair in pairs), clips=watched)
        _say_report(findings, showing, *(pair for _, pair in pairs))


def _say_report(
    findings: ComparisonFolder, showing: Showing, *differences: PairExplanation
) -> None:
    if showing.out is None:  # elsewhere the page does not look
        made = [clip.path for pair in differences for clip in pair.clips]
        made += [frame.path for pair in differences for frame in pair.frames.values()]
        say_report(findings.folder, made)


def _notable_pairs(shown: Findings) -> dict[str, tuple[str, str]]:
    """Name the nearest pair that can be told apart, and the farthest; of two policies one pair."""
    labels = shown.policies.labels
    titles: dict[tuple[int, int], str] = {}
    for title, pair in shown.notable_pairs.items():
        if "cannot" not in title:
            titles.setdefault(pair, title)
    return {title: (labels[i], labels[j]) for (i, j), title in titles.items()}


def _explain_run(
    findings: ComparisonFolder, run: str, level: float, films: Films, showing: Showing
) -> None:
    from pivec.explanations import RunExplanation, explain_pair, explain_run
    from pivec.report import print_run, run_html

    def filmed(result: RunExplanation, folder: Path) -> RunExplanation:
        if result.largest is None or not films.clips:
            return result
        pair = explain_pair(findings, *result.largest, level=level)
        return replace(
            result, clips=films.add(pair, films.replayer(), folder, showing.progress).clips
        )

    result = explain_run(findings, run, level=level)
    _show(findings, result, f"run-{run}", print_run, run_html, showing, filmed)


def _explain_groups(
    findings: ComparisonFolder,
    groups: dict[str, list[str]],
    last: int | None,
    level: float,
    showing: Showing,
) -> None:
    from pivec.explanations import explain_groups
    from pivec.report import group_difference_html, print_group_difference

    result = explain_groups(findings, groups, last=last, level=level)
    name = "groups-" + "--".join(groups)
    _show(findings, result, name, print_group_difference, group_difference_html, showing)


def _show(
    findings: ComparisonFolder,
    result: Any,
    name: str,
    tell: Callable[[Any], None],
    page: Callable[[Any, str], str],
    showing: Showing,
    filmed: Callable[[Any, Path], Any] = lambda result, _: result,
) -> None:
    """Print a result, add what is filmed of it, and write it."""
    from pivec.explanations import FOLDER
    from pivec.files import check_folder, file_name
    from pivec.report import write_page

    folder = check_folder(showing.out or findings.folder / FOLDER / file_name(name, 120))
    if not showing.as_json:
        tell(result)
    result = filmed(result, folder)
    html = page(result, showing.command)
    showing.leave(folder, result, lambda path: write_page(path, html))
    if not showing.as_json:
        say(f"Page: {folder / PAGE}")
