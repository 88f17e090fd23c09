"""Options, each stated once: a field is a keyword argument in Python and a command-line flag.

`takes_options` gives a function the fields of these dataclasses as keyword arguments, and
`pivec.cli.options.with_options` gives a command a flag for each, with this help. The classes
``...Keywords`` repeat names and types for type checkers and editors; a test compares them.
"""

# ruff: noqa: RUF009 - the functions make dataclass fields

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar

from pivec.arguments import Count, NotNegative, Positive, Range, Seed, check_arguments
from pivec.errors import UsageError, did_you_mean

Features = Callable[..., Any]  # of observations, and of infos and environments if it takes them
Wrapper = str | Callable[[Any], Any]
Function = TypeVar("Function", bound=Callable[..., Any])

# Groups of options in the help of commands, in this order; those without a group come first.
WATCHING, DESCRIPTION, PRECISION = "Watching", "Characterization", "Precision"
ENVIRONMENT, STATES, FILES = "Environment", "States", "Policy files"
AGENTS, REPLAY, COLUMNS, RUNNING = "Several agents", "Replay of episodes", "Columns", "Execution"
PANELS = [WATCHING, DESCRIPTION, PRECISION, ENVIRONMENT, STATES, FILES, AGENTS, REPLAY, COLUMNS]
PANELS.append(RUNNING)
FORMATS = ("png", "svg", "pdf")  # of figures


def option(default: Any, text: str, panel: str | None = None, metavar: str | None = None) -> Any:
    """Make a field: its default, its help, and where and how the command line shows it."""
    return field(default=default, metadata={"help": text, "panel": panel, "metavar": metavar})


