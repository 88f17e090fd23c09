"""Pictures below a folder, and nothing else of it."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from urllib.parse import quote

from pivec.reading import read_regular

# No SVG: it may hold scripts.
KINDS = {
    ".webp": "image/webp",
    ".png": "image/png",
    ".gif": "image/gif",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
}
MEDIA = "media"  # where addresses of pictures begin
_LARGEST = 1 << 26  # bytes of a picture


def read_picture(folder: Path, name: str) -> tuple[bytes, str] | None:
    """Read a picture by its name below the folder, with its kind; None if that is no such file.

    Links are followed only within the folder.
    """
    kind = KINDS.get(PurePath(name).suffix.lower())
    if kind is None or "\0" in name or name.startswith(("/", "\\")) or ".." in PurePath(name).parts:
        return None
    root = os.path.realpath(folder)
    file = os.path.realpath(os.path.join(root, name))
    if not PurePath(file).is_relative_to(root) or KINDS.get(PurePath(file).suffix.lower()) != kind:
        return None
    try:
        return read_regular(file, _LARGEST), kind
    except Exception:  # gone, a folder, no picture, too long a name: all the same to who asks
        return None


def address_of(folder: Path, file: Path) -> str:
    """Give the address of a picture, from the page.

    Examples
    --------
    >>> address_of(Path("out"), Path("out/explain/a b.webp"))
    'media/explain/a%20b.webp'
    """
    return f"{MEDIA}/{quote(file.relative_to(folder).as_posix())}"
