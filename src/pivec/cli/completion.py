"""What the shell offers after Tab: names of environments, methods, policies and runs.

A person waits for it: nothing heavy is imported, and what cannot be read offers nothing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

import typer

MOST = 200  # names that are offered at once
# Names from files reach the shell, which may evaluate them: no others than these are offered.
HARMLESS = re.compile(r"[\w./+=,@-]+")


def environments(incomplete: str) -> list[str]:
    """Offer the ids that Gymnasium knows by itself; after anything else the shell offers files."""
    import gymnasium

    return _offered(gymnasium.registry, incomplete)


def methods(incomplete: str) -> list[str]:
    """Offer characterizations by name; of several with commas between, the last."""
    from pivec.characterizations import names

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _offered(names(), last)]


def policies(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the policies of the folder that was named before."""
    return _offered(_column(context, "label"), incomplete)


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the runs of the folder that was named before."""
    return _offered(_column(context, "group"), incomplete)


def _column(context: typer.Context, name: str) -> list[str]:
    """Read a column of the map.csv that `pivec compare` leaves in its folder."""
    from pivec.files import open_regular

    # Behind an option that has no value yet nothing is parsed.
    folder = Path(str(context.params.get("space") or (*context.args, "")[0]))
    try:
        with open_regular(folder / "map.csv") as file:
            lines = file.read().decode().splitlines()
        return [row[name] for row in csv.DictReader(lines)]
    except Exception:  # whatever is wrong with the folder, the command itself says it
        return []


def _offered(names: Iterable[str], incomplete: str) -> list[str]:
    fitting = [name for name in names if name.startswith(incomplete) and HARMLESS.fullmatch(name)]
    return list(dict.fromkeys(fitting))[:MOST]
