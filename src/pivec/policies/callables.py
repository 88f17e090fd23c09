"""Policies from Python: functions, objects, ``module:object``, and the random policy."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, PivecError, PivecWarning, UsageError, did_you_mean
from pivec.policies.distributions import counts
from pivec.policies.policy import (
    HAS_MEMORY,
    BatchPolicy,
    Policy,
    RecurrentPolicy,
    unbound,
)

if TYPE_CHECKING:
    from pivec.policies.policy import Space

IMPORTABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_OBSERVATIONS = ("observation", "observations", "obs")
_MEMORIES = ("memory", "state")  # names of the memory, after the observations
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, eq=False)
class CallablePolicy:
    """A Python function as a policy; made by `as_policy`, which inspects its signature.

    ``rng`` says how the generator is passed ("", "positional" or "keyword"), ``deterministic``
    whether there is a keyword of that name, ``memory`` is the keyword of the memory, if any, and
    ``starts`` says whether it also takes ``episode_start``.
    """

    call: Callable[..., Any]
    name: str  # for messages
    rng: str = ""
    deterministic: bool = False
    memory: str = ""
    starts: bool = False
    fingerprint: str = ""  # of what decides its actions, if that is known

    def act(
        self, observations: Any, rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[Any]:
        actions, memory = self.ask(observations, rng, deterministic=deterministic)
        if memory is not None:
            raise UsageError(HAS_MEMORY.format(self.name))
        return actions

    def ask(
        self,
        observations: Any,
        rng: np.random.Generator,
        memory: Any = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], Any]:
        """Actions, and the memory for the next observations of the episodes.

        The memory is None when episodes begin, and stays None if the function has none.
        """
        first = observations  # an array, or a dict or tuple of arrays
        while isinstance(first, dict | tuple):
            first = next(iter(first.values() if isinstance(first, dict) else first))
        expected = len(first)
        arguments = [observations, rng] if self.rng == "positional" else [observations]
        keywords: dict[str, Any] = {"rng": rng} if self.rng == "keyword" else {}
        if self.deterministic:
            keywords["deterministic"] = deterministic
        elif deterministic:
            raise UsageError(f"{self.name} has no argument 'deterministic': add it, or sample")
        if self.memory:
            keywords[self.memory] = memory
        if self.starts:
            keywords["episode_start"] = np.full(expected, memory is None)
        result, memory = self.call(*arguments, **keywords), None
        if isinstance(result, tuple) and len(result) == 2:
            result, memory = result
            if memory is not None and not self.memory:
                raise UsageError(
                    f"{self.name} returns a memory, but does not accept one: add an argument "
                    "'memory' (None when an episode begins), or return actions only"
                )
        elif self.memory == "memory":
            raise UsageError(f"{self.name} takes a memory: it must return (actions, memory)")
        try:
            actions = np.asarray(result)
            shape = f"an array of shape {actions.shape}"
        except ValueError as error:
            actions, shape = np.array(0), f"different shapes ({error})"
        if actions.ndim == 0 or len(actions) != expected:
            raise UsageError(
                f"{self.name} must return one action for each of {expected} observations, but "
                f"returned {shape}"
            )
        return actions, memory


def as_policy(thing: Any, name: str = "") -> Policy:
    """Make a policy of a policy, a callable, or an object with ``act`` or ``predict``.

    Callables take a batch of observations, and may take a random generator as a second argument
    (or by the keyword ``rng``) and the keyword ``deterministic``. One with a memory takes it by the
    keyword ``memory`` (or ``state``), None when an episode begins, and returns ``(actions,
    memory)``. ``predict`` is as in Stable-Baselines3, with or without a memory. Models of that
    library are copied where their networks are known (see `convert_sb3`), with the statistics of
    VecNormalize if they were trained in one; other models sample from torch's global generator.

    Examples
    --------
    >>> import numpy as np
    >>> policy = as_policy(lambda observations: (observations[:, 0] > 0).astype(int))
    >>> policy.act(np.array([[1.0], [-1.0]]), np.random.default_rng(0))
    array([1, 0])
    """
    if isinstance(thing, CallablePolicy) or (
        isinstance(thing, BatchPolicy | RecurrentPolicy) and not isinstance(thing, type)
    ):
        return thing
    name = name or str(getattr(thing, "__name__", None) or type(thing).__name__)
    if isinstance(thing, type):
        raise UsageError(f"{name} is a class: pass an instance of it")
    if callable(getattr(thing, "get_vec_normalize_env", None)):  # a model of Stable-Baselines3
        # Users may have changed models of their own classes: those use predict.
        if type(thing).__module__.partition(".")[0] in ("stable_baselines3", "sb3_contrib"):
            from pivec.policies.formats.sb3 import convert_sb3

            try:
                return convert_sb3(thing)
            except BadPolicyFile as error:
                what = "its predict is used instead, which samples from torch's global generator"
                warnings.warn(f"{error}; {what}", PivecWarning, stacklevel=2)
        if (wrapper := thing.get_vec_normalize_env()) is not None:

            def predict(
                observations: Any,
                state: Any = None,
                episode_start: Any = None,
                deterministic: bool = False,
            ) -> Any:
                normalised = wrapper.normalize_obs(observations)
                return thing.predict(normalised, state, episode_start, deterministic)

            return _wrap(predict, f"{name}.predict")
    for method in ("act", "predict"):
        if callable(getattr(thing, method, None)):
            return _wrap(getattr(thing, method), f"{name}.{method}")
    if callable(thing):
        return _wrap(thing, name)
    raise UsageError(
        f"expected a policy, a callable or an object with act or predict, but got {name} of type "
        f"{type(thing).__name__}"
    )


def _parameters(call: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(call).parameters.values())
    except (ValueError, TypeError):  # some functions written in C
        return [inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL)]


def _wrap(call: Callable[..., Any], name: str) -> CallablePolicy:
    parameters = _parameters(call)
    names = {parameter.name for parameter in parameters}
    positional = [p for p in parameters if p.kind in _POSITIONAL and p.name != "deterministic"]
    if not positional and all(p.kind is not p.VAR_POSITIONAL for p in parameters):
        raise UsageError(f"{name} must take a batch of observations, but takes no argument")
    # The first argument are the observations, whatever their name.
    behind = {parameter.name for parameter in parameters[1:]}
    memory = next((name for name in _MEMORIES if name in behind), "")
    known = ("rng", memory)
    needed = [p.name for p in positional if p.default is p.empty and p.name not in known]
    rng = "keyword" if "rng" in names else ""
    if len(needed) == 2 and not rng:
        rng, needed = "positional", needed[:1]
    if len(needed) > 1:
        raise UsageError(
            f"{name} must take observations, and may take rng, memory and deterministic, but takes "
            f"{', '.join(needed)}"
        )
    starts = bool(memory) and "episode_start" in behind
    return CallablePolicy(call, name, rng, "deterministic" in names, memory, starts)


def import_policy(spec: str) -> Policy:
    """Import ``module:object`` and make a policy of it, which runs the code of the module.

    The object is a policy, a callable, or a class or factory without required arguments that
    returns one of these.
    """
    thing = import_object(spec, "the policy")
    is_factory = isinstance(thing, type) or (
        inspect.isroutine(thing)
        and all(
            parameter.kind is parameter.VAR_KEYWORD
            or not (parameter.default is parameter.empty or parameter.name in _OBSERVATIONS)
            for parameter in _parameters(thing)
        )
    )
    if is_factory:
        with user_code(f"{spec} cannot be made"):
            thing = thing()
    return as_policy(thing, spec)


def import_object(spec: str, what: str) -> Any:
    """Import ``module:name``; ``what`` it is appears in errors."""
    module_name, _, name = spec.partition(":")
    if not module_name or not name:
        raise UsageError(f"{what} must be named as module:name, but is {spec!r}")
    with user_code(f"{what} {spec!r} cannot be imported"):
        target: Any = import_here(module_name)
    for part in name.split("."):
        if not hasattr(target, part):
            hint = did_you_mean(part, dir(target))
            raise UsageError(f"{spec!r} does not exist: {module_name} has no {part!r}{hint}")
        target = getattr(target, part)
    return target


def import_here(module: str) -> ModuleType:
    """Import a module, which may be in the working directory."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(module)


