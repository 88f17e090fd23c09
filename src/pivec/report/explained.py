"""The page of what differs between policies: one HTML file, pictures and clips within it."""

from __future__ import annotations

import base64
import math
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pivec.characterizations import OFTEN, WHERE, WIDE, Decomposition
from pivec.explanations import (
    Change,
    Clip,
    Contrast,
    Coverage,
    Feature,
    Frame,
    GroupExplanation,
    Overview,
    PairExplanation,
    Phase,
    RunExplanation,
    Shift,
    Unusual,
    UnusualEpisode,
    leading_contrasts,
    percent_range,
)
from pivec.report.markup import (
    count_cell,
    filled,
    number_cell,
    picture,
    resource,
    section,
    shown_text,
    table,
)
from pivec.report.pages import render, write_page
from pivec.statistics import Parts
from pivec.terminal import literal, say, shortened
from pivec.text import interval, percent, rounded, thousands

if TYPE_CHECKING:
    from pivec.explanations import Regions, RegionSummary

# -----------------------------------------------------------------------------
# The shell of pages that explain: one HTML file with its pictures and clips in it.


MOST_BYTES = 6_000_000  # of pictures within a page; the others are links to files beside it
_TYPES = {".webp": "image/webp", ".png": "image/png"}

# Gives the address of a picture that is part of the page, or None where it does not fit.
Embed = Callable[[Path], str | None]


class Embedder:
    """Gives pictures as addresses that hold them, until a page is large enough."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.left = most

    def __call__(self, path: Path) -> str | None:
        """Give the address of a picture, or None where there is no room for it."""
        kind = _TYPES.get(path.suffix)
        if kind is None or not path.is_file() or path.stat().st_size > self.left:
            return None
        content = path.read_bytes()
        self.left -= len(content)
        return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def picture_or_reason(path: Path | None, reason: str, words: str, embed: Embed) -> str:
    """Show a picture, or say why there is none; one that is too large is a link."""
    if path is None:
        return f'<div class="none">{shown_text(reason or "no picture")}</div>'
    address = embed(path)
    if address is None:
        beside = shown_text(f"{path.parent.name}/{path.name}")
        return f'<div class="none"><a href="{beside}">{beside}</a>, too large for this page</div>'
    return f'<img src="{address}" alt="{shown_text(words)}">'


def explained_html(
    title: str,
    environment: str,
    lead: str,
    figures: Mapping[str, str],
    sections: Sequence[str],
    heading: str = "What differs",
) -> str:
    """Put sections into the shell of the page.

    Title, heading, environment and figures are text; ``lead`` and sections are markup, made of
    escaped text.
    """
    return render(
        "explained_markup.html",
        resource("page.css") + resource("explained.css"),
        title=title,
        heading=heading,
        environment=environment,
        lead=lead,
        figures=figures,
        sections="\n".join(part for part in sections if part),
    )


def notes_section(notes: Sequence[str], prefix: str = "") -> str:
    """List what had to be assumed, and what could not be made."""
    if not notes:
        return ""
    items = "".join(f"<li>{shown_text(note[:1].upper() + note[1:])}</li>" for note in notes)
    return section(f"{prefix}notices", "What to know", f'<ul class="notices">{items}</ul>')


def made_section(command: str) -> str:
    """Show the command."""
    if not command:
        return ""
    return section("made", "How it was made", f'<pre class="command">{shown_text(command)}</pre>')


# -----------------------------------------------------------------------------
# Markup of a difference: bars of its parts, a card a region with pictures of both, the clips.


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


def parts_table(difference: PairExplanation) -> str:
    """Show the share of the distance that each leading region has, and that of the rest."""
    e, regions = difference.decomposition, difference.leading
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
    if difference.different is not None:
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


def region_cards(difference: PairExplanation, embed: Embed) -> str:
    """Show each leading region: a picture of both, the time they spend there, what shifts."""
    return "".join(
        _card(difference, rank, region, embed) for rank, region in enumerate(difference.leading, 1)
    )


def _card(difference: PairExplanation, rank: int, region: int, embed: Embed) -> str:
    e = difference.decomposition
    frames = [difference.frames.get((label, region)) for label in difference.labels]
    faces = ""
    if any(frames):
        faces = '<div class="frames">' + "".join(
            _still(frame, label, which, embed)
            for which, (frame, label) in enumerate(zip(frames, difference.labels, strict=True))
        )
        faces += "</div>"
    numbers = f"<div>{_times(difference, region)}{_shifts(difference, region)}</div>"
    halves = f'<div class="halves">{faces}{numbers}</div>' if faces else numbers
    noise = f" {CHANCE}" if e.regions.noise[region] else ""
    return (
        f'<article class="card"><h3><span class="rank">{rank}</span>{shown_text(e.words[region])}'
        f'</h3><p class="gist">{_gist(difference, region)}{noise}</p>{halves}</article>'
    )


def _gist(difference: PairExplanation, region: int) -> str:
    """Say in a line what the region's part is made of."""
    e = difference.decomposition
    kinds = {kind: float(parts.measured[region]) for kind, parts in e.kinds.items()}
    total = sum(kinds.values())
    gist = f"region {region}: {percent(difference.share(region))} of the distance"
    if total > 0 and len(kinds) > 1:
        main = max(kinds, key=kinds.__getitem__)
        gist += f", {percent(kinds[main] / total)} of that by {KIND_WORDS[main]}"
    return gist


