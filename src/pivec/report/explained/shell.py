"""The shell of pages that explain: one HTML file with its pictures and clips in it."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

from pivec.atomic import atomic_write
from pivec.report.markup import filled, resource, section, shown_text
from pivec.report.script import content_policy
from pivec.run_log import versions
from pivec.terminal import encodable

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
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in figures.items()
    )
    return filled(
        "page.html",
        {
            "title": shown_text(title),
            "heading": shown_text(heading),
            "skip": '<a class="skip" href="#reading">Skip to how to read this</a>',
            "environment": shown_text(environment),
            "summary": lead,
            "figures": cells,
            "sections": "\n".join(part for part in sections if part),
            "version": shown_text(versions().get("pivec", "")),
            "policy": content_policy(),
            "style": resource("page.css") + resource("explained.css"),
            "script": "",
        },
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


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page; what was there is replaced when the new one is whole."""
    with atomic_write(path, "w") as file:
        file.write(encodable(page))
