"""The page's script and styles: the modules of web/ as one text each."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache

from pivec.report.markup import resource

ENTRY = "main.js"
STYLES = ("page.css", "explore.css", "map.css", "panel.css", "tables.css", "live.css", "print.css")
_IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"\./([\w.-]+)";\n', re.MULTILINE)
# What a comment or a blank is not looked for in: texts, and patterns, which follow a sign.
_WHOLE = (
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`"""
    r"|(?:(?<=[=(,])|(?<=[=(,] ))/(?![*/])(?:\\.|[^/\\\n])+/)"
)
_COMMENT = re.compile(_WHOLE + r"|/\*.*?\*/|//[^\n]*", re.DOTALL)
_BLANKS = re.compile(_WHOLE + r"|(?<![\w$+-])[ \t]+|[ \t]+(?![\w$+-])|\n\s*(?=\n|$)")
_EXPORT = re.compile(r"^export\s+", re.MULTILINE)


@cache
def script() -> str:
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
        parts[name] = smaller(_EXPORT.sub("", _IMPORT.sub("", source))).strip()

    add(ENTRY)
    return '"use strict";\n(() => {\n' + "\n".join(parts.values()) + "\n})();\n"


def smaller(code: str) -> str:
    r"""Take comments and needless blanks off a script; lines stay.

    Examples
    --------
    >>> print(smaller('const a = [1, 2];  // two\nb = "x // y", c = /  z/;'))
    const a=[1,2];
    b="x // y",c=/  z/;
    """
    for pattern in (_COMMENT, _BLANKS):
        code = pattern.sub(lambda match: match[1] or "", code)
    return code


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