def _still(frame: Frame | None, label: str, which: int, embed: Embed) -> str:
    name = _SIDES[which]
    if frame is None:
        return (
            f'<figure class="frame {name}"><div class="none">hardly ever here</div>'
            f"<figcaption>{side(label, which)}</figcaption></figure>"
        )
    visit = frame.visit
    words = f"episode {visit.episode}, step {visit.step}"
    image = picture_or_reason(frame.path, frame.reason, f"{label} at {words}", embed)
    return (
        f'<figure class="frame {name}">{image}<figcaption>{side(label, which)}<br>{words}'
        f"</figcaption></figure>"
    )


def _times(difference: PairExplanation, region: int) -> str:
    e = difference.decomposition
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


def _shifts(difference: PairExplanation, region: int) -> str:
    shifts = difference.significant_shifts(region)
    if not shifts:
        reason = "no feature differs by more than chance explains"
        if np.isnan(difference.decomposition.means[:, region]).any():
            reason = "one of them is hardly ever here, so there is nothing to compare"
        head = '<div class="measure"><h4>While they are here</h4>'
        return f"{head}<p><small>{reason}</small></p></div>"
    lines = "".join(_shift(difference, region, shift) for shift in shifts[:_SHIFTS])
    return f'<div class="measure"><h4>Means while they are here, and the shift</h4>{lines}</div>'


def _shift(difference: PairExplanation, region: int, shift: Shift) -> str:
    e, feature = difference.decomposition, difference.features[shift.feature]
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


def features_table(difference: PairExplanation) -> str:
    """Show how features differ on average, and what of the distance is theirs within regions."""
    e, parts = difference.decomposition, difference.decomposition.features
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
    image = picture_or_reason(clip.path, clip.reason, clip.title, embed)
    return (
        f'<figure class="clip {looks}"><h3>{shown_text(clip.title)}</h3>{image}'
        f"<figcaption>{shown_text(clip.caption)}</figcaption></figure>"
    )


_FEATURES_PAIR = (
    "Means over all of the time, and how they shift from the first policy to the second. "
)
_WITHIN = (
    "The share of the distance is about where they are within regions; how often they are there "
    "has no feature."
)
_WIDTH = "The share of the distance is about means, and about how widely states spread around them."


def write_difference(
    path: str | os.PathLike[str], difference: PairExplanation, command: str = ""
) -> None:
    """Write the page of one difference; what was there is replaced when the new page is whole."""
    write_page(path, difference_html(difference, command))


def difference_html(difference: PairExplanation, command: str = "") -> str:
    """Make the page that `write_difference` writes."""
    a, b = difference.labels
    embed = Embedder()
    sections = [
        *difference_sections(difference, embed),
        reading_section(difference.decomposition.level),
        made_section(command),
    ]
    return explained_html(
        f"What differs: {a} and {b}",
        difference.environment,
        lead_of(difference),
        _figures(difference),
        sections,
    )


