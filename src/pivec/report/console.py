"""What commands print: short tables and sentences; text from files is shown literally."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ElementTree, SubElement

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pivec.explanations import (
    Clip,
    Coverage,
    GroupExplanation,
    PairExplanation,
    RunExplanation,
    Shift,
    Unusual,
)
from pivec.files import atomic_write
from pivec.policies import PolicyInfo
from pivec.report.distance_figures import permanova_numbers, permanova_sentence, with_interval
from pivec.report.explanation_pages import (
    OUTSIDE,
    amounts,
    beside,
    by,
    difference_rows,
    last_checkpoints,
    pair_command,
    times_as_far,
    what,
)
from pivec.report.findings import UNSURE, Findings
from pivec.report.groups import GroupComparison
from pivec.states import Store
from pivec.statistics import LEVEL, POWER, EquivalenceTest, Parts, Plan
from pivec.terminal import literal, printable, say, shortened
from pivec.text import interval, n_policies, percent, rounded, shorten_names

_PLAN_ROWS = 20  # policies in the table of a plan
_WIDE = 96  # columns that a table needs to be read with all its columns
_FEATURES, _SHIFTS = 12, 3  # that are printed of a pair
_EXPLAINED = 3  # unusual episodes whose reasons are printed
_OUTSIDE = 10  # policies with states outside


def print_summary(findings: Findings) -> None:
    """Print the few facts that tell whether policies behave differently, and by how much."""
    console, measured = Console(), findings.measured
    rows = [
        (title, row)
        for title, pairs in (("nearest", measured.nearest), ("farthest", measured.farthest))
        for row in findings.rows_of(pairs)[:3]
    ]
    names = [name for _, row in rows for name in (row.policy, row.other)]
    brief = dict(zip(names, shorten_names(names, max(20, (console.width - 48) // 2)), strict=True))
    sure = any(math.isfinite(row.low) for _, row in rows)
    shared = any(math.isfinite(row.overlap) for _, row in rows)
    table = Table("", box=None)
    for head in ("policy", "policy"):
        table.add_column(head, overflow="fold")
    heads = [f"distance ({percent(LEVEL)} interval)" if sure else "distance"]
    for head in heads + ["apart"] * shared:
        table.add_column(head, no_wrap=True)
    for title, row in rows:
        distance = f"{row.distance:.{3 if sure else 4}g}"
        if math.isfinite(row.low):
            distance += f" ({interval(row.low, row.high)}){' *' * row.alike}"
        apart = [percent(1 - row.overlap)] * shared
        table.add_row(
            title, literal(brief[row.policy]), literal(brief[row.other]), distance, *apart
        )
    console.print(table)
    if measured.n_known:
        say(f"* {UNSURE}: {len(measured.alike)} of {measured.n_known} pairs")
    if findings.behaviours:
        say(f"{findings.behaviours_words} (no two policies of one are told apart; map.csv)")
    if shared:
        say("apart: share of their time that two policies spend in different places")
    if findings.distances_note:
        say(findings.distances_note)
    if not measured.travels:
        return
    table = Table("run", "checkpoints", "distance travelled", box=None)
    for run in sorted(measured.travels, key=lambda run: -run.total)[:10]:
        half = "" if run.half_widths is None else f" ± {run.half_widths[-1]:.2g}"
        table.add_row(literal(run.group), str(len(run.rows)), f"{run.total:.4g}{half}")
    console.print(table)


def print_environment(settings: Mapping[str, Any]) -> None:
    """Print the environment that was read off the policies' files, or that nobody acted."""
    parts = [str(settings.get("environment") or "not known")]
    if settings.get("backend") == "recorded":
        say(f"Recorded states, nobody acts; environment: {parts[0]}")
        return
    if settings.get("arguments"):
        parts.append(f"arguments {settings['arguments']}")
    if settings.get("wrappers"):
        parts.append(f"wrappers {[wrapper.get('name') for wrapper in settings['wrappers']]}")
    say(f"Environment, as the files tell: {', '.join(parts)}")


def print_normalisers(policies: Sequence[PolicyInfo]) -> None:
    """Print what normalised the policies' observations: a wrong one is an easy mistake to make."""
    applied = Counter(str(info.metadata.get("normaliser") or "") for info in policies)
    for name, count in applied.items():
        if name:
            say(f"Normaliser of the observations of {count} policies: {name}")


