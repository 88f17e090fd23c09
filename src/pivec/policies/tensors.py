"""Reads the tensors of a torch file without torch, and without running anything the file asks.

A torch file is a zip archive with a pickle of the structure and raw numbers beside it. A pickle
is a small program. Here its instructions are interpreted by this module alone: the few that build
dictionaries of tensors are understood, and everything else is refused by name.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile
from pivec.policies.archive import Archive

MAX_OPCODES = 1_000_000
MAX_BYTES = 1 << 30
MAX_DIMENSIONS = 8

# Kinds of storage, and how their numbers lie in the file (bfloat16 is the upper half of float32).
STORAGES = {
    "FloatStorage": "f4",
    "DoubleStorage": "f8",
    "HalfStorage": "f2",
    "BFloat16Storage": "u2",
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


@dataclass(frozen=True)
class _Name:
    """Something the pickle wants imported. It stays a name."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True)
class _Storage:
    kind: str
    key: str
    length: int


class _Mark:
    """The pickle's MARK on the stack."""


class _OrderedDict(dict[Any, Any]):
    """An OrderedDict of the pickle: BUILD may hang attributes on it, which are ignored."""


def read_tensors(data: bytes, name: str = "the file") -> dict[str, NDArray[Any]]:
    """Tensors of a state dictionary that ``torch.save`` wrote, by their names.

    Parameters
    ----------
    data : bytes
        The whole file.
    name : str
        What error messages call it.

    Raises
    ------
    BadPolicyFile
        If the file is damaged, holds anything else than a dictionary of tensors, or asks to run
        code. Nothing of it has run then.
    """
    if data[:2] == b"\x80\x02":
        raise BadPolicyFile(
            f"{name} is in torch's format before version 1.6: load it there and save it again."
        )
    archive = Archive(data, name)
    pickles = [member for member in archive.names() if member.split("/")[1:] == ["data.pkl"]]
    if len(pickles) != 1:
        raise BadPolicyFile(f"{name} is not a torch file: it has {len(pickles)} data.pkl inside.")
    folder = pickles[0].split("/")[0]
    order = "<"
    if f"{folder}/byteorder" in archive:
        mark = archive.read(f"{folder}/byteorder")
        if mark not in (b"little", b"big"):
            raise BadPolicyFile(f"{name} has an unknown byte order.")
        order = "<" if mark == b"little" else ">"
    result = _Interpreter(archive, folder, order).run(archive.read(pickles[0]))
    if not isinstance(result, dict):
        raise BadPolicyFile(f"{name} holds no dictionary of tensors.")
    for key, value in result.items():
        if not isinstance(key, str) or not isinstance(value, np.ndarray):
            raise BadPolicyFile(f"{name} holds something else than named tensors.")
    return dict(result)


