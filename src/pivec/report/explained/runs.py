"""What changed along a run and what sets groups of runs apart: on the terminal and as pages."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from pivec.explanations.groups.contrasts import Contrast, written
from pivec.explanations.groups.figure import shown_contrasts
from pivec.explanations.groups.groups import GroupDifference
from pivec.explanations.runs.changes import Change
from pivec.explanations.runs.runs import RunChanges, RunStep
from pivec.report.explained.parts import reel
from pivec.report.explained.shell import Embedder, explained_html, made_section, notes_section
from pivec.report.markup import picture, section, shown_text, table
from pivec.terminal import literal, say, shortened
from pivec.text import interval, percent, rounded, thousands

_WIDE = 96  # letters that a table needs to be read with all its columns
_FEATURES, _REGIONS = 4, 8  # contrasts that are shown
_READ_RUN = (
    "<p>Checkpoints are followed in the order of training. Neighbours that chance could explain "
    "are joined, until one differs from the first of them. Changes without a region are about a "
    "single feature, whatever the others are; those with a region are about that part of the space "
    "of states. <em>Began</em> means from less than 1 % of the time to more than 3 %, "
    "<em>stopped</em> the reverse. The last column is the {level} interval of the change. Of all "
    "spans of a feature the one that changed most is shown, which makes its change look a little "
    "larger than it is.</p>"
)
_READ_GROUPS = (
    "<p>Runs are the samples: a run is the mean of its checkpoints, and intervals ({level}) are "
    "about other runs of the same kind. q is the share of wrong answers among all differences with "
    "a q as small; above 0.05 chance explains a difference. Of the spans of a feature that one is "
    "shown in which the groups differ most, and its q comes from exchanging runs between the "
    "groups.</p>"
)


def print_run(result: RunChanges) -> None:
    """Print what changed from checkpoint to checkpoint, a table of changes."""
    say(result.headline())
    console = Console()
    wide = console.width >= _WIDE
    grid = Table(box=None, pad_edge=False)
    grid.add_column("training step,\ndistance", no_wrap=True)
    grid.add_column("what changed", overflow="fold", ratio=1)
    grid.add_column("of the time", no_wrap=True, justify="right")
    if wide:
        grid.add_column("by", no_wrap=True, justify="right")
    for step in result.parts:
        first = f"{step.when}\n{_distance(step)}"
        if step.quiet:
            grid.add_row(first, step.quiet)
        for change in step.changes:
            region = "" if change.region is None else f" (region {change.region})"
            cells = literal(_what(change) + region), literal(_values(change))
            grid.add_row(first, *cells, *[_by(change)] * wide)
            first = ""
    console.print(grid)
    if wide and any(step.changes for step in result.parts):
        say(f"by: {percent(result.level)} interval of the change")
    if result.largest:
        say(f"The largest step in detail: {_pair_command(result.largest)}")
    for note in result.notes:
        say(f"Note: {note}")


def _pair_command(labels: tuple[str, str]) -> str:
    return "pivec explain DIR " + " ".join(map(shlex.quote, labels))


def _distance(step: RunStep) -> str:
    return _with_ends(max(step.distance, 0.0), step.low, step.high)


def _with_ends(value: float, low: float, high: float) -> str:
    ends = "" if math.isnan(low) else f" ({rounded(low, 2)} to {rounded(high, 2)})"
    return f"{rounded(value, 2)}{ends}"


def _what(change: Change) -> str:
    if change.kind == "moved":
        return f"{change.feature} moved, where {change.where}"
    return f"{change.kind}: {change.where}"


def _values(change: Change) -> str:
    if change.kind != "moved":
        return change.times
    unit = f" {change.unit}" if change.unit else ""
    return f"{rounded(change.before, 2)} → {rounded(change.after, 2)}{unit}".replace("-", "−")


def _by(change: Change) -> str:
    if math.isnan(change.low):
        return "–"
    if change.kind == "moved":
        return f"{change.low:+.2g} to {change.high:+.2g}".replace("-", "−")
    return _points(change.low, change.high)


def _points(low: float, high: float) -> str:
    """Write from where to where a difference of shares may lie.

    Examples
    --------
    >>> _points(-0.123, 0.0451), _points(math.nan, math.nan)
    ('−12 to +4.5 %', '–')
    """
    if math.isnan(low):
        return "–"
    ends = [f"{'−' if end < 0 else '+'}{percent(abs(end))}" for end in (low, high)]
    return f"{ends[0].removesuffix(' %')} to {ends[1]}"


def print_group_difference(result: GroupDifference) -> None:
    """Print what sets two groups of runs apart, and how sure that is."""
    words = result.headline()
    say(words[:1].upper() + words[1:])
    last = f"; {_last(result.last)}" if result.last else ""
    say(f"Groups of runs, {result.grouping}{last}:")
    for name, runs in zip(result.groups, result.runs, strict=True):
        say(f"  {name}: {shortened(', '.join(runs), 200)}")
    if result.left_out:
        say(f"  in neither: {shortened(', '.join(result.left_out), 200)}")
    console = Console()
    wide = console.width >= _WIDE
    grid = Table(box=None, pad_edge=False)
    grid.add_column("region", justify="right")
    grid.add_column("where", overflow="fold", ratio=1)
    for name in result.groups:
        grid.add_column(literal(f"time of {shortened(name, 20)}"), justify="right")
    more = literal(" − ".join(shortened(name, 12) for name in result.groups))
    for head in [more] * wide + [literal("q")]:
        grid.add_column(head, no_wrap=True, justify="right")
    for contrast in shown_contrasts(result, _FEATURES, _REGIONS):
        region = "" if contrast.region is None else str(contrast.region)
        sure = [_points(contrast.low, contrast.high)] * wide + [rounded(contrast.q_value, 2)]
        grid.add_row(region, literal(contrast.where), *_times(contrast), *sure)
    console.print(grid)
    for caveat in result.caveats():
        say(caveat[:1].upper() + caveat[1:])
    for note in result.notes:
        say(f"Note: {note}")


def _last(count: int) -> str:
    checkpoints = "checkpoint" if count == 1 else f"{count} checkpoints"
    return f"of each run the last {checkpoints}"


def _times(contrast: Contrast) -> list[str]:
    """Write the mean share of time of both groups, and from where to where the runs go."""
    shown = []
    for times, mean in zip(contrast.times, contrast.means, strict=True):
        ends = f"\n{written(times)}" if len(times) > 1 else ""
        shown.append(f"{percent(mean)}{ends}")
    return shown


def run_section(result: RunChanges, prefix: str = "") -> str:
    """Show the picture of a run and the table of its changes."""
    image = (
        f'<img class="paper" src="{picture(result.figure())}" '
        'alt="Time spent in places along the run, and the distance of each step">'
    )
    heads = ("Training step", "Distance", "Region", "What changed", "Of the time", "By")
    lines = [line for step in result.parts for line in _step_lines(step)]
    changes = table(heads, (1, 2, 4, 5), lines)
    about = (
        '<p class="about">From step to step: the features in which time is spent most differently, '
        "then the regions with the largest parts of the distance.</p>"
    )
    rows = f'<div class="scroll">{changes}</div>'
    if result.largest:
        command = shown_text(_pair_command(result.largest))
        rows += f'<p class="note">The largest step in detail: <code>{command}</code></p>'
    return section(f"{prefix}picture", "The run", image) + section(
        f"{prefix}run", "Step by step", about, rows
    )


def _step_lines(step: RunStep) -> Iterable[str]:
    rows = max(len(step.changes), 1)
    head = (
        f'<th scope="row" rowspan="{rows}">{_unbroken(step.when)}</th>'
        f'<td class="n" rowspan="{rows}">{rounded(max(step.distance, 0.0), 3)}<br>'
        f"<small>{interval(step.low, step.high)}</small></td>"
    )
    if step.quiet:
        yield f'<tr>{head}<td></td><td colspan="3">{step.quiet}</td></tr>'
    for change in step.changes:
        region = "" if change.region is None else str(change.region)
        shown = (
            shown_text(change.sentence().partition(" (")[0])
            if change.kind != "moved"
            else shown_text(_what(change))
        )
        yield (
            f'<tr>{head}<td class="n">{region}</td><td>{shown}</td>'
            f'<td class="n">{shown_text(_values(change))}</td><td class="n">{_by(change)}</td></tr>'
        )
        head = ""


def _unbroken(when: str) -> str:
    """Keep numbers and their units on one line."""
    return " to ".join(part.replace(" ", "\xa0") for part in when.split(" to "))


def run_html(result: RunChanges, command: str = "") -> str:
    """Make the page of a run."""
    quiet = sum(not step.stretch.changed for step in result.parts)
    figures = {
        "checkpoints": thousands(len(result.steps)),
        "distance travelled": rounded(sum(max(s.distance, 0.0) for s in result.parts), 3),
        "stretches in which something changed": thousands(len(result.parts) - quiet),
    }
    returns = [float(x) for x in result.mean_returns[[0, -1]]]
    if all(map(math.isfinite, returns)):
        figures["mean return, first and last"] = " and ".join(
            rounded(x, 3).replace("-", "−") for x in returns
        )
    return _page(
        f"What changed along {result.run}",
        result.environment,
        result.headline(),
        figures,
        [
            run_section(result),
            _clips_section(result),
            notes_section(result.notes),
            _reading(_READ_RUN, result.level),
        ],
        command,
    )


def _clips_section(result: RunChanges) -> str:
    step = result.largest_step
    if step is None or not result.clips:
        return ""
    before, after = map(shown_text, step.labels)
    about = f'<p class="about">The largest step, {step.when}: {before} and {after}.</p>'
    return section("clips", "To watch", about, reel(result.clips, Embedder()))


def groups_section(result: GroupDifference, prefix: str = "") -> str:
    """Show the runs of both groups where they differ most, as a picture and as a table."""
    image = (
        f'<img class="paper" src="{picture(result.figure())}" '
        'alt="Shares of time of all runs of both groups where they differ most">'
    )
    heads = ["Region", "Where", *(f"Time of {shown_text(g)}" for g in result.groups)]
    lines = []
    for contrast in shown_contrasts(result, _FEATURES, _REGIONS):
        region = "" if contrast.region is None else str(contrast.region)
        times = (
            f'<td class="n">{cell.replace(chr(10), "<br><small>")}{"</small>" * (chr(10) in cell)}'
            "</td>"
            for cell in _times(contrast)
        )
        lines.append(
            f'<tr><td class="n">{region}</td><th scope="row">{shown_text(contrast.where)}</th>'
            f"{''.join(times)}"
            f'<td class="n">{_points(contrast.low, contrast.high)}</td>'
            f'<td class="n">{rounded(contrast.q_value, 2)}</td></tr>'
        )
    more = " − ".join(map(shown_text, result.groups))
    rows = table([*heads, more, "q"], (0, 2, 3, 4, 5), lines)
    runs = "; ".join(
        f"{shown_text(name)}: {shown_text(shortened(', '.join(runs), 200))}"
        for name, runs in zip(result.groups, result.runs, strict=True)
    )
    last = f" {_last(result.last).capitalize()}." if result.last else ""
    about = f'<p class="about">Groups are made {shown_text(result.grouping)}: {runs}.{last}</p>'
    numbers = section(f"{prefix}numbers", "In numbers", f'<div class="scroll">{rows}</div>')
    return section(f"{prefix}groups", "What sets them apart", about, image) + numbers


def group_difference_html(result: GroupDifference, command: str = "") -> str:
    """Make the page of two groups of runs."""
    figures = {
        f"runs of {name}": thousands(len(runs))
        for name, runs in zip(result.groups, result.runs, strict=True)
    }
    words = result.headline()
    return _page(
        "What sets the runs of {} and of {} apart".format(*result.groups),
        result.environment,
        words[:1].upper() + words[1:],
        figures,
        [
            groups_section(result),
            notes_section([*result.caveats(), *result.notes]),
            _reading(_READ_GROUPS, result.level),
        ],
        command,
    )


def _reading(text: str, level: float) -> str:
    return section("reading", "How to read this", text.format(level=percent(level)))


def _page(
    title: str,
    environment: str,
    lead: str,
    figures: dict[str, str],
    sections: Sequence[str],
    command: str,
) -> str:
    lead = f"{shown_text(lead)}."
    made = [*sections, made_section(command)]
    return explained_html(title, environment, lead, figures, made, heading=title)
