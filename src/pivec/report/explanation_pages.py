"""Pages of explanations: pairs of policies, regions, runs, groups of runs, unusual episodes."""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import OFTEN, WHERE, WIDE
from pivec.explanations import (
    Difference,
    Feature,
    Frame,
    GroupExplanation,
    Overview,
    PairExplanation,
    Regions,
    RunExplanation,
    Shift,
    Unusual,
    UnusualEpisode,
    percent_range,
)
from pivec.report.pages import picture, render, resource
from pivec.terminal import shortened
from pivec.text import interval, percent, rounded, thousands

MAX_BYTES = 6_000_000  # of pictures within a page; the others are links to files beside it
MAX_CARDS = 300  # regions on a page
MAX_OUTSIDE = 50  # policies with states outside
MAX_DIFFERENCES = 4, 8  # of groups of runs: of features, and of regions
KIND_WORDS = {
    OFTEN: "how often they are there",
    WHERE: "where they are within it",
    WIDE: "how widely they spread within it",
}
OUTSIDE = (
    "farther from all regions of the space than 99 % of the states of each policy that it was "
    "fitted on; deviations are those of the nearest region"
)
_SHIFTS, _FEATURES = 3, 8  # that are shown, of a region and of all
_DARKEST = 0.5  # share of visits in a tenth of an episode that is drawn full
_TYPES = {".webp": "image/webp", ".png": "image/png"}


class Embedder:
    """Returns pictures as addresses that contain them, until a page is large enough."""

    def __init__(self, most: int = MAX_BYTES) -> None:
        self.left = most

    def __call__(self, path: Path | None) -> str | None:
        """Return the address of a picture, or None where there is no room for it."""
        kind = None if path is None else _TYPES.get(path.suffix)
        if path is None or kind is None or not path.is_file() or path.stat().st_size > self.left:
            return None
        content = path.read_bytes()
        self.left -= len(content)
        return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _page(template: str, title: str, **parts: Any) -> str:
    style = resource("page.css") + resource("explained.css")
    return render(template, style, title=title, embed=Embedder(), **{"figures": {}} | parts)


def pair_html(pair: PairExplanation, command: str = "") -> str:
    """Render the page of two policies."""
    e = pair.decomposition
    ends = "" if math.isnan(e.low) else f", {interval(max(e.low, 0.0), e.high)}"
    shown = e.distance if pair.different is None else max(e.estimate, 0.0)
    figures = {f"distance{ends}": rounded(shown, 3)}
    if (n := len(e.order)) > 1:
        sure = int((~e.regions.noise).sum())
        figures["regions differ beyond chance"] = f"{thousands(sure)} of {thousands(n)}"
        if OFTEN in e.kinds and pair.different:
            share = float(e.kinds[OFTEN].measured.sum()) / e.distance
            figures["of it due to how often they are there"] = percent(share)
    figures["episodes played"] = " and ".join(map(thousands, pair.episodes))
    if all(map(math.isfinite, pair.mean_returns)):
        figures["mean returns"] = " and ".join(rounded(x, 3) for x in pair.mean_returns)
    return _page(
        "pair.html",
        "What differs: {} and {}".format(*pair.labels),
        environment=pair.environment,
        figures=figures,
        pair=pair_context(pair),
        command=command,
    )


def overview_html(overview: Overview, command: str = "") -> str:
    """Render the page of the notable pairs of a comparison, and of behaviours to watch."""
    pairs = [
        (title, pair_context(pair, f"pair{number}-"))
        for number, (title, pair) in enumerate(overview.differences, 1)
    ]
    return _page(
        "overview.html",
        "What differs",
        environment=overview.environment,
        lead="What makes notable pairs of policies differ, and how behaviours look.",
        pairs=pairs,
        behaviours=overview.behaviours,
        command=command,
    )


