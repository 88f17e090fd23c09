"""The command line; each error is printed as one sentence, each warning once."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pivec.__main__ import STOPPED
from pivec.cli import compare, explain, states
from pivec.errors import PivecError
from pivec.terminal import (
    CollectedWarning,
    WarningCollector,
    print_any_character,
    say,
    shortened,
)


class _Command(TyperCommand):
    """A command whose usage line shows the metavars of arguments as they are."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        arguments = [param for param in self.params if param.param_type_name == "argument"]
        return ["[OPTIONS]", *(str(argument.metavar) for argument in arguments)]


app = typer.Typer(
    name="pivec",
    help="Characterize agents by the states they visit, compare them, and show how they "
    "differ.\n\nStart with [bold]pivec demo[/bold]; then use [bold]pivec compare CartPole-v1 "
    "'runs/**/*.zip'[/bold] with your own checkpoints.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    compare.demo,
    compare.compare,
    compare.same,
    compare.plan,
    compare.watch,
    explain.explain,
    explain.groups,
    explain.regions,
    explain.unusual,
    explain.serve,
    states.collect,
    states.import_,
    states.export,
    compare.evaluate,
    compare.encoder,
):
    app.command(name=command.__name__.rstrip("_"), cls=_Command)(command)
app.add_typer(states.store_app, name="store")

_SHORT = 200  # characters of a warning of another package


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version")] = False,
    debug: Annotated[  # noqa: ARG001  (read in main, wherever it stands)
        bool, typer.Option("--debug", help="Show the traceback of an error")
    ] = False,
) -> None:
    if version:
        from pivec import __version__

        say(f"pivec {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line of pivec."""
    run(app, "pivec")


def run(app: typer.Typer, name: str) -> None:
    """Run a command line; every mistake is one sentence and an exit code."""
    print_any_character()
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        with WarningCollector(_warn) as notices:
            try:
                code = app(args=arguments, prog_name=name, standalone_mode=False)
            finally:
                _warn_of_others(notices)
    except KeyboardInterrupt:
        code = STOPPED
    except Exception as error:  # the last line of defence: a sentence, not a traceback
        if debug:
            raise
        code = _explain(error)
    if code == STOPPED:  # which the parser makes of Ctrl-C as well
        message = "pivec: Interrupted. Finished work is saved; run the same command to resume"
        say(message, error=True)
    sys.exit(code if isinstance(code, int) else 0)


def _warn(notice: CollectedWarning) -> None:
    """Print pivec's own warnings immediately, not after hours of work."""
    if notice.own:
        say(f"pivec: warning: {notice.text}", error=True)


def _warn_of_others(notices: WarningCollector) -> None:
    """After the result, print the warnings of other packages, and how often they occurred."""
    for notice in notices.rows:
        if not notice.own:
            times = f" ({notice.times} times)" if notice.times > 1 else ""
            text = f"{notice.kind} from another package{times}: {notice.text}"
            say(f"pivec: {shortened(text, _SHORT)}", error=True)


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
        return int(getattr(error, "exit_code", 1))
    if type(error).__name__ == "Abort" and error.__cause__ is not None:
        error = error.__cause__  # the parser takes the end of a file for that of its input
    say(
        f"pivec: unexpected {type(error).__name__}: {error} (run again with --debug for details)",
        error=True,
    )
    return int(getattr(error, "exit_code", 1))
