"""Reads pickles and torch files from untrusted sources without running anything in them.

A pickle is a small program that builds values. Here its instructions are interpreted on a stack of
plain values: numbers, text, bytes, lists, dictionaries. Imported names stay names; a subclass of
`Interpreter` decides which of them may be called and what that gives, and everything else is
rejected by name. `read_objects` reads Python objects as `Object` (class name and attributes) and
NumPy arrays. `read_torch` reads what ``torch.save`` wrote: a zip archive with a pickle of the
structure and the raw numbers.
"""

from __future__ import annotations

import math
import pickletools
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile
from pivec.files import BoundedZip, Budget
from pivec.policies.forward import Tensors

MAX_OPCODES = 1_000_000
MAX_DEPTH = 100  # of values within values
MAX_TYPE = 20  # characters of a type of numbers
MAX_NAME = 400  # characters of a key, or of a name to import
MAX_DIMENSIONS = 8
MAX_SIZE = 1 << 30
MAX_OBJECTS = 1 << 28  # bytes of the objects of a file
ENTRY = 128  # bytes of an entry of a dictionary, with its share of free space
PRINTED = 1024  # bytes of an array, a name or an object as text
OPTIMISERS = ("_optimizers",)  # kept among the weights by Tianshou 2
# Values that scripts save next to the weights: devices, and scores as NumPy's numbers.
BESIDE_WEIGHTS = frozenset(
    {
        *("torch.device", "torch.Size", "numpy.dtype", "_codecs.encode"),
        *(
            f"numpy.{core}.multiarray.{name}"
            for core in ("core", "_core")
            for name in ("scalar", "_reconstruct")
        ),
    }
)
# Kinds of storage, and the type of their numbers (bfloat16 is the upper half of float32).
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
class Name:
    """Something that a pickle wants to import. It stays a name."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class _Mark:
    """The pickle's MARK on the stack."""


