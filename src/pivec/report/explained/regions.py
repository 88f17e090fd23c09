"""The page of regions: a card each, in the order in which episodes get there."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from pivec.report.explained.shell import Embedder, explained_html, notes_section, write_page
from pivec.report.markup import resource, section, shown_text
from pivec.terminal import shortened
from pivec.text import percent, thousands

if TYPE_CHECKING:
    from pivec.explanations.regions.regions import Region, Regions

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
    cards = "".join(_card(region, most, embed) for region in shown)
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


def _card(region: Region, most: float, embed: Embedder) -> str:
    image, visits = "", region.visits[:1]
    if region.frame is not None:
        visits = (region.frame.visit,)
        if address := embed(region.frame.path):
            image = f'<img src="{address}" alt="{shown_text(region.words)}" loading="lazy">'
    most_of, share = _named(region.highest[0]), region.highest[1]
    width = 100 * region.share / most if most else 0.0
    parts = [
        image,
        f"<h3><span>{region.number}</span>{shown_text(region.words)}</h3>",
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


def _tenths(region: Region) -> str:
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
