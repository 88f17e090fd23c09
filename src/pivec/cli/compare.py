"""Commands that start from policies: demo, compare, same, plan, watch, evaluate and encoder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from pivec.arguments import pairs
from pivec.cli.options import (
    Folder,
    Json,
    Margin,
    Quiet,
    Seed,
    Sources,
    command_line,
    complete_method,
    env_and_policies,
    figure_format,
    names,
    whole_numbers,
    with_options,
)
from pivec.errors import UsageError
from pivec.files import make_folder
from pivec.options import (
    CollectOptions,
    DescribeOptions,
    EncoderOptions,
    EngineOptions,
    FigureOptions,
    PlanOptions,
    PrecisionOptions,
    WatchOptions,
)
from pivec.terminal import say

_EXIT_CODES = {"same": 0, "different": 1}
_UNCLEAR, _FAILED = 3, 2  # as with `diff`, 1 is an answer

Level = Annotated[float, typer.Option(help="Confidence level of bounds and tests")]


@with_options(FigureOptions)
def demo(
    env: Annotated[str, typer.Option(help="CartPole-v1 or Pendulum-v1")] = "CartPole-v1",
    out: Folder = Path("pivec-demo"),
    episodes: Annotated[int, typer.Option(help="Episodes per policy", min=1)] = 50,
    seed: Seed = 0,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Compare the bundled policies: PPO and A2C checkpoints, and random policies.

    The policies are copied to DIR/policies/, for trying the other commands.
    """
    import shutil
    from importlib.resources import files

    bundled = Path(str(files("pivec") / "demo_policies"))
    known = sorted(path.name for path in bundled.iterdir() if path.is_dir())
    if env not in known:
        raise UsageError(f"the demo has policies for {' and '.join(known)}, but not for {env!r}")
    copies = make_folder(out / "policies" / env)
    shutil.copytree(bundled / env, copies, dirs_exist_ok=True)
    _compare(
        env, [str(copies), "random:2"], out, quiet, options | {"episodes": episodes, "seed": seed}
    )


@with_options(CollectOptions, DescribeOptions, PrecisionOptions, FigureOptions)
def compare(
    sources: Sources, *, out: Folder = Path("pivec-out"), quiet: Quiet = False, **options: Any
) -> None:
    """Compare policies: collect states, measure distances, draw a map and write a report.

    Example: pivec compare CartPole-v1 'runs/**/*.zip' random --out out

    For recorded data, give states.parquet, 'demos/*.hdf5', a LeRobot dataset, minari:NAME or a
    STORE. Run the same command again to resume, or with more --episodes to add episodes. Writes
    states/, space/, distances.csv, pairs.csv, map.csv, map.png, distances.png, report.html and
    run.json to DIR.
    """
    env, policies = env_and_policies(sources)
    _compare(env, policies, out, quiet, options)


def _compare(
    env: str | None, policies: list[str], out: Path, quiet: bool, options: dict[str, Any]
) -> None:
    from pivec.characterizations import background_words
    from pivec.cli.explain import illustrate
    from pivec.report import print_environment, print_normalisers, print_summary
    from pivec.run_log import RunLog
    from pivec.workflows.comparison import compare as run

    command = command_line()
    result = run(env, policies, out, progress=not quiet, command=command, **options)
    if not quiet:
        if env is None:
            print_environment(result.space.collected, result.space.descriptions.policies)
        print_normalisers(result.space.descriptions.policies)
        print_summary(result.findings)
        if words := background_words(RunLog(out).settings):
            say(words)
    illustrate(result, options["format"], not quiet)
    say(f"Report: {result.report}")


