"""What features may see: observations, infos and environments; values of the latter by name.

Features are called with as many of these as they take. A batch that is seen is a tuple of them:
observations alone where nothing else is known, as of recorded states.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, PivecError, PivecWarning, UsageError, did_you_mean
from pivec.options import Features

Seen = tuple[Any, ...]  # a batch of observations; infos and environments, lists of as many

_WHAT = ("observations", "infos", "environments")
_KEPT = re.compile(r"Values\(of='(?P<of>info|env)', keys=\((?P<keys>(?:'[^'\\]*',? ?)+)\)\)")
_JOINT = re.compile(r"joint\.[^.]+")  # what all agents of a game see, see `role_env`


def sees(features: Features | None) -> int:
    """Count what features take: observations, infos too (2), environments too (3).

    Examples
    --------
    >>> sees(lambda observations: observations), sees(lambda observations, infos: observations)
    (1, 2)
    """
    own = getattr(features, "sees", None)
    if features is None or isinstance(own, int):
        return own or 1
    try:
        parameters = inspect.signature(features).parameters.values()
    except (ValueError, TypeError):  # some functions written in C do not tell
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = sum(p.kind in positional and p.default is p.empty for p in parameters)
    return min(max(needed, 1), len(_WHAT))


def look(features: Features, seen: Seen) -> Any:
    """Call features with what they take of a batch."""
    wanted = sees(features)
    if wanted > len(seen):
        raise UsageError(
            f"features take {', '.join(_WHAT[:wanted])}, but of these states only observations are "
            "known: take features of observations alone, or let policies act in a Gymnasium "
            "environment"
        )
    return features(*seen[:wanted])


@dataclass(frozen=True)
class Values:
    """Numbers by name out of ``info`` or ``env``, the environment itself, as rows.

    A key is a name, with dots into what lies inside (``position.0``, ``data.qpos``). Of the
    environment it names attributes, of its wrappers too; one that is a method is called.
    `settled` finds out how many numbers each key has.

    Examples
    --------
    >>> values = Values("info", ("x", "at.goal"))
    >>> info = {"x": 1.5, "at": {"goal": [True, False]}}
    >>> values(np.zeros((1, 4)), [info], [None])
    array([[1.5, 1. , 0. ]])
    """

    of: str
    keys: tuple[str, ...]
    sizes: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    late: tuple[str, ...] = field(default=(), repr=False, compare=False)  # not in reset's info
    sees = 3

    @classmethod
    def named(cls, spec: str) -> Values:
        """Read ``info:KEY,KEY`` or ``env:KEY``.

        Examples
        --------
        >>> Values.named("info:x_position, x_velocity")
        Values(of='info', keys=('x_position', 'x_velocity'))
        """
        of, _, text = spec.partition(":")
        keys = tuple(filter(None, (key.strip() for key in text.split(","))))
        if not keys or len(set(keys)) < len(keys) or re.search(r"['\\]", text):
            raise UsageError(
                f"features {spec!r} must name different values with commas between, as "
                "info:x_position,x_velocity"
            )
        return cls(of, keys)

    @classmethod
    def kept(cls, name: str) -> Values | None:
        """Read what a store keeps of it; of environments only joint states: methods are called."""
        match = _KEPT.fullmatch(name)
        keys = tuple(re.findall(r"'([^']*)'", match["keys"])) if match else ()
        harmless = match and (match["of"] == "info" or all(_JOINT.fullmatch(k) for k in keys))
        return cls(match["of"], keys) if match and harmless else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers, as far as sizes are known."""
        return tuple(name for key in self.sizes for name in self._columns(key))

    @property
    def late_columns(self) -> list[int]:
        """Numbers of the columns that reset's info lacks."""
        late = {name for key in self.late for name in self._columns(key)}
        return [i for i, name in enumerate(self.names) if name in late]

    def _columns(self, key: str) -> list[str]:
        size = self.sizes[key]
        return [key] if size == 1 else [f"{key}[{i}]" for i in range(size)]

    def __call__(
        self,
        observations: Any,  # noqa: ARG002 - the signature of features that see all
        infos: Sequence[Any],
        environments: Sequence[Any],
    ) -> NDArray[np.float64]:
        """Give the rows of a batch; NaN for what reset's info lacks."""
        rows = []
        for lane, source in enumerate(infos if self.of == "info" else environments):
            try:
                rows.append(np.concatenate([self._value(source, key) for key in self.keys]))
            except PivecError as error:
                error.lane = lane
                raise
        if len({len(row) for row in rows}) > 1:
            raise BadData(
                f"{self.of} has other numbers of values in other steps for {', '.join(self.keys)}"
            )
        return np.stack(rows)

    def settled(self, env: gymnasium.Env[Any, Any], info: Any) -> Values:
        """Find the sizes; of keys that ``info`` of a reset lacks by a step."""
        if self.of == "env":
            return replace(self, sizes={key: len(self._value(env, key)) for key in self.keys})
        late = tuple(key for key in self.keys if _in_info(info, key) is None)
        after = info
        if late:
            env.action_space.seed(0)
            after = env.step(env.action_space.sample())[-1]
        sizes = {key: len(self._value(after if key in late else info, key)) for key in self.keys}
        if late:
            warnings.warn(
                f"info has {' and '.join(late)} after a step, but not at reset: the first state of "
                "an episode gets the value after its first step",
                PivecWarning,
                stacklevel=3,
            )
        return replace(self, sizes=sizes, late=late)

    def _value(self, source: Any, key: str) -> NDArray[np.float64]:
        value = (_in_info if self.of == "info" else _in_environment)(source, key)
        if value is None and key in self.late:
            return np.full(self.sizes[key], np.nan)
        if value is None:
            known = list(map(str, source)) if isinstance(source, Mapping) else dir(source.unwrapped)
            has = f": it has {', '.join(known) or 'nothing'}" * (self.of == "info")
            raise UsageError(f"{self.of} has no {key!r}{did_you_mean(key, known)}{has}")
        try:
            return np.asarray(value, dtype=np.float64).ravel()
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"{key} of {self.of} must be numbers, but is {type(value).__name__}"
            ) from error


def _in_info(value: Any, key: str) -> Any:
    """Follow a key into mappings and sequences; None where it leads nowhere."""
    if isinstance(value, Mapping) and key in value:  # a name that has dots itself
        return value[key]
    for part in key.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif part.isdecimal() and isinstance(value, Sequence | np.ndarray):
            value = value[int(part)] if int(part) < len(value) else None
        else:
            return None
    return value


def _in_environment(env: Any, key: str) -> Any:
    """Follow a key into attributes, of wrappers first; what is a method is called."""
    first, *rest = key.split(".")
    value = env.get_wrapper_attr(first) if env.has_wrapper_attr(first) else None
    value = value() if callable(value) else value
    for part in rest:
        inner = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
        value = inner() if callable(inner) else inner
    return value
