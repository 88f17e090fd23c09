"""Checks of arguments against their annotated types, which include ranges.

Use the decorator `checked` for functions, and `check_arguments` in ``__post_init__`` of dataclasses
and in ``fit`` of estimators. `pairs` reads arguments from text.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pivec.errors import UsageError

_MOST = 2**63 - 1  # what arrays can count


@dataclass(frozen=True)
class Range:
    """Allowed numbers: at least ``least``, or with ``above`` more than that."""

    least: float
    above: bool = False
    most: float = _MOST

    def __contains__(self, value: Any) -> bool:
        number = int(value) if isinstance(value, Integral) else float(value)
        return number <= self.most and (number > self.least if self.above else number >= self.least)

    def __str__(self) -> str:
        end = "" if self.most >= _MOST else f" and at most {self.most:,}"
        return f"{'above' if self.above else 'of at least'} {self.least:g}{end}"


Count = Annotated[int, Range(1)]
Seed = Annotated[int, Range(0)]
Positive = Annotated[float, Range(0, above=True, most=sys.float_info.max)]
NotNegative = Annotated[float, Range(0, most=sys.float_info.max)]

_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((Integral,), "a whole number"),
    float: ((Real,), "a number"),
    str: ((str,), "text"),
    NoneType: ((NoneType,), "None"),
}


Function = TypeVar("Function", bound=Callable[..., Any])


def checked(function: Function) -> Function:
    """Decorate a function: its arguments are checked against their annotations."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        _check(signature.bind(*args, **kwargs).arguments, _hints(function))
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def check_arguments(thing: Any) -> None:
    """Check the arguments of an estimator or a dataclass against their annotations."""
    kind: Any = type(thing)
    if is_dataclass(thing):
        values = {field.name: getattr(thing, field.name) for field in fields(thing)}
        hints = _hints(kind)
    else:
        values = thing.get_params(deep=False)
        hints = _hints(kind.__init__)
    _check(values, hints)


@functools.cache
def _hints(thing: Any) -> dict[str, Any]:
    return get_type_hints(thing, include_extras=True)


def _check(values: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    for name, value in values.items():
        hint = hints.get(name, Any)
        if not _fits(value, hint):
            raise UsageError(f"{name} must be {_expected(hint)}, but is {value!r}")


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        kind, allowed = get_args(hint)
        return _fits(value, kind) and value in allowed
    if get_origin(hint) is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, kind) for kind in get_args(hint))
    if hint not in _KINDS:
        return True
    if hint is bool or isinstance(value, bool):
        # NumPy's bool too, without importing NumPy.
        return hint is bool and type(value).__name__ in ("bool", "bool_")
    return isinstance(value, _KINDS[hint][0])


def _expected(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        kind, allowed = get_args(hint)
        return f"{_expected(kind)} {allowed}"
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_expected, get_args(hint)))
    return _KINDS[hint][1] if hint in _KINDS else str(getattr(hint, "__name__", hint))


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, Any]:
    """Read KEY=VALUE; a value that is valid JSON is parsed, any other is text.

    Examples
    --------
    >>> pairs(["n_components=4", "device=cpu"], "--parameters")
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