def print_store(store: Store) -> None:
    """Print the policies of a store, a row each."""
    say(f"{store.settings.get('environment', '')}, {len(store)} policies")
    table = Table("policy", "group", "step", "episodes", "states", "mean return", box=None)
    labels = shorten_names(list(store.rows), max(24, Console().width - 50))
    for label, row in zip(labels, store.rows.values(), strict=True):
        step = "" if row["step"] is None else str(row["step"])
        numbers = (step, str(row["episodes"]), str(row["states"]), f"{row['mean_return']:.4g}")
        table.add_row(literal(label), literal(row["group"]), *numbers)
    Console().print(table)


def print_groups(result: GroupComparison) -> None:
    """Print which runs are in which group, how diverse each is, and whether groups differ."""
    console = Console()
    last = f"; of each run the last {n_policies(result.last)}" if result.last else ""
    say(f"Groups of runs, {result.grouping}{last}:")
    for group in result.groups:
        say(f"  {group.name}: {shortened(', '.join(group.runs), 200)}")
    if result.left_out:
        say(f"  in no group: {shortened(', '.join(result.left_out), 200)}")
    table = Table("within", "policies", "distance of runs", "of policies", "behaviours", box=None)
    for group in result.groups:
        figures = map(with_interval, (group.distance, group.policy_distance, group.behaviours))
        table.add_row(literal(group.name), str(group.n_policies), *figures)
    console.print(table)
    if result.pairs:
        table = Table("between", "distance of runs", "explained", "by chance", "p", box=None)
        for pair in result.pairs:
            shown = literal(" and ".join(pair.groups)), with_interval(pair.distance)
            table.add_row(*shown, *(permanova_numbers(pair.test) if pair.test else ()))
        console.print(table)
    if result.test is not None:
        say(permanova_sentence(result.test))
    else:
        say("No test: it needs two groups, and several runs of one of them")
    if any(math.isnan(group.behaviours.low) for group in result.groups):
        say("Intervals are about other runs, and take three runs of a group (two between groups)")


def headline(answer: EquivalenceTest) -> str:
    """Say the verdict in a sentence.

    Examples
    --------
    >>> headline(EquivalenceTest("unclear", ("a", "b"), 0.01, 0.0, 0.04, 0.3, "permutation", 0.02,
    ...                   0.95, (20, 20), 160, "visitation"))
    'a and b: cannot tell yet, about 140 more episodes of each'
    """
    a, b = answer.labels
    if answer.verdict != "unclear":
        return f"{a} and {b}: {'the same' if answer.verdict == 'same' else 'different'}"
    more = answer.more_episodes
    how = "more episodes are needed" if more is None else f"about {more:,} more episodes of each"
    return f"{a} and {b}: cannot tell yet, {how}"


def reasons(answer: EquivalenceTest) -> list[str]:
    """Give the numbers behind the verdict, a line each."""
    sure = f"{100 * answer.level:g} %"
    shown = max(answer.distance, 0.0)  # less the noise it may lie a little below
    lines = [f"distance {shown:.4g} by {answer.method}, margin {answer.margin:g}"]
    if math.isfinite(answer.high):
        lines.append(
            f"at least {answer.low:.4g} and at most {answer.high:.4g}, each with {sure} certainty, "
            f"from {answer.episodes[0]} and {answer.episodes[1]} episodes"
        )
    lines.append(f"p = {answer.p_value:.3g} ({answer.test} test of no difference)")
    if answer.overlap is not None:
        apart = 100 * (1 - answer.overlap)
        lines.append(f"they spend {apart:.0f} % of their time in different places")
    if answer.verdict == "same" and answer.p_value <= 1 - answer.level:
        lines.append("there is a difference, but a smaller one than the margin")
    return lines


def print_verdict(answer: EquivalenceTest) -> None:
    """Print the verdict and its reasons."""
    say(headline(answer))
    for line in reasons(answer):
        say(f"  {line}")