def write_overview(path: str | os.PathLike[str], overview: Overview, command: str = "") -> None:
    """Write the page of the notable pairs of a comparison, and of behaviours to watch."""
    write_page(path, overview_html(overview, command))


def overview_html(overview: Overview, command: str = "") -> str:
    """Make the page that `write_overview` writes."""
    embed = Embedder()
    sections = []
    for number, (title, difference) in enumerate(overview.differences, 1):
        prefix = f"pair{number}-"
        head = f'<p class="lead">{lead_of(difference)}</p>'
        sections.append(_chapter(section(f"{prefix}pair", shown_text(title), head)))
        sections += difference_sections(difference, embed, prefix)
    if overview.behaviours:
        words = (
            "No two policies of a behaviour can be told apart. Each clip shows the policy in the "
            "middle, in an episode that nobody chose."
        )
        films = "".join(clip_figure(clip, embed) for clip in overview.behaviours)
        about = f'<p class="about">{words}</p><div class="reel">{films}</div>'
        sections.append(_chapter(section("behaviours", "Behaviours", about)))
    sections += [
        reading_section(overview.differences[0][1].decomposition.level),
        made_section(command),
    ]
    lead = "What makes notable pairs of policies differ, and how behaviours look."
    return explained_html("What differs", overview.environment, lead, {}, sections)


def _chapter(made: str) -> str:
    """Let a section begin something new."""
    return made.replace("<section", '<section class="chapter"', 1)


def lead_of(difference: PairExplanation) -> str:
    """Say the headline; both policies have the colour that they have in the pictures."""
    a, b = difference.labels
    words = difference.headline().removeprefix(f"{a} and {b}")
    return f"{side(a, 0)} and {side(b, 1)}{shown_text(words)}."


def _figures(difference: PairExplanation) -> dict[str, str]:
    e = difference.decomposition
    shown = rounded(e.distance if difference.different is None else max(e.estimate, 0.0), 3)
    ends = "" if math.isnan(e.low) else f", {interval(max(e.low, 0.0), e.high)}"
    figures = {f"distance{ends}": shown}
    n_regions = len(e.order)
    if n_regions > 1:
        sure = int((~e.regions.noise).sum())
        figures["regions differ beyond chance"] = f"{thousands(sure)} of {thousands(n_regions)}"
    often = e.kinds.get("how often")
    if often is not None and difference.different and n_regions > 1:
        share = float(often.measured.sum()) / e.distance
        figures["of it due to how often they are there"] = percent(share)
    figures["episodes played"] = " and ".join(map(thousands, difference.episodes))
    if all(map(math.isfinite, difference.mean_returns)):
        figures["mean returns"] = " and ".join(rounded(x, 3) for x in difference.mean_returns)
    return figures


def difference_sections(difference: PairExplanation, embed: Embed, prefix: str = "") -> list[str]:
    """Make the sections of one difference; the prefix keeps names apart where there are several."""
    alone = len(difference.decomposition.order) == 1
    cards = region_cards(difference, embed)
    within = _FEATURES_PAIR + (_WIDTH if alone else _WITHIN)
    faces = " Pictures show the state of each policy that is nearest to the middle of the region."
    made = {
        "parts": ("Where the distance comes from", _about_parts(difference), ""),
        "features": ("Feature by feature", within, features_table(difference)),
        "clips": ("To watch", "", reel(difference.clips, embed) if difference.clips else ""),
        "regions": (
            "Region by region",
            f"Largest part first.{faces * bool(difference.frames)}",
            cards,
        ),
    }
    if alone:
        del made["regions"]
    else:
        made["parts"] = (*made["parts"][:2], parts_table(difference))
    sections = [
        section(f"{prefix}{name}", title, f'<p class="about">{about}</p>' if about else "", content)
        for name, (title, about, content) in made.items()
        if content
    ]
    return [*sections, notes_section(difference.notes, prefix)]


