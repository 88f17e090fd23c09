"""What users may choose, said once: the fields are arguments in Python and options of commands.

The command line takes names, types, ranges, defaults and help from here (`pivec.cli.options`), so
that a new option is a field, its words in the docstring, and the line that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from pivec.arguments import Count, NotNegative, Positive, Range, Seed, check_arguments
from pivec.errors import UsageError

Features = Callable[..., Any]  # of observations, and of infos and environments if it takes them
Wrapper = str | Callable[[Any], Any]

IN_PYTHON = {"command_line": False}  # metadata of fields that only Python has


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Where long work runs: speed, never the result.

    Attributes
    ----------
    engine : str
        Where long work runs: ``serial`` (this process), ``processes`` (on these cores), ``ray`` or
        ``ray:HOST:PORT`` (a Ray cluster), or ``auto``: processes if there are several jobs.
    jobs : int, optional
        How much runs side by side: speed, never the result. With ``--engine`` as much as there
        are cores, if not given.
    """

    engine: str | Any = "auto"  # or a `pivec.parallel.engine.Engine`
    jobs: Count | None = None


@dataclass(frozen=True)
class CollectOptions(EngineOptions):
    """How policies act, and what is kept of it.

    Attributes
    ----------
    episodes : int
        Episodes each policy plays.
    seed : int
        Everything random follows from it.
    actions : bool
        Keep the actions too.
    keep_policies : bool
        Keep the policies too, where they are networks: for characterizations that look at
        parameters or ask for actions.
    deterministic : bool
        Take each policy's likeliest action instead of sampling.
    env_kwargs : mapping, optional
        An argument of the environment; may be repeated.
    wrappers : sequence of str or callable
        Put around the environment, with arguments ``module:Class{"shape": [84, 84]}``; may be
        repeated. Instead of those that the policies' files tell.
    atari : bool
        Show an Atari game as Stable-Baselines3 and CleanRL do: four grey frames of 84 x 84, every
        fourth frame, FIRE pressed at the start. Whole games, real rewards.
    imports : sequence of str
        Import this first, to register ENV; may be repeated.
    agent : str, optional
        As whom the policies act in a game of several agents (ENV is pettingzoo:MODULE).
    partners : sequence of str, mapping or policy
        Who acts as the others, or as NAME (``*`` stands for anything); ``self`` is the policy
        itself. May be repeated; those that are not named act at random.
    joint : bool
        States are what all agents see, and rewards their sum.
    features : callable or str, optional
        What a state is, instead of the flattened observation: ``policy`` (the last hidden layer of
        one policy, for all; ``policy:LABEL-OR-PATH`` says whose), a path to an encoder (of `pivec
        encoder`, or .onnx), ``cells`` (small grey cells of an image), ``info:KEY,KEY`` (values of
        the environment's info), ``env:KEY`` (its attributes), or module:function, which turns a
        batch of observations (and infos and environments, if it takes two or three arguments) into
        rows.
    feature_names : sequence of str, optional
        Names for what ``features`` gives.
    max_steps : int, optional
        Cut episodes after so many steps.
    max_states_per_policy : int, optional
        Thin longer policies to every k-th state and the terminal ones, k a power of two.
    backend : str
        What steps the environments: ``gymnasium``, ``envpool``, or ``auto``: EnvPool where it is
        installed and known to visit the same states. A store goes on as it was begun.
    n_envs : int, optional
        Environments side by side: speed and memory, never the result.
    threads : int, optional
        Threads of EnvPool; all cores if not given.
    trust : bool
        Allow files that can run code when they are loaded.
    without_normaliser : bool
        Let policies act whose statistics (VecNormalize) are known to be missing.
    skip_unreadable : bool
        Leave out files that cannot be read, and name them, as long as any policy is left.
    """

    episodes: Annotated[int, Range(1, most=10**9)] = 100
    seed: Seed = 0
    actions: bool = False
    keep_policies: bool = False
    deterministic: bool = False
    env_kwargs: Mapping[str, Any] | None = None
    wrappers: Sequence[Wrapper] = ()
    atari: bool = False
    imports: Sequence[str] = ()
    agent: str | None = None
    partners: Sequence[str] | Any = ()
    joint: bool = False
    features: Features | str | None = None
    feature_names: Sequence[str] | None = field(default=None, metadata=IN_PYTHON)
    max_steps: Count | None = None
    max_states_per_policy: Annotated[int, Range(2)] | None = None
    backend: str = "auto"
    n_envs: Count | None = None
    threads: Count | None = field(default=None, metadata=IN_PYTHON)
    trust: bool = False
    without_normaliser: bool = False
    skip_unreadable: bool = False

    @property
    def view(self) -> Features | None:
        """The function behind ``features``, which must have been loaded if it was named."""
        if isinstance(self.features, str):
            raise TypeError(f"the features {self.features!r} are not loaded")
        return self.features

    def __post_init__(self) -> None:
        check_arguments(self)
        most = self.max_states_per_policy
        if most is not None and most < 2 * self.episodes:
            raise UsageError(
                f"max_states_per_policy is {most}, but {self.episodes} episodes keep at least "
                f"their first and terminal states: ask for {2 * self.episodes} or more"
            )