def write_junit(path: str | Path, answer: EquivalenceTest, seconds: float) -> None:
    """Write the answer as a test that passes if the policies behave alike."""
    passed = answer.verdict == "same"
    counts = {"tests": "1", "failures": str(int(not passed)), "errors": "0"}
    root = Element("testsuites", counts)
    suite = SubElement(root, "testsuite", {"name": "pivec same", **counts})
    a, b = map(printable, answer.labels)
    case = SubElement(
        suite,
        "testcase",
        {"classname": "pivec.same", "name": f"{b} behaves as {a}", "time": f"{seconds:.3f}"},
    )
    text = "\n".join(map(printable, reasons(answer)))
    if passed:
        SubElement(case, "system-out").text = text
    else:
        failure = {"message": printable(headline(answer)), "type": answer.verdict}
        SubElement(case, "failure", failure).text = text
    with atomic_write(path) as file:
        ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def print_plan(plan: Plan) -> None:
    """Print what each policy needs, those that need most first."""
    columns = {f"± {plan.precision:g} to all": plan.to_all(plan.for_precision)}
    if len(plan.labels) > 1:
        columns[f"± {plan.precision:g} to its nearest"] = plan.to_nearest
    if plan.to_decide is not None:
        columns[f"same, margin {plan.margin:g}"] = plan.to_all(plan.to_decide)
    table = Table("policy", box=None)
    for title in columns:
        table.add_column(title, justify="right")
    order = np.argsort(-next(iter(columns.values())), kind="stable")
    for row in order[:_PLAN_ROWS].tolist():
        table.add_row(literal(plan.labels[row]), *(_count(need[row]) for need in columns.values()))
    say(f"Episodes of each policy, from a pilot of {plan.pilot}:")
    Console().print(table)
    if len(order) > _PLAN_ROWS:
        say(f"and {len(order) - _PLAN_ROWS} policies that need fewer; --json has all pairs")
    say(f"±: how far the {100 * plan.level:g} % interval of a distance reaches to either side")
    if plan.to_decide is not None:
        say(f"same: for a verdict of `pivec same` that is right in {100 * POWER:g} % of cases")


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return plain values; None stands where no number of episodes suffices."""

    def plain(matrix: Any) -> Any:
        if matrix is None:
            return None
        return [[int(x) if math.isfinite(x) else None for x in row] for row in matrix.tolist()]

    return {
        "policies": list(plan.labels),
        "pilot": plan.pilot,
        "precision": plan.precision,
        "level": plan.level,
        "for_precision": plain(plan.for_precision),
        "margin": plan.margin,
        "to_decide": plain(plan.to_decide),
    }


def say_json(content: dict[str, Any]) -> None:
    """Print one object on one line."""
    say(json.dumps(content, allow_nan=False))


def _count(episodes: float) -> str:
    return f"{int(episodes):,}" if math.isfinite(episodes) else "–"


def print_pair(pair: PairExplanation) -> None:
    """Print the headline, a table of the leading regions, and what the rest adds up to."""
    e, console = pair.decomposition, Console()
    say(pair.headline())
    for name, label, episodes, mean in zip(
        "AB", pair.labels, pair.episodes, pair.mean_returns, strict=True
    ):
        gained = f", mean return {rounded(mean, 3)}" if math.isfinite(mean) else ""
        say(f"  {name}: {label}, {counted(episodes, 'episode')}{gained}")
    wide = console.width >= _WIDE
    console.print(_regions(pair, wide) if len(e.order) > 1 else _features(pair, wide))
    if rest := len(e.order) - len(pair.leading):
        shown = sum(map(pair.share, pair.leading))
        others = "the other region" if rest == 1 else f"the other {rest} regions"
        say(
            f"together {percent(min(shown, 1.0))}; {others} {percent(max(1 - shown, 0.0))} of the "
            f"distance as measured, {rounded(e.distance, 3)}"
        )
    if pair.different and wide:
        say(
            f"parts and intervals ({100 * e.level:g} %) are without what sampling adds, "
            f"{rounded(e.distance - e.estimate, 2)} in total"
        )
    noise = e.regions.noise[list(pair.leading)] if len(e.order) > 1 else e.features.noise
    if noise.any():
        say("* may be chance" if pair.different is not None else "* how sure is not known")
    if shifts := pair.average_shifts()[:_SHIFTS]:
        say(f"on average, from A to B: {', '.join(_shift(pair, shift) for shift in shifts)}")


def _regions(pair: PairExplanation, wide: bool) -> Table:
    """Make a table of the leading regions."""
    e = pair.decomposition
    heads = ("region", "share", *["part"] * wide, "time of A", "time of B")
    table = _right_aligned(*heads, last="where, and what shifts there from A to B")

    def time(side: int, region: int) -> str:
        share, low, high = (float(x[side, region]) for x in (e.share, e.share_low, e.share_high))
        ends = f"{percent(low)} to {percent(high)}" if math.isfinite(low) else ""
        return f"{percent(share)}\n{ends.replace(' %', '', 1)}"

    for region in pair.leading:
        shifts = pair.significant_shifts(region)[:1]
        table.add_row(
            f"{region}{' *' if e.regions.noise[region] else ''}",
            percent(pair.share(region)),
            *[_part(e.regions, region)] * wide,
            *(time(side, region) for side in (0, 1)),
            Text("\n").join(
                [
                    literal(e.words[region]),
                    *(Text("→ ").append(literal(_shift(pair, shift))) for shift in shifts),
                ]
            ),
        )
    return table


def _features(pair: PairExplanation, wide: bool) -> Table:
    """Make a table of features, where all states are one region."""
    e = pair.decomposition
    heads = ("share", *["part"] * wide, "mean of A", "mean of B")
    table = _right_aligned(*heads, last="feature, and what of it differs most")
    for number in np.argsort(-e.features.measured, kind="stable")[:_FEATURES].tolist():
        kinds = {
            kind: float(part)
            for (kind, feature), part in zip(e.columns, e.finest.measured[0], strict=True)
            if feature == number
        }
        noise = " *" if e.features.noise[number] else ""
        table.add_row(
            percent(float(e.features.measured[number]) / e.distance if e.distance else 0.0),
            *[_part(e.features, number)] * wide,
            *(rounded(float(e.means[side, 0, number]), 3) for side in (0, 1)),
            literal(f"{pair.features[number].title}: {max(kinds, key=kinds.__getitem__)}{noise}"),
        )
    return table


def _right_aligned(*heads: str, last: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right", overflow="fold")
    table.add_column(last, overflow="fold")
    return table


def _part(parts: Parts, number: int) -> str:
    part, low, high = (
        float(np.maximum(values[number], 0.0)) for values in (parts.estimate, parts.low, parts.high)
    )
    ends = f"{rounded(low, 2)} to {rounded(high, 2)}" if math.isfinite(low) else ""
    return f"{rounded(part, 2)}\n{ends}"


def _shift(pair: PairExplanation, shift: Shift) -> str:
    feature = pair.features[shift.feature]
    value, ends = amounts(feature, shift, digits=2)
    return f"{feature.name} {value} ({ends})"


def counted(number: int, what: str) -> str:
    """Write a number of things.

    Examples
    --------
    >>> counted(1, "clip"), counted(2, "clip")
    ('1 clip', '2 clips')
    """
    return f"{number} {what}{'s' * (number != 1)}"


def print_written(folder: Path, *pairs: PairExplanation, clips: Sequence[Clip] = ()) -> None:
    """Print what could not be made, and where the rest is."""
    all_clips = [*clips, *(clip for pair in pairs for clip in pair.clips)]
    frames = [frame for pair in pairs for frame in pair.frames]
    notes = [note for pair in pairs for note in pair.notes]
    for note in dict.fromkeys([*notes, *(clip.reason for clip in clips if clip.reason)]):
        say(f"Note: {note}")
    counts = {
        "picture": sum(frame.path is not None for frame in frames),
        "clip": sum(clip.path is not None for clip in all_clips),
    }
    made = " and ".join(counted(count, what) for what, count in counts.items() if count)
    say(f"Numbers: {folder / 'explain.json'}")
    say(f"Page: {folder / 'explain.html'}{f', with {made}' if made else ''}")


def print_run(result: RunExplanation) -> None:
    """Print a table of what changed from checkpoint to checkpoint."""
    say(result.headline())
    console = Console()
    wide = console.width >= _WIDE
    table = Table(box=None, pad_edge=False)
    table.add_column("training step,\ndistance", no_wrap=True)
    table.add_column("what changed", overflow="fold", ratio=1)
    table.add_column("of the time", no_wrap=True, justify="right")
    if wide:
        table.add_column("by", no_wrap=True, justify="right")
    for phase in result.phases:
        ends = ""
        if not math.isnan(phase.low):
            ends = f" ({rounded(phase.low, 2)} to {rounded(phase.high, 2)})"
        first = f"{phase.when}\n{rounded(max(phase.distance, 0.0), 2)}{ends}"
        if phase.unchanged:
            table.add_row(first, phase.unchanged)
        for change in phase.changes:
            region = "" if change.region is None else f" (region {change.region})"
            cells = literal(what(change) + region), literal(change.values_text)
            table.add_row(first, *cells, *[by(change)] * wide)
            first = ""
    console.print(table)
    if wide and any(phase.changes for phase in result.phases):
        say(f"by: {percent(result.level)} interval of the change")
    if result.largest:
        say(f"The largest step in detail: {pair_command(result.largest)}")
    for note in result.notes:
        say(f"Note: {note}")


def print_group_explanation(result: GroupExplanation) -> None:
    """Print what sets two groups of runs apart, and how sure that is."""
    words = result.headline()
    say(words[:1].upper() + words[1:])
    last = f"; {last_checkpoints(result.last)}" if result.last else ""
    say(f"Groups of runs, {result.grouping}{last}:")
    for name, runs in zip(result.groups, result.runs, strict=True):
        say(f"  {name}: {shortened(', '.join(runs), 200)}")
    if result.left_out:
        say(f"  in neither: {shortened(', '.join(result.left_out), 200)}")
    console = Console()
    wide = console.width >= _WIDE
    table = Table(box=None, pad_edge=False)
    table.add_column("region", justify="right")
    table.add_column("where", overflow="fold", ratio=1)
    for name in result.groups:
        table.add_column(literal(f"time of {shortened(name, 20)}"), justify="right")
    more = literal(" − ".join(shortened(name, 12) for name in reversed(result.groups)))
    for head in [more] * wide + [literal("q")]:
        table.add_column(head, no_wrap=True, justify="right")
    for row in difference_rows(result):
        times = ("\n".join(filter(None, time)) for time in row["times"])
        sure = [row["difference"]] * wide + [row["q"]]
        table.add_row(row["region"], literal(row["where"]), *times, *sure)
    console.print(table)
    for caveat in result.caveats():
        say(caveat[:1].upper() + caveat[1:])
    for note in result.notes:
        say(f"Note: {note}")


def print_unusual(result: Unusual) -> None:
    """Print the most unusual episodes, what is unusual about the first, and states outside."""
    say(result.headline())
    table = Table(box=None)
    table.add_column("policy", overflow="fold")
    for head in ("episode", "times as far", "return (usual)", "states (usual)", "most typical"):
        table.add_column(head, justify="right")
    for row in result.episodes:
        own = result.of(row.policy)
        total, length = beside(row.total, own.usual_return), beside(row.length, own.usual_length)
        numbers = (str(row.episode), times_as_far(row), total, length, str(own.typical))
        table.add_row(literal(row.policy), *numbers)
    Console().print(table)
    say("times as far: from the policy's other episodes, where 1 is its typical (median) episode")
    for row in result.episodes[:_EXPLAINED]:
        if row.reasons:
            say(f"Episode {row.episode} of {row.policy}:")
        for reason in row.reasons:
            say(f"  {reason}")
    if result.outside is not None:
        _print_coverage(result.outside)
    for note in result.notes:
        say(f"Note: {note}")


def _print_coverage(coverage: Coverage) -> None:
    """Print which policies go where no policy has been."""
    say(coverage.headline())
    rows = [row for row in coverage.policies if row.outside][:_OUTSIDE]
    if not rows or not (coverage.placed or rows[0].is_notable):
        return
    table = Table(box=None)
    table.add_column("policy", overflow="fold")
    for head in ("outside", "states", "in episodes"):
        table.add_column(head, justify="right")
    table.add_column("by")
    for row in rows:
        numbers = (percent(row.share), str(row.outside), str(row.episodes))
        table.add_row(literal(row.policy), *numbers, literal(row.words))
    Console().print(table)
    say(f"outside: {OUTSIDE}")
