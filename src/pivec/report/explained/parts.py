"""Markup of a difference: bars of its parts, a card a region with pictures of both, the clips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.explanation import OFTEN, WHERE, WIDE
from pivec.explanations.pairs.difference import Clip, Difference, Shift, Still
from pivec.explanations.regions.names import Feature
from pivec.report.explained.shell import Embed, picture_or_reason
from pivec.report.markup import shown_text, table
from pivec.text import interval, percent, rounded

KIND_WORDS = {
    OFTEN: "how often they are there",
    WHERE: "where they are within it",
    WIDE: "how widely they spread within it",
}
CHANCE = '<span class="tag">may be chance</span>'
_SHIFTS, _FEATURES = 3, 8  # that are shown, of a region and of all
_SIDES = ("a", "b")


def side(label: str, which: int) -> str:
    """Show a policy's name with the colour of its side."""
    return f'<span class="side {_SIDES[which]}">{shown_text(label)}</span>'


def parts_table(difference: Difference) -> str:
    """Show the share of the distance that each leading region has, and that of the rest."""
    e, regions = difference.explanation, difference.leading
    kinds = [kind for kind in KIND_WORDS if kind in e.kinds]
    edge = _longest([e.regions.measured[list(regions)], e.regions.high[list(regions)]])
    lines = []
    for rank, region in enumerate(regions, 1):
        widths = [float(e.kinds[kind].measured[region]) for kind in kinds]
        low, high = float(e.regions.low[region]), float(e.regions.high[region])
        noise = f"<br>{CHANCE}" if e.regions.noise[region] else ""
        lines.append(
            f'<tr><th scope="row"><span class="rank">{rank}</span>{shown_text(e.words[region])} '
            f"<small>region {region}</small>{noise}</th>"
            f'<td class="bar">{_stack(widths, low, high, edge)}</td>'
            f'<td class="n"><strong>{percent(difference.share(region))}</strong></td>'
            f'<td class="n">{rounded(max(float(e.regions.estimate[region]), 0.0), 3)}<br>'
            f"<small>{interval(max(low, 0.0), high)}</small></td></tr>"
        )
    if n_rest := len(e.order) - len(regions):
        others = "1 other region" if n_rest == 1 else f"{n_rest} other regions together"
        rest = max(1.0 - sum(map(difference.share, regions)), 0.0)
        lines.append(
            f'<tr class="rest"><th scope="row">{others}</th><td class="bar"></td>'
            f'<td class="n">{percent(rest)}</td><td></td></tr>'
        )
    keys = "".join(
        f'<li><i class="k{number}"></i>{KIND_WORDS[kind]}</li>' for number, kind in enumerate(kinds)
    )
    if difference.told_apart is not None:
        keys += f'<li><i class="line"></i>{percent(e.level)} interval, without noise</li>'
    heads = ("Region of states", "Part of the distance", "Share", "Part without noise")
    made = table(heads, (2, 3), lines, ' class="parts"')
    return f'<ul class="keys">{keys}</ul><div class="scroll">{made}</div>'


def _longest(values: Sequence[NDArray[np.float64]]) -> float:
    """Give what bars are drawn in proportion to."""
    known = np.concatenate([np.ravel(part) for part in values])
    return float(known[np.isfinite(known)].max(initial=0.0)) or 1.0


def _at(value: float, edge: float, start: float = 0.0) -> str:
    """Give a place on a track in percent, within it."""
    share = (value - start) / (edge - start) if edge > start else 0.5
    return f"{100 * min(max(share, 0.0), 1.0):.2f}%" if math.isfinite(share) else "0%"