@with_options(CollectOptions, DescribeOptions)
def same(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="[ENV] A [B]",
            help="Two policies: checkpoints, [bold]random[/bold], [bold]module:object[/bold], "
            "stores or folders of `compare` ([bold]FOLDER:label[/bold] selects a policy; default: "
            "the last step of a run), also as [bold]POLICY@ENV[/bold]. ENV is needed if neither "
            "files nor stores name it.",
        ),
    ],
    *,
    against: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Compare A with the policy in this space (DIR:label)"),
    ] = None,
    margin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X|VIEW=X",
            help="Largest distance that does not matter, in all views or in one \\[0.02; length, "
            "return and outcomes 0.04, kinds 0.05]; repeatable",
        ),
    ] = None,
    view: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare in this view only: moves, kinds, order, features, pairs, length, return, "
            "rates (outcomes such as success), outcomes (other numbers), or a single feature or "
            "outcome; repeatable"
        ),
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Compare episodes of the same [bold]seed[/bold] (which policies are then run "
            "with), task or other outcome with each other",
        ),
    ] = None,
    level: Level = 0.95,
    decide: Annotated[
        bool,
        typer.Option(
            "--decide",
            help="Play until the verdict is clear, instead of --episodes; errors are as rare as "
            "for a fixed number",
        ),
    ] = False,
    at_most: Annotated[
        int, typer.Option(metavar="N", min=1, help="With --decide: the most episodes per policy")
    ] = 2000,
    as_json: Json = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the result as a JUnit test")
    ] = None,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Test whether two policies behave the same.

    They are compared in several views: moves (states and steps), kinds of episodes, order within
    episodes, each feature, pairs of features, the length of episodes, the return and other
    outcomes, such as success.

    [bold]Same[/bold] (exit code 0): the distance is below its margin in every view, with 95 %
    confidence.

    [bold]Different[/bold] (1): it is above its margin in some view, with 95 % confidence.

    [bold]Different, size unclear[/bold] (3): there is a difference, which may be below the margin.

    [bold]Unclear[/bold] (3): there are too few episodes; the number needed is estimated.

    Exit code 2 means that the command failed. Example: pivec same CartPole-v1 old.zip new.zip

    In continuous integration: pivec same new.zip --against accepted --junit same.xml
    """
    import gymnasium

    from pivec.report import print_verdict, say_json, write_junit
    from pivec.workflows.equivalence import same as run

    n = 2 if against is None else 1
    if len(sources) not in (n, n + 1):
        expected = "[ENV] A B" if against is None else "[ENV] POLICY with --against"
        raise UsageError(f"expected {expected}, but got {len(sources)}")
    env = sources[0] if len(sources) > n else None
    if env is None and sources[0] in gymnasium.registry and not Path(sources[0]).exists():
        raise UsageError(f"expected {n} policies after the environment {sources[0]}, got {n - 1}")
    if junit is not None and not junit.parent.is_dir():
        raise UsageError(f"cannot write {junit}: {junit.parent} is not a folder")
    start = time.perf_counter()
    try:
        answer = run(
            sources[-n],
            sources[-1] if n == 2 else None,
            env,
            against=against,
            margin=_margins(margin or []),
            views=view or (),
            pair=pair,
            level=level,
            decide=decide,
            at_most=at_most,
            progress=not quiet,
            **options,
        )
        if junit is not None:
            write_junit(junit, answer, time.perf_counter() - start)
        if as_json:
            say_json(answer.as_json())
        else:
            print_verdict(answer)
    except Exception as error:
        error.exit_code = _FAILED  # type: ignore[attr-defined]
        raise
    raise typer.Exit(_EXIT_CODES.get(answer.verdict, _UNCLEAR))


def _margins(given: list[str]) -> float | dict[str, float] | None:
    """Read ``0.02`` or ``VIEW=0.05``."""
    margins: dict[str, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            margins[name] = float(number)
        except ValueError:
            raise UsageError(f"--margin must be a number or VIEW=NUMBER, but is {text!r}") from None
    return margins[""] if list(margins) == [""] else margins or None


@with_options(PlanOptions, DescribeOptions)
def plan(
    sources: Sources,
    *,
    precision: Annotated[
        float, typer.Option(metavar="X", help="Required half-width of 95 % intervals")
    ] = 0.02,
    margin: Margin = None,
    level: Level = 0.95,
    as_json: Json = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Estimate from a small sample how many episodes each policy needs.

    For each policy, in the pair that needs most: the number of episodes until the interval of a
    distance is as narrow as --precision, and until `pivec same` reaches the right verdict in 90 %
    of cases.

    Example: pivec plan CartPole-v1 runs --precision 0.02
    """
    from pivec.report import plan_json, print_plan, say_json
    from pivec.workflows.equivalence import plan as run

    env, policies = env_and_policies(sources)
    result = run(
        env, policies, precision, margin=margin, level=level, progress=not quiet, **options
    )
    if as_json:
        say_json(plan_json(result))
    else:
        print_plan(result)