def pair_context(pair: PairExplanation, prefix: str = "") -> dict[str, Any]:
    """Return what the sections of a pair show; the prefix keeps names of several pairs apart."""
    e, shown = pair.decomposition, list(pair.leading)
    kinds = [kind for kind in KIND_WORDS if kind in e.kinds]
    edge = _longest(e.regions.measured[shown], e.regions.high[shown])
    longest_time = _longest(e.share[:, shown], e.share_high[:, shown])
    a, b = pair.labels
    return {
        "explained": pair,
        "prefix": prefix,
        "alone": len(e.order) == 1,
        "headline": pair.headline().removeprefix(f"{a} and {b}"),
        "noise": rounded(e.distance - e.estimate, 2),
        "distance": rounded(e.distance, 3),
        "kinds": [KIND_WORDS[kind] for kind in kinds],
        "n_rest": len(e.order) - len(shown),
        "rest": percent(max(1.0 - sum(map(pair.share, shown)), 0.0)),
        "regions": [_region_context(pair, region, kinds, edge, longest_time) for region in shown],
        "features": _feature_rows(pair),
    }


def _region_context(
    pair: PairExplanation, region: int, kinds: Sequence[str], edge: float, longest_time: float
) -> dict[str, Any]:
    e = pair.decomposition
    sizes = [float(e.kinds[kind].measured[region]) for kind in kinds]
    low, high = float(e.regions.low[region]), float(e.regions.high[region])
    bars, left = [], 0.0
    for number, size in enumerate(sizes):
        if size > 0:
            bars.append((f"k{number}", _position(left, edge), _position(size, edge)))
            left += size
    gist = f"region {region}: {percent(pair.share(region))} of the distance"
    if (total := sum(sizes)) > 0 and len(sizes) > 1:
        largest = int(np.argmax(sizes))
        gist += f", {percent(sizes[largest] / total)} of that by {KIND_WORDS[kinds[largest]]}"
    times = []
    for side in (0, 1) if math.isfinite(float(e.share[:, region].sum())) else ():
        share, first, last = (float(x[side, region]) for x in (e.share, e.share_low, e.share_high))
        known = math.isfinite(first)
        times.append(
            {
                "width": _position(share, longest_time),
                "whisker": _whisker(first, last, longest_time),
                "share": percent(share),
                "ends": f"{percent(first)} to {percent(last)}".replace(" %", "", 1) * known,
            }
        )
    return {
        "number": region,
        "name": e.words[region],
        "noise": bool(e.regions.noise[region]),
        "share": percent(pair.share(region)),
        "estimate": rounded(max(float(e.regions.estimate[region]), 0.0), 3),
        "interval": interval(max(low, 0.0), high),
        "bars": bars,
        "whisker": _whisker(low, high, edge),
        "gist": gist,
        "frames": _frames(pair, region),
        "times": times,
        "shifts": [
            _shift(pair, region, shift) for shift in pair.significant_shifts(region)[:_SHIFTS]
        ],
        "seldom": bool(np.isnan(e.means[:, region]).any()),
    }


def _frames(pair: PairExplanation, region: int) -> list[Frame | None]:
    frames = [pair.frame(label, region) for label in pair.labels]
    return frames if any(frames) else []


def _shift(pair: PairExplanation, region: int, shift: Shift) -> dict[str, Any]:
    e, feature = pair.decomposition, pair.features[shift.feature]
    means = [float(x) for x in e.means[:, region, shift.feature]]
    ends = [x for x in (*means, *e.ranges[region, shift.feature].tolist()) if math.isfinite(x)]
    value, spread = amounts(feature, shift)
    return {
        "feature": feature.name,
        "means": " and ".join(rounded(mean, 3) for mean in means),
        "dots": [_position(mean, max(ends), min(ends)) for mean in means],
        "value": value,
        "spread": spread,
    }