def in_python(default: Any, text: str) -> Any:
    """Make a field that the command line does not have."""
    return field(default=default, metadata={"help": text, "command_line": False})


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Where work runs; results do not depend on it."""

    engine: str | Any = option("auto", "auto, serial, processes, ray or ray:HOST:PORT", RUNNING)
    jobs: Count | None = option(None, "Number of parallel workers; does not change results")


@dataclass(frozen=True)
class CollectOptions(EngineOptions):
    """How policies are run in an environment, and what is stored."""

    episodes: Annotated[int, Range(1, most=10**9)] = option(100, "Episodes per policy")
    seed: Seed = option(0, "Random seed; all randomness derives from it")
    actions: bool = option(False, "Also store actions", STATES)
    keep_policies: bool = option(False, "Also store the policies' networks", STATES)
    deterministic: bool = option(False, "Use each policy's most likely action")
    env_kwargs: Mapping[str, Any] | None = option(
        None, "Argument of the environment; repeatable", ENVIRONMENT
    )
    wrappers: Sequence[Wrapper] = option(
        (), "Wrapper, or MODULE:CLASS{JSON arguments}; repeatable", ENVIRONMENT, "MODULE:CLASS"
    )
    atari: bool = option(False, "Preprocess Atari frames as Stable-Baselines3 does", ENVIRONMENT)
    frame_skip: Count | None = option(
        None, "With --atari: game frames per action, as in training", ENVIRONMENT
    )
    imports: Sequence[str] = option(
        (), "Module to import first, to register ENV; repeatable", ENVIRONMENT, "MODULE"
    )
    agent: str | None = option(None, "The agent that the policies control", AGENTS)
    partners: Sequence[str] | Any = option(
        (), "Policies of the other agents; 'self' is the policy itself", AGENTS, "[NAME=]POLICY"
    )
    same_seeds: bool = option(
        False,
        "Common random numbers: episode i of every policy has the same seed. Compare such episodes "
        "with --pair seed; otherwise, distances are too small and intervals not valid",
        ENVIRONMENT,
    )
    outcomes: Mapping[str, Callable[..., Any]] | None = in_python(
        None,
        "By name, functions of the states, actions (None unless stored), total reward and last "
        "info of an episode that return a number or a text, or None if it is not known",
    )
    joint: bool = option(False, "Join the states of all agents, and sum rewards", AGENTS)
    features: Features | str | None = option(
        None,
        "Features to use instead of the flattened observation: policy (last hidden layer of one "
        "policy; policy:LABEL-OR-PATH selects it), an encoder file (.safetensors, .onnx), cells "
        "(small grey cells of an image), info:KEY,KEY, env:KEY or module:function",
        STATES,
        "NAME",
    )
    feature_names: Sequence[str] | None = in_python(None, "Names of the features")
    max_steps: Count | None = option(None, "Truncate episodes after N steps", ENVIRONMENT)
    max_states_per_policy: Annotated[int, Range(2)] | None = option(
        None, "For policies with more than N states, store one in k, in pairs", STATES
    )
    backend: str = option("auto", "gymnasium, envpool or auto", ENVIRONMENT)
    n_envs: Count | None = option(None, "Parallel environments; does not change results", RUNNING)
    retries: Annotated[int, Range(0)] = option(
        2, "Retries per episode if its environment raises an exception", ENVIRONMENT
    )
    threads: Count | None = in_python(None, "Threads of EnvPool; all cores if None")
    trust: bool = option(False, "Allow files that run code when they are loaded", FILES)
    without_normaliser: bool = option(
        False, "Run policies even if VecNormalize statistics are missing", FILES
    )
    skip_unreadable: bool = option(False, "Skip files that cannot be read", FILES)

    @property
    def view(self) -> Features | None:
        """The function behind ``features``, which must have been loaded if it was named."""
        if isinstance(self.features, str):
            raise TypeError(f"the features {self.features!r} are not loaded")
        return self.features

    def __post_init__(self) -> None:
        check_arguments(self)
        if self.frame_skip is not None and not self.atari:
            raise UsageError(
                "--frame-skip (in Python frame_skip=) is part of --atari (atari=True): add it, or "
                "pass the argument of the environment, as in --env-kwargs frameskip=4"
            )
        most = self.max_states_per_policy
        if most is not None and most < 4 * self.episodes:
            raise UsageError(
                f"max_states_per_policy is {most}, but the first two and last two states of "
                f"{self.episodes} episodes are always stored: use {4 * self.episodes} or more"
            )


@dataclass(frozen=True)
class PlanOptions(CollectOptions):
    """How the episodes of `pivec.plan` are collected."""

    episodes: Annotated[int, Range(2, most=10**9)] = option(20, "Episodes per policy")


@dataclass(frozen=True)
class ReplayOptions(EngineOptions):
    """How stored episodes are replayed if the stored settings are not sufficient."""

    env: str | None = option(None, "Environment, if the folder does not name it", REPLAY)
    policies: Sequence[str] = option(
        (), "Policy files, if they were moved; repeatable", REPLAY, "POLICY"
    )
    env_kwargs: Mapping[str, Any] | None = option(
        None, "Argument of the environment; repeatable", REPLAY
    )
    wrappers: Sequence[Wrapper] = option((), "Wrapper; repeatable", REPLAY, "MODULE:CLASS")
    imports: Sequence[str] = option((), "Module to import first; repeatable", REPLAY, "MODULE")
    features: Features | str | None = option(
        None, "The features used when states were collected", REPLAY, "NAME"
    )
    trust: bool = option(False, "Allow files and modules that run code", REPLAY)
    without_normaliser: bool = option(
        False, "Run policies even if VecNormalize statistics are missing", REPLAY
    )

    @property
    def collecting(self) -> CollectOptions:
        """The same settings as options for collecting states."""
        names = {known.name for known in fields(CollectOptions)}
        return CollectOptions(**{k: v for k, v in vars(self).items() if k in names})


@dataclass(frozen=True)
class DescribeOptions:
    """How policies are described."""

    method: str = option(
        "visitation",
        "Characterization: visitation, supervector (of the paper), gaussian, discretization, mmd, "
        "sliced-wasserstein, transitions, trajectories, terminal-state, returns, actions, "
        "parameters, discriminator, encoder, skill-discriminator, trajectory-encoder, "
        "state-actions",
    )
    components: Count | None = option(None, "Number of Gaussians in the background model \\[64]")
    backgrounds: Count | None = option(
        None, "Number of fits of the background model to average over \\[1]", DESCRIPTION
    )
    parameters: Mapping[str, Any] | None = option(
        None, "Argument of the characterization; repeatable", DESCRIPTION
    )
    space: str | Path | None = option(
        None, "Place the policies in this existing space, without refitting", DESCRIPTION
    )

    def __post_init__(self) -> None:
        check_arguments(self)


@dataclass(frozen=True)
class PrecisionOptions:
    """How precise distances should be."""

    until: Positive | None = option(
        None, "Keep sampling until every 95 % confidence interval is at most ±X", PRECISION
    )
    at_most: Count = option(1000, "Maximum number of episodes per policy", PRECISION)
    until_pairs: str = option(
        "all", "Pairs that --until applies to: all, or nearest (each policy's nearest)", PRECISION
    )

    pair: str | None = option(
        None,
        "Compare episodes of the same seed, task or other outcome (its name) with each other; the "
        "other episodes are left out. With policies to run, seed implies --same-seeds",
        PRECISION,
    )
    margin: Positive | None = option(
        None,
        "Distance at which behaviour counts as different, for classes and diversity "
        "\\[0.02 for visitation]",
        DESCRIPTION,
    )

    def __post_init__(self) -> None:
        check_arguments(self)
        if self.until_pairs not in ("all", "nearest"):
            raise UsageError(f"until_pairs must be all or nearest, but is {self.until_pairs!r}")
        if self.pair is not None and self.until is not None:
            raise UsageError("until cannot be used with pair: it adds episodes of some policies")


@dataclass(frozen=True)
class FigureOptions:
    """How figures are written."""

    format: str = option("png", f"Format of figures: {', '.join(FORMATS)}")

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise UsageError(f"format must be {', '.join(FORMATS)}, but is {self.format!r}")


@dataclass(frozen=True)
class WatchOptions:
    """When `pivec.watch` looks for checkpoints, and when it fits the space."""

    every: Positive = option(5.0, "Seconds between checks for new checkpoints", WATCHING)
    at_least: Count = option(10, "Number of checkpoints needed to fit the space", WATCHING)
    refit: bool = option(False, "Refit the space when the number of policies doubles", WATCHING)
    until_idle: NotNegative | None = option(
        None, "Stop after N seconds without new checkpoints", WATCHING
    )

    def __post_init__(self) -> None:
        check_arguments(self)


@dataclass(frozen=True)
class TableOptions:
    """The meaning of the columns of a table, if it is not clear from their names."""

    policy_column: str | None = option(None, "Policy (default: policy, agent, algo)", COLUMNS)
    group_column: str | None = option(None, "Training run (default: group, run)", COLUMNS)
    training_step_column: str | None = option(
        None, "Training step (default: training_step, checkpoint)", COLUMNS
    )
    episode_column: str | None = option(None, "Episode (default: episode, trajectory_id)", COLUMNS)
    step_column: str | None = option(None, "Time in an episode (default: step, time, t)", COLUMNS)
    return_column: str | None = option(None, "Return of the whole episode", COLUMNS)
    reward_column: str | None = option(None, "Reward of a step", COLUMNS)
    feature_columns: Sequence[str] = option(
        (), "Feature of the state (default: all other numbers); repeatable", COLUMNS, "COLUMN"
    )
    action_columns: Sequence[str] = option(
        (), "Action (default: action, action_0 ...); repeatable", COLUMNS, "COLUMN"
    )
    outcome_columns: Sequence[str] = option(
        (),
        "Outcome of an episode (default: success, score, task ...); repeatable",
        COLUMNS,
        "COLUMN",
    )
    ignore_columns: Sequence[str] = option((), "Not used; repeatable", COLUMNS, "COLUMN")
    episode_length: Count | None = option(None, "Rows per episode, if fixed", COLUMNS)
    episode_starts: str | None = option(
        None, ".npy file with the rows at which episodes start", COLUMNS, "FILE"
    )

    def __post_init__(self) -> None:
        check_arguments(self)
        for name in ("feature_columns", "action_columns", "outcome_columns", "ignore_columns"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # which can be hashed


@dataclass(frozen=True)
class EncoderOptions(CollectOptions):
    """How an image encoder is fitted, and how the policies that see the images are run."""

    method: str = option("autoencoder", "autoencoder (needs torch) or random convolutions")
    size: Count = option(32, "Features per image")
    frames: Count = option(4000, "Distinct images to learn from, a random sample")
    epochs: Count = option(40, "Maximum number of epochs; stops early")
    episodes: Annotated[int, Range(1, most=10**9)] = option(10, "Episodes per policy")
    features: Features | str | None = in_python(None, "Not used")
    actions: bool = in_python(False, "Not used")
    keep_policies: bool = in_python(False, "Not used")
    max_states_per_policy: Annotated[int, Range(2)] | None = in_python(None, "Not used")
    backend: str = in_python("auto", "Not used")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in ("autoencoder", "random"):
            raise UsageError(f"method must be autoencoder or random, but is {self.method!r}")


class CollectKeywords(TypedDict, total=False):
    """Keyword arguments of `pivec.collect` other than episodes and seed."""

    engine: str | Any
    jobs: int | None
    actions: bool
    keep_policies: bool
    deterministic: bool
    env_kwargs: Mapping[str, Any] | None
    wrappers: Sequence[Wrapper]
    atari: bool
    frame_skip: int | None
    imports: Sequence[str]
    agent: str | None
    partners: Sequence[str] | Any
    joint: bool
    same_seeds: bool
    outcomes: Mapping[str, Callable[..., Any]] | None
    features: Features | str | None
    feature_names: Sequence[str] | None
    max_steps: int | None
    max_states_per_policy: int | None
    backend: str
    n_envs: int | None
    retries: int
    threads: int | None
    trust: bool
    without_normaliser: bool
    skip_unreadable: bool


class DescribeKeywords(CollectKeywords, total=False):
    """Keyword arguments that `pivec.same` and `pivec.plan` share."""

    method: str
    components: int | None
    backgrounds: int | None
    parameters: Mapping[str, Any] | None
    space: str | Path | None


class CompareKeywords(DescribeKeywords, total=False):
    """Keyword arguments of `pivec.compare`."""

    until: float | None
    at_most: int
    until_pairs: str
    pair: str | None
    margin: float | None
    format: str


class WatchKeywords(DescribeKeywords, total=False):
    """Keyword arguments of `pivec.watch`."""

    format: str

    every: float
    at_least: int
    refit: bool
    until_idle: float | None


class ReplayKeywords(TypedDict, total=False):
    """Keyword arguments of functions that replay episodes, such as `Comparison.explain`."""

    engine: str | Any
    jobs: int | None
    env: str | None
    policies: Sequence[str]
    env_kwargs: Mapping[str, Any] | None
    wrappers: Sequence[Wrapper]
    imports: Sequence[str]
    features: Features | str | None
    trust: bool
    without_normaliser: bool


class EncoderKeywords(CollectKeywords, total=False):
    """Keyword arguments of `pivec.fit_encoder`."""

    episodes: int
    seed: int
    method: str
    size: int
    frames: int
    epochs: int


def takes_options(*bundles: Any) -> Callable[[Function], Function]:
    """Decorate a function with ``**options``: its keyword arguments are the fields of the bundles.

    They are in its signature and its docstring, and a name that is not among them is refused with
    the nearest that is.

    Examples
    --------
    >>> @takes_options(PrecisionOptions)
    ... def compare(*, seed=0, **options):
    ...     return split_options(options, PrecisionOptions)[0].at_most
    >>> compare(at_most=50)
    50
    >>> compare(at_least=50)
    Traceback (most recent call last):
    ...
    pivec.errors.UsageError: compare has no option 'at_least' (did you mean at_most?)
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        given = {parameter.name for parameter in own}
        added = {
            known.name: known
            for bundle in bundles
            for known in fields(bundle)
            if known.name not in given and known.metadata["help"] != "Not used"
        }

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for name in kwargs:
                if name not in added and name not in given:
                    raise UsageError(
                        f"{function.__name__} has no option {name!r}"
                        f"{did_you_mean(name, [*given, *added])}"
                    )
            return function(*args, **kwargs)

        kind = inspect.Parameter.KEYWORD_ONLY
        call.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[
                *own,
                *(
                    inspect.Parameter(name, kind, default=known.default, annotation=known.type)
                    for name, known in added.items()
                ),
            ]
        )
        call.__doc__ = _documented(function.__doc__ or "", added)
        return call  # type: ignore[return-value]

    return decorate


def _documented(docstring: str, options: Mapping[str, Any]) -> str:
    """Add a section about the options to a docstring in NumPy style."""
    lines = ["Other Parameters", "----------------"]
    for name, known in options.items():
        words = known.metadata["help"].replace("\\[", "[")
        lines += [f"{name} : default {known.default!r}", f"    {words}."]
    text = inspect.cleandoc(docstring)
    before, head, after = text.partition("Returns\n-------")
    if not head:
        before, head, after = text.partition("Yields\n------")
    return "\n".join([before + "\n".join(lines), "", head + after])


def split_options(options: Mapping[str, Any], *bundles: Any) -> list[Any]:
    """Make bundles of options by the names of their fields."""
    return [
        bundle(**{k.name: options[k.name] for k in fields(bundle) if k.name in options})
        for bundle in bundles
    ]
