"""Which environment: a Gymnasium id with arguments and wrappers, or a factory; clear errors."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium

from pivec.errors import EnvironmentFailure, PivecError, PivecWarning, UsageError, did_you_mean
from pivec.options import Wrapper
from pivec.rollouts.named_objects import named_object, split_arguments
from pivec.rollouts.quirks import REGISTERED_BY


@dataclass(frozen=True)
class Environment:
    """A way to make one environment as often as needed.

    By the Gymnasium id ``name`` (``CartPole-v1``, ``module:Name-v0``), or by ``factory``. Of the
    ``wrappers`` the first is innermost: ``module:Class``, with arguments
    ``module:Class{"shape": [84, 84]}``, or a function from an environment to one.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    factory: Callable[[], gymnasium.Env[Any, Any]] | None = None
    wrappers: tuple[Wrapper, ...] = ()
    imports: tuple[str, ...] = ()  # modules that register environments

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
            env = cls(env)
        elif not isinstance(env, Environment):
            if isinstance(env, gymnasium.Env) or not callable(env):
                raise UsageError(
                    "env must be a Gymnasium id or a function that makes an environment, but is "
                    f"{type(env).__name__}: pass a function, since several are needed side by side"
                )
            env, given = cls(getattr(env, "__qualname__", type(env).__name__), factory=env), {}
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
            env = self.factory(**more) if self.factory is not None else self._registered(more)
        except PivecError:
            raise
        except (Exception, SystemExit) as error:
            raise failure(self.name, "making it", error) from error
        for wrapper in self.wrappers:
            env = _wrapped(env, wrapper)
        return env

    @property
    def spec(self) -> gymnasium.envs.registration.EnvSpec | None:
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
        namespace = self.name.partition("/")[0]
        known = [REGISTERED_BY[namespace]] if namespace in REGISTERED_BY else []
        for module in (*known, *self.imports):
            try:
                importlib.import_module(module)
            except (Exception, SystemExit) as error:
                raise UsageError(
                    f"the module {module!r} cannot be imported: {type(error).__name__}: {error}"
                ) from error

    def _registered(self, more: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
        arguments = {**self.arguments, **more}
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
        known = [name for name in gymnasium.registry if "/" not in name.removeprefix("pivec/")]
        hint = did_you_mean(self.name, known, 3)
        return (
            f"no environment is called {self.name!r}{hint}: expected the id of a registered "
            f"Gymnasium environment such as CartPole-v1, or module:Name-v0 ({reason.strip()})"
        )


def failure(name: str, what: str, error: BaseException) -> EnvironmentFailure:
    """Say which environment raised, and in what."""
    return EnvironmentFailure(f"{name} raised {type(error).__name__} in {what}: {error}")


def close(env: gymnasium.Env[Any, Any], name: str) -> None:
    """Close an environment; what it raises then has no part in its states, and is said."""
    try:
        env.close()
    except (Exception, SystemExit) as error:
        warnings.warn(str(failure(name, "close()", error)), PivecWarning, stacklevel=2)


def _wrapped(env: gymnasium.Env[Any, Any], wrapper: Wrapper) -> gymnasium.Env[Any, Any]:
    arguments: dict[str, Any] = {}
    around = wrapper
    if isinstance(around, str):
        name, arguments = split_arguments(around)
        around = named_object(name, "a wrapper")
    try:
        wrapped: gymnasium.Env[Any, Any] = around(env, **arguments)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"the wrapper {wrapper} cannot be put around {env}: {type(error).__name__}: {error}"
        ) from error
    return wrapped