@dataclass(frozen=True)
class ReplayOptions(EngineOptions):
    """How episodes are played again to be filmed, where what was left does not tell.

    Attributes
    ----------
    env : str, optional
        The environment, if the folder does not name it.
    policies : sequence of str
        The policies that acted, by path, folder or (quoted) glob, if they are not where they were;
        may be repeated.
    env_kwargs : mapping, optional
        An argument of the environment; may be repeated.
    wrappers : sequence of str or callable
        Put around the environment, with arguments ``module:Class{"shape": [84, 84]}``; may be
        repeated.
    imports : sequence of str
        Import this first, to register the environment; may be repeated.
    features : callable or str, optional
        What a state is, as when the states were collected.
    trust : bool
        Allow what can run code: modules that the folder names, and policies' files that do when
        they are loaded.
    without_normaliser : bool
        Let policies act whose statistics (VecNormalize) are known to be missing.
    """

    env: str | None = None
    policies: Sequence[str] = ()
    env_kwargs: Mapping[str, Any] | None = None
    wrappers: Sequence[Wrapper] = ()
    imports: Sequence[str] = ()
    features: Features | str | None = None
    trust: bool = False
    without_normaliser: bool = False

    @property
    def collecting(self) -> CollectOptions:
        """The same for what collects."""
        names = {known.name for known in fields(CollectOptions)}
        return CollectOptions(**{k: v for k, v in vars(self).items() if k in names})


@dataclass(frozen=True)
class DescribeOptions:
    """How policies are described.

    Attributes
    ----------
    method : str
        Characterization: visitation, supervector (the paper's), gaussian, discretization, mmd,
        sliced-wasserstein, transitions, trajectories, terminal-state, returns, actions,
        parameters, discriminator, encoder, skill-discriminator, trajectory-encoder or
        state-actions.
    components : int, optional
        Regions: Gaussians in the background model of visitation and supervector (64).
    backgrounds : int, optional
        Fits of the background model of visitation, of which distances are the mean (1).
    parameters : mapping, optional
        An argument of the characterization; may be repeated. Its random_state is the seed unless
        given.
    space : path, optional
        Place the policies in this earlier space (or folder of a comparison), beside those it
        holds, without fitting again.
    """

    method: str = "visitation"
    components: Count | None = None
    backgrounds: Count | None = None
    parameters: Mapping[str, Any] | None = None
    space: str | Path | None = None

    def __post_init__(self) -> None:
        check_arguments(self)


@dataclass(frozen=True)
class PrecisionOptions:
    """How sure distances are to be.

    Attributes
    ----------
    until : float, optional
        Play on, where it is needed, until intervals of 95 % reach at most this far to either side
        of the distance. The first ``episodes`` of each policy fit the space.
    at_most : int
        Episodes of a policy that ``until`` may lead to.
    until_pairs : str
        Whose distances ``until`` is about: ``all`` pairs, or that of each policy and its
        ``nearest`` other.
    """

    until: Positive | None = None
    at_most: Count = 1000
    until_pairs: str = "all"

    def __post_init__(self) -> None:
        check_arguments(self)
        if self.until_pairs not in ("all", "nearest"):
            raise UsageError(f"until_pairs must be all or nearest, but is {self.until_pairs!r}")


