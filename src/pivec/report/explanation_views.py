"""Explanations as pages and on the terminal: pairs, regions, runs, groups of runs, episodes."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from pivec.characterizations import OFTEN, WHERE, WIDE, Decomposition
from pivec.explanations import (
    Clip,
    Difference,
    Feature,
    GroupExplanation,
    Overview,
    PairExplanation,
    Regions,
    RunExplanation,
    Shift,
    Unusual,
    percent_range,
)
from pivec.report.pages import Embedder, picture, render, resource, script
from pivec.report.script_data import clip_data
from pivec.report.site import Links
from pivec.statistics import Parts
from pivec.terminal import Column, print_table, say, shortened, text_columns
from pivec.text import capitalized, interval, percent, rounded, thousands

MAX_CARDS = 300  # regions on a page
MAX_OUTSIDE = 50  # policies with states outside on a page, and on the terminal
MAX_OUTSIDE_PRINTED = 10
MAX_DIFFERENCES = 4, 8  # of groups of runs: of features, and of regions
KIND_WORDS = {
    OFTEN: "how often they are there",
    WHERE: "where they are within it",
    WIDE: "how widely they spread within it",
}
OUTSIDE = (
    "farther from all regions of the space than 99 % of the states of each policy that the space "
    "was fitted on; deviations are relative to the nearest region"
)
_SHIFTS, _FEATURES, _FEATURES_PRINTED = 3, 8, 12  # shown of a region, and of all
_DARKEST = 0.5  # share of visits in a tenth of an episode that is drawn full
_WIDE = 96  # columns of a terminal that shows all columns of a table
_EXPLAINED = 3  # unusual episodes whose reasons are printed


def _page(
    template: str,
    title: str,
    result: Any,
    lead: str,
    links: Links | None,
    clips: Sequence[Clip] = (),
    **parts: Any,
) -> str:
    """Render a page; ``parts`` replace what most pages share."""
    shared = {
        "environment": result.environment,
        "figures": {},
        "notes": getattr(result, "notes", ()),
        "command": "",
        "embed": Embedder(),
        "links": links or Links(),
        "clip_context": clip_context,
    }
    style = "".join(map(resource, ("site.css", "page.css", "explained.css", "player.css")))
    code = script("player.js") if any(clip.sheets for clip in clips) else ""
    return render(template, style, code, title=title, result=result, lead=lead, **shared | parts)


def clip_context(clip: Clip, embed: Embedder) -> dict[str, Any]:
    """Return what a template shows of a clip, and the JSON that its player needs besides."""
    parent = "" if clip.path is None else f"{quote(clip.path.parent.name)}/"
    known = clip_data(asdict(clip), lambda path: embed(path) or f"{parent}{quote(path.name)}")
    sheets = [sheet | {"src": ""} for sheet in known["sheets"]]  # that of the picture
    beside = {} if clip.path is None else {"src": f"{parent}{quote(clip.path.name)}"}
    return known | {"json": json.dumps(known | beside | {"sheets": sheets})}


def _say_notes(notes: Sequence[str]) -> None:
    for note in dict.fromkeys(notes):
        say(f"Note: {note}")


def _is_wide() -> bool:
    return Console().width >= _WIDE


# Two policies


def pair_html(pair: PairExplanation, command: str = "", links: Links | None = None) -> str:
    """Render the page of two policies."""
    e = pair.decomposition
    ends = "" if math.isnan(e.low) else f", {interval(max(e.low, 0.0), e.high)}"
    shown = e.distance if pair.different is None else max(e.estimate, 0.0)
    figures = {f"distance{ends}": rounded(shown, 3)}
    if (motion := pair.motion) is not None:
        places = f"distance of places alone, {interval(max(motion.low, 0.0), motion.high)}"
        figures[places] = rounded(max(motion.places, 0.0), 3)
    if (n := len(e.order)) > 1:
        sure = int((~e.regions.noise).sum())
        figures["regions differ beyond chance"] = f"{thousands(sure)} of {thousands(n)}"
        if OFTEN in e.kinds and pair.different:
            share = float(e.kinds[OFTEN].measured.sum()) / e.distance
            figures["of the distance due to how often they are there"] = percent(share)
    figures["episodes played"] = " and ".join(map(thousands, pair.episodes))
    if all(map(math.isfinite, pair.mean_returns)):
        figures["mean returns"] = " and ".join(_minus(rounded(x, 3)) for x in pair.mean_returns)
    return _page(
        "pair.html",
        "What differs: {} and {}".format(*pair.labels),
        pair,
        "",
        links,
        pair.clips,
        figures=figures,
        pair=_pair_context(pair),
        command=command,
    )


def overview_html(overview: Overview, command: str = "", links: Links | None = None) -> str:
    """Render the page of the notable pairs and the behaviour classes of a comparison."""
    pairs = [
        (title, _pair_context(pair, f"pair{number}-"))
        for number, (title, pair) in enumerate(overview.differences, 1)
    ]
    lead = "How notable pairs of policies differ, and what each behaviour class looks like."
    clips = [
        *overview.behaviours,
        *(clip for _, pair in overview.differences for clip in pair.clips),
    ]
    return _page(
        "overview.html", "What differs", overview, lead, links, clips, pairs=pairs, command=command
    )


def _pair_context(pair: PairExplanation, prefix: str = "") -> dict[str, Any]:
    """Return what the sections of a pair show; the prefix keeps ids of several pairs apart."""
    e, shown = pair.parts, list(pair.leading)
    kinds = [kind for kind in KIND_WORDS if kind in e.kinds]
    edge = _longest(e.regions.measured[shown], e.regions.high[shown])
    longest_time = _longest(e.share[:, shown], e.share_high[:, shown])
    return {
        "explained": pair,
        "prefix": prefix,
        "alone": len(pair.decomposition.order) == 1,
        "headline": pair.headline().removeprefix("{} and {}".format(*pair.labels)),
        "rules": capitalized(pair.rules.words()[0]) if pair.rules else "",
        "kinds": [KIND_WORDS[kind] for kind in kinds],
        "n_rest": _n_rest(pair),
        "rest": max(1.0 - sum(map(pair.share, shown)), 0.0),
        "regions": [_region_context(pair, region, kinds, edge, longest_time) for region in shown],
        "features": list(_feature_rows(pair)),
    }


def _region_context(
    pair: PairExplanation, region: int, kinds: Sequence[str], edge: float, longest_time: float
) -> dict[str, Any]:
    e = pair.parts
    sizes = np.array([e.kinds[kind].measured[region] for kind in kinds])
    starts = np.cumsum(np.maximum(sizes, 0.0)) - sizes
    regions = f"region{'s' * (len(e.members[region]) > 1)} {_numbers(e.members[region])}"
    gist = f"{regions}: {percent(pair.share(region))} of the distance"
    if (total := sizes.sum()) > 0 and len(sizes) > 1:
        largest = int(np.argmax(sizes))
        gist += f", {percent(sizes[largest] / total)} of it due to {KIND_WORDS[kinds[largest]]}"
    low, high = float(e.regions.low[region]), float(e.regions.high[region])
    frames = [pair.frame(label, region) for label in pair.labels]
    times = []
    for side in (0, 1) if math.isfinite(float(e.share[:, region].sum())) else ():
        width = _position(e.share[side, region], longest_time)
        whisker = _whisker(e.share_low[side, region], e.share_high[side, region], longest_time)
        times.append((width, whisker, *_time(e, side, region)))
    return {
        "regions": regions,
        "number": e.members[region][0],
        "name": e.words[region],
        "noise": bool(e.regions.noise[region]),
        "share": pair.share(region),
        "estimate": max(float(e.regions.estimate[region]), 0.0),
        "interval": interval(max(low, 0.0), high),
        "bars": [
            (f"k{number}", _position(start, edge), _position(size, edge))
            for number, (start, size) in enumerate(zip(starts, sizes, strict=True))
            if size > 0
        ],
        "whisker": _whisker(low, high, edge),
        "gist": gist,
        "frames": frames if any(frames) else [],
        "times": times,
        "shifts": [
            _shift_context(pair, region, shift)
            for shift in pair.significant_shifts(region)[:_SHIFTS]
        ],
        "seldom": bool(np.isnan(e.means[:, region]).any()),
    }


def _shift_context(pair: PairExplanation, region: int, shift: Shift) -> dict[str, Any]:
    e, feature = pair.parts, pair.features[shift.feature]
    means = e.means[:, region, shift.feature].tolist()
    ends = [x for x in (*means, *e.ranges[region, shift.feature].tolist()) if math.isfinite(x)]
    return {
        "feature": feature.name,
        "means": " and ".join(_minus(rounded(mean, 3)) for mean in means),
        "dots": [_position(mean, max(ends), min(ends)) for mean in means],
        "amounts": _amounts(feature, shift),
    }


def _feature_rows(pair: PairExplanation) -> Iterator[dict[str, Any]]:
    """Return how features differ on average, and what of the distance is theirs in regions."""
    e, parts = pair.decomposition, pair.decomposition.features
    shifts = {shift.feature: shift for shift in pair.average_shifts()}
    order = np.argsort(-parts.measured, kind="stable").tolist()
    shown = [f for f in dict.fromkeys([*shifts, *order]) if f in shifts or not parts.noise[f]]
    for f in shown[:_FEATURES]:
        feature = pair.features[f]
        write = percent if feature.is_flag else partial(rounded, digits=3)
        chance = parts.noise[f] or not e.distance
        yield {
            "title": feature.title,
            "means": [_minus(write(float(mean))) for mean in e.averages[:, f]],
            "shift": _amounts(feature, shifts[f]) if f in shifts else None,
            "share": "" if chance else percent(parts.measured[f] / e.distance),
        }


def _amounts(feature: Feature, shift: Shift, digits: int = 3) -> tuple[str, str]:
    """Format a shift with its unit, and its interval; of a flag as a share of time."""
    scale, unit = (100.0, " %") if feature.is_flag else (1.0, f" {feature.unit}".rstrip())
    value, low, high = (_signed(scale * x, digits) for x in (shift.value, shift.low, shift.high))
    return f"{value}{unit}", f"{low} to {high}"


def _minus(number: str) -> str:
    return number.replace("-", "−")


def _signed(value: float, digits: int = 3) -> str:
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return sign + rounded(abs(value), digits)


def _time(e: Decomposition, side: int, region: int) -> tuple[str, str]:
    """Format the share of time of one policy in a region, and its interval if it is known."""
    share, low, high = (float(x[side, region]) for x in (e.share, e.share_low, e.share_high))
    return percent(share), percent_range([low, high]) if math.isfinite(low) else ""


def _longest(*values: NDArray[np.float64]) -> float:
    """Return what bars are drawn in proportion to."""
    known = np.concatenate([np.ravel(part) for part in values])
    return float(known[np.isfinite(known)].max(initial=0.0)) or 1.0


def _position(value: float, edge: float, start: float = 0.0) -> str:
    """Return a position on a track in percent."""
    share = (value - start) / (edge - start) if edge > start else 0.5
    return f"{100 * min(max(share, 0.0), 1.0):.2f}%" if math.isfinite(share) else "0%"


def _whisker(low: float, high: float, edge: float) -> tuple[str, str] | None:
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    left = max(low, 0.0)
    return _position(left, edge), _position(max(high, 0.0) - left, edge)


def print_pair(pair: PairExplanation) -> None:
    """Print the headline, a table of the leading regions, and what the rest adds up to."""
    e, wide, alone = pair.parts, _is_wide(), len(pair.decomposition.order) == 1
    say(pair.headline())
    for name, label, episodes, mean in zip(
        "AB", pair.labels, pair.episodes, pair.mean_returns, strict=True
    ):
        gained = f", mean return {rounded(mean, 3)}" if math.isfinite(mean) else ""
        say(f"  {name}: {label}, {_counted(episodes, 'episode')}{gained}")
    if pair.rules is not None:
        summary, *rules = pair.rules.words()
        say(f"{summary}{':' * bool(rules)}")
        for rule in rules:
            say(f"  {rule}")
    if spreads := pair.spread_words():
        say(f"B has {' and '.join(spreads)}")
    if shifts := pair.average_shifts()[:_SHIFTS]:
        say(f"on average, from A to B: {', '.join(_shift(pair, shift) for shift in shifts)}")
    heads = ["regions", "share", "part", "time of A", "time of B"]
    heads.append("where, and what shifts there from A to B")
    if alone:
        heads = ["share", "part", "mean of A", "mean of B", "feature, and what differs most"]
    columns = text_columns(*heads, left=(len(heads) - 1,))
    rows = _lone_feature_rows(pair) if alone else _region_rows(pair)
    print_table([column for column in columns if wide or column.title != "part"], rows)
    if rest := _n_rest(pair):
        share = sum(map(pair.share, pair.leading))
        others = "the other region" if rest == 1 else f"the other {rest} regions"
        say(
            f"these make up {percent(min(share, 1.0))} and {others} "
            f"{percent(max(1 - share, 0.0))} of the measured distance, {rounded(e.distance, 3)}"
        )
    if pair.different and wide:
        say(
            f"parts and {100 * e.level:g} % intervals have the sampling noise subtracted, "
            f"{rounded(e.distance - e.estimate, 2)} in total"
        )
    if (e.features.noise if alone else e.regions.noise[list(pair.leading)]).any():
        say("* may be chance" if pair.different is not None else "* uncertainty not known")
    for line in pair.episode_words("AB"):
        say(line)


def _region_rows(pair: PairExplanation) -> Iterator[Sequence[str | Sequence[str]]]:
    e = pair.parts
    for region in pair.leading:
        shifts = pair.significant_shifts(region)[:1]
        yield (
            _numbers(e.members[region]) + " *" * bool(e.regions.noise[region]),
            percent(pair.share(region)),
            _part(e.regions, region),
            _time(e, 0, region),
            _time(e, 1, region),
            [e.words[region], *(f"→ {_shift(pair, shift)}" for shift in shifts)],
        )


def _numbers(regions: Sequence[int]) -> str:
    """Write the numbers of merged regions, of which the first is the largest."""
    return str(regions[0]) + f" +{len(regions) - 1}" * (len(regions) > 1)


def _n_rest(pair: PairExplanation) -> int:
    """Count the regions that are not shown."""
    return len(pair.decomposition.order) - sum(len(pair.parts.members[row]) for row in pair.leading)


def _lone_feature_rows(pair: PairExplanation) -> Iterator[Sequence[str | Sequence[str]]]:
    """Return rows of a table of features, for a method with a single region."""
    e, parts = pair.decomposition, pair.decomposition.features
    for f in np.argsort(-parts.measured, kind="stable")[:_FEATURES_PRINTED].tolist():
        kinds = {
            float(part): kind
            for (kind, feature), part in zip(e.columns, e.finest.measured[0], strict=True)
            if feature == f
        }
        yield (
            percent(parts.measured[f] / e.distance if e.distance else 0.0),
            _part(parts, f),
            *(rounded(float(mean), 3) for mean in e.means[:, 0, f]),
            f"{pair.features[f].title}: {kinds[max(kinds)]}{' *' if parts.noise[f] else ''}",
        )


def _part(parts: Parts, number: int) -> tuple[str, str]:
    part, low, high = (
        float(np.maximum(values[number], 0.0)) for values in (parts.estimate, parts.low, parts.high)
    )
    ends = f"{rounded(low, 2)} to {rounded(high, 2)}" if math.isfinite(low) else ""
    return rounded(part, 2), ends


def _shift(pair: PairExplanation, shift: Shift) -> str:
    feature = pair.features[shift.feature]
    value, ends = _amounts(feature, shift, digits=2)
    return f"{feature.name} {value} ({ends})"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def print_overview(overview: Overview) -> None:
    """Print the notable pairs."""
    for title, pair in overview.differences:
        say(f"{title}:")
        print_pair(pair)


def print_written(folder: Path, result: Any) -> None:
    """Print which parts of an explanation could not be made, and the paths of the others."""
    overview = result if isinstance(result, Overview) else Overview((("", result),))
    words = ""
    if isinstance(result, Overview | PairExplanation):
        pairs, shown = [pair for _, pair in overview.differences], overview.behaviours
        _say_notes(
            [n for pair in pairs for n in pair.notes] + [c.reason for c in shown if c.reason]
        )
        say(f"Numbers: {folder / 'explain.json'}")
        made = {
            "picture": [frame.path for pair in pairs for frame in pair.frames],
            "clip": [clip.path for clip in (*shown, *(c for pair in pairs for c in pair.clips))],
        }
        counts = {what: len(paths) - paths.count(None) for what, paths in made.items()}
        words = " and ".join(_counted(count, what) for what, count in counts.items() if count)
    say(f"Page: {folder / 'explain.html'}{f', with {words}' if words else ''}")


# Regions


def regions_html(result: Regions, command: str = "", links: Links | None = None) -> str:
    """Render the page of regions: one card per region, in order of time within an episode."""
    most = max(region.share for region in result)
    large = {region.number for region in result.by_share()[:MAX_CARDS]}
    cards = [
        {
            "region": region,
            "width": f"{100 * region.share / most if most else 0.0:.1f}%",
            "shades": [f"{min(1, part / _DARKEST):.2f}" for part in region.when]
            * (not math.isnan(region.moment)),
            "visits": (region.frame.visit,) if region.frame else region.visits[:1],
        }
        for region in result.by_moment()
        if region.number in large
    ]
    return _page(
        "regions.html",
        f"Regions of {result.environment}" if result.environment else "Regions",
        result,
        result.headline(),
        links,
        figures={
            "regions": thousands(len(result)),
            "policies": thousands(len(result.labels)),
            "features of a state": thousands(len(result.features)),
        },
        regions_style=resource("regions.css"),
        regions=cards,
        n_regions=len(result),
        drawn=any(region.frame for region in result),
        command=command,
    )


def print_regions(result: Regions, top: int) -> None:
    """Print the regions with the largest shares of time."""
    shown = result.by_share()[:top]
    print_table(
        text_columns(
            "region", "time", "where", "when", "most time", "", left=(2, 3, 4), names=(4,)
        ),
        [
            (
                str(region.number),
                percent(region.share),
                region.name,
                region.period,
                region.highest[0],
                percent(region.highest[1]),
            )
            for region in shown
        ],
    )
    if (more := len(result) - top) > 0:
        say(f"{_counted(more, 'more region')}: use --top {len(result)}, or see the page")


# Unusual episodes


def _episode_columns(result: Unusual) -> list[Column]:
    def beside(title: str, name: str, usual: str) -> Column:
        """Show a number with the usual one of the policy behind it."""

        def text(row: Any) -> str:
            value, middle = getattr(row, name), getattr(result.of(row.policy), usual)
            if value is None or math.isnan(middle):
                return "–"
            return f"{rounded(value, 3)} ({rounded(middle, 3)})"

        return Column.number(title, name)._replace(text=text)

    return [
        Column("policy", lambda row: row.policy, right=False, names=True),
        Column.number("episode", "episode", thousands),
        Column.number("times as far", "times", lambda x: "∞" if math.isinf(x) else f"{x:.2g}"),
        beside("return (usual)", "total", "usual_return"),
        beside("states (usual)", "length", "usual_length"),
    ]


_OUTSIDE_COLUMNS = (
    Column("policy", lambda row: row.policy, right=False, names=True),
    Column.number("outside", "share", percent),
    Column.number("states", "outside", thousands),
    Column.number("in episodes", "episodes", thousands),
    Column("by", lambda row: row.words, right=False),
)


def unusual_html(result: Unusual, command: str = "", links: Links | None = None) -> str:
    """Render the page of unusual episodes, and of states outside the space."""
    reasons = Column("what differs", lambda row: row.reasons or "–", right=False)
    outside = () if result.outside is None else result.outside.policies
    return _page(
        "unusual.html",
        "Unusual episodes",
        result,
        f"{result.headline()}.",
        links,
        result.clips,
        figures={
            "policies": thousands(len(result.policies)),
            "episodes": thousands(sum(len(row.times) for row in result.policies)),
        },
        png=picture(result.figure()),
        on_map=lambda row: (links or Links()).on_map(tab="episodes", a=row.policy),
        episode_columns=[*_episode_columns(result), reasons],
        outside_columns=_OUTSIDE_COLUMNS,
        outside=[row for row in outside if row.outside][:MAX_OUTSIDE],
        outside_words=OUTSIDE,
        command=command,
    )


def print_unusual(result: Unusual) -> None:
    """Print the most unusual episodes, what is unusual about the first, and states outside."""
    say(result.headline())
    typical = Column("most typical", lambda row: str(result.of(row.policy).typical))
    print_table([*_episode_columns(result), typical], result.episodes)
    say("times as far: distance from the policy's other episodes relative to its median episode")
    for row in result.episodes[:_EXPLAINED]:
        if row.reasons:
            say(f"Episode {row.episode} of {row.policy}:")
        for reason in row.reasons:
            say(f"  {reason}")
    if (coverage := result.outside) is not None:
        say(coverage.headline())
        rows = [row for row in coverage.policies if row.outside][:MAX_OUTSIDE_PRINTED]
        if rows and (coverage.placed or rows[0].is_notable):
            print_table(_OUTSIDE_COLUMNS, rows)
            say(f"outside: {OUTSIDE}")
    _say_notes(result.notes)


# Training runs


def run_html(result: RunExplanation, command: str = "", links: Links | None = None) -> str:
    """Render the page of a run."""
    phases = result.phases
    figures = {
        "checkpoints": thousands(len(result.steps)),
        "distance travelled": rounded(sum(max(phase.distance, 0.0) for phase in phases), 3),
        "phases in which something changed": thousands(sum(phase.changed for phase in phases)),
    }
    returns = [float(x) for x in result.mean_returns[[0, -1]]]
    if all(map(math.isfinite, returns)):
        figures["mean return, first and last"] = " and ".join(
            _minus(rounded(x, 3)) for x in returns
        )
    return _page(
        "run.html",
        f"What changed along {result.run}",
        result,
        f"{result.headline()}.",
        links,
        result.clips,
        figures=figures,
        png=picture(result.figure()),
        what=lambda change: (
            _what(change) if change.kind == "moved" else change.sentence().partition(" (")[0]
        ),
        by=_by,
        pair_command=_pair_command(result),
        confidence=percent(result.level),
        command=command,
    )


def _pair_command(result: RunExplanation) -> str:
    """Return the command that explains the largest step of a run."""
    if result.largest is None:
        return ""
    return "pivec explain DIR " + " ".join(map(shlex.quote, result.largest))


def _what(change: Difference) -> str:
    if change.kind == "moved":
        return f"{change.feature} moved, where {change.where}"
    return f"{change.kind}: {change.where}"


def _by(change: Difference) -> str:
    """Format the interval of a change."""
    if change.kind == "moved" and not math.isnan(change.low):
        return _minus(f"{change.low:+.2g} to {change.high:+.2g}")
    return percent_points(change.low, change.high)


def percent_points(low: float, high: float) -> str:
    """Format the interval of a difference of shares.

    Examples
    --------
    >>> percent_points(-0.123, 0.0451), percent_points(math.nan, math.nan)
    ('−12 to +4.5 %', '–')
    """
    if math.isnan(low):
        return "–"
    ends = [f"{'−' if end < 0 else '+'}{percent(abs(end))}" for end in (low, high)]
    return f"{ends[0].removesuffix(' %')} to {ends[1]}"


def print_run(result: RunExplanation) -> None:
    """Print a table of what changed from checkpoint to checkpoint."""
    say(result.headline())
    wide, rows = _is_wide(), []
    for phase in result.phases:
        ends = "" if math.isnan(phase.low) else f" ({interval(phase.low, phase.high, 2)})"
        when: Sequence[str] = (phase.when, f"{rounded(max(phase.distance, 0.0), 2)}{ends}")
        if phase.unchanged:
            rows.append((when, phase.unchanged, "", ""))
        for change in phase.changes:
            region = "" if change.region is None else f" (region {change.region})"
            rows.append((when, _what(change) + region, change.values_text, _by(change)))
            when = ""
    columns = text_columns(
        "training step, distance", "what changed", "share of time", "change", left=(0, 1)
    )
    print_table(columns if wide else columns[:-1], rows)
    if wide and any(phase.changes for phase in result.phases):
        say(f"change: {percent(result.level)} interval")
    if result.largest:
        say(f"The largest step in detail: {_pair_command(result)}")
    _say_notes(result.notes)


# Groups of runs


def _difference_columns(result: GroupExplanation) -> list[Column]:
    """Describe mean shares of time of both groups, their ranges, and the difference."""

    def time(side: int) -> Column:
        def text(difference: Difference) -> list[str]:
            times = difference.runs[side]
            return [percent(difference.values[side]), *[percent_range(times)] * (len(times) > 1)]

        return Column(f"Time of {result.groups[side]}", text)

    return [
        Column("Region", lambda row: "" if row.region is None else str(row.region)),
        Column("Where", lambda row: row.where, right=False),
        time(0),
        time(1),
        Column(" − ".join(reversed(result.groups)), lambda row: percent_points(row.low, row.high)),
        Column("q", lambda row: rounded(row.q_value, 2)),
    ]


def _last_checkpoints(result: GroupExplanation) -> str:
    n = result.last
    last = "checkpoint" if n == 1 else f"{n} checkpoints"
    return f"only the last {last} of each run {'is' if n == 1 else 'are'} used" if n else ""


def group_explanation_html(
    result: GroupExplanation, command: str = "", links: Links | None = None
) -> str:
    """Render the page of the differences between two groups of runs."""
    runs = dict(zip(result.groups, result.runs, strict=True))
    return _page(
        "groups_page.html",
        "How runs of {} and {} differ".format(*result.groups),
        result,
        f"{capitalized(result.headline())}.",
        links,
        figures={f"runs of {name}": thousands(len(own)) for name, own in runs.items()},
        png=picture(result.figure()),
        runs="; ".join(f"{name}: {shortened(', '.join(own), 200)}" for name, own in runs.items()),
        last=_last_checkpoints(result),
        columns=_difference_columns(result),
        differences=result.shown(*MAX_DIFFERENCES),
        region=lambda row: (links or Links()).region(row.region),
        confidence=percent(result.level),
        notes=[*result.caveats(), *result.notes],
        command=command,
    )


def print_group_explanation(result: GroupExplanation) -> None:
    """Print how two groups of runs differ, and how certain that is."""
    say(capitalized(result.headline()))
    last = f"; {_last_checkpoints(result)}" if result.last else ""
    say(f"Groups of runs, {result.grouping}{last}:")
    for name, runs in zip(result.groups, result.runs, strict=True):
        say(f"  {name}: {shortened(', '.join(runs), 200)}")
    if result.left_out:
        say(f"  in neither: {shortened(', '.join(result.left_out), 200)}")
    columns = _difference_columns(result)
    if not _is_wide():
        del columns[4]
    print_table(columns, result.shown(*MAX_DIFFERENCES))
    for caveat in result.caveats():
        say(capitalized(caveat))
    _say_notes(result.notes)