class _Interpreter:
    """Runs the instructions of one pickle on a stack of plain values."""

    def __init__(self, archive: Archive, folder: str, order: str) -> None:
        self.archive, self.folder, self.order = archive, folder, order
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.bytes_left = MAX_BYTES

    def fail(self, what: str) -> BadPolicyFile:
        return BadPolicyFile(f"{self.archive.name} was refused: {what}.")

    def instructions(self, program: bytes) -> Iterator[tuple[str, Any]]:
        stream = pickletools.genops(program)
        for _ in range(MAX_OPCODES):
            try:
                opcode, argument, _position = next(stream)
            except StopIteration:
                return
            except Exception as error:  # genops decodes arguments, each with errors of its own
                raise self.fail(f"its pickle is damaged ({error})") from error
            yield opcode.name, argument
        raise self.fail(f"its pickle has more than {MAX_OPCODES} instructions")

    def run(self, program: bytes) -> Any:
        for name, argument in self.instructions(program):
            if name == "STOP":
                if len(self.stack) != 1:
                    raise self.fail("its pickle is damaged (values are left over)")
                return self.stack[0]
            self.step(name, argument)
        raise self.fail("its pickle is damaged (it has no end)")

    def pop(self) -> Any:
        if not self.stack or isinstance(self.stack[-1], _Mark):
            raise self.fail("its pickle is damaged (a value is missing)")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        items: list[Any] = []
        while self.stack:
            value = self.stack.pop()
            if isinstance(value, _Mark):
                return items[::-1]
            items.append(value)
        raise self.fail("its pickle is damaged (a mark is missing)")

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        match name:
            case "PROTO" | "FRAME":
                pass
            case "MARK":
                stack.append(_Mark())
            case "NONE":
                stack.append(None)
            case "NEWTRUE" | "NEWFALSE":
                stack.append(name == "NEWTRUE")
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "LONG4" | "BINFLOAT":
                stack.append(argument)
            case "BINUNICODE" | "SHORT_BINUNICODE" | "BINUNICODE8":
                stack.append(argument)
            case "EMPTY_TUPLE":
                stack.append(())
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                values = [self.pop() for _ in range(int(name[-1]))]
                stack.append(tuple(values[::-1]))
            case "TUPLE":
                stack.append(tuple(self.pop_to_mark()))
            case "EMPTY_LIST":
                stack.append([])
            case "APPEND" | "APPENDS":
                items = [self.pop()] if name == "APPEND" else self.pop_to_mark()
                self.top(list).extend(items)
            case "EMPTY_DICT":
                stack.append({})
            case "SETITEM":
                value, key = self.pop(), self.pop()
                self.set_items([key, value])
            case "SETITEMS":
                self.set_items(self.pop_to_mark())
            case "PUT" | "BINPUT" | "LONG_BINPUT" | "MEMOIZE":
                index = len(self.memo) if name == "MEMOIZE" else argument
                value = self.pop()
                self.memo[index] = value
                stack.append(value)
            case "GET" | "BINGET" | "LONG_BINGET":
                if argument not in self.memo:
                    raise self.fail("its pickle is damaged (a memo is missing)")
                stack.append(self.memo[argument])
            case "GLOBAL":
                module, _, attribute = argument.partition(" ")
                stack.append(_Name(module, attribute))
            case "STACK_GLOBAL":
                attribute, module = self.pop(), self.pop()
                if not isinstance(attribute, str) or not isinstance(module, str):
                    raise self.fail("its pickle is damaged (a name is no text)")
                stack.append(_Name(module, attribute))
            case "REDUCE":
                arguments, function = self.pop(), self.pop()
                stack.append(self.call(function, arguments))
            case "BINPERSID":
                stack.append(self.storage(self.pop()))
            case "BUILD":
                self.pop()
                if not isinstance(self.pop_peek(), _OrderedDict):
                    raise self.fail("it asks to set the state of an object")
            case _:
                raise self.fail(f"its pickle uses the instruction {name}{self.about(argument)}")

    def about(self, argument: Any) -> str:
        """Name what an instruction such as INST or NEWOBJ was after."""
        names = [str(value) for value in self.stack if isinstance(value, _Name)]
        if isinstance(argument, str) and argument.strip():
            return f" for {argument.replace(' ', '.')[:80]!r}"
        return f" for {names[-1]}" if names else ""

    def pop_peek(self) -> Any:
        value = self.pop()
        self.stack.append(value)
        return value

    def top(self, kind: type) -> Any:
        value = self.pop_peek()
        if not isinstance(value, kind):
            raise self.fail("its pickle is damaged (items are added to something else)")
        return value

    def set_items(self, items: list[Any]) -> None:
        target = self.top(dict)
        if len(items) % 2:
            raise self.fail("its pickle is damaged (a key has no value)")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | int):
                raise self.fail("a dictionary has keys that are neither text nor numbers")
            target[key] = value

    def call(self, function: Any, arguments: Any) -> Any:
        if not isinstance(function, _Name) or not isinstance(arguments, tuple):
            raise self.fail("its pickle is damaged (it calls what is no function)")
        match str(function):
            case "collections.OrderedDict" if arguments == ():
                return _OrderedDict()
            case "torch._utils._rebuild_tensor_v2" if len(arguments) in (6, 7):
                return self.tensor(*arguments[:4])
            case "torch._utils._rebuild_parameter" if len(arguments) == 3:
                if isinstance(arguments[0], np.ndarray):
                    return arguments[0]
                raise self.fail("a parameter is no tensor")
            case other:
                raise self.fail(f"it asks to run {other[:100]}, which is not part of any tensor")

    def storage(self, identity: Any) -> _Storage:
        match identity:
            case (str("storage"), _Name("torch", str(kind)), str(key), str(), int(length)):
                if kind not in STORAGES:
                    raise self.fail(f"it holds numbers of the kind torch.{kind}")
                if not key.isalnum() or not key.isascii():
                    raise self.fail(f"the name of a storage is odd ({key[:40]!r})")
                return _Storage(kind, key, length)
        raise self.fail("a reference to its numbers is not understood")

    def tensor(self, storage: Any, offset: Any, shape: Any, strides: Any) -> NDArray[Any]:
        if not isinstance(storage, _Storage):
            raise self.fail("a tensor has no storage")
        numbers = (offset, *_as_tuple(shape), *_as_tuple(strides))
        if (
            not isinstance(shape, tuple)
            or not isinstance(strides, tuple)
            or len(shape) != len(strides)
            or len(shape) > MAX_DIMENSIONS
            or not all(type(n) is int and 0 <= n <= MAX_BYTES for n in (*numbers, storage.length))
        ):
            raise self.fail("the shape of a tensor makes no sense")
        dtype = np.dtype(self.order + STORAGES[storage.kind])
        content = self.archive.read(f"{self.folder}/data/{storage.key}")
        if len(content) != storage.length * dtype.itemsize:
            raise self.fail(
                f"a storage of {storage.length} numbers has {len(content)} bytes instead of "
                f"{storage.length * dtype.itemsize}"
            )
        count = 1
        for size in shape:
            count *= size
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if count > storage.length or (count and last >= storage.length):
            raise self.fail(f"a tensor of shape {shape} reaches beyond its storage")
        self.bytes_left -= count * 8
        if self.bytes_left < 0:
            raise self.fail(f"its tensors take more than {MAX_BYTES} bytes")
        flat = np.frombuffer(content, dtype)
        if count == 0:
            values = np.zeros(shape, dtype)
        else:
            steps = tuple(stride * dtype.itemsize for stride in strides)
            values = np.lib.stride_tricks.as_strided(flat[offset:], shape, steps, writeable=False)
        if storage.kind == "BFloat16Storage":
            widened = np.ascontiguousarray(values).astype(np.uint32) << np.uint32(16)
            return widened.view(np.float32)
        return np.array(values, dtype=dtype.newbyteorder("="), order="C")


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else ()