def _about_parts(difference: PairExplanation) -> str:
    e = difference.decomposition
    about = "The shares add up to the whole distance, as it was measured. "
    if difference.different is False:
        return about + "<strong>Chance explains it as well.</strong>"
    if difference.different:
        noise, whole = rounded(e.distance - e.estimate, 2), rounded(e.distance, 3)
        about += f"Sampling adds {noise} to it, of {whole}, spread over all regions."
    return about


def reading_section(level: float) -> str:
    """Explain what parts, intervals, pictures and clips say."""
    return section(
        "reading", "How to read this", filled("explained.html", {"level": percent(level)})
    )


# -----------------------------------------------------------------------------
# The page of regions: a card each, in the order in which episodes get there.


_MOST = 300  # cards
_DARKEST = 0.5  # share of visits in a tenth of an episode that is drawn full
_LONGEST = 60  # letters of a policy's name


def write_regions_page(path: str | os.PathLike[str], result: Regions) -> None:
    """Write the page; pictures are part of it."""
    write_page(path, regions_html(result))


def regions_html(result: Regions) -> str:
    """Make the page that `write_regions_page` writes."""
    embed = Embedder()
    most = max(region.share for region in result)
    large = {region.number for region in result.by_share()[:_MOST]}
    shown = [region for region in result.by_moment() if region.number in large]
    cards = "".join(_card_regions(region, most, embed) for region in shown)
    drawn = any(region.frame for region in result)
    pictures = "The pictures are of states that were really visited, near the middle of the region."
    about = (
        "All states are divided into regions, the components of a Gaussian mixture of all of them. "
        "A region is told by the features that set it apart from all states most clearly, as "
        "ranges that hold about 80 % of it; per cents behind a thing say how often it is so there. "
        "The blue bar is the mean share of time that policies "
        "spend there; the boxes go from the beginning of an episode to its end, and are the darker "
        f"the more of the region's visits fall there. {pictures * drawn}"
    )
    if len(shown) < len(result):
        about += f" Shown are the {len(shown)} regions in which most time is spent."
    figures = {
        "regions": thousands(len(result)),
        "policies": thousands(len(result.labels)),
        "features of a state": thousands(len(result.features)),
    }
    title = f"Regions of {result.environment}" if result.environment else "Regions"
    return explained_html(
        title,
        result.environment,
        shown_text(result.headline()),
        figures,
        [
            f"<style>{resource('regions.css')}</style>",
            section(
                "reading",
                "From the beginning of an episode to its end",
                f'<p class="about">{about}</p>',
                f'<div class="sheet">{cards}</div>',
            ),
            notes_section(result.notes),
        ],
        heading=title,
    )


def _card_regions(region: RegionSummary, most: float, embed: Embedder) -> str:
    image, visits = "", region.visits[:1]
    if region.frame is not None:
        visits = (region.frame.visit,)
        if region.frame.path and (address := embed(region.frame.path)):
            image = f'<img src="{address}" alt="{shown_text(region.name)}" loading="lazy">'
    most_of, share = _named(region.highest[0]), region.highest[1]
    width = 100 * region.share / most if most else 0.0
    parts = [
        image,
        f"<h3><span>{region.number}</span>{shown_text(region.name)}</h3>",
        f'<div class="time"><i style="width:{width:.1f}%"></i></div>',
        f"<p>{_share(region.share)} of the time; at most {_share(share)}: {most_of}</p>",
        _tenths(region),
        *(
            f'<p class="foot">{"Picture" if image else "Nearest state"}: '
            f"{_named(visit.policy)}, episode {visit.episode}, "
            f"step {visit.step}</p>"
            for visit in visits
        ),
    ]
    return f'<div class="card" id="region-{region.number}">{"".join(parts)}</div>'


def _named(label: str) -> str:
    """Write the name of a policy, short, with the whole of it where the pointer rests."""
    return f'<span title="{shown_text(label)}">{shown_text(shortened(label, _LONGEST))}</span>'