@with_options(CollectOptions, DescribeOptions, WatchOptions, FigureOptions)
def watch(
    sources: Sources, *, out: Folder = Path("pivec-out"), quiet: Quiet = False, **options: Any
) -> None:
    """Compare checkpoints while training writes them, until you press Ctrl-C.

    Runs each new checkpoint and places it among the others; updates all files of `pivec compare`
    in DIR, and the live page of `pivec serve DIR`. Folders and globs need not exist yet.

    The space is fitted on the first --at-least checkpoints and then stays fixed; the column
    [bold]placed[/bold] of map.csv marks later checkpoints. If --until-idle ends it with fewer, but
    at least two, these are compared. Deleted checkpoints stay in DIR; overwritten ones are
    replaced. Run the same command again to resume.

    Example: pivec watch CartPole-v1 runs/ --out live --episodes 20
    """
    from pivec.text import n_policies
    from pivec.workflows.watch import watch as run

    env, policies = env_and_policies(sources)
    for part in run(env, policies, out, progress=not quiet, command=command_line(), **options):
        n_all = n_policies(len(part.space.descriptions) - part.space.n_reference)
        words = f"{len(part.new)} new, {f'space fitted on {n_all}' if part.fitted else n_all}"
        if part.outside:
            words += f", {len(part.outside)} outside the space"
        say(f"{words}, {part.seconds:.2g} s")


@with_options(EngineOptions, FigureOptions)
def evaluate(
    stores: Annotated[
        list[Path], typer.Argument(metavar="STORE...", help="Stores, each a set of policies.")
    ],
    *,
    methods: Annotated[
        str,
        typer.Option(
            help="Characterizations separated by commas (see `pivec compare --method`), or all",
            autocompletion=complete_method,
        ),
    ] = "all",
    sizes: Annotated[
        str, typer.Option(help="Numbers of episodes per policy, separated by commas")
    ] = "100,50,25,10",
    repetitions: Annotated[int, typer.Option(help="Number of samples of each size", min=1)] = 3,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD.KEY=VALUE", help="Argument of one characterization; repeatable"
        ),
    ] = None,
    out: Folder = Path("pivec-eval"),
    seed: Seed = 0,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Evaluate characterizations by the paper's three metrics, time and memory.

    All methods use the same samples of the episodes in the store (collect 200 per policy).

    [bold]correlation[/bold] with differences in mean return: does it reflect what policies do?

    [bold]error[/bold] relative to the first sample of the largest size: how much data is needed?

    [bold]variance[/bold] over samples: is it repeatable?

    Example: pivec evaluate runs/a runs/b --methods supervector,gaussian --sizes 50,10

    With several --jobs, methods share the cores and take longer. Run the same command again to
    resume. Writes units/ (the measurements), evaluation.csv, evaluation.md and evaluation.png to
    DIR. The exit code is 1 if a method failed.
    """
    from pivec.figures import save_figure
    from pivec.report import evaluation_figure
    from pivec.statistics import print_evaluation
    from pivec.workflows.evaluate import evaluate as run

    kind, by_method = figure_format(options), dict[str, dict[str, Any]]()
    for full, value in pairs(parameters, "--parameters").items():
        method, _, key = full.partition(".")
        if not method or not key:
            raise UsageError(f"--parameters expects METHOD.KEY=VALUE, but got {full!r}")
        by_method.setdefault(method, {})[key] = value
    result = run(
        list(stores),
        names(methods, "--methods"),
        whole_numbers(sizes, "--sizes"),
        repetitions,
        seed,
        out,
        progress=not quiet,
        parameters=by_method,
        **options,
    )
    picture = out / f"evaluation.{kind}"
    save_figure(evaluation_figure(result), picture)
    if not quiet:
        print_evaluation(result)
    say(f"Figure: {picture}")
    if result.problems:
        raise typer.Exit(1)


@with_options(EncoderOptions)
def encoder(
    sources: Sources,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write")] = Path(
        "encoder.safetensors"
    ),
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Fit an encoder to the images that policies see, for use as --features.

    The encoder is a small convolutional autoencoder fitted on a random sample of distinct images,
    or, with --method random, random convolutions, which do not need torch. Then compare policies
    with the same wrappers:

      pivec encoder ALE/Breakout-v5 'runs/*.zip' --atari --out breakout.safetensors

      pivec compare ALE/Breakout-v5 'runs/*.zip' --atari --features breakout.safetensors
    """
    from pivec.workflows.encoder import fit_encoder

    env, policies = env_and_policies(sources)
    fit = fit_encoder(env, policies, out, progress=not quiet, **options)
    if not quiet:
        pixels = " x ".join(map(str, fit.shape))
        whose = "held-out images" if fit.method == "autoencoder" else "the random convolutions"
        say(
            f"{fit.size} features of {pixels} pixels, fitted on {fit.frames} images of "
            f"{fit.policies} policies; they explain {fit.explained:.1%} of the variance of {whose}"
        )
        say(f"To use it: pivec compare ... --features {out}")
    say(str(out))