@contextmanager
def user_code(failed: str, kind: type[PivecError] = UsageError) -> Iterator[None]:
    """Turn exceptions of the user's or other code into one that begins with what ``failed``."""
    try:
        yield
    except PivecError:
        raise
    except (Exception, SystemExit) as error:
        detail = " ".join(str(error).split())[:300]
        raise kind(f"{failed}: {type(error).__name__}: {detail}") from error


@dataclass(frozen=True, eq=False)
class UniformPolicy(BatchPolicy):
    """The random policy: uniform over the action space, which `bind` sets.

    Examples
    --------
    >>> import gymnasium, numpy as np
    >>> space = gymnasium.spaces.Discrete(2)
    >>> policy = UniformPolicy().bind(space, space)
    >>> policy.act([0, 1, 0, 1, 0], np.random.default_rng(0))
    array([1, 1, 1, 0, 0])
    """

    low: NDArray[Any] | None = None  # the smallest action
    high: NDArray[Any] | None = None  # the largest, inclusive for discrete actions

    @property
    def architecture(self) -> Hashable:
        bounds = [] if self.low is None else self._bounds()
        return ("uniform", *((b.dtype.str, b.shape, b.tobytes()) for b in bounds))

    def bind(
        self,
        observation_space: Space,  # noqa: ARG002 - the signature of every bind
        action_space: Space,
    ) -> UniformPolicy:
        from gymnasium import spaces

        if sizes := counts(action_space):
            dtype = np.int64 if isinstance(action_space, spaces.Discrete) else action_space.dtype
            start = np.asarray(getattr(action_space, "start", 0))
            first = np.broadcast_to(start, action_space.shape or ()).astype(dtype)
            return UniformPolicy(first, (first + np.reshape(sizes, first.shape) - 1).astype(dtype))
        if isinstance(action_space, spaces.Box):
            if not action_space.is_bounded("both"):
                raise UsageError(
                    f"the random policy needs bounded actions, not {action_space}: wrap the "
                    "environment with bounds (as gymnasium.wrappers.RescaleAction does)"
                )
            return UniformPolicy(action_space.low.copy(), action_space.high.copy())
        raise UsageError(
            "the random policy supports Discrete, Box, MultiDiscrete and MultiBinary actions, "
            f"not {action_space}"
        )

    def noise(self, rng: np.random.Generator, n: int) -> NDArray[np.float32]:
        return rng.random((n, max(1, self._bounds()[0].size)), dtype=np.float32)

    def respond(self, observations: Any, noise: NDArray[np.float32] | None) -> NDArray[Any]:
        low, high = self._bounds()
        if noise is None:
            raise UsageError("the random policy has no most likely action: sample its actions")
        share = np.asarray(noise, np.float64).reshape(len(noise), *low.shape)
        if len(share) != len(observations):
            rows = f"{len(observations)} observations, but got {len(share)} rows"
            raise UsageError(f"expected random numbers for {rows}")
        below, above = low.astype(np.float64), high.astype(np.float64)
        if np.issubdtype(low.dtype, np.floating):
            return (below + share * (above - below)).astype(low.dtype)
        whole = np.floor(below + share * (above - below + 1))
        return np.minimum(whole, above).astype(low.dtype)

    def _bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        if self.low is None or self.high is None:
            raise unbound("the random policy", "the actions")
        return self.low, self.high
