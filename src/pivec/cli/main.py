"""The command line: parse, call, print."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pivec.__main__ import STOPPED
from pivec.cli.options import (
    Actions,
    Backend,
    Components,
    Deterministic,
    Env,
    EnvArg,
    Episodes,
    FeaturesOf,
    Folder,
    Imports,
    Jobs,
    KeepPolicies,
    MaxStates,
    MaxSteps,
    Method,
    MethodParam,
    Methods,
    NEnvs,
    Out,
    Param,
    Policies,
    Processes,
    Quiet,
    Repetitions,
    Seed,
    Sizes,
    SpaceArgument,
    Stores,
    Trust,
    WithoutNormaliser,
    Wrappers,
    by_method,
    env_and_policies,
    folder,
    names,
    pairs,
    whole_numbers,
)
from pivec.cli.reproduce import reproduce
from pivec.cli.states import collect, export, import_, store_app
from pivec.cli.train import train
from pivec.errors import PivecError, UsageError
from pivec.notices import Notice, Notices
from pivec.terminal import say, shortened

app = typer.Typer(
    name="pivec",
    help="Describe decision-making agents by the states they visit, compare them, and see how they "
    "differ.\n\nStart with [bold]pivec demo[/bold]; then [bold]pivec compare CartPole-v1 "
    "'runs/**/*.zip'[/bold] on your own checkpoints.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(collect)
app.command(name="import")(import_)
app.command()(export)
app.add_typer(store_app, name="store")
app.command()(train)
app.command()(reproduce)

_SHORT = 200  # characters of a warning that is said again, or is not pivec's own


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[  # noqa: ARG001  (read in main, wherever it stands)
        bool, typer.Option("--debug", help="Show the traceback of an error.")
    ] = False,
) -> None:
    if version:
        from pivec import __version__

        say(f"pivec {__version__}")
        raise typer.Exit


@app.command()
def demo(
    env: Annotated[str, typer.Option(help="CartPole-v1 or Pendulum-v1.")] = "CartPole-v1",
    out: Folder = Path("pivec-demo"),
    episodes: Episodes = 50,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Compare policies that ship with pivec: checkpoints of PPO and A2C runs, and random ones."""
    from importlib.resources import files

    shelf = Path(str(files("pivec") / "demo_policies"))
    shipped = sorted(path.name for path in shelf.iterdir() if path.is_dir())
    if env not in shipped:
        raise UsageError(f"the demo has policies for {' and '.join(shipped)}, but not for {env!r}")
    compare(env, [str(shelf / env), "random:2"], out, episodes, seed, quiet=quiet)


@app.command()
def compare(
    env: Env,
    policies: Policies = None,
    out: Folder = Path("pivec-out"),
    episodes: Episodes = 100,
    seed: Seed = 0,
    method: Method = "supervector",
    components: Components = None,
    param: Param = None,
    space: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=folder,
            help="Place the policies in this earlier space, without fitting again.",
        ),
    ] = None,
    actions: Actions = False,
    keep_policies: KeepPolicies = False,
    deterministic: Deterministic = False,
    env_arg: EnvArg = None,
    wrapper: Wrappers = None,
    imports: Imports = None,
    features: FeaturesOf = None,
    max_steps: MaxSteps = None,
    max_states_per_policy: MaxStates = None,
    backend: Backend = "auto",
    jobs: Processes = 1,
    n_envs: NEnvs = None,
    trust: Trust = False,
    without_normaliser: WithoutNormaliser = False,
    quiet: Quiet = False,
) -> None:
    """Collect, describe, measure, map and report, in one go.

    Run the same command again to go on after a stop: policies whose states are kept in DIR/states
    do not act again. Leaves in DIR: states/, space/, distances.csv, map.csv, map.png,
    distances.png, report.html and run.json.
    """
    from pivec.comparison import compare as run

    named, acting = env_and_policies(env, policies)
    result = run(
        named,
        acting,
        out,
        episodes=episodes,
        seed=seed,
        method=method,
        parameters=_parameters(components, param),
        space=space,
        progress=not quiet,
        command=_command(),
        actions=actions,
        keep_policies=keep_policies,
        deterministic=deterministic,
        env_kwargs=pairs(env_arg, "--env-arg"),
        wrappers=wrapper or (),
        imports=imports or (),
        features=features,
        max_steps=max_steps,
        max_states_per_policy=max_states_per_policy,
        backend=backend,
        jobs=jobs,
        n_envs=n_envs,
        trust=trust,
        without_normaliser=without_normaliser,
    )
    if not quiet:
        from pivec.report.console import print_environment, print_normalisers, print_summary

        if named is None:
            print_environment(result.space.collected)
        print_normalisers(result.space.descriptions.policies)
        print_summary(result.labels, result.measured)
    say(f"Report: {result.report}")


