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
from pivec.figures import save_png
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
    environments: Sequence[str] | None = None,
    runs: int | None = None,
    cache: str | Path | None = None,
    engine: str | Engine = "auto",  # noqa: ARG001  (as the next, of `on_engine`)
    jobs: int | None = None,  # noqa: ARG001
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
    runs : int, optional
        So many runs of each training, or sets of policies, in place of the scale's.
    cache : path, optional
        Where policies, states and results are kept (``out/cache``); recipes share them.
    engine, jobs : optional
        Where the work runs, as `pivec.using` takes it: speed, never the result.
    seed : int
        Everything random follows from it.
    backend : str
        What steps the environments, as `pivec.collect` takes it.
    progress : bool
        Draw progress bars.
    command : str
        For ``run.json``.

    Returns
    -------
    dict of str to Path
        The folder of each recipe.
    """
    recipes = chosen_recipes(names)
    out = check_folder(out)
    cache = check_folder(cache or out / "cache")
    pipeline = Pipeline(cache, scale, seed=seed, backend=backend, progress=progress)
    plans = [(chosen, counts_of(chosen, scale, environments, runs)) for chosen in recipes]
    folders = {chosen.name: out / scale / chosen.name for chosen in recipes}
    for chosen, counts in plans:
        log = RunLog(folders[chosen.name], command)
        log.settings = {"recipe": chosen.name, "scale": scale, "seed": seed, "counts": vars(counts)}
        with log.stage("all stages that were not there yet"):
            result = chosen.make(pipeline, counts)
            log.settings["trained"] = pipeline.provenance(chosen.needs(pipeline, counts))
            write(chosen, result, folders[chosen.name], scale, counts)
    return folders


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
        save_png(figure, folder / f"{name}.png")
    measured = Measured(recipe, scale, counts, result.numbers)
    for name, text in measured.texts(sorted(result.figures)).items():
        with atomic_write(folder / name, "w") as file:
            file.write(text)
