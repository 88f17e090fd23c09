"""Arguments and options of the command line, and how their text is read."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from pivec.errors import UsageError


def folder(name: str | Path) -> Path:
    """Read the name of a folder; an empty one would mean the current folder."""
    if not str(name).strip():
        raise UsageError("expected the name of a folder, but got an empty text")
    return Path(name)


Env = Annotated[
    str,
    typer.Argument(
        metavar="ENV",
        help="A Gymnasium environment: CartPole-v1, module:Name-v0. Leave it out where the files "
        "tell, as those of RL Zoo and of `pivec train` do.",
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
Episodes = Annotated[int, typer.Option(help="Episodes each policy plays.", min=1)]
Seed = Annotated[int, typer.Option(help="Everything random follows from it.", min=0)]
Actions = Annotated[bool, typer.Option("--actions", help="Keep the actions too.")]
KeepPolicies = Annotated[
    bool, typer.Option("--policies", help="Keep the policies too, where they are networks.")
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Take each policy's likeliest action.")
]
EnvArg = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="An argument of the environment; may be repeated."),
]
MaxSteps = Annotated[int | None, typer.Option(help="Cut episodes after so many steps.", min=1)]
NEnvs = Annotated[
    int | None,
    typer.Option(help="Environments side by side: speed and memory, never the result.", min=1),
]
Backend = Annotated[
    str,
    typer.Option(
        help="What steps the environments: [bold]gymnasium[/bold], [bold]envpool[/bold], or "
        "[bold]auto[/bold]: EnvPool where it is installed and known to visit the same states."
    ),
]
Processes = Annotated[
    int, typer.Option("--jobs", help="Processes to play in: speed, never the result.", min=1)
]
FeaturesOf = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="NAME",
        help="What a state is, of an image: [bold]cells[/bold] (small grey cells), a path to an "
        ".onnx encoder, or module:function.",
    ),
]
MaxStates = Annotated[
    int | None,
    typer.Option(
        "--max-states-per-policy",
        help="Thin longer policies to every k-th state, k a power of two.",
        min=2,
    ),
]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import", metavar="MODULE", help="Import this first, to register ENV; may be repeated."
    ),
]
Wrappers = Annotated[
    list[str] | None,
    typer.Option(
        "--wrapper",
        metavar="MODULE:CLASS",
        help="Put around the environment, with arguments "
        "'module:Class{\"shape\": [84, 84]}'; may be repeated.",
    ),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Allow files that can run code when they are loaded.")
]
WithoutNormaliser = Annotated[
    bool,
    typer.Option(
        "--without-normaliser",
        help="Let policies act whose statistics (VecNormalize) are known to be missing.",
    ),
]
Method = Annotated[str, typer.Option(help="Characterization: supervector or gaussian.")]
Param = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="An argument of the characterization; may be repeated."),
]
Components = Annotated[
    int | None,
    typer.Option(help="Gaussians in the background model of supervectors (64).", min=1),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result alone.")]
SpaceArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder of `compare`, or a space of `describe`.")
]
Folder = Annotated[Path, typer.Option(metavar="DIR", parser=folder, help="Where to write.")]
StoreFolder = Annotated[
    Path, typer.Option(metavar="STORE", parser=folder, help="The store to write or go on with.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", parser=folder, help="Where to write; beside the space if not given."
    ),
]
Stores = Annotated[
    list[Path],
    typer.Argument(metavar="STORE", help="Stores of `collect`, each a set of policies."),
]
Methods = Annotated[
    str,
    typer.Option(
        help="Characterizations by name, with commas between; [bold]all[/bold] is every one."
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
Jobs = Annotated[
    int,
    typer.Option(help="Units side by side, which share the cores: times are longer.", min=1),
]


def env_and_policies(env: str, policies: list[str] | None) -> tuple[str | None, list[str]]:
    """Find out whether the first argument is an environment, or a policy whose file tells it.

    Examples
    --------
    >>> env_and_policies("CartPole-v1", ["random"])
    ('CartPole-v1', ['random'])
    """
    import gymnasium

    given = list(policies or [])
    if env not in gymnasium.registry:
        if os.path.exists(os.path.expanduser(env)) or glob.has_magic(env):
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
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise UsageError(f"{option} expects names with commas between, but got {text!r}")
    return found


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
