"""reproduce: run recipes, and write what they give.

A recipe leaves in ``OUT/<scale>/<recipe>/``: its figures, ``numbers.json``, ``numbers.csv``,
``README.md`` with ours beside the paper's, and ``run.json``.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pivec.atomic import atomic_write, check_folder, make_folder
from pivec.errors import UsageError
from pivec.paper.recipes import NAMES, Recipe, Result, recipe
from pivec.paper.workshop import Workshop
from pivec.report.canvas import save_png
from pivec.run_log import RunLog

_HOLDS = {True: "yes", False: "**no**", None: "cannot be told"}


def reproduce(
    names: str | Sequence[str],
    scale: str = "small",
    out: str | Path = "reproduced",
    *,
    environments: Sequence[str] | None = None,
    cache: str | Path | None = None,
    jobs: int = 1,
    seed: int = 0,
    backend: str = "auto",
    progress: bool = False,
    command: str = "",
) -> dict[str, Path]:
    """Make figures and tables of the paper.

    What was made before with the same settings is taken from ``cache``: after a stop, the same
    call goes on and gives the same numbers.

    Parameters
    ----------
    names : str or sequence of str
        Recipes, or ``"all"``.
    scale : {"smoke", "small", "paper"}
        How much of everything: a try of seconds, at most an hour on two cores each, or the paper's.
    out : path
        Gets ``<scale>/<recipe>/`` with figures, ``numbers.json``, ``numbers.csv``, ``README.md``.
    environments : sequence of str, optional
        Only these, in recipes that go through several.
    cache : path, optional
        Where policies, states and results are kept (``out/cache``); recipes share them.
    jobs : int
        Processes side by side: speed, never the result.
    seed : int
        Everything random follows from it.
    backend : str
        What steps the environments: ``auto``, ``gymnasium`` or ``envpool``.
    progress : bool
        Draw progress bars.
    command : str
        For ``run.json``.

    Returns
    -------
    dict of str to Path
        The folder of each recipe.

    Examples
    --------
    >>> import tempfile
    >>> out = tempfile.mkdtemp()
    >>> folder = reproduce("gridworld", "smoke", out)["gridworld"]
    >>> sorted(path.name for path in folder.iterdir())
    ['README.md', 'gridworld.png', 'numbers.csv', 'numbers.json', 'run.json']
    """
    chosen = chosen_recipes(names)
    out = check_folder(out)
    shop = Workshop(
        check_folder(cache or out / "cache"),
        scale,
        jobs=jobs,
        seed=seed,
        backend=backend,
        progress=progress,
    )
    plans = [(one, counts_of(one, shop.scale, environments)) for one in chosen]
    folders = {}
    for one, counts in plans:
        folders[one.name] = out / shop.scale / one.name
        log = RunLog(folders[one.name], command)
        log.settings = {
            "recipe": one.name,
            "scale": shop.scale,
            "seed": seed,
            "counts": {each.name: getattr(counts, each.name) for each in fields(counts)},
        }
        with log.stage("all stages that were not there yet"):
            write(one, one.make(shop, counts), folders[one.name], shop.scale, counts)
    return folders


def chosen_recipes(names: str | Sequence[str]) -> list[Recipe]:
    """Return the recipes of these names; "all" is every one."""
    given = [names] if isinstance(names, str) else list(names)
    if not given:
        raise UsageError(f"expected at least one recipe, or all: {', '.join(NAMES)}")
    wanted = [each for name in given for each in (NAMES if name == "all" else (name,))]
    return [recipe(name) for name in dict.fromkeys(wanted)]


def counts_of(one: Recipe, scale: str, environments: Sequence[str] | None) -> Any:
    """Return the counts of a recipe at a scale, for some of its environments or all."""
    counts = one.counts[scale]
    own = getattr(counts, "environments", None)
    if not environments or own is None:
        return counts
    known = dict.fromkeys(name for each in one.counts.values() for name in each.environments)
    for name in environments:
        if name not in known:
            raise UsageError(
                f"{one.name} has no environment {name!r}: expected some of {', '.join(known)}"
            )
    return replace(counts, environments=tuple(environments))


def write(one: Recipe, result: Result, folder: Path, scale: str, counts: Any) -> None:
    """Write figures, numbers and the page of a recipe, each file whole or not at all."""
    make_folder(folder)
    for name, figure in result.figures.items():
        save_png(figure, folder / f"{name}.png")
    findings = [vars(each) for each in result.findings]
    content = {"recipe": one.name, "scale": scale, "findings": findings, **result.numbers}
    _write_text(folder / "numbers.json", json.dumps(content, indent=1, default=float) + "\n")
    _write_text(folder / "numbers.csv", _csv(result.rows))
    _write_text(folder / "README.md", page(one, result, scale, counts))


def page(one: Recipe, result: Result, scale: str, counts: Any) -> str:
    """Write the page of a recipe: what it shows, the figures, ours beside the paper's."""
    parts = [f"# {one.name}", one.shows + "."]
    told = ", ".join(f"{each.name} {_shown(getattr(counts, each.name))}" for each in fields(counts))
    parts.append(f"Scale `{scale}`: {told}.")
    parts += [f"![{name}]({name}.png)" for name in result.figures]
    if result.findings:
        rows = "\n".join(
            f"| {each.claim} | {each.paper} | {each.ours} | {_HOLDS[each.holds]} |"
            for each in result.findings
        )
        parts.append(f"| claim | paper | ours | holds |\n| --- | --- | --- | --- |\n{rows}")
    if result.tables:
        parts.append(result.tables.strip())
    if result.notes:
        parts.append("\n".join(f"- {note}" for note in result.notes))
    return "\n\n".join(parts) + "\n"


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(str, value)) + ")"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _csv(rows: Sequence[Any]) -> str:
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def _write_text(path: Path, text: str) -> None:
    with atomic_write(path, "w") as file:
        file.write(text)