def _feature_rows(pair: PairExplanation) -> list[dict[str, Any]]:
    """Return how features differ on average, and what of the distance is theirs in regions."""
    e, parts = pair.decomposition, pair.decomposition.features
    shifts = {shift.feature: shift for shift in pair.average_shifts()}
    order = np.argsort(-parts.measured, kind="stable").tolist()
    shown = [f for f in dict.fromkeys([*shifts, *order]) if f in shifts or not parts.noise[f]]
    rows = []
    for f in shown[:_FEATURES]:
        feature = pair.features[f]
        write = percent if feature.is_flag else partial(rounded, digits=3)
        chance = parts.noise[f] or not e.distance
        rows.append(
            {
                "title": feature.title,
                "means": [write(float(mean)) for mean in e.averages[:, f]],
                "shift": amounts(feature, shifts[f]) if f in shifts else None,
                "share": "" if chance else percent(parts.measured[f] / e.distance),
            }
        )
    return rows


def amounts(feature: Feature, shift: Shift, digits: int = 3) -> tuple[str, str]:
    """Write a shift with its unit, and its interval; of what is so or not as a share of time."""
    scale, unit = (100.0, " %") if feature.is_flag else (1.0, f" {feature.unit}".rstrip())
    value, low, high = (signed(scale * x, digits) for x in (shift.value, shift.low, shift.high))
    return f"{value}{unit}", f"{low} to {high}"


def signed(value: float, digits: int = 3) -> str:
    """Write a number with its sign.

    Examples
    --------
    >>> signed(0.12345), signed(-2.0), signed(0.0)
    ('+0.123', '−2', '0')
    """
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return sign + rounded(abs(value), digits)


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


def regions_html(result: Regions) -> str:
    """Render the page of regions: one card each, in the order in which episodes get there."""
    most = max(region.share for region in result)
    large = {region.number for region in result.by_share()[:MAX_CARDS]}
    shown = [region for region in result.by_moment() if region.number in large]
    return _page(
        "regions.html",
        f"Regions of {result.environment}" if result.environment else "Regions",
        environment=result.environment,
        lead=result.headline(),
        figures={
            "regions": thousands(len(result)),
            "policies": thousands(len(result.labels)),
            "features of a state": thousands(len(result.features)),
        },
        regions_style=resource("regions.css"),
        regions=[
            {
                "region": region,
                "width": f"{100 * region.share / most if most else 0.0:.1f}%",
                "shades": [f"{min(1, part / _DARKEST):.2f}" for part in region.when]
                * (not math.isnan(region.moment)),
                "visits": (region.frame.visit,) if region.frame else region.visits[:1],
            }
            for region in shown
        ],
        n_regions=len(result),
        drawn=any(region.frame for region in result),
        notes=result.notes,
        command="",
    )


def unusual_html(result: Unusual, command: str = "") -> str:
    """Render the page of unusual episodes, and of states where no policy has been."""
    outside = None if result.outside is None else result.outside.policies
    return _page(
        "unusual.html",
        "Unusual episodes",
        environment=result.environment,
        lead=f"{result.headline()}.",
        figures={
            "policies": thousands(len(result.policies)),
            "episodes": thousands(sum(len(row.times) for row in result.policies)),
        },
        result=result,
        png=picture(result.figure()),
        rows=[
            {
                "episode": row,
                "times": times_as_far(row),
                "total": beside(row.total, result.of(row.policy).usual_return),
                "length": beside(row.length, result.of(row.policy).usual_length),
            }
            for row in result.episodes
        ],
        outside=[row for row in outside or () if row.outside][:MAX_OUTSIDE],
        outside_words=OUTSIDE,
        notes=result.notes,
        command=command,
    )


def times_as_far(row: UnusualEpisode) -> str:
    """Write how many times as far as usual an episode is."""
    return "∞" if math.isinf(row.times) else f"{row.times:.2g}"


def beside(value: float | None, usual: float) -> str:
    """Write a number with the usual one behind it."""
    if value is None or math.isnan(usual):
        return "–"
    return f"{rounded(value, 3)} ({rounded(usual, 3)})"


