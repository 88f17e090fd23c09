"""Which environment: a Gymnasium id with arguments and wrappers, or a factory; clear errors.

Files of policies may tell what they were trained in; what a user says comes first.
"""

from __future__ import annotations

import importlib.util
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from pivec.errors import (
    EnvironmentFailure,
    PivecError,
    PivecWarning,
    UnknownEnvironment,
    UsageError,
    did_you_mean,
)
from pivec.options import CollectOptions, Wrapper
from pivec.policies import Policy, PolicyInfo
from pivec.rollouts.atari import ATARI, ONE_FRAME_A_STEP
from pivec.rollouts.games import GAME, make_role, with_partners
from pivec.rollouts.named_objects import import_here, named_object, split_arguments
from pivec.rollouts.quirks import registrars

# -----------------------------------------------------------------------------
# Which of Gymnasium's own environments a policy fits, where its file does not tell.


MOST = 4  # a policy that fits more than these tells nothing


def fitting_words(policies: Sequence[Policy]) -> str:
    """Say what the first policy fits by the numbers it sees and does; empty if nobody can tell."""
    bind = getattr(policies[0], "bind", None) if policies else None
    if bind is None:
        return ""
    shown = []
    for name, seen, done in _own_spaces():
        try:
            bind(seen, done)
        except Exception:  # noqa: S112  # it does not fit, or another kind of policy says so in its own way
            continue
        shown.append(f"{name} ({_counted(seen, 'value')}, {_counted(done, 'action')})")
    return f"the first fits {' and '.join(shown)}" if 0 < len(shown) <= MOST else ""


def _own_spaces() -> Iterator[tuple[str, Any, Any]]:
    """Give the spaces of Gymnasium's own environments that are installed, of the newest version."""
    newest = {
        spec.name: spec
        for spec in sorted(gymnasium.registry.values(), key=lambda spec: spec.version or 0)
        if str(spec.entry_point).startswith("gymnasium.envs.") and not spec.namespace
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for spec in newest.values():
            try:
                env = gymnasium.make(spec.id, disable_env_checker=True)
            except Exception:  # noqa: S112  # what it needs is not installed
                continue
            yield spec.id, env.observation_space, env.action_space
            env.close()


def _counted(space: Any, what: str) -> str:
    n = int(space.n) if isinstance(space, spaces.Discrete) else spaces.flatdim(space)
    return f"{n} {what}{'s' * (n > 1)}"


# -----------------------------------------------------------------------------
# Wrappers by name: how they are put around environments, and which a file may ask for.


# A file may ask for these: they change what is seen and done, and touch nothing else.
KNOWN_WRAPPERS = re.compile(
    r"(gymnasium\.wrappers(\.\w+)?|stable_baselines3\.common\.atari_wrappers"
    r"|pivec\.rollouts\.atari|sb3_contrib\.common\.wrappers(\.\w+)?|rl_zoo3\.wrappers"
    r"|minigrid\.wrappers)"
    r":(?!RecordVideo|HumanRendering|RenderCollection)\w+"
)


def wrapped(env: gymnasium.Env[Any, Any], wrapper: Wrapper) -> gymnasium.Env[Any, Any]:
    """Put a wrapper around an environment."""
    arguments: dict[str, Any] = {}
    around = wrapper
    if isinstance(around, str):
        name, given = split_arguments(around)
        # JSON has no tuples, and Gymnasium takes nothing else for a shape.
        arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        around = named_object(name, "a wrapper")
    try:
        result: gymnasium.Env[Any, Any] = around(env, **arguments)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"the wrapper {wrapper} cannot be put around {env}: {type(error).__name__}: {error}"
        ) from error
    return result


