"""The page of unusual episodes: figure, table, clips, and states where no policy has been."""

from __future__ import annotations

import os
from html import escape

from pivec.explanations.unusual.outside import Outside
from pivec.explanations.unusual.result import Unusual, UnusualEpisode
from pivec.report.explained.parts import reel
from pivec.report.explained.shell import (
    Embedder,
    explained_html,
    made_section,
    notes_section,
    write_page,
)
from pivec.report.explained.unusual import OUTSIDE, beside, times
from pivec.report.markup import count_cell, number_cell, picture, section, shown_text, table
from pivec.text import percent, thousands

_ROWS = 50  # policies with states outside


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


def _outside(outside: Outside) -> str:
    shown = [row for row in outside.policies if row.outside][:_ROWS]
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
