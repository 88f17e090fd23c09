"""Reads pickles from strangers without running anything they ask for.

A pickle is a small program that builds values. Here its instructions are interpreted by this
module alone, on a stack of plain values: numbers, text, bytes, lists, dictionaries. What a program
wants to import stays a name. Which names may be called, and what that gives, is decided by the
subclass for a kind of file; everything else is refused by name. `read_objects` is the one for
Python objects: their class stays a name, their attributes a dictionary, and arrays of NumPy are
understood.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile
from pivec.files import Budget

MAX_OPCODES = 1_000_000
MAX_DIMENSIONS = 8
MAX_SIZE = 1 << 30
MAX_OBJECTS = 1 << 28  # bytes of the objects of a file
ENTRY = 128  # bytes of an entry of a dictionary, with its share of what is free


@dataclass(frozen=True)
class Name:
    """Something the pickle wants imported. It stays a name."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Mark:
    """The pickle's MARK on the stack."""


EMPTY = {"MARK": Mark, "EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict}


class Interpreter:
    """Runs the instructions of one pickle on a stack of plain values.

    Values that a program may ask for again and again count in the ``budget``.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def fail(self, what: str) -> BadPolicyFile:
        """Make the error that tells why the file is refused."""
        return BadPolicyFile(f"it was refused: {what}")

    def damaged(self, what: str) -> BadPolicyFile:
        """Make the error that tells why the program makes no sense."""
        return self.fail(f"its pickle is damaged ({what})")

    def call(self, function: Name, arguments: tuple[Any, ...]) -> Any:  # noqa: ARG002
        """Give what calling a name would give, or refuse."""
        raise self.fail(f"it asks to run {str(function)[:100]}, which has no place in it")

    def new(self, kind: Name) -> Any:
        """Give what a new object of a class would be, or refuse."""
        raise self.fail(f"its pickle uses the instruction NEWOBJ for {str(kind)[:100]}")

    def build(self, target: Any, state: Any) -> Any:  # noqa: ARG002
        """Give ``target`` with its state set, or refuse."""
        raise self.fail("it asks to set the state of something that has none")

    def persistent(self, identity: Any) -> Any:  # noqa: ARG002
        """Give what a reference to something outside of the pickle stands for, or refuse."""
        raise self.fail("a reference to its numbers is not understood")

    def key(self, key: Any) -> Any:
        """Give a key of a dictionary, or refuse it."""
        if not isinstance(key, str | int):
            raise self.fail("a dictionary has keys that are neither text nor numbers")
        return key

    def sizes(self, value: Any) -> tuple[int, ...]:
        """Give the lengths (or strides) of an array's axes, or refuse them."""
        if (
            not isinstance(value, tuple)
            or len(value) > MAX_DIMENSIONS
            or not all(type(n) is int and 0 <= n <= MAX_SIZE for n in value)
        ):
            raise self.fail("the shape of an array makes no sense")
        return value

    def instructions(self, program: bytes | bytearray) -> Iterator[tuple[str, Any]]:
        """Decode the program, one instruction and its argument at a time."""
        try:
            for count, (opcode, argument, _) in enumerate(pickletools.genops(program)):
                if count >= MAX_OPCODES:
                    raise self.fail(f"its pickle has more than {MAX_OPCODES} instructions")
                yield opcode.name, argument
        except BadPolicyFile:
            raise
        except Exception as error:  # genops decodes arguments, each with errors of its own
            raise self.damaged(str(error)) from error

    def run(self, program: bytes | bytearray) -> Any:
        """Give the value that the program builds."""
        for name, argument in self.instructions(program):
            if name == "STOP":
                if len(self.stack) != 1:
                    raise self.damaged("values are left over")
                return self.stack[0]
            self.step(name, argument)
        raise self.damaged("it has no end")

    def pop(self) -> Any:
        """Take a value off the stack."""
        if not self.stack or isinstance(self.stack[-1], Mark):
            raise self.damaged("a value is missing")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        """Take all values above the last mark off the stack, in order."""
        items: list[Any] = []
        while self.stack:
            value = self.stack.pop()
            if isinstance(value, Mark):
                return items[::-1]
            items.append(value)
        raise self.damaged("a mark is missing")

    def step(self, name: str, argument: Any) -> None:
        """Do one instruction: take what it needs off the stack, and push what it gives."""
        match name:
            case "PROTO" | "FRAME":
                pass
            case "APPEND" | "APPENDS":
                items = [self.pop()] if name == "APPEND" else self.pop_to_mark()
                self.top(list).extend(items)
            case "SETITEM" | "SETITEMS":
                items = [self.pop(), self.pop()][::-1] if name == "SETITEM" else self.pop_to_mark()
                target = self.top(dict)
                if len(items) % 2:
                    raise self.damaged("a key has no value")
                for key, value in zip(items[::2], items[1::2], strict=True):
                    target[self.key(key)] = value
            case _:
                self.stack.append(self.made(name, argument))

    def made(self, name: str, argument: Any) -> Any:
        """Give the value that an instruction pushes."""
        match name:
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                return None if name == "NONE" else name == "NEWTRUE"
            case "MARK" | "EMPTY_TUPLE" | "EMPTY_LIST" | "EMPTY_DICT":
                return EMPTY[name]()
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "LONG4" | "BINFLOAT":
                return argument
            case "BINUNICODE" | "SHORT_BINUNICODE" | "BINUNICODE8":
                return argument
            case "BINBYTES" | "SHORT_BINBYTES" | "BINBYTES8" | "BYTEARRAY8":
                return bytes(argument)
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                return tuple([self.pop() for _ in range(int(name[-1]))][::-1])
            case "TUPLE":
                return tuple(self.pop_to_mark())
            case "PUT" | "BINPUT" | "LONG_BINPUT" | "MEMOIZE":
                index = len(self.memo) if name == "MEMOIZE" else argument
                self.memo[index] = self.pop()
                return self.memo[index]
            case "GET" | "BINGET" | "LONG_BINGET" if argument in self.memo:
                return self.memo[argument]
            case "GET" | "BINGET" | "LONG_BINGET":
                raise self.damaged("a memo is missing")
            case "GLOBAL":
                return Name(*argument.partition(" ")[::2])
            case "STACK_GLOBAL":
                attribute, module = self.pop(), self.pop()
                if not isinstance(attribute, str) or not isinstance(module, str):
                    raise self.damaged("a name is no text")
                return Name(module, attribute)
            case "REDUCE":
                arguments, function = self.pop(), self.pop()
                if not isinstance(function, Name) or not isinstance(arguments, tuple):
                    raise self.damaged("it calls what is no function")
                return self.call(function, arguments)
            case "NEWOBJ":
                _, kind = self.pop(), self.pop()
                if isinstance(kind, Name):
                    return self.new(kind)
            case "BINPERSID":
                return self.persistent(self.pop())
            case "BUILD":
                state, target = self.pop(), self.pop()
                return self.build(target, state)
        # Only names are printed: printing nested values of a stranger can take for ever.
        wanted = [str(value) for value in self.stack if isinstance(value, Name)]
        if isinstance(argument, str) and argument.strip():
            wanted = [repr(argument.replace(" ", ".")[:80])]
        what = f" for {wanted[-1]}" if wanted else ""
        raise self.fail(f"its pickle uses the instruction {name}{what}")

    def top(self, kind: type) -> Any:
        """Give the value on top of the stack, which must be of this kind."""
        value = self.pop()
        if not isinstance(value, kind):
            raise self.damaged("items are added to something else")
        self.stack.append(value)
        return value


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
    return _ObjectInterpreter(modules, Budget(len(data), "it", MAX_OBJECTS)).run(data)


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
            case "jax._src.array._reconstruct_array", (Name(), tuple(), (int(), *state), *_):
                array = self.build(_Array(), (0, *state))
                return array.values
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
        if key is None:  # of RLlib's only agent
            return key
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