@dataclass(frozen=True)
class WatchOptions:
    """When checkpoints are looked for, and when a space is fitted.

    Attributes
    ----------
    every : float
        Seconds between looks. A checkpoint is read when it has not changed for as long.
    at_least : int
        Checkpoints to wait for before the space is fitted.
    refit : bool
        Fit the space anew whenever there are twice as many policies as it was fitted on. Without
        it a space that is fitted stays: distances and places on the map that are known never
        change.
    until_idle : float, optional
        End when no checkpoint has come or changed for so many seconds; with 0 when all that are
        there are in.
    """

    every: Positive = 5.0
    at_least: Count = 10
    refit: bool = False
    until_idle: NotNegative | None = None

    def __post_init__(self) -> None:
        check_arguments(self)


@dataclass(frozen=True)
class TableOptions:
    """Which columns of a table tell what, where their names do not.

    Attributes
    ----------
    policy_column : str, optional
        Whose a row is, as ``policy``, ``label`` or ``agent``. Without it that is group and training
        step, or the file.
    group_column : str, optional
        The training run, as ``group`` or ``run``.
    training_step_column : str, optional
        The training step of the policy, as ``training_step`` or ``checkpoint``.
    episode_column : str, optional
        What tells episodes apart, as ``episode`` or ``trajectory_id``.
    step_column : str, optional
        The time in an episode, as ``step``, ``time`` or ``t``.
    return_column : str, optional
        The return of the whole episode, the same in all its rows.
    reward_column : str, optional
        The reward of a step.
    feature_columns : sequence of str
        A value of the state; may be repeated. All other numbers, if not given.
    action_columns : sequence of str
        A value of the action; may be repeated. As ``action`` or ``action_0``.
    episode_length : int, optional
        Rows of an episode, where nothing tells where one begins.
    episode_starts : str, optional
        A .npy file of the rows where episodes begin.
    """

    policy_column: str | None = None
    group_column: str | None = None
    training_step_column: str | None = None
    episode_column: str | None = None
    step_column: str | None = None
    return_column: str | None = None
    reward_column: str | None = None
    feature_columns: Sequence[str] = ()
    action_columns: Sequence[str] = ()
    episode_length: Count | None = None
    episode_starts: str | None = None

    def __post_init__(self) -> None:
        check_arguments(self)


def split_options(options: Mapping[str, Any], *bundles: Any) -> list[Any]:
    """Make bundles of options by the names of their fields; first what is left, of collecting."""
    rest = dict(options)
    made = [
        bundle(
            **{known.name: rest.pop(known.name) for known in fields(bundle) if known.name in rest}
        )
        for bundle in bundles
    ]
    return [CollectOptions(**rest), *made]


# -----------------------------------------------------------------------------
# What users may choose of encoders of images, as `pivec.options` says it of everything else.


@dataclass(frozen=True)
class EncoderOptions(CollectOptions):
    """How an encoder of images is made, and how the policies act that see them.

    Attributes
    ----------
    method : str
        ``autoencoder``: convolutions that are learned, with torch; ``random``: convolutions that
        are drawn, and the directions in which what they give varies most.
    size : int
        Numbers that an image becomes.
    frames : int
        Different images that are kept to learn from, a random sample of all: memory and time.
    epochs : int
        Passes over them at most; learning ends earlier when images held out gain no more.
    """

    method: str = "autoencoder"
    size: Count = 32
    frames: Count = 4000
    epochs: Count = 40
    episodes: Annotated[int, Range(1, most=10**9)] = 10
    features: Features | str | None = field(default=None, metadata=IN_PYTHON)
    actions: bool = field(default=False, metadata=IN_PYTHON)
    keep_policies: bool = field(default=False, metadata=IN_PYTHON)
    max_states_per_policy: Annotated[int, Range(2)] | None = field(default=None, metadata=IN_PYTHON)
    backend: str = field(default="auto", metadata=IN_PYTHON)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in ("autoencoder", "random"):
            raise UsageError(f"method must be autoencoder or random, but is {self.method!r}")