def _tenths(region: RegionSummary) -> str:
    if math.isnan(region.moment):
        return ""
    boxes = "".join(f'<i style="--p:{min(1, part / _DARKEST):.2f}"></i>' for part in region.when)
    words = region.when_words
    if region.ends >= 0.005:  # nothing is said of what rounds to none
        words += f"; {_share(region.ends)} of episodes end here"
    return f'<div class="tenths">{boxes}</div><p>{words[:1].upper()}{words[1:]}</p>'


def _share(value: float) -> str:
    """Write a share that is not torn apart at the end of a line."""
    return percent(value).replace(" ", "&nbsp;")


# -----------------------------------------------------------------------------
# What changed along a run and what sets groups of runs apart: on the terminal and as pages.


_WIDE = 96  # letters that a table needs to be read with all its columns
_FEATURES_RUNS, _REGIONS = 4, 8  # contrasts that are shown
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


def print_run(result: RunExplanation) -> None:
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
    for step in result.phases:
        first = f"{step.when}\n{_distance(step)}"
        if step.quiet:
            grid.add_row(first, step.quiet)
        for change in step.changes:
            region = "" if change.region is None else f" (region {change.region})"
            cells = literal(_what(change) + region), literal(_values(change))
            grid.add_row(first, *cells, *[_by(change)] * wide)
            first = ""
    console.print(grid)
    if wide and any(step.changes for step in result.phases):
        say(f"by: {percent(result.level)} interval of the change")
    if result.largest:
        say(f"The largest step in detail: {_pair_command(result.largest)}")
    for note in result.notes:
        say(f"Note: {note}")


def _pair_command(labels: tuple[str, str]) -> str:
    return "pivec explain DIR " + " ".join(map(shlex.quote, labels))


def _distance(step: Phase) -> str:
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


def print_group_difference(result: GroupExplanation) -> None:
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
    for contrast in leading_contrasts(result, _FEATURES_RUNS, _REGIONS):
        region = "" if contrast.region is None else str(contrast.region)
        sure = [_points(contrast.low, contrast.high)] * wide + [rounded(contrast.q_value, 2)]
        grid.add_row(region, literal(contrast.where), *_times_runs(contrast), *sure)
    console.print(grid)
    for caveat in result.caveats():
        say(caveat[:1].upper() + caveat[1:])
    for note in result.notes:
        say(f"Note: {note}")


def _last(count: int) -> str:
    checkpoints = "checkpoint" if count == 1 else f"{count} checkpoints"
    return f"of each run the last {checkpoints}"


def _times_runs(contrast: Contrast) -> list[str]:
    """Write the mean share of time of both groups, and from where to where the runs go."""
    shown = []
    for times, mean in zip(contrast.times, contrast.means, strict=True):
        ends = f"\n{percent_range(times)}" if len(times) > 1 else ""
        shown.append(f"{percent(mean)}{ends}")
    return shown


def run_section(result: RunExplanation, prefix: str = "") -> str:
    """Show the picture of a run and the table of its changes."""
    image = (
        f'<img class="paper" src="{picture(result.figure())}" '
        'alt="Time spent in places along the run, and the distance of each step">'
    )
    heads = ("Training step", "Distance", "Region", "What changed", "Of the time", "By")
    lines = [line for step in result.phases for line in _step_lines(step)]
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


def _step_lines(step: Phase) -> Iterable[str]:
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


