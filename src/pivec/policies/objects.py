"""Reads pickled Python objects as data: their class stays a name, their attributes a dictionary.

Numbers and arrays of NumPy are understood. Nothing is imported and nothing runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.policies.pickles import Interpreter, Name
from pivec.reading import Budget

MAX_BYTES = 1 << 28
ENTRY = 128  # bytes of an entry of a dictionary, with its share of what is free


@dataclass(eq=False)
class Object:
    """An object of a pickle: the name of its class and its attributes."""

    kind: Name
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class _Dtype:
    """A dtype that is being built: its code, and the byte order that BUILD adds."""

    code: str
    order: str = "="


@dataclass(eq=False)
class _Array:
    """An array, to which BUILD gives its content."""

    values: NDArray[Any] | None = None


class _Opaque:
    """Something whose value does not matter here, such as a random generator."""


def as_array(value: Any) -> NDArray[Any] | None:
    """Give the array that a value read by `read_objects` stands for; None if it is none."""
    if isinstance(value, _Array):
        return value.values
    return value if isinstance(value, np.ndarray) else None


def read_objects(data: bytes, modules: tuple[str, ...]) -> Any:
    """Read a pickle whose objects belong to ``modules`` (top-level packages).

    Arrays among the values are taken out by `as_array`. If the file is damaged, or wants anything
    else imported, that is a BadPolicyFile, and nothing of it has run.
    """
    return _ObjectInterpreter(modules, Budget(len(data), "it", MAX_BYTES)).run(data)


class _ObjectInterpreter(Interpreter):
    def __init__(self, modules: tuple[str, ...], budget: Budget) -> None:
        super().__init__(budget)
        self.modules = modules

    def call(self, function: Name, arguments: tuple[Any, ...]) -> Any:
        module = function.module.replace("numpy.core.", "numpy._core.")
        match f"{module}.{function.name}", arguments:
            case "numpy._core.multiarray._reconstruct", (Name("numpy", "ndarray"), *_):
                return _Array()
            case "numpy._core.numeric._frombuffer", (bytes(raw), _Dtype() as dtype, shape, str(o)):
                return self.array(raw, dtype, shape, fortran=o == "F")
            case "numpy._core.multiarray.scalar", (_Dtype() as dtype, bytes(raw)):
                return self.array(raw, dtype, (), fortran=False)[()]
            case "numpy.dtype", (str(code), *_):
                return _Dtype(code)
            case "_codecs.encode", (str(text), "latin1"):
                return self.encoded(text)
            case "builtins.bytes" | "__builtin__.bytes", ():
                return b""
            case "builtins.bytearray", (bytes(raw),):
                return raw
            case "collections.OrderedDict", ():
                return {}
            case "copyreg._reconstructor" | "copy_reg._reconstructor", (Name() as kind, *_):
                return self.new(kind)
        self.new(function)  # refused outside of the modules
        return _Opaque()

    def new(self, kind: Name) -> Any:
        if kind.module.partition(".")[0] not in self.modules:
            return super().call(kind, ())
        return Object(kind)

    def encoded(self, text: str) -> bytes:
        self.budget.spend(len(text))
        try:
            return text.encode("latin1")
        except UnicodeEncodeError as error:
            raise self.damaged("bytes are no bytes") from error

    def build(self, target: Any, state: Any) -> Any:
        match target, state:
            case _Dtype(), (int(), str(order), *_) if order in ("<", ">", "|", "="):
                target.order = order
            case _Array(), (int(), shape, _Dtype() as dtype, fortran, bytes(raw)):
                target.values = self.array(raw, dtype, shape, bool(fortran))
            case (Object(), dict() as attributes) | (Object(), (_, dict() as attributes)):
                self.budget.spend(ENTRY * len(attributes))  # one may be given to many objects
                target.state.update(attributes)
            case ((_Opaque() | dict()), _):
                pass
            case _:
                return super().build(target, state)
        return target

    def key(self, key: Any) -> Any:
        # Pairs of numbers are the keys of connections between nodes.
        if isinstance(key, tuple) and len(key) == 2 and all(type(n) is int for n in key):
            return key
        return super().key(key)

    def array(self, raw: bytes, dtype: _Dtype, shape: Any, fortran: bool) -> NDArray[Any]:
        order = "<" if dtype.order == "=" else dtype.order
        try:
            kind = np.dtype(f"{order}{dtype.code.lstrip('<>|=')}")
        except (TypeError, ValueError) as error:
            raise self.fail(f"it holds numbers of the kind {dtype.code[:20]!r}") from error
        if kind.kind not in "biuf" or not kind.itemsize:
            raise self.fail(f"it holds values of the kind {dtype.code[:20]!r}")
        if math.prod(self.sizes(shape)) * kind.itemsize != len(raw):
            raise self.fail(f"an array of shape {shape} has {len(raw)} bytes")
        self.budget.spend(len(raw))
        flat = np.frombuffer(raw, kind).astype(kind.newbyteorder("="))
        try:
            return flat.reshape(shape, order="F" if fortran else "C")
        except ValueError as error:  # nothing in it, but huge along the other axes
            raise self.fail("the shape of an array makes no sense") from error