def check_wrappers(wrappers: Sequence[Any], infos: Sequence[PolicyInfo], trust: bool) -> None:
    """Refuse wrappers that files may not ask for, or that are not installed."""
    for wrapper in wrappers:
        name = split_arguments(str(wrapper))[0]
        if not trust and not KNOWN_WRAPPERS.fullmatch(name):
            raise UsageError(
                f"{infos[0].source} was trained with the wrapper {name}, which a file may not ask "
                "for: give all wrappers with --wrapper (in Python: wrappers=), or allow it with "
                "--trust"
            )
        package = name.partition(".")[0]
        if importlib.util.find_spec(package) is None:
            raise UsageError(
                f"{infos[0].source} was trained with the wrapper {name}, but {package} is not "
                f"installed: pip install {package.replace('_', '-')}, or give all wrappers with "
                "--wrapper (in Python: wrappers=)"
            )


ID = re.compile(r"-v\d+$")  # a function that makes environments has another kind of name
ENVIRONMENT, ARGUMENTS, WRAPPERS, IMPORTS = "environment", "arguments", "wrappers", "imports"


@dataclass(frozen=True)
class Environment:
    """A way to make one environment as often as needed.

    By the Gymnasium id ``name`` (``CartPole-v1``, ``module:Name-v0``), by the name of a function or
    class that makes one (``module:make``), or by ``factory``. Of the ``wrappers`` the first is
    innermost: ``module:Class``, with arguments ``module:Class{"shape": [84, 84]}``, or a function
    from an environment to one.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    factory: Callable[[], gymnasium.Env[Any, Any]] | None = None
    wrappers: tuple[Wrapper, ...] = ()
    imports: tuple[str, ...] = ()  # modules that register environments
    watched: bool = False  # whether features look at more than its observations
    # Who else acts in a game of several agents, as its arguments say, see `pivec.rollouts.games`.
    partners: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    # How the id is registered, for other processes.
    registered: EnvSpec | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Include the registration, which a script may have made."""
        known = gymnasium.registry.get(self.name, self.registered)
        return self.__dict__ | {"registered": known if _can_be_pickled(known) else None}

    @classmethod
    def of(
        cls,
        env: str | Environment | Callable[[], gymnasium.Env[Any, Any]],
        arguments: Mapping[str, Any] | None = None,
        wrappers: Sequence[Wrapper] = (),
        imports: Sequence[str] = (),
    ) -> Environment:
        """Accept what users pass as ``env``."""
        given = dict(arguments or {})
        if isinstance(env, str):
            if not env.strip():
                raise UsageError(
                    "env is empty: expected the id of a Gymnasium environment such as CartPole-v1"
                )
            name, inside = split_arguments(env)
            env, given = cls(name), {**inside, **given}
        elif not isinstance(env, Environment):
            if isinstance(env, gymnasium.Env) or not callable(env):
                raise UsageError(
                    "env must be a Gymnasium id or a function that makes an environment, but is "
                    f"{type(env).__name__}: pass a function, since several are needed side by side"
                )
            env = cls(getattr(env, "__qualname__", type(env).__name__), factory=env)
        return replace(
            env,
            arguments={**env.arguments, **given},
            wrappers=(*env.wrappers, *wrappers),
            imports=(*env.imports, *imports),
        )

    def make(self, **more: Any) -> gymnasium.Env[Any, Any]:
        """Make one environment; ``more`` are further arguments for `gymnasium.make`."""
        self._register()
        try:
            env = self._made({**self.arguments, **more})
        except PivecError:
            raise
        except (Exception, SystemExit) as error:
            raise failure(self.name, "making it", error) from error
        for wrapper in self.wrappers:
            env = wrapped(env, wrapper)
        return env

    @property
    def spec(self) -> EnvSpec | None:
        """What Gymnasium knows of it; None for a factory, and for ids that nobody registered."""
        self._register()
        return None if self.factory is not None else gymnasium.registry.get(self.name)

    @property
    def wrapper_names(self) -> list[str]:
        """What to call the wrappers in a store."""
        return [
            wrapper if isinstance(wrapper, str) else getattr(wrapper, "__qualname__", repr(wrapper))
            for wrapper in self.wrappers
        ]

    def _register(self) -> None:
        known = [] if self.factory is not None or self.imports else registrars(self.name)
        own = [module] if (module := _module_of(self.name)) else []
        for module in (*known, *self.imports, *own):
            try:
                import_here(module)
            except (Exception, SystemExit) as error:
                raise UsageError(
                    f"the module {module!r} cannot be imported: {type(error).__name__}: {error}"
                ) from error
        if self.registered is not None:
            gymnasium.registry[self.name] = self.registered

    def _made(self, arguments: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
        make = self.factory
        if self.name.startswith(GAME):
            make = partial(make_role, self.name, make, self.partners)
        elif make is None and ":" in self.name and not ID.search(self.name):
            make = named_object(self.name, "an environment")
        env: Any = self._registered(arguments) if make is None else make(**arguments)
        if not isinstance(env, gymnasium.Env):
            kind = f"{type(env).__module__}.{type(env).__name__}"
            hint = (
                ": name a game of several agents as pettingzoo:..., with --agent (in Python agent=)"
            )
            hint *= hasattr(env, "possible_agents")
            raise UsageError(f"{self.name} must make a gymnasium.Env, but made {kind}{hint}")
        return env

    def _registered(self, arguments: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
        try:
            return gymnasium.make(self.name, **{"disable_env_checker": True, **arguments})
        except gymnasium.error.DependencyNotInstalled as error:
            raise PivecError(
                f"{self.name} needs a package that is not installed: {error}"
            ) from error
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise UsageError(self._unknown(str(error))) from error
        except TypeError as error:
            if not arguments:
                raise
            raise UsageError(
                f"{self.name} does not take the arguments {arguments}: {error}"
            ) from error

    def _unknown(self, reason: str) -> str:
        space = self.name.rpartition("/")[0]
        known = [name for name in gymnasium.registry if name.rpartition("/")[0] == space]
        if hint := did_you_mean(self.name, known, 3):
            return f"no environment is called {self.name!r}{hint}"
        return (
            f"no environment is called {self.name!r}: expected the id of a registered Gymnasium "
            "environment such as CartPole-v1, module:Name-v0, or module:function that makes one; "
            "a module that registers it is named with --import (in Python: imports=) "
            f"({reason.strip()})"
        )


def _module_of(name: str) -> str:
    """Name the module of ``module:object``; empty if there is none."""
    return split_arguments(name)[0].removeprefix(GAME).rpartition(":")[0]


def _can_be_pickled(spec: EnvSpec | None) -> bool:
    """Whether a registration can be sent to other processes; imports may register it there too."""
    try:
        pickle.dumps(spec)
    except Exception:  # whatever pickling the user's classes raises
        return False
    return True


def failure(name: str, what: str, error: BaseException) -> EnvironmentFailure:
    """Say which environment raised, and in what."""
    return EnvironmentFailure(f"{name} raised {type(error).__name__} in {what}: {error}")


def close(env: gymnasium.Env[Any, Any], name: str) -> None:
    """Close an environment; what it raises then has no part in its states, and is said."""
    try:
        env.close()
    except (Exception, SystemExit) as error:
        warnings.warn(str(failure(name, "close()", error)), PivecWarning, stacklevel=2)


def environment_of(
    env: str | Environment | Callable[[], Any] | None,
    policies: Sequence[PolicyInfo],
    options: CollectOptions | None = None,
    acting: Sequence[Policy] = (),
) -> Environment:
    """Make an `Environment` of what the user says and of what the policies' files tell.

    Their metadata may hold ``environment``, ``arguments``, ``wrappers`` and ``imports``. Without
    ``env`` it is what the files tell. The user's arguments are added to theirs and come first,
    the user's wrappers and imports stand instead of theirs. Files that disagree, or ask for
    something that they may not, are refused; of those that tell of another environment than
    ``env`` a warning is given. Where neither tells, the error says what those ``acting`` fit.
    """
    options = options or CollectOptions()
    arguments, wrappers, imports = options.env_kwargs, options.wrappers, options.imports
    if options.atari:
        arguments, wrappers = {**ONE_FRAME_A_STEP, **(arguments or {})}, (ATARI, *wrappers)
    if env is not None and not isinstance(env, str):
        return with_partners(Environment.of(env, arguments, wrappers, imports), options)
    env, inside = (None, {}) if env is None else split_arguments(env)
    trained = [info for info in policies if isinstance(info.metadata.get(ENVIRONMENT), str)]
    name = _named_in_files(trained, options.trust, acting) if env is None else env
    elsewhere = [
        info
        for info in trained
        if not _same(info.metadata[ENVIRONMENT], name) and ID.search(info.metadata[ENVIRONMENT])
    ]
    if elsewhere:
        first = elsewhere[0]
        warnings.warn(
            f"{len(elsewhere)} policies (first: {first.source}) were trained in "
            f"{first.metadata[ENVIRONMENT]}, and act in {name}",
            PivecWarning,
            stacklevel=3,
        )
    here = [info for info in trained if _same(info.metadata[ENVIRONMENT], name)]
    given = {**inside, **(arguments or {})}
    agreed = _agreed(here, ARGUMENTS, "--env-arg", lambda value: {**_mapping(value), **given})
    around: Sequence[Wrapper] = wrappers
    if not wrappers:
        around = _agreed(here, WRAPPERS, "--wrapper", _texts)
        check_wrappers(around, here, options.trust)
    modules: Sequence[str] = imports
    if not imports:
        modules = list(
            dict.fromkeys(m for info in here for m in _texts(info.metadata.get(IMPORTS)))
        )
        if modules and not options.trust:
            if ":" not in name and name not in gymnasium.registry:
                raise UsageError(
                    f"{here[0].source} tells that {modules[0]} registers its environment: if you "
                    f"trust that module, pass --import {modules[0]} (in Python: imports=)"
                )
            modules = []
    made = Environment.of(name, agreed if here else given, around, modules)
    if options.atari and made.spec is not None and "ale_py" not in str(made.spec.entry_point):
        raise UsageError(f"--atari is for games of ale-py such as ALE/Pong-v5, but {name} is none")
    return with_partners(made, options)


def _named_in_files(trained: Sequence[PolicyInfo], trust: bool, acting: Sequence[Policy]) -> str:
    """Give the one environment that all files name which name any."""
    if not trained:
        raise UnknownEnvironment(fitting_words(acting))
    first = trained[0]
    name = str(first.metadata[ENVIRONMENT])
    for info in trained:
        if info.metadata[ENVIRONMENT] != name:
            raise UsageError(
                f"the policies were trained in several environments: {first.source} in {name}, "
                f"{info.source} in {info.metadata[ENVIRONMENT]}: name the runs of one of them"
            )
    if ":" in name and not trust:
        raise UsageError(
            f"{first.source} asks for the environment {name!r}, which imports a module: name the "
            "environment (first, or with --env), or allow it with --trust (in Python: trust=True)"
        )
    return name


def _same(theirs: str, name: str) -> bool:
    """Whether two names mean the same environment; ``module:`` only says who registers it."""
    return theirs.rpartition(":")[2] == name.rpartition(":")[2]


def _agreed(
    infos: Sequence[PolicyInfo], key: str, option: str, settle: Callable[[Any], Any]
) -> Any:
    """Give what all files say under ``key``, settled with what the user says."""
    values = [settle(info.metadata.get(key)) for info in infos]
    for info, value in zip(infos, values, strict=True):
        if value != values[0]:
            raise UsageError(
                f"the policies were trained with other {key} of the environment: {infos[0].source} "
                f"with {values[0] or 'none'}, {info.source} with {value or 'none'}: compare those "
                f"that share them, or say with {option} which to take"
            )
    return values[0] if values else settle(None)


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