def run_html(result: RunExplanation, command: str = "") -> str:
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
            rounded(x, 3).replace("-", "−") for x in returns
        )
    return _page(
        "run.html",
        f"What changed along {result.run}",
        environment=result.environment,
        lead=f"{result.headline()}.",
        figures=figures,
        result=result,
        png=picture(result.figure()),
        phases=[
            {
                "phase": phase,
                # Numbers and their units stay on one line.
                "when": " to ".join(x.replace(" ", "\xa0") for x in phase.when.split(" to ")),
                "distance": rounded(max(phase.distance, 0.0), 3),
                "changes": [
                    {"region": c.region, "what": _sentence(c), "values": c.values_text, "by": by(c)}
                    for c in phase.changes
                ],
            }
            for phase in phases
        ],
        pair_command=pair_command(result.largest) if result.largest else "",
        confidence=percent(result.level),
        notes=result.notes,
        command=command,
    )


def _sentence(change: Difference) -> str:
    if change.kind == "moved":
        return what(change)
    return change.sentence().partition(" (")[0]


def pair_command(labels: tuple[str, str]) -> str:
    """Write the command that explains two policies."""
    return "pivec explain DIR " + " ".join(map(shlex.quote, labels))


def what(change: Difference) -> str:
    """Say what changed, without numbers."""
    if change.kind == "moved":
        return f"{change.feature} moved, where {change.where}"
    return f"{change.kind}: {change.where}"


def by(change: Difference) -> str:
    """Write the interval of a change."""
    if change.kind == "moved" and not math.isnan(change.low):
        return f"{change.low:+.2g} to {change.high:+.2g}".replace("-", "−")
    return percent_points(change.low, change.high)


def percent_points(low: float, high: float) -> str:
    """Write the interval of a difference of shares.

    Examples
    --------
    >>> percent_points(-0.123, 0.0451), percent_points(math.nan, math.nan)
    ('−12 to +4.5 %', '–')
    """
    if math.isnan(low):
        return "–"
    ends = [f"{'−' if end < 0 else '+'}{percent(abs(end))}" for end in (low, high)]
    return f"{ends[0].removesuffix(' %')} to {ends[1]}"


def group_explanation_html(result: GroupExplanation, command: str = "") -> str:
    """Render the page of what sets two groups of runs apart."""
    words = result.headline()
    return _page(
        "groups_page.html",
        "What sets the runs of {} and of {} apart".format(*result.groups),
        environment=result.environment,
        lead=f"{words[:1].upper()}{words[1:]}.",
        figures={
            f"runs of {name}": thousands(len(runs))
            for name, runs in zip(result.groups, result.runs, strict=True)
        },
        result=result,
        png=picture(result.figure()),
        runs="; ".join(
            f"{name}: {shortened(', '.join(runs), 200)}"
            for name, runs in zip(result.groups, result.runs, strict=True)
        ),
        last=last_checkpoints(result.last) if result.last else "",
        differences=difference_rows(result),
        confidence=percent(result.level),
        notes=[*result.caveats(), *result.notes],
        command=command,
    )


def difference_rows(result: GroupExplanation) -> list[dict[str, Any]]:
    """Return the leading differences as text: mean share of time of both groups, and its range."""
    return [
        {
            "region": "" if difference.region is None else str(difference.region),
            "where": difference.where,
            "times": [
                (percent(mean), percent_range(times) if len(times) > 1 else "")
                for times, mean in zip(difference.runs, difference.values, strict=True)
            ],
            "difference": percent_points(difference.low, difference.high),
            "q": rounded(difference.q_value, 2),
        }
        for difference in result.shown(*MAX_DIFFERENCES)
    ]


def last_checkpoints(count: int) -> str:
    """Say which checkpoints of each run count."""
    return f"of each run the last {'checkpoint' if count == 1 else f'{count} checkpoints'}"