EMPTY = {"MARK": _Mark, "EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict}
LITERALS = frozenset(
    {
        *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
        *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    }
)


class NeedsCode(BadPolicyFile):
    """A file that cannot be read without running code in it."""


class Interpreter:
    """Runs the instructions of one pickle on a stack of plain values.

    Values that a program may multiply count in the ``budget``. The methods `call`, `new`, `build`
    and `persistent` reject everything; subclasses allow what a kind of file needs.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def fail(self, what: str) -> BadPolicyFile:
        """Make the error for a rejected file."""
        return BadPolicyFile(f"it was rejected: {what}")

    def damaged(self, what: str) -> BadPolicyFile:
        """Make the error for an invalid program."""
        return self.fail(f"its pickle is damaged ({what[:200]})")

    def call(self, function: Name, arguments: tuple[Any, ...]) -> Any:  # noqa: ARG002
        """Result of calling a name."""
        what = f"it asks to run {str(function)[:100]}, which does not belong in it"
        raise NeedsCode(str(self.fail(what)))

    def new(self, kind: Name) -> Any:
        """A new object of a class."""
        raise NeedsCode(str(self.fail(f"it holds an object of the class {str(kind)[:100]}")))

    def build(self, target: Any, state: Any) -> Any:  # noqa: ARG002
        """``target`` with its state set."""
        raise self.fail("it asks to set the state of something that has none")

    def persistent(self, identity: Any) -> Any:  # noqa: ARG002
        """What a reference to something outside of the pickle stands for."""
        raise self.fail("a reference to its numbers is not understood")

    def key(self, key: Any) -> Any:
        """Check a key of a dictionary."""
        if not isinstance(key, str | int):
            raise self.fail("a dictionary has keys that are neither text nor numbers")
        # The hash of a long number is computed again for each use.
        if (len(key) > MAX_NAME) if isinstance(key, str) else (key.bit_length() > 64):
            raise self.fail(f"a key has more than {MAX_NAME} characters, or more than 64 bits")
        return key

    def name(self, module: Any, attribute: Any) -> Name:
        """Check the name of something to import."""
        if not isinstance(module, str) or not isinstance(attribute, str):
            raise self.damaged("a name is not text")
        if len(module) + len(attribute) > MAX_NAME:
            raise self.damaged("a name is too long")
        return Name(module, attribute)

    def sizes(self, value: Any) -> tuple[int, ...]:
        """Check a shape, or strides."""
        if (
            not isinstance(value, tuple)
            or len(value) > MAX_DIMENSIONS
            or not all(type(n) is int and 0 <= n <= MAX_SIZE for n in value)
        ):
            raise self.fail("an array has an invalid shape")
        return value

    def run(self, program: bytes | bytearray) -> Any:
        """Value that the program builds."""
        try:
            for count, (opcode, argument, _) in enumerate(pickletools.genops(program)):
                if count >= MAX_OPCODES:
                    raise self.fail(f"its pickle has more than {MAX_OPCODES} instructions")
                if opcode.name != "STOP":
                    self._step(opcode.name, argument)
                elif len(self.stack) != 1:
                    raise self.damaged("values are left over")
        except BadPolicyFile:
            raise
        except Exception as error:  # genops decodes arguments, which raises anything
            raise self.damaged(str(error)) from error
        if not self.stack:
            raise self.damaged("it has no end")
        check_values(self.stack[0], self.budget)
        return self.stack[0]

    def _pop(self) -> Any:
        if not self.stack or isinstance(self.stack[-1], _Mark):
            raise self.damaged("a value is missing")
        return self.stack.pop()

    def _pop_to_mark(self) -> list[Any]:
        items: list[Any] = []
        while self.stack:
            value = self.stack.pop()
            if isinstance(value, _Mark):
                return items[::-1]
            items.append(value)
        raise self.damaged("a mark is missing")

    def _top(self, kind: type) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise self.damaged("items are added to something else")
        return self.stack[-1]

    def _step(self, name: str, argument: Any) -> None:
        if name in LITERALS:
            self.stack.append(argument)
            return
        match name:
            case "PROTO" | "FRAME":
                pass
            case "APPEND" | "APPENDS":
                items = [self._pop()] if name == "APPEND" else self._pop_to_mark()
                self._top(list).extend(items)
            case "SETITEM" | "SETITEMS":
                single = name == "SETITEM"
                items = [self._pop(), self._pop()][::-1] if single else self._pop_to_mark()
                target = self._top(dict)
                if len(items) % 2:
                    raise self.damaged("a key has no value")
                for key, value in zip(items[::2], items[1::2], strict=True):
                    target[self.key(key)] = value
            case _:
                self.stack.append(self._value(name, argument))

    def _value(self, name: str, argument: Any) -> Any:
        """Value that an instruction pushes; the most frequent ones come first."""
        match name:
            case "PUT" | "BINPUT" | "LONG_BINPUT" | "MEMOIZE":
                index = len(self.memo) if name == "MEMOIZE" else argument
                self.memo[index] = self._pop()
                return self.memo[index]
            case "GET" | "BINGET" | "LONG_BINGET":
                if argument not in self.memo:
                    raise self.damaged("a memo is missing")
                return self.memo[argument]
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                return None if name == "NONE" else name == "NEWTRUE"
            case "MARK" | "EMPTY_TUPLE" | "EMPTY_LIST" | "EMPTY_DICT":
                return EMPTY[name]()
            case "BINBYTES" | "SHORT_BINBYTES" | "BINBYTES8" | "BYTEARRAY8":
                return bytes(argument)
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                return tuple([self._pop() for _ in range(int(name[-1]))][::-1])
            case "TUPLE":
                return tuple(self._pop_to_mark())
            case "GLOBAL":
                return self.name(*argument.partition(" ")[::2])
            case "STACK_GLOBAL":
                attribute, module = self._pop(), self._pop()
                return self.name(module, attribute)
            case "REDUCE":
                arguments, function = self._pop(), self._pop()
                if not isinstance(function, Name) or not isinstance(arguments, tuple):
                    raise self.damaged("it calls something that is not a function")
                return self.call(function, arguments)
            case "NEWOBJ":
                _, kind = self._pop(), self._pop()
                if isinstance(kind, Name):
                    return self.new(kind)
            case "BINPERSID":
                return self.persistent(self._pop())
            case "BUILD":
                state, target = self._pop(), self._pop()
                return self.build(target, state)
        # Only names are printed: printing untrusted nested values can take forever.
        wanted = [str(value) for value in self.stack if isinstance(value, Name)]
        if isinstance(argument, str) and argument.strip():
            wanted = [repr(argument.replace(" ", ".")[:80])]
        what = f" for {wanted[-1]}" if wanted else ""
        raise self.fail(f"its pickle uses the instruction {name}{what}")


@dataclass(eq=False)
class Object:
    """An object of a pickle: the name of its class and its attributes."""

    kind: Name
    state: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(eq=False)
class _Dtype:
    code: str
    order: str = "="  # set by BUILD


@dataclass(eq=False)
class _Array:
    values: NDArray[Any] | None = field(default=None, repr=False)  # set by BUILD


class _Opaque:
    """Something whose value does not matter, such as a random generator."""


def as_array(value: Any) -> NDArray[Any] | None:
    """Array that a value of `read_objects` stands for; None if it is not an array."""
    if isinstance(value, _Array):
        return value.values
    return value if isinstance(value, np.ndarray) else None


_SCALARS = frozenset({str, int, float, bytes, bool, type(None)})
_CONTAINERS = (tuple, list, dict)


def check_values(value: Any, budget: Budget) -> None:
    """Reject values that would take forever to hash, compare, print or copy.

    Tuples, lists and dictionaries may share parts, so that a few hundred bytes stand for 2**100
    values or copies of an array. Parts count as often as they occur, and must fit into the budget.
    Objects are hashed, compared and printed by name, so their attributes are values of their own.
    """
    known: dict[int, tuple[int, int]] = {}  # of containers, by id
    values, objects = [value], set[int]()

    def measure(parts: Any, level: int) -> tuple[int, int]:
        """Bytes of a container, and levels of nesting in it."""
        size, depth = sys.getsizeof(parts), 0
        for part in (*parts, *parts.values()) if isinstance(parts, dict) else parts:
            kind = type(part)
            if kind in _SCALARS:
                size += sys.getsizeof(part)
            elif not isinstance(part, _CONTAINERS):
                array = as_array(part)
                size += PRINTED + (0 if array is None else array.nbytes)
                if kind is Object and id(part) not in objects:
                    objects.add(id(part))
                    values.append(part.state)
            else:
                # Values that contain themselves end here too.
                if level == MAX_DEPTH:
                    raise deep
                if id(part) not in known:
                    known[id(part)] = measure(part, level + 1)
                more, below = known[id(part)]
                size, depth = size + more, max(depth, below + 1)
        if level + depth > MAX_DEPTH:
            raise deep
        if size > budget.total:
            budget.spend(size)  # which raises
        return size, depth

    deep = BadPolicyFile(
        f"it was rejected: its values are nested more than {MAX_DEPTH} levels deep"
    )
    for root in values:  # which grows
        measure((root,), 0)


def read_objects(data: bytes, modules: tuple[str, ...]) -> Any:
    """Read a pickle whose objects belong to ``modules`` (top-level packages).

    Use `as_array` for arrays among the values. A damaged file, or one that imports anything else,
    raises BadPolicyFile, and nothing in it has run.
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
                return self.build(_Array(), (0, *state)).values
            case "numpy._core.multiarray.scalar", (_Dtype() as dtype, bytes(raw)):
                return self.array(raw, dtype, (), fortran=False)[()]
            case "numpy.dtype", (str(code), *_) if len(code) < MAX_TYPE:
                return _Dtype(code)
            case "_codecs.encode", (str(text), "latin1"):
                self.budget.spend(len(text))
                try:
                    return text.encode("latin1")
                except UnicodeEncodeError as error:
                    raise self.damaged("bytes are not bytes") from error
            case "builtins.bytes" | "__builtin__.bytes", ():
                return b""
            case "builtins.bytearray", (bytes(raw),):
                return raw
            case "collections.OrderedDict", ():
                return {}
            case "copyreg._reconstructor" | "copy_reg._reconstructor", (Name() as kind, *_):
                return self.new(kind)
        self.new(function)  # rejected outside of the modules
        return _Opaque()

    def new(self, kind: Name) -> Any:
        if kind.module.partition(".")[0] not in self.modules:
            return super().call(kind, ())
        return Object(kind)

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
        # None is RLlib's only agent; pairs of numbers are connections of a NEAT genome.
        if isinstance(key, tuple) and len(key) == 2 and all(type(n) is int for n in key):
            for number in key:
                super().key(number)
            return key
        return key if key is None else super().key(key)

    def array(self, raw: bytes, dtype: _Dtype, shape: Any, fortran: bool) -> NDArray[Any]:
        order = "<" if dtype.order == "=" else dtype.order
        try:
            kind = np.dtype(f"{order}{dtype.code.lstrip('<>|=')}")
        except (TypeError, ValueError) as error:
            raise self.fail(f"it holds numbers of type {dtype.code[:20]!r}") from error
        if kind.kind not in "biuf" or not kind.itemsize:
            raise self.fail(f"it holds values of type {dtype.code[:20]!r}")
        if math.prod(self.sizes(shape)) * kind.itemsize != len(raw):
            raise self.fail(f"an array of shape {shape} has {len(raw)} bytes")
        self.budget.spend(len(raw))
        flat = np.frombuffer(raw, kind).astype(kind.newbyteorder("="))
        try:
            return flat.reshape(shape, order="F" if fortran else "C")
        except ValueError as error:  # empty, but huge along the other axes
            raise self.fail("an array has an invalid shape") from error


def numbers(shape: list[Any], name: str, raw: bytes | bytearray) -> NDArray[Any]:
    """Make an array of numbers whose type is named as in NumPy or JAX."""
    if len(shape) > MAX_DIMENSIONS or not all(type(n) is int and 0 <= n <= len(raw) for n in shape):
        raise BadPolicyFile("an array in it has an invalid shape")
    half = name == "bfloat16"  # the upper half of a float32
    try:
        dtype = np.dtype("<u2" if half else name[:MAX_TYPE])
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != len(raw):
        raise BadPolicyFile(
            f"an array in it of shape {shape} and type {name[:20]!r} has {len(raw)} bytes"
        )
    array = np.frombuffer(raw, dtype)
    if half:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.reshape(shape)


def read_tensors(data: bytes | bytearray, budget: Budget | None = None) -> Tensors:
    """Read a state dictionary that ``torch.save`` wrote.

    Raises BadPolicyFile if the file is damaged, holds anything but named tensors, or asks to run
    code. ``budget`` is that of the file that contains this one.
    """
    return named_tensors(read_torch(data, budget))


def named_tensors(value: Any) -> Tensors:
    """Check that a value is a dictionary of named tensors."""
    if not isinstance(value, dict):
        raise BadPolicyFile("it does not hold a dictionary of tensors")
    tensors = {key: array for key, array in value.items() if key not in OPTIMISERS}
    if not all(isinstance(k, str) and isinstance(v, np.ndarray) for k, v in tensors.items()):
        raise BadPolicyFile("it holds values other than named tensors")
    return tensors


def read_torch(data: bytes | bytearray, budget: Budget | None = None) -> Any:
    """Read whatever ``torch.save`` wrote, if it consists of tensors and plain values."""
    if data[:2] == b"\x80\x02":
        raise BadPolicyFile(
            "it is in torch's format before version 1.6: load it there and save it again"
        )
    budget = budget or Budget(len(data), "it")
    archive = BoundedZip(data, budget)
    pickles = [member for member in archive.members if member.split("/")[1:] == ["data.pkl"]]
    if len(pickles) != 1:
        raise BadPolicyFile(f"it is not a torch file: it contains {len(pickles)} data.pkl")
    folder, mark = pickles[0].split("/")[0], b"little"
    if f"{folder}/byteorder" in archive.members:
        mark = bytes(archive.read(f"{folder}/byteorder"))
    if mark not in (b"little", b"big"):
        raise BadPolicyFile("it has an unknown byte order")
    order = "<" if mark == b"little" else ">"
    return _TorchInterpreter(archive, folder, order, budget).run(archive.read(pickles[0]))


@dataclass(frozen=True)
class _Storage:
    kind: str
    key: str
    length: int


class _OrderedDict(dict[Any, Any]):
    """An OrderedDict of the pickle; attributes that BUILD sets on it are ignored."""


class _TorchInterpreter(Interpreter):
    """Rebuilds tensors from the raw numbers in the archive."""

    def __init__(self, archive: BoundedZip, folder: str, order: str, budget: Budget) -> None:
        super().__init__(budget)
        self.archive, self.folder, self.order = archive, folder, order
        self.contents: dict[str, bytearray] = {}

    def build(self, target: Any, state: Any) -> Any:
        return (
            target if isinstance(target, _OrderedDict | _Opaque) else super().build(target, state)
        )

    def call(self, function: Name, arguments: tuple[Any, ...]) -> Any:
        match str(function):
            case "collections.OrderedDict" if arguments == ():
                return _OrderedDict()
            case "torch._utils._rebuild_tensor_v2" if len(arguments) in (6, 7):
                return self.tensor(*arguments[:4])
            case "torch._utils._rebuild_parameter" if len(arguments) == 3:
                if isinstance(arguments[0], np.ndarray):
                    return arguments[0]
                raise self.fail("a parameter is not a tensor")
            case name if name in BESIDE_WEIGHTS:
                return _Opaque()
        return super().call(function, arguments)

    def new(self, kind: Name) -> Any:
        raise NeedsCode(
            f"it holds an object of the class {str(kind)[:100]}, as torch.save(model) writes, and "
            "not only weights: save model.state_dict(), or if you trust its source, let torch load "
            "the object, which can run any code in the file, with --trust (in Python: trust=True)"
        )

    def persistent(self, identity: Any) -> _Storage:
        match identity:
            case (str("storage"), Name("torch", str(kind)), str(key), str(), int(length)):
                if kind not in STORAGES:
                    raise self.fail(f"it holds numbers of type torch.{kind}")
                if not key.isalnum() or not key.isascii():
                    raise self.fail(f"a storage has the invalid name {key[:40]!r}")
                return _Storage(kind, key, length)
        raise self.fail("a reference to its numbers is not understood")

    def tensor(self, storage: Any, offset: Any, shape: Any, strides: Any) -> NDArray[Any]:
        if not isinstance(storage, _Storage):
            raise self.fail("a tensor has no storage")
        shape, strides = self.sizes(shape), self.sizes(strides)
        offset, length = self.sizes((offset, storage.length))
        if len(shape) != len(strides):
            raise self.fail("a tensor has an invalid shape")
        dtype = np.dtype(self.order + STORAGES[storage.kind])
        if storage.key not in self.contents:  # tensors may share a storage
            self.contents[storage.key] = self.archive.read(f"{self.folder}/data/{storage.key}")
        content = self.contents[storage.key]
        if len(content) != length * dtype.itemsize:
            raise self.fail(
                f"a storage of {length} numbers has {len(content)} bytes instead of "
                f"{length * dtype.itemsize}"
            )
        count = math.prod(shape)
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if count > length or (count and last >= length):
            raise self.fail(f"a tensor of shape {shape} extends beyond its storage")
        self.budget.spend(count * dtype.itemsize)
        values = np.zeros(shape, dtype)
        if count:
            flat = np.frombuffer(content, dtype)[offset:]
            steps = tuple(stride * dtype.itemsize for stride in strides)
            values = np.lib.stride_tricks.as_strided(flat, shape, steps, writeable=False)
        if storage.kind == "BFloat16Storage":
            widened = np.ascontiguousarray(values).astype(np.uint32) << np.uint32(16)
            return widened.view(np.float32)
        return np.array(values, dtype=dtype.newbyteorder("="), order="C")