def run_html(result: RunExplanation, command: str = "") -> str:
    """Make the page of a run."""
    quiet = sum(not step.changed for step in result.phases)
    figures = {
        "checkpoints": thousands(len(result.steps)),
        "distance travelled": rounded(sum(max(s.distance, 0.0) for s in result.phases), 3),
        "stretches in which something changed": thousands(len(result.phases) - quiet),
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


def _clips_section(result: RunExplanation) -> str:
    step = result.largest_phase
    if step is None or not result.clips:
        return ""
    before, after = map(shown_text, step.labels)
    about = f'<p class="about">The largest step, {step.when}: {before} and {after}.</p>'
    return section("clips", "To watch", about, reel(result.clips, Embedder()))


def groups_section(result: GroupExplanation, prefix: str = "") -> str:
    """Show the runs of both groups where they differ most, as a picture and as a table."""
    image = (
        f'<img class="paper" src="{picture(result.figure())}" '
        'alt="Shares of time of all runs of both groups where they differ most">'
    )
    heads = ["Region", "Where", *(f"Time of {shown_text(g)}" for g in result.groups)]
    lines = []
    for contrast in leading_contrasts(result, _FEATURES_RUNS, _REGIONS):
        region = "" if contrast.region is None else str(contrast.region)
        times = (
            f'<td class="n">{cell.replace(chr(10), "<br><small>")}{"</small>" * (chr(10) in cell)}'
            "</td>"
            for cell in _times_runs(contrast)
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


def group_difference_html(result: GroupExplanation, command: str = "") -> str:
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


# -----------------------------------------------------------------------------
# What `pivec unusual` prints: episodes far from their policy's others, and states outside.


_EXPLAINED = 3  # episodes of which it is said what is unusual
_ROWS = 10  # policies with states outside
OUTSIDE = (
    "farther from all regions of the space than 99 % of the states of each policy that it was "
    "fitted on; deviations are those of the nearest region"
)


def print_unusual(result: Unusual) -> None:
    """Print the most unusual episodes, what is unusual about the first, and states outside."""
    say(result.headline())
    table = Table(box=None)
    table.add_column("policy", overflow="fold")
    for head in ("episode", "times as far", "return (usual)", "states (usual)", "most typical"):
        table.add_column(head, justify="right")
    for row in result.episodes:
        mine = result.of(row.policy)
        total = beside(row.total, mine.usual_return)
        length = beside(row.length, mine.usual_length)
        numbers = (str(row.episode), times(row), total, length, str(mine.typical))
        table.add_row(literal(row.policy), *numbers)
    Console().print(table)
    say("times as far: from the policy's other episodes, where 1 is its usual (median) episode")
    for row in result.episodes[:_EXPLAINED]:
        if row.reasons:
            say(f"Episode {row.episode} of {row.policy}:")
        for reason in row.reasons:
            say(f"  {reason}")
    if result.outside is not None:
        print_outside(result.outside)
    for note in result.notes:
        say(f"Note: {note}")


def print_outside(outside: Coverage) -> None:
    """Print who goes where no policy has been; of policies that made the space hardly anybody."""
    say(outside.headline())
    rows = [row for row in outside.policies if row.outside][:_ROWS]
    if not rows or not (outside.placed or rows[0].is_notable):
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


def times(row: UnusualEpisode) -> str:
    """Write how many times as far as usual an episode is."""
    return "∞" if math.isinf(row.times) else f"{row.times:.2g}"


def beside(value: float | None, usual: float) -> str:
    """Write a number with the usual one behind it."""
    return (
        "–" if value is None or math.isnan(usual) else f"{rounded(value, 3)} ({rounded(usual, 3)})"
    )


# -----------------------------------------------------------------------------
# The page of unusual episodes: figure, table, clips, and states where no policy has been.


_ROWS_UNUSUAL_PAGE = 50  # policies with states outside


def write_unusual(path: str | os.PathLike[str], result: Unusual, command: str = "") -> None:
    """Write the page; what was there is replaced when the new page is whole."""
    write_page(path, unusual_html(result, command))


def unusual_html(result: Unusual, command: str = "") -> str:
    """Make the page that `write_unusual` writes."""
    embed = Embedder()
    about = (
        "How far an episode is from its policy's others is what leaving it out does to the "
        f"description of the policy (by {result.method}), in multiples of what the policy's usual, "
        "the median, episode does. Of policies that play 50 episodes the farthest is about twice "
        "as far as usual; three times and more is worth a look."
    )
    figure = (
        f'<img class="paper" src="{picture(result.figure())}" '
        'alt="Episodes of each policy by their distance from its others">'
    )
    rows = "".join(_row(result, row) for row in result.episodes)
    heads = (
        "policy",
        "episode",
        "times as far",
        "return (usual)",
        "states (usual)",
        "what differs",
    )
    sections = [
        section("reading", "Episodes", f'<p class="about">{about}</p>', figure),
        section("episodes", "The most unusual", table(heads, {1, 2, 3, 4}, [rows])),
    ]
    if result.clips:
        sections.append(section("clips", "To watch", reel(result.clips, embed)))
    if result.outside is not None:
        sections.append(_outside(result.outside))
    sections += [notes_section(result.notes), made_section(command)]
    figures = {
        "policies": thousands(len(result.policies)),
        "episodes": thousands(sum(len(row.times) for row in result.policies)),
    }
    lead = shown_text(f"{result.headline()}.")
    title = "Unusual episodes"
    return explained_html(title, result.environment, lead, figures, sections, heading=title)


def _row(result: Unusual, row: UnusualEpisode) -> str:
    mine = result.of(row.policy)
    reasons = "<br>".join(map(shown_text, row.reasons)) or "–"
    return (
        f"<tr><th scope=row>{shown_text(row.policy)}</th>{count_cell(row.episode)}"
        f"{number_cell(times(row), row.times)}"
        f"{number_cell(escape(beside(row.total, mine.usual_return)), row.total)}"
        f"{number_cell(escape(beside(row.length, mine.usual_length)), row.length)}"
        f"<td>{reasons}</td></tr>"
    )


def _outside(outside: Coverage) -> str:
    shown = [row for row in outside.policies if row.outside][:_ROWS_UNUSUAL_PAGE]
    rows = "".join(
        f"<tr><th scope=row>{shown_text(row.policy)}</th>"
        f"{number_cell(percent(row.share), row.share)}{count_cell(row.outside)}"
        f"{count_cell(row.episodes)}<td>{shown_text(row.words)}</td></tr>"
        for row in shown
    )
    heads = ("policy", "outside", "states", "in episodes", "by")
    words = f"{outside.headline()}. A state is outside if it is {OUTSIDE}."
    about = f'<p class="about">{shown_text(words)}</p>'
    listed = table(heads, {1, 2, 3}, [rows]) if shown else ""
    return section("outside", "States where no policy has been", about, listed)


# -----------------------------------------------------------------------------
# What differs between two policies, on the terminal; text from files is shown literally.


_SIDES_CONSOLE = ("A", "B")
_FEATURES_CONSOLE, _SHIFTS_CONSOLE = 12, 3  # that are shown
_SHORT = partial(rounded, digits=2)


def print_difference(difference: PairExplanation) -> None:
    """Print the headline, a table of the leading regions, and what the rest adds up to."""
    e = difference.decomposition
    say(difference.headline())
    for side, label in enumerate(difference.labels):
        average = difference.mean_returns[side]
        gained = f", mean return {rounded(average, 3)}" if math.isfinite(average) else ""
        episodes = counted(difference.episodes[side], "episode")
        say(f"  {_SIDES_CONSOLE[side]}: {label}, {episodes}{gained}")
    console = Console()
    wide = console.width >= _WIDE
    if len(e.order) > 1:
        console.print(_regions(difference, wide))
    else:
        console.print(_features(difference, wide))
    _say_rest(difference, wide)
    if shifts := difference.average_shifts()[:_SHIFTS_CONSOLE]:
        say(f"on average, from A to B: {', '.join(_words(difference, shift) for shift in shifts)}")


def _regions(difference: PairExplanation, wide: bool) -> Table:
    """Make a table of the leading regions."""
    e = difference.decomposition
    heads = ("region", "share", *["part"] * wide, "time of A", "time of B")
    table = _table(*heads, last="where, and what shifts there from A to B")
    for region in difference.leading:
        table.add_row(
            f"{region}{' *' if e.regions.noise[region] else ''}",
            percent(difference.share(region)),
            *[_part(e.regions, region)] * wide,
            *(_time(difference, side, region) for side in (0, 1)),
            Text("\n").join([literal(e.words[region]), *_shift_console(difference, region)]),
        )
    return table


def _features(difference: PairExplanation, wide: bool) -> Table:
    """Make a table of features, where all states are one region."""
    e = difference.decomposition
    table = _table(
        "share",
        *["part"] * wide,
        "mean of A",
        "mean of B",
        last="feature, and what of it differs most",
    )
    for number in np.argsort(-e.features.measured, kind="stable")[:_FEATURES_CONSOLE].tolist():
        feature, noise = difference.features[number], " *" if e.features.noise[number] else ""
        table.add_row(
            percent(float(e.features.measured[number]) / e.distance if e.distance else 0.0),
            *[_part(e.features, number)] * wide,
            *(rounded(float(e.means[side, 0, number]), 3) for side in (0, 1)),
            literal(f"{feature.title}: {_main_kind(e, number)}{noise}"),
        )
    return table


def _main_kind(e: Decomposition, feature: int) -> str:
    """Tell whether it is more the place or the width, of a feature in the only region."""
    parts = {
        kind: float(part)
        for (kind, number), part in zip(e.columns, e.finest.measured[0], strict=True)
        if number == feature
    }
    return max(parts, key=parts.__getitem__)


def _table(*heads: str, last: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right", overflow="fold")
    table.add_column(last, overflow="fold")
    return table


def _part(parts: Parts, number: int) -> str:
    part, low, high = (
        float(np.maximum(values[number], 0.0)) for values in (parts.estimate, parts.low, parts.high)
    )
    return f"{_SHORT(part)}\n{_ends(low, high, _SHORT)}"


def _ends(low: float, high: float, write: Callable[[float], str]) -> str:
    return f"{write(low)} to {write(high)}" if math.isfinite(low) else ""


def _time(difference: PairExplanation, side: int, region: int) -> str:
    e = difference.decomposition
    share, low, high = (float(x[side, region]) for x in (e.share, e.share_low, e.share_high))
    return f"{percent(share)}\n{_ends(low, high, percent).replace(' %', '', 1)}"


def _shift_console(difference: PairExplanation, region: int) -> list[Text]:
    """Say the main shift within a region that is not chance, in the environment's units."""
    shifts = difference.significant_shifts(region)[:1]
    return [Text("→ ").append(literal(_words(difference, shift))) for shift in shifts]


def _words(difference: PairExplanation, shift: Shift) -> str:
    feature = difference.features[shift.feature]
    value, ends = amounts(feature, shift, digits=2)
    return f"{feature.name} {value} ({ends})"


def _say_rest(difference: PairExplanation, wide: bool) -> None:
    e = difference.decomposition
    rest = len(e.order) - len(difference.leading)
    if rest:
        shown = sum(map(difference.share, difference.leading))
        others = "the other region" if rest == 1 else f"the other {rest} regions"
        say(
            f"together {percent(min(shown, 1.0))}; {others} {percent(max(1 - shown, 0.0))} of the "
            f"distance as measured, {rounded(e.distance, 3)}"
        )
    if difference.different and wide:
        say(
            f"parts and intervals ({100 * e.level:g} %) are without what sampling adds, "
            f"{rounded(e.distance - e.estimate, 2)} in all"
        )
    noise = e.regions.noise[list(difference.leading)] if len(e.order) > 1 else e.features.noise
    if noise.any():
        say("* may be chance" if difference.different is not None else "* how sure is not known")


def counted(number: int, what: str) -> str:
    """Write a number of things.

    Examples
    --------
    >>> counted(1, "clip"), counted(2, "clip")
    ('1 clip', '2 clips')
    """
    return f"{number} {what}{'s' * (number != 1)}"


def say_written(folder: Path, *differences: PairExplanation, clips: Sequence[Clip] = ()) -> None:
    """Say what could not be made, and where the rest is."""
    films = [*clips, *(clip for difference in differences for clip in difference.clips)]
    frames = [frame for difference in differences for frame in difference.frames.values()]
    notes = [note for difference in differences for note in difference.notes]
    for note in dict.fromkeys([*notes, *(clip.reason for clip in clips if clip.reason)]):
        say(f"Note: {note}")
    counts = {
        "picture": sum(frame.path is not None for frame in frames),
        "clip": sum(clip.path is not None for clip in films),
    }
    made = " and ".join(counted(count, what) for what, count in counts.items() if count)
    say(f"Numbers: {folder / 'explain.json'}")
    say(f"Page: {folder / 'explain.html'}{f', with {made}' if made else ''}")
