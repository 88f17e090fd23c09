"""Reads the tensors of a torch file without torch, and without running anything the file asks.

A torch file is a zip archive with a pickle of the structure and raw numbers beside it. The pickle
is interpreted by `pivec.policies.safe_pickle`: what builds dictionaries of tensors is understood here,
and everything else is refused by name. Then layers are found among the tensors by their names.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile
from pivec.files import BoundedZip, Budget
from pivec.policies.distributions import frozen
from pivec.policies.forward import Layer
from pivec.policies.safe_pickle import Interpreter, Name

Tensors = dict[str, NDArray[Any]]
BESIDE_WEIGHTS = ("_optimizers",)  # which Tianshou 2 keeps among them

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


def read_tensors(data: bytes | bytearray, budget: Budget | None = None) -> Tensors:
    """Tensors of a state dictionary that ``torch.save`` wrote, by their names.

    If the file is damaged, holds anything else than a dictionary of tensors, or asks to run code,
    that is a BadPolicyFile, and nothing of it has run. ``budget`` is that of the file that this is
    a part of.
    """
    return named_tensors(read_torch(data, budget))


def named_tensors(value: Any) -> Tensors:
    """Check that what was read is a dictionary of tensors by name."""
    if not isinstance(value, dict):
        raise BadPolicyFile("it holds no dictionary of tensors")
    tensors = {key: array for key, array in value.items() if key not in BESIDE_WEIGHTS}
    if not all(isinstance(k, str) and isinstance(v, np.ndarray) for k, v in tensors.items()):
        raise BadPolicyFile("it holds something else than named tensors")
    return tensors


def read_torch(data: bytes | bytearray, budget: Budget | None = None) -> Any:
    """Read whatever ``torch.save`` wrote, if it is made of tensors and plain values only."""
    if data[:2] == b"\x80\x02":
        raise BadPolicyFile(
            "it is in torch's format before version 1.6: load it there and save it again"
        )
    budget = budget or Budget(len(data), "it")
    archive = BoundedZip(data, budget)
    pickles = [member for member in archive.members if member.split("/")[1:] == ["data.pkl"]]
    if len(pickles) != 1:
        raise BadPolicyFile(f"it is not a torch file: it has {len(pickles)} data.pkl inside")
    folder, mark = pickles[0].split("/")[0], b"little"
    if f"{folder}/byteorder" in archive.members:
        mark = bytes(archive.read(f"{folder}/byteorder"))
    if mark not in (b"little", b"big"):
        raise BadPolicyFile("it has an unknown byte order")
    order = "<" if mark == b"little" else ">"
    return _TorchInterpreter(archive, folder, order, budget).run(archive.read(pickles[0]))


class _TorchInterpreter(Interpreter):
    """Understands what rebuilds tensors from the raw numbers in the archive."""

    def __init__(self, archive: BoundedZip, folder: str, order: str, budget: Budget) -> None:
        super().__init__(budget)
        self.archive, self.folder, self.order = archive, folder, order
        self.contents: dict[str, bytearray] = {}

    def build(self, target: Any, state: Any) -> Any:
        return target if isinstance(target, _OrderedDict) else super().build(target, state)

    def call(self, function: Name, arguments: tuple[Any, ...]) -> Any:
        match str(function):
            case "collections.OrderedDict" if arguments == ():
                return _OrderedDict()
            case "torch._utils._rebuild_tensor_v2" if len(arguments) in (6, 7):
                return self.tensor(*arguments[:4])
            case "torch._utils._rebuild_parameter" if len(arguments) == 3:
                if isinstance(arguments[0], np.ndarray):
                    return arguments[0]
                raise self.fail("a parameter is no tensor")
        return super().call(function, arguments)

    def persistent(self, identity: Any) -> _Storage:
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
        shape, strides = self.sizes(shape), self.sizes(strides)
        offset, length = self.sizes((offset, storage.length))
        if len(shape) != len(strides):
            raise self.fail("the shape of a tensor makes no sense")
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
            raise self.fail(f"a tensor of shape {shape} reaches beyond its storage")
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


def linear(tensors: Tensors, prefix: str) -> Layer:
    """Give a layer of torch with its weights turned to (in, out)."""
    weight, bias = tensors.get(f"{prefix}.weight"), tensors.get(f"{prefix}.bias")
    if weight is None or bias is None or weight.ndim != 2 or bias.ndim != 1:
        raise BadPolicyFile(f"its {prefix} is no linear layer with a bias")
    return frozen(weight.T), frozen(bias)


def side_by_side(tensors: Tensors, means: str, deviations: str) -> Layer:
    """Give two layers of equal size as one, the outputs of the second behind those of the first."""
    first, second = linear(tensors, means), linear(tensors, deviations)
    if first[0].shape != second[0].shape:
        raise BadPolicyFile("its means and deviations are of different sizes")
    return np.concatenate([first[0], second[0]], axis=1), np.concatenate([first[1], second[1]])


def sequence(tensors: Tensors, prefix: str) -> list[Layer]:
    """Give the layers of a Sequential: linear at 0, 2, 4, ..., activations between."""
    numbers = set()
    for key, tensor in tensors.items():
        if key.startswith(prefix + "."):
            number, _, part = key[len(prefix) + 1 :].partition(".")
            if tensor.ndim > 2:
                raise BadPolicyFile(
                    "it has convolutions, which are not supported here: export it to ONNX"
                )
            if not re.fullmatch(r"\d{1,4}", number) or part not in ("weight", "bias"):
                raise BadPolicyFile(f"its {key} belongs to no plain MLP")
            numbers.add(int(number))
    if sorted(numbers) != list(range(0, 2 * len(numbers), 2)):
        raise BadPolicyFile(
            f"the layers of its {prefix} are not linear ones with activations between"
        )
    return [linear(tensors, f"{prefix}.{number}") for number in sorted(numbers)]
