"""Reads the tensors of a torch file without torch, and without running anything the file asks.

A torch file is a zip archive with a pickle of the structure and raw numbers beside it. The pickle
is interpreted by `pivec.policies.pickles`: what builds dictionaries of tensors is understood here,
and everything else is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile
from pivec.policies.archive import Archive
from pivec.policies.pickles import Interpreter, Name
from pivec.reading import Budget

MAX_NUMBERS = 1 << 30
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
class _Storage:
    kind: str
    key: str
    length: int


class _OrderedDict(dict[Any, Any]):
    """An OrderedDict of the pickle: BUILD may hang attributes on it, which are ignored."""


def read_tensors(
    data: bytes | bytearray, name: str = "the file", budget: Budget | None = None
) -> dict[str, NDArray[Any]]:
    """Tensors of a state dictionary that ``torch.save`` wrote, by their names.

    Parameters
    ----------
    data : bytes
        The whole file.
    name : str
        What error messages call it.
    budget : Budget, optional
        Of the file that this is a part of.

    Raises
    ------
    BadPolicyFile
        If the file is damaged, holds anything else than a dictionary of tensors, or asks to run
        code. Nothing of it has run then.
    """
    result = read_torch(data, name, budget)
    if not isinstance(result, dict):
        raise BadPolicyFile(f"{name} holds no dictionary of tensors.")
    for key, value in result.items():
        if not isinstance(key, str) or not isinstance(value, np.ndarray):
            raise BadPolicyFile(f"{name} holds something else than named tensors.")
    return dict(result)


def read_torch(
    data: bytes | bytearray, name: str = "the file", budget: Budget | None = None
) -> Any:
    """Read whatever ``torch.save`` wrote, if it is made of tensors and plain values only."""
    if data[:2] == b"\x80\x02":
        raise BadPolicyFile(
            f"{name} is in torch's format before version 1.6: load it there and save it again."
        )
    budget = budget or Budget(len(data), name)
    archive = Archive(data, name, budget)
    pickles = [member for member in archive.names() if member.split("/")[1:] == ["data.pkl"]]
    if len(pickles) != 1:
        raise BadPolicyFile(f"{name} is not a torch file: it has {len(pickles)} data.pkl inside.")
    folder = pickles[0].split("/")[0]
    order = "<"
    if f"{folder}/byteorder" in archive:
        mark = bytes(archive.read(f"{folder}/byteorder"))
        if mark not in (b"little", b"big"):
            raise BadPolicyFile(f"{name} has an unknown byte order.")
        order = "<" if mark == b"little" else ">"
    return _TorchInterpreter(archive, folder, order, budget).run(archive.read(pickles[0]))


class _TorchInterpreter(Interpreter):
    """Understands what rebuilds tensors from the raw numbers in the archive."""

    def __init__(self, archive: Archive, folder: str, order: str, budget: Budget) -> None:
        super().__init__(archive.name, budget)
        self.archive, self.folder, self.order = archive, folder, order
        self.contents: dict[str, bytearray] = {}

    def build(self, target: Any, state: Any) -> Any:
        if not isinstance(target, _OrderedDict):
            return super().build(target, state)
        return target

    def persistent(self, identity: Any) -> Any:
        return self.storage(identity)

    def call(self, function: Any, arguments: Any) -> Any:
        if not isinstance(function, Name) or not isinstance(arguments, tuple):
            return super().call(function, arguments)
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
            case (str("storage"), Name("torch", str(kind)), str(key), str(), int(length)):
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
            or not all(type(n) is int and 0 <= n <= MAX_NUMBERS for n in (*numbers, storage.length))
        ):
            raise self.fail("the shape of a tensor makes no sense")
        dtype = np.dtype(self.order + STORAGES[storage.kind])
        if storage.key not in self.contents:  # tensors may share a storage
            self.contents[storage.key] = self.archive.read(f"{self.folder}/data/{storage.key}")
        content = self.contents[storage.key]
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
        self.budget.spend(count * dtype.itemsize)
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
