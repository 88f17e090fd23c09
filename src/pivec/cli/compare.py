"""The commands of a comparison, in one go or a stage at a time, and `evaluate`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pivec.cli import completion
from pivec.cli.options import (
    Env,
    Folder,
    Out,
    Policies,
    Quiet,
    Seed,
    by_method,
    env_and_policies,
    names,
    pairs,
    whole_numbers,
    with_options,
)
from pivec.errors import UsageError
from pivec.options import CollectOptions, DescribeOptions, EngineOptions, PrecisionOptions
from pivec.parallel import using
from pivec.terminal import say

SpaceArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder of `compare`, or a space of `describe`.")
]

Stores = Annotated[
    list[Path],
    typer.Argument(metavar="STORE", help="Stores of `collect`, each a set of policies."),
]
Methods = Annotated[
    str,
    typer.Option(
        help="Characterizations by name, with commas between; [bold]all[/bold] is every one.",
        autocompletion=completion.methods,
    ),
]
Sizes = Annotated[
    str, typer.Option(help="Numbers of trajectories of each policy, with commas between.")
]
Repetitions = Annotated[int, typer.Option(help="Draws of each number of trajectories.", min=1)]
MethodParam = Annotated[
    list[str] | None,
    typer.Option(
        metavar="METHOD.KEY=VALUE", help="An argument of one characterization; may be repeated."
    ),
]


def demo(
    env: Annotated[str, typer.Option(help="CartPole-v1 or Pendulum-v1.")] = "CartPole-v1",
    out: Folder = Path("pivec-demo"),
    episodes: Annotated[int, typer.Option(help="Episodes each policy plays.", min=1)] = 50,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Compare policies that ship with pivec: checkpoints of PPO and A2C runs, and random ones."""
    from importlib.resources import files

    shelf = Path(str(files("pivec") / "demo_policies"))
    shipped = sorted(path.name for path in shelf.iterdir() if path.is_dir())
    if env not in shipped:
        raise UsageError(f"the demo has policies for {' and '.join(shipped)}, but not for {env!r}")
    policies = [str(shelf / env), "random:2"]
    _compare(env, policies, out, CollectOptions(episodes, seed), DescribeOptions(), quiet)


@with_options
def compare(
    env: Env,
    policies: Policies = None,
    out: Folder = Path("pivec-out"),
    *,
    collecting: CollectOptions,
    describing: DescribeOptions,
    precision: PrecisionOptions,
    quiet: Quiet = False,
) -> None:
    """Collect, describe, measure, map and report, in one go.

    Recorded states need no ENV and nobody acts: pivec compare states.parquet, 'demos/*.hdf5',
    minari:NAME or a STORE (see `pivec import`).

    Run the same command again to go on after a stop: policies whose states are kept in DIR/states
    do not act again; asked for more --episodes they play the missing ones. With --until they play
    until distances are that sure. Leaves in DIR: states/, space/, distances.csv (of more than 1000
    policies distances.npz), pairs.csv, map.csv, map.png, distances.png, report.html and run.json.

    pairs.csv tells how sure each distance is: [bold]low[/bold] and [bold]high[/bold] are its 95 %
    interval; with a [bold]q[/bold] above 0.05 the two policies cannot be told apart.
    """
    named, acting = env_and_policies(env, policies)
    _compare(named, acting, out, collecting, describing, quiet, precision)


def _compare(
    env: str | None,
    policies: list[str],
    out: Path,
    collecting: CollectOptions,
    describing: DescribeOptions,
    quiet: bool,
    precision: PrecisionOptions | None = None,
) -> None:
    from pivec.characterizations import background_words
    from pivec.workflows import compare_with

    log = _log(out)
    result = compare_with(
        env, policies, log, collecting, describing, progress=not quiet, precision=precision
    )
    if not quiet:
        from pivec.report import print_environment, print_normalisers, print_summary

        if env is None:
            print_environment(result.space.collected)
        print_normalisers(result.space.descriptions.policies)
        print_summary(result.findings)
        if words := background_words(log.settings):
            say(words)
    say(f"Report: {result.report}")