@app.command()
def describe(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store of `collect`.")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=folder,
            help="Gets a folder space/; beside the store if not given.",
        ),
    ] = None,
    method: Method = "supervector",
    components: Components = None,
    param: Param = None,
    seed: Seed = 0,
    space: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=folder, help="Describe in this earlier space."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Fit a characterization on a store and describe its policies."""
    from pivec import comparison
    from pivec.characterizations import Space
    from pivec.run_log import Log
    from pivec.states import Store

    found = Store.find(store)
    folder = out or found.path.parent
    earlier = None if space is None else Space.load(space)
    log = Log(_command(), dict(found.settings))
    result = comparison.describe(
        found.load(),
        folder,
        log,
        method,
        _parameters(components, param),
        seed,
        found.settings,
        earlier,
        progress=not quiet,
    )
    say(f"{len(result.descriptions)} policies described by {result.method.name}")
    say(f"Space: {folder / comparison.SPACE}")


@app.command()
def distances(space: SpaceArgument, out: Out = None) -> None:
    """Measure all distances in a space: distances.csv and distances.png."""
    from pivec import comparison
    from pivec.run_log import Log

    found, folder = _space(space, out)
    comparison.measure(found, folder, Log())
    say(f"Distances: {folder / 'distances.csv'}")


@app.command(name="map")
def map_(space: SpaceArgument, out: Out = None, seed: Seed = 0) -> None:
    """Lay the policies of a space out in the plane: map.csv and map.png."""
    from pivec import comparison
    from pivec.run_log import Log

    found, folder = _space(space, out)
    comparison.draw(found, folder, Log(), seed)
    say(f"Map: {folder / 'map.png'}")


@app.command()
def report(space: SpaceArgument, out: Out = None) -> None:
    """Write the page of a space that has been mapped: report.html."""
    from pivec import comparison
    from pivec.run_log import Log

    found, folder = _space(space, out)
    say(f"Report: {comparison.write_page(found, folder, Log())}")


@app.command()
def evaluate(
    stores: Stores,
    methods: Methods = "all",
    sizes: Sizes = "100,50,25,10",
    repetitions: Repetitions = 3,
    param: MethodParam = None,
    out: Folder = Path("pivec-eval"),
    seed: Seed = 0,
    jobs: Jobs = 1,
    quiet: Quiet = False,
) -> None:
    """Find out which characterization to trust: the paper's three metrics, time and memory.

    All methods see the same draws from the trajectories in the store (collect 200 a policy).

    [bold]correlation[/bold] with differences of mean returns: does it see what policies do?

    [bold]error[/bold], off the first draw of the most data: how much data does it need?

    [bold]variance[/bold] over the draws: does it say the same again?

    Example: pivec evaluate runs/a runs/b --methods supervector,gaussian --sizes 50,10

    Run the same command again to go on after a stop. Leaves in DIR: units/ (what was measured),
    evaluation.csv, evaluation.md and evaluation.png. Exits with 1 if a method failed.
    """
    from pivec.evaluation import evaluate as run
    from pivec.evaluation.tables import print_evaluation
    from pivec.report.evaluation_figure import draw_evaluation

    result = run(
        list(stores),
        names(methods, "--methods"),
        whole_numbers(sizes, "--sizes"),
        repetitions,
        seed,
        out,
        progress=not quiet,
        parameters=by_method(pairs(param, "--param"), "--param"),
        jobs=jobs,
    )
    draw_evaluation(out / "evaluation.png", result)
    if not quiet:
        print_evaluation(result)
    say(f"Figure: {out / 'evaluation.png'}")
    if result.problems:
        raise typer.Exit(1)


def _space(path: Path, out: Path | None) -> tuple[Any, Path]:
    from pivec.characterizations import Space
    from pivec.comparison import SPACE

    if out is None:
        out = path.parent if path.name == SPACE else path
    return Space.load(path), out


def _parameters(components: int | None, given: list[str] | None) -> dict[str, Any]:
    parameters = pairs(given, "--param")
    if components is not None:
        parameters["n_components"] = components
    return parameters


def _command() -> str:
    return shlex.join(["pivec", *sys.argv[1:]])


def main() -> None:
    """Run the command line; every mistake is one sentence and an exit code."""
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        with Notices(_warn) as notices:
            try:
                code = app(args=arguments, prog_name="pivec", standalone_mode=False)
            finally:
                _count(notices)
    except KeyboardInterrupt:
        code = STOPPED
    except Exception as error:  # the last line of defence: a sentence, not a traceback
        if debug:
            raise
        code = _explain(error)
    if code == STOPPED:  # which the parser makes of Ctrl-C as well
        message = "pivec: stopped; what is finished is kept, the same command goes on from there"
        say(message, error=True)
    sys.exit(code if isinstance(code, int) else 0)


def _warn(notice: Notice) -> None:
    """Say at once what pivec itself warns of: to read it after hours would be too late."""
    if notice.own:
        say(f"pivec: warning: {notice.text}", error=True)


def _count(notices: Notices) -> None:
    """Say after the result how often a warning came, and shortly what other packages said."""
    for notice in notices.rows:
        times = f" ({notice.times} times)" if notice.times > 1 else ""
        kind = "warning" if notice.own else f"{notice.kind} of another package"
        if times or not notice.own:
            say(f"pivec: {kind}{times}: {shortened(notice.text, _SHORT)}", error=True)


def _explain(error: BaseException) -> int:
    if hasattr(error, "format_message") and hasattr(
        error, "exit_code"
    ):  # a mistake found by the parser
        where = getattr(getattr(error, "ctx", None), "command_path", "pivec")
        say(f"pivec: {error.format_message().rstrip('.')} (see {where} --help)", error=True)
        return int(error.exit_code)
    if isinstance(error, PivecError):
        say(f"pivec: {error}", error=True)
        return error.exit_code
    if isinstance(error, OSError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        say(f"pivec: {where}{error.strerror}", error=True)
        return 1
    if type(error).__name__ == "Abort" and error.__cause__ is not None:
        error = error.__cause__  # the parser takes the end of a file for that of its input
    say(
        f"pivec: unexpected {type(error).__name__}: {error} (run again with --debug for details)",
        error=True,
    )
    return 1


if __name__ == "__main__":
    main()
