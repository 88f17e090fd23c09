"""Which environment: a Gymnasium id with arguments, or a factory, with clear errors."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from pivec.errors import PivecError, UsageError


@dataclass(frozen=True)
class Environment:
    """A way to make one environment as often as needed.

    Attributes
    ----------
    name : str
        The Gymnasium id (``CartPole-v1``, ``module:Name-v0``), or a name for the factory.
    arguments : mapping
        Keyword arguments for `gymnasium.make`.
    factory : callable or None
        Makes the environment instead of `gymnasium.make`.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    factory: Callable[[], gymnasium.Env[Any, Any]] | None = None

    @classmethod
    def of(
        cls,
        env: str | Environment | Callable[[], gymnasium.Env[Any, Any]],
        arguments: Mapping[str, Any] | None = None,
    ) -> Environment:
        """Accept what users pass as ``env``."""
        if isinstance(env, Environment):
            return env
        if isinstance(env, str):
            return cls(env, dict(arguments or {}))
        if isinstance(env, gymnasium.Env) or not callable(env):
            raise UsageError(
                "env must be a Gymnasium id or a function that makes an environment, but is "
                f"{type(env).__name__}: pass a function, since several are needed side by side"
            )
        return cls(getattr(env, "__qualname__", type(env).__name__), factory=env)

    def make(self) -> gymnasium.Env[Any, Any]:
        """Make one environment."""
        if self.factory is not None:
            return self.factory()
        try:
            return gymnasium.make(self.name, disable_env_checker=True, **self.arguments)
        except gymnasium.error.DependencyNotInstalled as error:
            raise PivecError(
                f"{self.name} needs a package that is not installed: {error}"
            ) from error
        except (gymnasium.error.UnregisteredEnv, ModuleNotFoundError) as error:
            raise UsageError(self._unknown(str(error))) from error
        except TypeError as error:
            if not self.arguments:
                raise
            raise UsageError(
                f"{self.name} does not take the arguments {dict(self.arguments)}: {error}"
            ) from error

    def _unknown(self, reason: str) -> str:
        known = [name for name in gymnasium.registry if "/" not in name]
        close = difflib.get_close_matches(self.name, known, n=3, cutoff=0.6)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        return (
            f"no environment is called {self.name!r}: expected the id of a registered Gymnasium "
            f"environment such as CartPole-v1, or module:Name-v0 ({reason.strip()}).{hint}"
        )