@with_options
def describe(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store of `collect`.")],
    out: Out = None,
    *,
    describing: DescribeOptions,
    running: EngineOptions,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Fit a characterization on a store and describe its policies, in a folder space/."""
    from pivec.states import Store
    from pivec.workflows import compare as comparison

    kept = Store.find(store)
    if out is None and isinstance(kept.path, str):
        raise UsageError(f"{kept.path} is elsewhere: say with --out which folder to write to")
    log = _log(out or Path(kept.path).parent)
    log.settings |= kept.settings
    method, earlier = comparison.start(describing, seed, progress=not quiet)
    with using(running.engine, running.jobs):
        space = comparison.describe(kept.load(), log, method, earlier, kept.settings)
        space.save(log.folder / "space")
    say(f"{len(space.descriptions)} policies described by {method.name}")
    say(f"Space: {log.folder / 'space'}")


@with_options
def distances(space: SpaceArgument, out: Out = None, *, running: EngineOptions) -> None:
    """Measure all distances in a space: distances.csv, pairs.csv and distances.png.

    distances.csv is the matrix as measured; of more than 1000 policies distances.npz has it, and of
    more than 4000 the 20 nearest others of each policy instead. pairs.csv has a line a pair,
    nearest first (of more than 100 000 pairs each policy's nearest others and the farthest
    pairs): the distance without what chance adds to it, its 95 % interval (low, high), the
    share of time in the same places (overlap), and the p-value of "the same behaviour", by
    itself (p) and among all pairs (q).
    """
    from pivec.figures import save_png
    from pivec.report import (
        Findings,
        distances_file,
        heatmap_figure,
        write_distances,
        write_pairs_csv,
    )
    from pivec.workflows import compare as comparison

    described, log = _space(space, out)
    with using(running.engine, running.jobs):
        measured = comparison.measure(described, log)
    findings = Findings.of(described, measured, log)
    write_distances(log.folder, findings.policies.labels, measured)
    write_pairs_csv(log.folder / "pairs.csv", findings.pair_rows)
    save_png(heatmap_figure(findings), log.folder / "distances.png")
    say(f"Distances: {log.folder / distances_file(len(described.descriptions))}")


def map_(space: SpaceArgument, out: Out = None, seed: Seed = 0) -> None:
    """Lay the policies of a space out in the plane: map.csv and map.png."""
    from pivec.figures import save_png
    from pivec.report import Findings, map_figure, measure_space, write_map_csv
    from pivec.workflows import compare as comparison

    described, log = _space(space, out)
    described = comparison.lay_out(described, log, seed)
    findings = Findings.of(described, measure_space(described, log.folder), log)
    write_map_csv(log.folder / "map.csv", findings.policies)
    figure = map_figure(findings.policies, findings.subtitle, links=findings.links)
    save_png(figure, log.folder / "map.png")
    say(f"Map: {log.folder / 'map.png'}")


def report(space: SpaceArgument, out: Out = None) -> None:
    """Write the page of a space that has been mapped: report.html."""
    from pivec.workflows import compare as comparison

    findings = comparison.write_report(*_space(space, out))
    say(f"Report: {findings.log.folder / 'report.html'}")


@with_options
def evaluate(
    stores: Stores,
    methods: Methods = "all",
    sizes: Sizes = "100,50,25,10",
    repetitions: Repetitions = 3,
    param: MethodParam = None,
    out: Folder = Path("pivec-eval"),
    seed: Seed = 0,
    *,
    running: EngineOptions,
    quiet: Quiet = False,
) -> None:
    """Find out which characterization to trust: the paper's three metrics, time and memory.

    All methods see the same draws from the trajectories in the store (collect 200 a policy).

    [bold]correlation[/bold] with differences of mean returns: does it see what policies do?

    [bold]error[/bold], off the first draw of the most data: how much data does it need?

    [bold]variance[/bold] over the draws: does it say the same again?

    Example: pivec evaluate runs/a runs/b --methods supervector,gaussian --sizes 50,10

    With several --jobs units share the cores: their times are longer.

    Run the same command again to go on after a stop. Leaves in DIR: units/ (what was measured),
    evaluation.csv, evaluation.md and evaluation.png. Exits with 1 if a method failed.
    """
    from pivec.report import draw_evaluation
    from pivec.statistics import print_evaluation
    from pivec.workflows.evaluate import evaluate as run

    result = run(
        list(stores),
        names(methods, "--methods"),
        whole_numbers(sizes, "--sizes"),
        repetitions,
        seed,
        out,
        progress=not quiet,
        parameters=by_method(pairs(param, "--param"), "--param"),
        **vars(running),
    )
    draw_evaluation(out / "evaluation.png", result)
    if not quiet:
        print_evaluation(result)
    say(f"Figure: {out / 'evaluation.png'}")
    if result.problems:
        raise typer.Exit(1)


COMMANDS = (demo, compare, describe, distances, map_, report, evaluate)


def _space(path: Path, out: Path | None) -> tuple[Any, Any]:
    """Open a space, and the log of the folder that its results go to."""
    from pivec.characterizations import Space
    from pivec.report import SPACE
    from pivec.run_log import RunLog

    folder = out or (path.parent if path.name == SPACE else path)
    return Space.load(path), RunLog(folder)


def _log(folder: Path) -> Any:
    """Begin the log of a folder with this command."""
    from pivec.files import check_folder
    from pivec.run_log import RunLog

    return RunLog(check_folder(folder), shlex.join(["pivec", *sys.argv[1:]]))
