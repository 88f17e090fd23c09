"""reproduce: run recipes, and write what they give.

A recipe leaves in ``OUT/<scale>/<recipe>/``: its figures, ``numbers.json``, ``numbers.csv``,
``README.md`` with ours beside the paper's, and ``run.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pivec.errors import UsageError
from pivec.figures import save_figure
from pivec.files import atomic_write, check_folder, make_folder
from pivec.parallel import Engine, on_engine
from pivec.run_log import RunLog
from reproduction.claims import Measured
from reproduction.pipeline import Pipeline
from reproduction.recipes import NAMES, Recipe, Result, recipe


@on_engine
def reproduce(
    names: str | Sequence[str],
    scale: str = "small",
    out: str | Path = "reproduced",
    *,
    engine: str | Engine = "auto",  # noqa: ARG001  (as the next, of `on_engine`)
    jobs: int | None = None,  # noqa: ARG001
    progress: bool = False,
    command: str = "",
    **chosen: Any,
) -> dict[str, Path]:
    """Make figures and tables of the paper; return the folder of each recipe.

    What was made before with the same settings is taken from the cache: after an interruption, the
    same call resumes and gives the same numbers. ``chosen`` are further arguments of `prepare`.
    """
    check_folder(out)
    pipeline, recipes = prepare(names, scale, out, **chosen)
    pipeline = replace(pipeline, progress=progress)
    folders = {made.name: Path(out) / scale / made.name for made, _ in recipes}
    for made, counts in recipes:
        log = RunLog(folders[made.name], command)
        about = {"recipe": made.name, "scale": scale, "seed": pipeline.seed}
        log.settings = {**about, "counts": vars(counts)}
        with log.stage("all stages that were not there yet"):
            result = made.make(pipeline, counts)
            log.settings["trained"] = pipeline.provenance(made.needs(pipeline, counts))
            write(made, result, folders[made.name], scale, counts)
    return folders


def prepare(
    names: str | Sequence[str],
    scale: str = "small",
    out: str | Path = "reproduced",
    *,
    environments: Sequence[str] | None = None,
    runs: int | None = None,
    cache: str | Path | None = None,
    seed: int = 0,
    backend: str = "auto",
) -> tuple[Pipeline, list[tuple[Recipe, Any]]]:
    """Return the pipeline and the recipes with their counts.

    Arguments are the options of the command, see ``python -m reproduction --help``.
    """
    pipeline = Pipeline(
        check_folder(cache or Path(out) / "cache"), scale, seed=seed, backend=backend
    )
    recipes = chosen_recipes(names)
    return pipeline, [(made, counts_of(made, scale, environments, runs)) for made in recipes]


def chosen_recipes(names: str | Sequence[str]) -> list[Recipe]:
    """Return the recipes of these names; "all" is every one."""
    given = [names] if isinstance(names, str) else list(names)
    if not given:
        raise UsageError(f"expected at least one recipe, or all: {', '.join(NAMES)}")
    wanted = [known for name in given for known in (NAMES if name == "all" else (name,))]
    return [recipe(name) for name in dict.fromkeys(wanted)]


def counts_of(
    recipe: Recipe,
    scale: str,
    environments: Sequence[str] | None = None,
    runs: int | None = None,
) -> Any:
    """Return the counts of a recipe at a scale, for some of its environments and runs or all."""
    counts = recipe.counts[scale]
    if runs is not None:
        name = next((name for name in ("runs", "sets") if hasattr(counts, name)), None)
        if name is None:
            raise UsageError(f"{recipe.name} trains no runs that --runs could count: leave it out")
        if runs < 1:
            raise UsageError(f"expected one run or more, but --runs is {runs}")
        counts = replace(counts, **{name: runs})
    if not environments or not hasattr(counts, "environments"):
        return counts
    known = dict.fromkeys(name for any_ in recipe.counts.values() for name in any_.environments)
    for name in environments:
        if name not in known:
            raise UsageError(
                f"{recipe.name} has no environment {name!r}: expected some of {', '.join(known)}"
            )
    return replace(counts, environments=tuple(environments))


def write(recipe: Recipe, result: Result, folder: Path, scale: str, counts: Any) -> None:
    """Write figures, numbers and the page of a recipe, each file whole or not at all."""
    make_folder(folder)
    for name, figure in result.figures.items():
        save_figure(figure, folder / f"{name}.png")
    measured = Measured(recipe, scale, counts, result.numbers)
    for name, text in measured.texts(sorted(result.figures)).items():
        with atomic_write(folder / name, "w") as file:
            file.write(text)
