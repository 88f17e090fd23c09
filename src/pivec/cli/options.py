"""Arguments and flags of commands, how their text is read, and what the shell completes.

Options that Python has too are fields of the dataclasses in `pivec.options`; `with_options` makes
flags of them. Completion has to be quick: nothing heavy is imported, and what cannot be read
completes to nothing.
"""

from __future__ import annotations

import csv
import functools
import glob
import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, fields
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from pivec.arguments import pairs
from pivec.errors import UnknownEnvironment, UsageError
from pivec.options import PANELS, FigureOptions
from pivec.terminal import ask

MOST_COMPLETIONS = 200
# Names from files reach the shell, which may evaluate them: only these characters are safe.
SAFE_NAME = re.compile(r"[\w./+=,@-]+")


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["pivec", *sys.argv[1:]])


def complete_source(incomplete: str) -> list[str]:
    """Complete ids of Gymnasium environments; otherwise the shell completes files."""
    import gymnasium

    return _completions(gymnasium.registry, incomplete)


def complete_method(incomplete: str) -> list[str]:
    """Complete names of characterizations, the last one of a list with commas."""
    from pivec.characterizations import names

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _completions(names(), last)]


def complete_policy(context: typer.Context, incomplete: str) -> list[str]:
    """Complete labels of the policies in the given comparison."""
    return _completions(_map_column(context, "label"), incomplete)


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """Complete names of the runs in the given comparison."""
    return _completions(_map_column(context, "group"), incomplete)


def _map_column(context: typer.Context, name: str) -> list[str]:
    from pivec.files import open_regular

    # After an option without a value nothing is parsed yet.
    folder = Path(str(context.params.get("folder") or (*context.args, "")[0]))
    try:
        with open_regular(folder / "map.csv") as file:
            lines = file.read().decode().splitlines()
        return [row[name] for row in csv.DictReader(lines)]
    except Exception:  # the command itself reports what is wrong with the folder
        return []


def _completions(names: Iterable[str], incomplete: str) -> list[str]:
    fitting = [name for name in names if name.startswith(incomplete) and SAFE_NAME.fullmatch(name)]
    return list(dict.fromkeys(fitting))[:MOST_COMPLETIONS]


def folder_name(name: str | Path) -> Path:
    """Read the name of a folder; an empty one would mean the current folder."""
    if not str(name).strip():
        raise UsageError("expected the name of a folder, but got an empty string")
    return Path(name)


Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="[ENV] SOURCE...",
        help="ENV: a Gymnasium id, module:function or pettingzoo:MODULE; omit it for recorded "
        "data, or if the policy files name it. SOURCE: checkpoints by path, folder or quoted glob "
        "('runs/**/*.zip'), [bold]random[/bold] (random:3 for three), [bold]module:object[/bold], "
        "hf:OWNER/NAME, wandb:ENTITY/PROJECT/ARTIFACT, a store, a table (.parquet, .csv, .npz, "
        ".hdf5), a LeRobot dataset (a folder or lerobot:OWNER/NAME) or minari:NAME; "
        "[bold]POLICY@ENV[/bold] or POLICY@KEY=VALUE to run it in another environment.",
        autocompletion=complete_source,
        show_default=False,
    ),
]
FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="An output folder of `pivec compare`, or a space.")
]
Seed = Annotated[int, typer.Option(help="Random seed", min=0)]
Margin = Annotated[
    float | None, typer.Option(help="Largest distance that does not matter \\[0.02]")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else")]
Folder = Annotated[Path, typer.Option(metavar="DIR", parser=folder_name, help="Folder to write to")]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", parser=folder_name, help="Folder to write to [DIR]"),
]


