"""The commands that answer a question about policies: parse, call, print."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from pivec.arguments import Range
from pivec.cli.options import Env, Policies, Quiet, env_and_policies, with_options
from pivec.errors import UsageError
from pivec.options import CollectOptions, DescribeOptions

EXIT_CODES = {"same": 0, "different": 1, "unclear": 3}
_FAILED = 2  # as `diff` does it: 1 is an answer

Sides = Annotated[
    list[str],
    typer.Argument(
        metavar="[ENV] A B",
        help="Two policies: checkpoints, [bold]random[/bold], [bold]module:object[/bold], stores "
        "of `collect` or folders of `compare`. Of several policies the last step of a run is "
        "taken; name another as [bold]FOLDER:label[/bold]. ENV where neither files nor stores "
        "tell it.",
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Hold one policy against an accepted one: that of a folder of `compare` or a space, "
        "DIR:label if it has several. Nothing is fitted again.",
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        help="The distance that does not matter; 0.02 for visitation, see the documentation."
    ),
]
Level = Annotated[float, typer.Option(help="Certainty of bounds and tests.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")]
JUnit = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the answer as a JUnit test for a pipeline."),
]


@dataclass(frozen=True)
class PilotOptions(CollectOptions):  # noqa: D101
    __doc__ = CollectOptions.__doc__
    episodes: Annotated[int, Range(2, most=10**9)] = 20


@contextmanager
def _failing_apart() -> Iterator[None]:
    """Let a failure have an exit code that is no answer."""
    try:
        yield
    except Exception as error:
        error.exit_code = _FAILED  # type: ignore[attr-defined]
        raise


@with_options
def same(
    policies: Sides,
    *,
    against: Against = None,
    margin: Margin = None,
    level: Level = 0.95,
    as_json: Json = False,
    junit: JUnit = None,
    collecting: CollectOptions,
    describing: DescribeOptions,
    quiet: Quiet = False,
) -> None:
    """Tell whether two policies behave alike: the same, different, or cannot tell yet.

    [bold]The same[/bold] (exit code 0): their distance is below the margin, with 95 % certainty.

    [bold]Different[/bold] (1): it is not, and a permutation test over episodes finds a difference.

    [bold]Cannot tell yet[/bold] (3): too few episodes; about how many more is said.

    Exit code 2 is a failure. Example: pivec same CartPole-v1 old.zip new.zip

    A gate for continuous integration: pivec same new.zip --against accepted --junit same.xml
    """
    from pivec.report import print_sameness, say_json, write_junit
    from pivec.workflows import same_with

    env, a, b = _parted(policies, against is not None)
    if junit is not None and not junit.parent.is_dir():
        raise UsageError(f"cannot write {junit}: {junit.parent} is not a folder")
    begin = time.perf_counter()
    with _failing_apart():
        answer = same_with(
            a, b, env, against, collecting, describing, margin, level, progress=not quiet
        )
        if junit is not None:
            write_junit(junit, answer, time.perf_counter() - begin)
        if as_json:
            say_json(answer.as_json())
        else:
            print_sameness(answer)
    raise typer.Exit(EXIT_CODES[answer.verdict])


def _parted(given: list[str], gate: bool) -> tuple[str | None, str, str | None]:
    """Tell environment and policies apart by how many there are."""
    least = 1 if gate else 2
    if len(given) not in (least, least + 1):
        expected = "[ENV] POLICY with --against" if gate else "[ENV] A B"
        raise UsageError(f"expected {expected}, but got {len(given)} arguments")
    env = given[0] if len(given) > least else None
    sides = given[-least:]
    return env, sides[0], None if gate else sides[1]


@with_options
def plan(
    env: Env,
    policies: Policies = None,
    *,
    precision: Annotated[
        float, typer.Option(help="How far a 95 % interval may reach to either side.")
    ] = 0.02,
    margin: Margin = None,
    level: Level = 0.95,
    as_json: Json = False,
    collecting: PilotOptions,
    describing: DescribeOptions,
    quiet: Quiet = False,
) -> None:
    """Tell how many episodes it takes, from a small pilot.

    For each policy, in the pair that needs most: episodes until the interval of a distance is as
    narrow as --precision, and until `pivec same` gives the right verdict in 90 % of cases.

    Example: pivec plan CartPole-v1 runs --precision 0.02
    """
    from pivec.report import plan_json, print_plan, say_json
    from pivec.workflows import plan_with

    named, acting = env_and_policies(env, policies)
    result = plan_with(
        named, acting, precision, margin, level, collecting, describing, progress=not quiet
    )
    if as_json:
        say_json(plan_json(result))
    else:
        print_plan(result)


COMMANDS: tuple[Callable[..., None], ...] = (same, plan)
