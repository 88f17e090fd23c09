"""Makes a policy of what Python users have: a function, or an object that acts or predicts."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.policy import BatchPolicy, Policy
from pivec.policies.sb3 import convert_sb3

if TYPE_CHECKING:
    import gymnasium

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, eq=False)
class CallablePolicy:
    """Asks a Python function for a batch of actions.

    Made by `as_policy`, which finds out what the function takes.

    Parameters
    ----------
    call : callable
        ``call(observations, ...)`` gives one action for each row.
    name : str
        What error messages call it.
    rng : str
        How the generator is passed: "" (not at all), "positional" or "keyword".
    deterministic : bool
        Whether it has a keyword of that name.
    """

    call: Callable[..., Any]
    name: str
    rng: str = ""
    deterministic: bool = False

    def act(
        self, observations: Any, rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[Any]:
        """Ask for one action for each row of ``observations``."""
        arguments = [observations, rng] if self.rng == "positional" else [observations]
        keywords: dict[str, Any] = {"rng": rng} if self.rng == "keyword" else {}
        if self.deterministic:
            keywords["deterministic"] = deterministic
        elif deterministic:
            raise UsageError(
                f"{self.name} was asked for its most likely actions, but takes no argument "
                "'deterministic': add one, or let it sample."
            )
        result = self.call(*arguments, **keywords)
        if isinstance(result, tuple) and len(result) == 2:
            result, state = result
            if state is not None:
                raise UsageError(
                    f"{self.name} carries a state from step to step, which is not supported: "
                    "expected actions that depend on the observation only."
                )
        try:
            actions = np.asarray(result)
        except ValueError as error:
            raise UsageError(f"{self.name} gave actions of different shapes ({error}).") from error
        expected = _count(observations)
        if actions.ndim == 0 or len(actions) != expected:
            raise UsageError(
                f"{self.name} must give one action for each of {expected} observations, "
                f"but gave an array of shape {actions.shape}."
            )
        return actions

    def bind(
        self,
        observation_space: gymnasium.Space[Any],  # noqa: ARG002 - the signature of every bind
        action_space: gymnasium.Space[Any],  # noqa: ARG002
    ) -> CallablePolicy:
        """Itself: what a function expects cannot be checked beforehand."""
        return self


def _count(observations: Any) -> int:
    """Rows of a batch, which is an array or, of composite observations, a dict or tuple of them."""
    while isinstance(observations, dict | tuple):
        parts = observations.values() if isinstance(observations, dict) else observations
        observations = next(iter(parts))
    return len(observations)


def as_policy(thing: Any, name: str = "") -> Policy:
    """Make a policy of a policy, a callable, or an object with ``act`` or ``predict``.

    Callables take a batch of observations, and may take a random generator as a second argument
    (or by the keyword ``rng``) and the keyword ``deterministic``. ``predict`` is as in
    Stable-Baselines3 and may give ``(actions, None)``. Its models are copied as they are now where
    their networks are known (see `pivec.policies.sb3`), with the statistics of VecNormalize if they
    were trained in one; other models draw from torch's global generator when they sample.

    Examples
    --------
    >>> import numpy as np
    >>> policy = as_policy(lambda observations: (observations[:, 0] > 0).astype(int))
    >>> policy.act(np.array([[1.0], [-1.0]]), np.random.default_rng(0))
    array([1, 0])
    """
    if isinstance(thing, CallablePolicy) or (
        isinstance(thing, BatchPolicy) and not isinstance(thing, type)
    ):
        return thing
    name = name or _name_of(thing)
    if isinstance(thing, type):
        raise UsageError(f"{name} is a class: pass an instance of it.")
    if callable(getattr(thing, "get_vec_normalize_env", None)):  # a model of Stable-Baselines3
        # Models of a kind that cannot be copied are asked by predict, and so are those of a class
        # of the user's, who may have changed it.
        if type(thing).__module__.partition(".")[0] in ("stable_baselines3", "sb3_contrib"):
            with contextlib.suppress(BadPolicyFile):
                return convert_sb3(thing)
        if (wrapper := thing.get_vec_normalize_env()) is not None:
            return _wrap(_normalised(thing, wrapper), f"{name}.predict")
    for method in ("act", "predict"):
        if callable(getattr(thing, method, None)):
            return _wrap(getattr(thing, method), f"{name}.{method}")
    if callable(thing):
        return _wrap(thing, name)
    raise UsageError(
        f"Expected a policy, a callable or an object with act or predict, but got {name} of type "
        f"{type(thing).__name__}."
    )


def _name_of(thing: Any) -> str:
    return str(getattr(thing, "__name__", None) or type(thing).__name__)


def _normalised(model: Any, wrapper: Any) -> Callable[..., Any]:
    """``predict`` of a model that expects observations as its VecNormalize gives them."""

    def predict(observations: Any, deterministic: bool = False) -> Any:
        seen = wrapper.normalize_obs(observations)
        return model.predict(seen, deterministic=deterministic)

    return predict


def _wrap(call: Callable[..., Any], name: str) -> CallablePolicy:
    try:
        parameters = dict(inspect.signature(call).parameters)
    except (ValueError, TypeError):  # some functions written in C do not tell
        return CallablePolicy(call, name)
    kinds = {parameter.kind for parameter in parameters.values()}
    positional = [
        parameter
        for parameter in parameters.values()
        if parameter.kind in _POSITIONAL and parameter.name != "deterministic"
    ]
    if not positional and inspect.Parameter.VAR_POSITIONAL not in kinds:
        raise UsageError(f"{name} must take a batch of observations, but takes no argument.")
    needed = [parameter for parameter in positional if parameter.default is parameter.empty]
    rng = ""
    if "rng" in parameters:
        rng = "keyword"
        needed = [parameter for parameter in needed if parameter.name != "rng"]
    if len(needed) == 2 and not rng:
        rng, needed = "positional", needed[:1]
    if len(needed) > 1:
        names = ", ".join(parameter.name for parameter in needed)
        raise UsageError(
            f"{name} must take observations, and may take rng and deterministic, but takes {names}."
        )
    return CallablePolicy(call, name, rng, "deterministic" in parameters)