def with_options(*bundles: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command with ``**options``: it has a flag for each field of the bundles."""
    shown = {
        field.name: (bundle, field)
        for bundle in bundles
        for field in fields(bundle)
        if field.metadata.get("command_line", True)
    }

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        ordered = sorted(shown.values(), key=lambda known: _order(known[1]))
        added = [_parameter(*known) for known in ordered]
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in [*own, *added]]

        @functools.wraps(command)
        def call(**values: Any) -> None:
            for name, (bundle, _) in shown.items():
                values[name] = _read(_kind(bundle, name), values[name], name)
            try:
                command(**values)
            except UnknownEnvironment as error:
                command(**_with_environment(values, error))

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return call

    return decorate


def _order(field: Field[Any]) -> tuple[int, bool]:
    panel = field.metadata["panel"]
    return (0 if panel is None else 1 + PANELS.index(panel), bool(field.kw_only))


def _with_environment(values: dict[str, Any], error: UnknownEnvironment) -> dict[str, Any]:
    """Ask for the environment, and put it before the policies."""
    hint = f" ({error.fitting})" if error.fitting else ""
    env = ask(f"Which environment are these policies for{hint}? ") if "sources" in values else ""
    if not env:
        raise error
    return values | {"sources": [env, *values["sources"]]}


def _parameter(bundle: Any, field: Field[Any]) -> inspect.Parameter:
    """Make a flag of a field."""
    kind = _kind(bundle, field.name)
    several = kind in (Mapping, Sequence)
    metavars = {Mapping: "KEY=VALUE", Path: "DIR", int: "N", float: "X", str: "NAME"}
    default = None if several else field.default
    annotation = list[str] if several else kind
    flag = typer.Option(
        "--" + field.name.replace("_", "-"),
        help=field.metadata["help"],
        metavar=field.metadata["metavar"] or metavars.get(kind),
        parser=folder_name if kind is Path else None,
        autocompletion=complete_method if field.name == "method" else None,
        rich_help_panel=field.metadata["panel"],
    )
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[annotation | None if default is None else annotation, flag],
    )


@functools.cache  # reading them takes long, and the shell waits for it when it completes
def _hints(bundle: Any) -> dict[str, Any]:
    return get_type_hints(bundle)


def _kind(bundle: Any, name: str) -> Any:
    """Find what a flag takes: of several types the one that a text can be."""
    hint = _hints(bundle)[name]
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    origins = [get_origin(choice) or choice for choice in choices]
    return next(k for k in (Mapping, Sequence, Path, str, bool, int, float) if k in origins)


def _read(kind: Any, value: Any, name: str) -> Any:
    """Read the value of a flag as its field expects it."""
    if kind is Mapping:
        return pairs(value, "--" + name.replace("_", "-")) if value else None
    return tuple(value or ()) if kind is Sequence else value


def env_and_policies(sources: Sequence[str]) -> tuple[str | None, list[str]]:
    """Separate the environment from the policies, if the first argument is one.

    Examples
    --------
    >>> env_and_policies(["CartPole-v1", "random"])
    ('CartPole-v1', ['random'])
    """
    import gymnasium

    from pivec.policies import HUB, is_policy_file, split_environment
    from pivec.rollouts import GAME
    from pivec.states import is_recorded

    env, *policies = sources
    if env not in gymnasium.registry and not env.startswith(GAME):
        path = Path(env).expanduser()
        named = HUB.fullmatch(env) or path.exists() or is_policy_file(path) or glob.has_magic(env)
        if named or is_recorded(env) or split_environment(env)[1] is not None:
            return None, list(sources)
    elif not policies and not os.path.exists(env):
        raise UsageError(
            f"expected policies after {env}: a path, a folder, a quoted glob, random or "
            "module:object"
        )
    return (env, policies) if policies else (None, [env])


def patterns(texts: list[str] | None) -> dict[str, list[str]]:
    """Read NAME=PATTERN; a name may have several patterns.

    Examples
    --------
    >>> patterns(["on=ppo-*", "on=a2c-*", "off=sac-*"])
    {'on': ['ppo-*', 'a2c-*'], 'off': ['sac-*']}
    """
    result: dict[str, list[str]] = {}
    for text in texts or []:
        name, _, pattern = text.partition("=")
        if not name or not pattern:
            raise UsageError(f"--group expects NAME=PATTERN, but got {text!r}")
        result.setdefault(name, []).append(pattern)
    return result


def figure_format(options: dict[str, Any]) -> str:
    """Take the format of figures out of the options of a command."""
    return FigureOptions(format=options.pop("format")).format


def names(text: str, option: str) -> list[str]:
    """Read names separated by commas."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError(f"{option} expects names separated by commas, but got {text!r}")
    return parts


def whole_numbers(text: str, option: str) -> list[int]:
    """Read whole numbers separated by commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError(f"{option} expects whole numbers separated by commas, but got {text!r}")
    return [int(part) for part in parts]
