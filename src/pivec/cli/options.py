"""Arguments and options of commands, and how their text is read.

Options that Python has too are fields of the dataclasses in `pivec.options`; `with_options` makes
options of the command line of them.
"""

from __future__ import annotations

import functools
import glob
import inspect
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from pivec.cli import completion
from pivec.errors import UnknownEnvironment, UsageError
from pivec.terminal import ask


def folder(name: str | Path) -> Path:
    """Read the name of a folder; an empty one would mean the current folder."""
    if not str(name).strip():
        raise UsageError("expected the name of a folder, but got an empty text")
    return Path(name)


Env = Annotated[
    str,
    typer.Argument(
        metavar="ENV",
        help="A Gymnasium environment: CartPole-v1, module:Name-v0, or module:function that makes "
        "one; pettingzoo:MODULE for several agents. Leave it out where the files tell, as those "
        "of RL Zoo and of `pivec train` do, and for recorded states.",
        autocompletion=completion.environments,
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="POLICY",
        help="Checkpoints by path, folder or (quoted) glob: 'runs/**/*.zip'; [bold]random[/bold] "
        "(random:3 for three); [bold]module:object[/bold] for your own Python policy.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(help="Everything random follows from it.", min=0)]
EnvArg = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="An argument of the environment; may be repeated."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result alone.")]
Folder = Annotated[Path, typer.Option(metavar="DIR", parser=folder, help="Where to write.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", parser=folder, help="Where to write; beside what is read if not given."
    ),
]

# Options that are not called as their field, and what stands for their values in the help.
_FLAGS = {"keep_policies": "policies", "env_kwargs": "env-arg", "parameters": "param",
          "wrappers": "wrapper", "imports": "import", "policies": "policy",
          "feature_columns": "feature", "action_columns": "action",
          "partners": "partner"}  # fmt: skip
_METAVARS = {"wrappers": "MODULE:CLASS", "imports": "MODULE", "features": "NAME",
             "policies": "POLICY", "feature_columns": "COLUMN", "action_columns": "COLUMN",
             "episode_starts": "FILE", "partners": "[NAME=]POLICY"}  # fmt: skip


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: where it takes a dataclass, there is an option for each of its fields."""
    parameters: list[inspect.Parameter] = []
    bundles: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            bundle = bundles[parameter.name] = parameter.annotation
            parameters += [_option(bundle, field) for field in _shown(bundle)]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def call(**values: Any) -> None:
        for name, bundle in bundles.items():
            chosen = {field.name: values.pop(field.name) for field in _shown(bundle)}
            values[name] = bundle(**{key: _read(bundle, key, v) for key, v in chosen.items()})
        try:
            command(**values)
        except UnknownEnvironment as error:
            command(**_with_environment(values, error))

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _with_environment(values: dict[str, Any], error: UnknownEnvironment) -> dict[str, Any]:
    """Put the environment in front of the policies, as somebody at the terminal names it."""
    hint = f" ({error.fitting})" if error.fitting else ""
    env = ask(f"Which environment do these policies act in{hint}? ") if "policies" in values else ""
    if not env:
        raise error
    acting = values["policies"] or []
    if "env" not in values:  # `same` tells them apart by their number
        return values | {"policies": [env, *acting]}
    return values | {"env": env, "policies": [values["env"], *acting]}


def _shown(bundle: Any) -> list[Field[Any]]:
    shown = [field for field in fields(bundle) if field.metadata.get("command_line", True)]
    return sorted(shown, key=lambda field: bool(field.kw_only))  # where it runs comes last


def _option(bundle: Any, field: Field[Any]) -> inspect.Parameter:
    """Make an option of a field: its type has the range, the docstring of the class the help."""
    kind, least = _kind(bundle, field.name)
    several = kind in (Mapping, Sequence)
    metavar = {Mapping: "KEY=VALUE", Path: "DIR"}.get(kind, _METAVARS.get(field.name))
    option = typer.Option(
        flag(field.name),
        help=_help(bundle, field.name),
        metavar=metavar,
        min=least,
        parser=folder if kind is Path else None,
        autocompletion=completion.methods if field.name == "method" else None,
    )
    kind = list[str] if several else kind
    default = None if several else field.default
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind | None if default is None else kind, option],
    )


def flag(name: str) -> str:
    """Return what the option of a field is called.

    Examples
    --------
    >>> flag("keep_policies"), flag("max_steps")
    ('--policies', '--max-steps')
    """
    return "--" + _FLAGS.get(name, name).replace("_", "-")


@functools.cache  # reading them takes long, and the shell waits for it when it completes
def _hints(bundle: Any) -> dict[str, Any]:
    return get_type_hints(bundle, include_extras=True)


def _kind(bundle: Any, name: str) -> tuple[Any, float | None]:
    """Tell what an option takes, of several types the one that a text can be, and from where on."""
    hint = _hints(bundle)[name]
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    by_origin = {get_origin(choice) or choice: choice for choice in choices}
    for origin in (Mapping, Sequence, Path, str, bool):
        if origin in by_origin:
            return origin, None
    kind, allowed = get_args(by_origin[Annotated])
    return kind, allowed.least


@functools.cache
def _docs(bundle: Any) -> str:
    return "\n".join(inspect.cleandoc(kind.__doc__ or "") for kind in bundle.__mro__)


def _help(bundle: Any, name: str) -> str:
    """Find the words for a field in the docstring of its class."""
    words = re.search(rf"^{name} : .*\n((?: .*\n?)+)", _docs(bundle), re.MULTILINE)
    text = " ".join(words.group(1).split()) if words else ""
    return re.sub(r"``(.+?)``", r"[bold]\1[/bold]", text.replace("[", "\\["))


def _read(bundle: Any, name: str, value: Any) -> Any:
    """Read what an option got, as its field wants it."""
    kind, _ = _kind(bundle, name)
    if kind is Mapping:
        return pairs(value, flag(name))
    return tuple(value or ()) if kind is Sequence else value


def env_and_policies(env: str, policies: list[str] | None) -> tuple[str | None, list[str]]:
    """Find out whether the first argument is an environment, or a policy whose file tells it.

    Examples
    --------
    >>> env_and_policies("CartPole-v1", ["random"])
    ('CartPole-v1', ['random'])
    """
    import gymnasium

    from pivec.policies import is_policy_file
    from pivec.rollouts import GAME
    from pivec.states import is_recorded

    given = list(policies or [])
    if env not in gymnasium.registry and not env.startswith(GAME):
        path = Path(env).expanduser()
        if path.exists() or is_policy_file(path) or glob.has_magic(env) or is_recorded(env):
            return None, [env, *given]
    elif not given and not os.path.exists(env):
        raise UsageError(
            f"expected policies after {env}: a path, a folder, a quoted glob, random or "
            "module:object"
        )
    return (env, given) if given else (None, [env])


def pairs(texts: list[str] | None, option: str) -> dict[str, Any]:
    """Read KEY=VALUE; a value that is JSON is what it says, any other is text.

    Examples
    --------
    >>> pairs(["n_components=4", "device=cpu"], "--param")
    {'n_components': 4, 'device': 'cpu'}
    """
    result: dict[str, Any] = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} expects KEY=VALUE, but got {text!r}")
        try:
            result[key] = json.loads(value)
        except ValueError:
            result[key] = value
    return result


def by_method(values: Mapping[str, Any], option: str) -> dict[str, dict[str, Any]]:
    """Sort values whose keys are METHOD.KEY by method.

    Examples
    --------
    >>> by_method({"supervector.n_components": 4}, "--param")
    {'supervector': {'n_components': 4}}
    """
    result: dict[str, dict[str, Any]] = {}
    for full, value in values.items():
        method, _, key = full.partition(".")
        if not method or not key:
            raise UsageError(f"{option} expects METHOD.KEY=VALUE, but got {full!r} before the =")
        result.setdefault(method, {})[key] = value
    return result


def names(text: str, option: str) -> list[str]:
    """Read names with commas between.

    Examples
    --------
    >>> names("supervector, gaussian", "--methods")
    ['supervector', 'gaussian']
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError(f"{option} expects names with commas between, but got {text!r}")
    return parts


def whole_numbers(text: str, option: str) -> list[int]:
    """Read whole numbers with commas between.

    Examples
    --------
    >>> whole_numbers("100,50", "--sizes")
    [100, 50]
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError(f"{option} expects whole numbers with commas between, but got {text!r}")
    return [int(part) for part in parts]
