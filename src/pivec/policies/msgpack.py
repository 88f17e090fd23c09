"""Reads MessagePack, in which Flax writes parameters, into plain values and arrays."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile
from pivec.reading import Budget

MAX_DEPTH = 64
MAX_AXES = 8
VALUE = 64  # bytes of a small value and its place in a list or dictionary
# First byte -> how the number behind it is packed.
NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
           0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}  # fmt: skip
CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
# First byte -> what it begins, and how its size is packed; of the last ones the size is known.
SIZED = {0xC4: ("bytes", ">B"), 0xC5: ("bytes", ">H"), 0xC6: ("bytes", ">I"),
         0xC7: ("extension", ">B"), 0xC8: ("extension", ">H"), 0xC9: ("extension", ">I"),
         0xD9: ("text", ">B"), 0xDA: ("text", ">H"), 0xDB: ("text", ">I"),
         0xDC: ("list", ">H"), 0xDD: ("list", ">I"),
         0xDE: ("mapping", ">H"), 0xDF: ("mapping", ">I")}  # fmt: skip
FIXED = {0xD4 + i: 1 << i for i in range(5)}  # of extensions
NDARRAY, SCALAR = 1, 3  # the extensions that Flax has, beside complex numbers


def read_msgpack(data: bytes, budget: Budget | None = None) -> Any:
    """Read what ``flax.serialization.to_bytes`` or any other packer wrote.

    Keys of mappings are text; arrays of Flax are understood, other extensions refused.

    Examples
    --------
    >>> read_msgpack(bytes([0x82, 0xA1, 97, 0x01, 0xA1, 98, 0x92, 0xC0, 0xFF]))
    {'a': 1, 'b': [None, -1]}
    """
    reader = _Reader(data, budget or Budget(len(data), "it"))
    value = reader.value(0)
    if reader.place != len(data):
        raise BadPolicyFile("it is no MessagePack: something is left over behind its end")
    return value


class _Reader:
    def __init__(self, data: bytes, budget: Budget) -> None:
        self.data, self.budget, self.place = data, budget, 0

    def take(self, n: int) -> bytes:
        end = self.place + n
        if end > len(self.data):
            raise BadPolicyFile("it is no MessagePack, or was cut short: copy or save it again")
        piece, self.place = self.data[self.place : end], end
        return piece

    def number(self, form: str) -> Any:
        (number,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return number

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise BadPolicyFile(f"it is nested more than {MAX_DEPTH} deep")
        self.budget.spend(VALUE)
        (first,) = self.take(1)
        if first < 0x80 or first >= 0xE0:
            return first if first < 0x80 else first - 0x100
        if first < 0xC0:
            kind, size = ("mapping", first & 0xF) if first < 0x90 else ("list", first & 0xF)
            if first >= 0xA0:
                kind, size = "text", first & 0x1F
        elif first in CONSTANTS:
            return CONSTANTS[first]
        elif first in NUMBERS:
            return self.number(NUMBERS[first])
        elif first in FIXED:
            kind, size = "extension", FIXED[first]
        elif first in SIZED:
            kind, form = SIZED[first]
            size = self.number(form)
        else:
            raise BadPolicyFile("it is no MessagePack: a byte stands for nothing")
        return self.sized(kind, size, depth)

    def sized(self, kind: str, size: int, depth: int) -> Any:
        if kind == "list":
            return [self.value(depth + 1) for _ in range(size)]
        if kind == "mapping":
            pairs = {}
            for _ in range(size):
                key = self.value(depth + 1)
                if not isinstance(key, str):
                    raise BadPolicyFile("a mapping in it has keys that are no text")
                pairs[key] = self.value(depth + 1)
            return pairs
        code = self.number(">b") if kind == "extension" else 0
        self.budget.spend(size)
        content = self.take(size)
        if kind == "bytes":
            return content
        if kind == "text":
            return content.decode("utf-8", "replace")
        if code not in (NDARRAY, SCALAR):
            raise BadPolicyFile(f"it holds a value of the kind {code}, which Flax does not have")
        return _array(read_msgpack(content, self.budget))


def _array(packed: Any) -> NDArray[Any]:
    """Make an array of its shape, the name of its type, and its bytes."""
    match packed:
        case [list(shape), str(name), bytes(raw)]:
            pass
        case _:
            raise BadPolicyFile("an array in it is damaged")
    return array_of(shape, name, raw)


def array_of(shape: Any, name: str, raw: bytes) -> NDArray[Any]:
    """Make an array of numbers as NumPy or JAX names their type; a BadPolicyFile if it is none."""
    sound = isinstance(shape, list) and len(shape) <= MAX_AXES
    if not sound or not all(type(n) is int and 0 <= n <= len(raw) for n in shape):
        raise BadPolicyFile("the shape of an array in it makes no sense")
    convert: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    if name == "bfloat16":  # the upper half of a float32
        name, convert = "<u2", lambda half: (half.astype(np.uint32) << 16).view(np.float32)
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != len(raw):
        raise BadPolicyFile(
            f"an array in it of shape {shape} and type {name[:20]!r} has {len(raw)} bytes"
        )
    array = np.frombuffer(raw, dtype)
    return (array if convert is None else convert(array)).reshape(shape)
