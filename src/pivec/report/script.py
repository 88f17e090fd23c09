"""The page's script and styles: the files of web/ as one text each."""

from __future__ import annotations

import base64
import hashlib
import re

from pivec.report.markup import resource

ENTRY, BUILT = "main.js", "built/script.js"
STYLES = ("page.css", "explore.css", "map.css", "panel.css", "tables.css", "live.css", "print.css")
_IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"\./([\w.-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+", re.MULTILINE)


def script() -> str:
    """Give the script of the page: the modules of web/, joined and made small by `make page`."""
    return resource(BUILT).partition("\n")[2]


def joined() -> str:
    """Join the modules, each after those it imports; names at the top level are shared by all."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in parts:
            return
        source = resource(name)
        parts[name] = ""  # modules may import each other
        for other in _IMPORT.findall(source):
            add(other)
        del parts[name]  # after what it needs
        parts[name] = _EXPORT.sub("", _IMPORT.sub("", source))

    add(ENTRY)
    return '"use strict";\n(() => {\n' + "".join(parts.values()) + "})();\n"


def styles() -> str:
    """Join the styles."""
    return "".join(resource(name) for name in STYLES)


def fingerprint(code: str) -> str:
    """Name a script as a content policy does: no other may run.

    Examples
    --------
    >>> fingerprint("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def content_policy(code: str = "", *more: str) -> str:
    """Forbid to load anything but pictures beside the page, and to run anything but its script."""
    runs = fingerprint(code) if code else "'none'"
    rules = (
        "default-src 'none'",
        "img-src 'self' data:",
        "style-src 'unsafe-inline'",
        f"script-src {runs}",
        "base-uri 'none'",
        "form-action 'none'",
        *more,
    )
    return "; ".join(rules)