def _whisker(low: float, high: float, edge: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    left, width = max(low, 0.0), max(high, 0.0) - max(low, 0.0)
    return f'<b style="left:{_at(left, edge)};width:{_at(width, edge)}"></b>'


def _stack(widths: Sequence[float], low: float, high: float, edge: float) -> str:
    bars, left = "", 0.0
    for number, width in enumerate(widths):
        if width > 0:
            bars += (
                f'<i class="k{number}" style="left:{_at(left, edge)};width:{_at(width, edge)}"></i>'
            )
            left += width
    return f'<div class="track">{bars}{_whisker(low, high, edge)}</div>'


def region_cards(difference: Difference, embed: Embed) -> str:
    """Show each leading region: a picture of both, the time they spend there, what shifts."""
    return "".join(
        _card(difference, rank, region, embed) for rank, region in enumerate(difference.leading, 1)
    )


def _card(difference: Difference, rank: int, region: int, embed: Embed) -> str:
    e = difference.explanation
    stills = [difference.stills.get((label, region)) for label in difference.labels]
    faces = ""
    if any(stills):
        faces = '<div class="stills">' + "".join(
            _still(still, label, which, embed)
            for which, (still, label) in enumerate(zip(stills, difference.labels, strict=True))
        )
        faces += "</div>"
    numbers = f"<div>{_times(difference, region)}{_shifts(difference, region)}</div>"
    halves = f'<div class="halves">{faces}{numbers}</div>' if faces else numbers
    noise = f" {CHANCE}" if e.regions.noise[region] else ""
    return (
        f'<article class="card"><h3><span class="rank">{rank}</span>{shown_text(e.words[region])}'
        f'</h3><p class="gist">{_gist(difference, region)}{noise}</p>{halves}</article>'
    )


def _gist(difference: Difference, region: int) -> str:
    """Say in a line what the region's part is made of."""
    e = difference.explanation
    kinds = {kind: float(parts.measured[region]) for kind, parts in e.kinds.items()}
    total = sum(kinds.values())
    gist = f"region {region}: {percent(difference.share(region))} of the distance"
    if total > 0 and len(kinds) > 1:
        main = max(kinds, key=kinds.__getitem__)
        gist += f", {percent(kinds[main] / total)} of that by {KIND_WORDS[main]}"
    return gist


def _still(still: Still | None, label: str, which: int, embed: Embed) -> str:
    name = _SIDES[which]
    if still is None:
        return (
            f'<figure class="still {name}"><div class="none">hardly ever here</div>'
            f"<figcaption>{side(label, which)}</figcaption></figure>"
        )
    visit = still.visit
    words = f"episode {visit.episode}, step {visit.step}"
    image = picture_or_reason(still.picture, still.reason, f"{label} at {words}", embed)
    return (
        f'<figure class="still {name}">{image}<figcaption>{side(label, which)}<br>{words}'
        f"</figcaption></figure>"
    )


def _times(difference: Difference, region: int) -> str:
    e = difference.explanation
    if not math.isfinite(float(e.share[:, region].sum())):
        return ""
    shown = list(difference.leading)
    edge = _longest([e.share[:, shown], e.share_high[:, shown]])
    lines = ""
    for which, name in enumerate(_SIDES):
        share, low, high = (float(x[which, region]) for x in (e.share, e.share_low, e.share_high))
        ends = f"{percent(low)} to {percent(high)}".replace(" %", "", 1)
        spread = f" <small>{ends}</small>" if math.isfinite(low) else ""
        lines += (
            f'<div class="line"><div class="track"><i class="{name}" '
            f'style="left:0;width:{_at(share, edge)}"></i>{_whisker(low, high, edge)}</div>'
            f"<div>{percent(share)}{spread}</div></div>"
        )
    return f'<div class="measure"><h4>Share of time spent here</h4>{lines}</div>'


def _shifts(difference: Difference, region: int) -> str:
    shifts = difference.sure_shifts(region)
    if not shifts:
        reason = "no feature differs by more than chance explains"
        if np.isnan(difference.explanation.means[:, region]).any():
            reason = "one of them is hardly ever here, so there is nothing to compare"
        head = '<div class="measure"><h4>While they are here</h4>'
        return f"{head}<p><small>{reason}</small></p></div>"
    lines = "".join(_shift(difference, region, shift) for shift in shifts[:_SHIFTS])
    return f'<div class="measure"><h4>Means while they are here, and the shift</h4>{lines}</div>'


def _shift(difference: Difference, region: int, shift: Shift) -> str:
    e, feature = difference.explanation, difference.features[shift.feature]
    a, b = (float(e.means[which, region, shift.feature]) for which in (0, 1))
    low, high = map(float, e.ranges[region, shift.feature])
    ends = [x for x in (a, b, low, high) if math.isfinite(x)]
    start, end = min(ends), max(ends)
    value, spread = amounts(feature, shift)
    dots = "".join(
        f'<i class="dot {name}" style="left:{_at(x, end, start)}"></i>'
        for name, x in zip(_SIDES, (a, b), strict=True)
    )
    return (
        f'<div class="shift"><div>{shown_text(feature.name)}<br><small>{rounded(a, 3)} and '
        f'{rounded(b, 3)}</small></div><div class="track">{dots}</div>'
        f"<div>{shown_text(value)}<br><small>{spread}</small></div></div>"
    )


def signed(value: float, digits: int = 3) -> str:
    """Write a number with its sign.

    Examples
    --------
    >>> signed(0.12345), signed(-2.0), signed(0.0)
    ('+0.123', '−2', '0')
    """
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return sign + rounded(abs(value), digits)


def amounts(feature: Feature, shift: Shift, digits: int = 3) -> tuple[str, str]:
    """Write a shift with its unit, and its interval; of what is so or not as a share of time."""
    scale, unit = (100.0, " %") if feature.is_flag else (1.0, f" {feature.unit}".rstrip())
    value, low, high = (signed(scale * x, digits) for x in (shift.value, shift.low, shift.high))
    return f"{value}{unit}", f"{low} to {high}"


def features_table(difference: Difference) -> str:
    """Show how features differ on average, and what of the distance is theirs within regions."""
    e, parts = difference.explanation, difference.explanation.features
    shifts = {shift.feature: shift for shift in difference.average_shifts()}
    order = np.argsort(-parts.measured, kind="stable").tolist()
    shown = [f for f in dict.fromkeys([*shifts, *order]) if f in shifts or not parts.noise[f]]
    lines = []
    for f in shown[:_FEATURES]:
        feature, shift = difference.features[f], shifts.get(f)
        share = "" if parts.noise[f] or not e.distance else percent(parts.measured[f] / e.distance)
        moved = "<small>may be chance</small>"
        if shift is not None:
            value, ends = amounts(feature, shift)
            moved = f"{shown_text(value)}<br><small>{ends}</small>"
        write = percent if feature.is_flag else partial(rounded, digits=3)
        means = "".join(f'<td class="n">{write(float(x[f]))}</td>' for x in e.averages)
        lines.append(
            f'<tr><th scope="row">{shown_text(feature.title)}</th>{means}'
            f'<td class="n">{moved}</td><td class="n">{share}</td></tr>'
        )
    if not lines:
        return ""
    sides = (f"Mean of {side(label, which)}" for which, label in enumerate(difference.labels))
    heads = ("Feature", *sides, "Shift", "Share of the distance")
    return f'<div class="scroll">{table(heads, (1, 2, 3, 4), lines)}</div>'


def reel(clips: tuple[Clip, ...], embed: Embed) -> str:
    """Show clips, two policies side by side across the page."""
    return (
        '<div class="reel">'
        + "".join(clip_figure(clip, embed, "wide") for clip in clips)
        + "</div>"
    )


def clip_figure(clip: Clip, embed: Embed, looks: str = "") -> str:
    """Show a clip with its title and what it shows."""
    image = picture_or_reason(clip.picture, clip.reason, clip.title, embed)
    return (
        f'<figure class="clip {looks}"><h3>{shown_text(clip.title)}</h3>{image}'
        f"<figcaption>{shown_text(clip.words)}</figcaption></figure>"
    )
