"""Policies in ONNX files, run by onnxruntime.

An ONNX file is a graph of operators and holds no code. What could reach outside of it, tensors
kept in other files, is refused before onnxruntime sees the file; onnxruntime itself runs in
another process (`pivec.policies.formats.onnx_process`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, MissingExtra, UsageError
from pivec.policies.distributions import Model, OutputPolicy
from pivec.policies.formats import Beside, about, read_json, reader
from pivec.policies.formats.onnx_process import runtime
from pivec.policies.formats.safetensors import described_outputs
from pivec.policies.forward import Float

MAX_INPUTS = 1 << 26
REQUEST = 1 << 25  # bytes of observations that travel at once
# What onnxruntime calls the types of tensors -> what NumPy calls them.
TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
}
# Numbers of fields, from onnx.proto: where tensors and graphs with tensors may be.
KINDS = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "function": {7: "node", 11: "attribute"},
    "training": {1: "graph", 2: "graph"},
}
EXTERNAL_DATA, DATA_LOCATION = 13, 14
MAX_FIELDS = 2_000_000
DAMAGED = "it is no ONNX model, or damaged"


@reader
def read_onnx(data: bytes, beside: Beside) -> tuple[OutputPolicy, dict[str, Any]]:
    """Read an ``.onnx`` file with one input, a batch of observations.

    A .json of the same name beside it, or the file's own metadata under the key ``pivec`` (the
    same JSON as text), may tell the head and its settings, ``output`` (the name of the output that
    counts, if there are several), a normaliser and info.
    """
    declared = _declared(data)
    description = beside.description()
    if description is None:
        own = declared["metadata"].get("pivec", "")
        with about("its metadata"):
            description = read_json(own.encode()) if own else {}
    model = _model(data, beside.name, declared, description.get("output"))
    whole = "int" in declared["outputs"][model.output]
    return described_outputs(model, description, beside, obvious=whole)


def first_output(data: bytes, name: str) -> OnnxModel:
    """Read a graph whose first output counts, whatever else it gives."""
    with about(name):
        declared = _declared(data)
        return _model(data, name, declared, next(iter(declared["outputs"]), None))


def _declared(data: bytes) -> dict[str, Any]:
    if importlib.util.find_spec("onnxruntime") is None:
        raise MissingExtra("reading an ONNX model", "onnx")
    refuse_outside_data(data)
    return runtime().load(hashlib.sha256(data).hexdigest(), data, "it")


def _model(data: bytes, name: str, declared: dict[str, Any], output: Any) -> OnnxModel:
    inputs, outputs = declared["inputs"], declared["outputs"]
    if len(inputs) != 1:
        raise UsageError(f"expected one input, a batch of observations, but it has {len(inputs)}")
    given, kind, shape = inputs[0]
    if kind not in TYPES:
        raise UsageError(f"its input is a {kind}, not a batch of numbers")
    sizes = [n for n in shape if n is not None]
    if not shape or not all(0 < n <= MAX_INPUTS for n in sizes) or math.prod(sizes) > MAX_INPUTS:
        raise UsageError(f"its input has the shape {str(shape)[:80]}, not that of a batch")
    names = list(outputs)
    if output is None and len(names) == 1:
        output = names[0]
    if not isinstance(output, str) or output not in names:
        raise UsageError(
            f"it has the outputs {', '.join(names)[:200]}: say in its description which one "
            "counts, as 'output'"
        )
    if outputs[output] not in TYPES:
        raise UsageError(f"its output is a {outputs[output]}, not a batch of numbers")
    return OnnxModel(data, name, output, given, kind, tuple(shape))


@dataclass(frozen=True, eq=False)
class OnnxModel(Model):
    """An ONNX graph as a `Model`."""

    data: bytes = field(repr=False)  # the whole file
    name: str  # of the file, for messages
    output: str  # name of the output that counts
    input_name: str
    input_type: str
    input_shape: tuple[int | None, ...]  # with the batch first; None where any size goes

    @property
    def n_inputs(self) -> int | None:
        sizes = [n for n in self.input_shape[1:] if n is not None]
        return math.prod(sizes) if len(sizes) == len(self.input_shape) - 1 else None

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.data + self.output.encode()).hexdigest()

    def outputs(self, observations: Float) -> NDArray[Any]:
        rows = self._shaped(np.asarray(observations))
        # As many rows as travel at once; the other process asks the model row by row.
        size = max(1, REQUEST // max(1, rows[:1].nbytes))
        parts = [self._ask(rows[first : first + size]) for first in range(0, len(rows), size)]
        return np.concatenate(parts)

    def _shaped(self, rows: NDArray[Any]) -> NDArray[Any]:
        declared = self.input_shape[1:]
        if len(declared) == rows.ndim - 1 and all(
            n in (None, size) for n, size in zip(declared, rows.shape[1:], strict=True)
        ):
            return rows
        if self.n_inputs is not None and rows[:1].size == self.n_inputs:
            return rows.reshape(len(rows), *(n or 1 for n in declared))
        if len(declared) == 1 and declared[0] is None:
            return rows.reshape(len(rows), -1)
        raise UsageError(
            f"this policy expects observations of shape {declared}, "
            f"but got a batch of shape {rows.shape}"
        )

    def _ask(self, rows: NDArray[Any]) -> NDArray[Any]:
        batch = self.input_shape[0] or 1
        request = {"input": self.input_name, "output": self.output, "batch": batch}
        given = rows.astype(TYPES[self.input_type])
        result = runtime().run(self._key, self.data, self.name, request, given)
        return result.reshape(len(rows), -1)

    @cached_property
    def _key(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def refuse_outside_data(data: bytes) -> None:
    """Raise an error if any tensor of the model lies outside of the file, or it is damaged."""
    if data[4:8] == b"ORTM":
        raise BadPolicyFile("it is in onnxruntime's own format: save the model as ONNX")
    waiting = [("model", memoryview(data))]
    count = 0
    while waiting:
        kind, message = waiting.pop()
        for number, value in _fields(message):
            count += 1
            if count > MAX_FIELDS:
                raise BadPolicyFile(f"it has more than {MAX_FIELDS} parts")
            if kind == "tensor":
                # Any value but 0: protocol buffers keep its last 32 bits only.
                if number == EXTERNAL_DATA or (number == DATA_LOCATION and value != 0):
                    raise BadPolicyFile(
                        "it keeps its tensors in other files, which is not supported: save the "
                        "model as one file"
                    )
            elif isinstance(value, memoryview) and number in KINDS[kind]:
                waiting.append((KINDS[kind][number], value))


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Numbers and values of the fields of one message."""
    at, end = 0, len(message)

    def varint() -> int:
        nonlocal at
        value, shift = 0, 0
        while at < end and shift < 70:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise BadPolicyFile(DAMAGED)

    while at < end:
        start = at
        tag = varint()
        number, wire = tag >> 3, tag & 7
        # Written longer than it need be, a tag may mean another field to another reader.
        if at - start > max(1, -(-tag.bit_length() // 7)) or tag >= 1 << 32:
            raise BadPolicyFile(DAMAGED)
        if wire not in (0, 1, 2, 5):
            raise BadPolicyFile(DAMAGED)
        if wire == 0:
            yield number, varint()
            continue
        size = varint() if wire == 2 else {1: 8, 5: 4}[wire]
        if at + size > end:
            raise BadPolicyFile("it is no ONNX model, or truncated")
        yield number, message[at : at + size]
        at += size
