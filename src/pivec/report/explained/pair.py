"""The page of what differs between policies: one HTML file, pictures and clips within it."""

from __future__ import annotations

import math
import os

from pivec.explanations.pairs.difference import Difference
from pivec.explanations.pairs.overview import Overview
from pivec.report.explained.parts import (
    clip_figure,
    features_table,
    parts_table,
    reel,
    region_cards,
    side,
)
from pivec.report.explained.shell import (
    Embed,
    Embedder,
    explained_html,
    made_section,
    notes_section,
    write_page,
)
from pivec.report.markup import filled, section, shown_text
from pivec.text import interval, percent, rounded, thousands

_FEATURES = "Means over all of the time, and how they shift from the first policy to the second. "
_WITHIN = (
    "The share of the distance is about where they are within regions; how often they are there "
    "has no feature."
)
_WIDTH = "The share of the distance is about means, and about how widely states spread around them."


def write_difference(
    path: str | os.PathLike[str], difference: Difference, command: str = ""
) -> None:
    """Write the page of one difference; what was there is replaced when the new page is whole."""
    write_page(path, difference_html(difference, command))


def difference_html(difference: Difference, command: str = "") -> str:
    """Make the page that `write_difference` writes."""
    a, b = difference.labels
    embed = Embedder()
    sections = [
        *difference_sections(difference, embed),
        reading_section(difference.explanation.level),
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
        reading_section(overview.differences[0][1].explanation.level),
        made_section(command),
    ]
    lead = "What makes notable pairs of policies differ, and how behaviours look."
    return explained_html("What differs", overview.environment, lead, {}, sections)


def _chapter(made: str) -> str:
    """Let a section begin something new."""
    return made.replace("<section", '<section class="chapter"', 1)


def lead_of(difference: Difference) -> str:
    """Say the headline; both policies have the colour that they have in the pictures."""
    a, b = difference.labels
    words = difference.headline().removeprefix(f"{a} and {b}")
    return f"{side(a, 0)} and {side(b, 1)}{shown_text(words)}."


def _figures(difference: Difference) -> dict[str, str]:
    e = difference.explanation
    shown = rounded(e.distance if difference.told_apart is None else max(e.estimate, 0.0), 3)
    ends = "" if math.isnan(e.low) else f", {interval(max(e.low, 0.0), e.high)}"
    figures = {f"distance{ends}": shown}
    n_regions = len(e.order)
    if n_regions > 1:
        sure = int((~e.regions.noise).sum())
        figures["regions differ beyond chance"] = f"{thousands(sure)} of {thousands(n_regions)}"
    often = e.kinds.get("how often")
    if often is not None and difference.told_apart and n_regions > 1:
        share = float(often.measured.sum()) / e.distance
        figures["of it due to how often they are there"] = percent(share)
    figures["episodes played"] = " and ".join(map(thousands, difference.episodes))
    if all(map(math.isfinite, difference.mean_returns)):
        figures["mean returns"] = " and ".join(rounded(x, 3) for x in difference.mean_returns)
    return figures


def difference_sections(difference: Difference, embed: Embed, prefix: str = "") -> list[str]:
    """Make the sections of one difference; the prefix keeps names apart where there are several."""
    alone = len(difference.explanation.order) == 1
    cards = region_cards(difference, embed)
    within = _FEATURES + (_WIDTH if alone else _WITHIN)
    faces = " Pictures show the state of each policy that is nearest to the middle of the region."
    made = {
        "parts": ("Where the distance comes from", _about_parts(difference), ""),
        "features": ("Feature by feature", within, features_table(difference)),
        "clips": ("To watch", "", reel(difference.clips, embed) if difference.clips else ""),
        "regions": (
            "Region by region",
            f"Largest part first.{faces * bool(difference.stills)}",
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


def _about_parts(difference: Difference) -> str:
    e = difference.explanation
    about = "The shares add up to the whole distance, as it was measured. "
    if difference.told_apart is False:
        return about + "<strong>Chance explains it as well.</strong>"
    if difference.told_apart:
        noise, whole = rounded(e.distance - e.estimate, 2), rounded(e.distance, 3)
        about += f"Sampling adds {noise} to it, of {whole}, spread over all regions."
    return about


def reading_section(level: float) -> str:
    """Explain what parts, intervals, pictures and clips say."""
    return section(
        "reading", "How to read this", filled("explained.html", {"level": percent(level)})
    )
