"""Policies in ONNX files, run by onnxruntime in a child process.

An ONNX file is a graph of operators and contains no code. Tensors in other files, which could
reach outside of it, are rejected before onnxruntime reads the file. A model that never returns,
takes too much memory or crashes ends the child process, see `pivec.parallel.confined`; it can open
no file there.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, MissingExtra, UsageError
from pivec.parallel import confined
from pivec.policies.callables import user_code
from pivec.policies.formats import CheckpointFiles, Read, about, read_json, reader
from pivec.policies.formats.described import described_outputs
from pivec.policies.forward import Float
from pivec.policies.networks import Model, row_by_row

MAX_INPUTS = 1 << 26
MAX_REQUEST = 1 << 22  # bytes of observations sent at once
SECONDS = 15  # of the processor for loading a model, and for each request
MAX_OUTPUT = 1 << 26
# onnxruntime's names of tensor types.
TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
}
# Field numbers from onnx.proto: where tensors, and graphs with tensors, may be.
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
DAMAGED = "it is not an ONNX model, or damaged"


@reader
def read_onnx(data: bytes, files: CheckpointFiles) -> Read:
    """Read an ``.onnx`` file with one input, a batch of observations.

    A .json of the same name next to it, or the file's own metadata under the key ``pivec`` (the
    same JSON as text), may set the head and its options, ``output`` (the name of the output to use,
    if there are several), a normaliser and info.
    """
    declared = _declarations(data)
    description = files.description()
    if description is None:
        own = declared["metadata"].get("pivec", "")
        with about("its metadata"):
            description = read_json(own.encode()) if own else {}
    names = list(declared["outputs"])
    output = description.get("output", names[0] if len(names) == 1 else None)
    model = _make_model(data, files.name, declared, output)
    whole = "int" in declared["outputs"][model.output]
    return described_outputs(model, description, files, obvious=whole)


def first_output(data: bytes, name: str) -> OnnxModel:
    """Read a graph and use its first output."""
    with about(name):
        declared = _declarations(data)
        return _make_model(data, name, declared, next(iter(declared["outputs"]), None))


def _declarations(data: bytes) -> dict[str, Any]:
    if importlib.util.find_spec("onnxruntime") is None:
        raise MissingExtra("reading an ONNX model", "onnx")
    reject_external_data(data)
    declared: dict[str, Any] = _confined(_declared, data, data)
    return declared


def _confined(work: Callable[[Any], Any], item: Any, data: bytes) -> Any:
    return confined.call(work, item, len(data), seconds=SECONDS)


def _make_model(data: bytes, name: str, declared: dict[str, Any], output: Any) -> OnnxModel:
    inputs, outputs = declared["inputs"], declared["outputs"]
    if len(inputs) != 1:
        raise UsageError(f"expected one input, a batch of observations, but it has {len(inputs)}")
    given, kind, shape = inputs[0]
    if not isinstance(output, str) or output not in outputs:
        names = ", ".join(outputs)[:200]
        raise UsageError(f"it has the outputs {names}: set 'output' in its description to one")
    for what, type_name in (("input", kind), ("output", outputs[output])):
        if type_name not in TYPES:
            raise UsageError(f"its {what} is a {type_name}, not a batch of numbers")
    sizes = [n for n in shape if n is not None]
    if not shape or not all(0 < n <= MAX_INPUTS for n in sizes) or math.prod(sizes) > MAX_INPUTS:
        raise UsageError(f"its input has the shape {str(shape)[:80]}, not that of a batch")
    return OnnxModel(data, name, output, given, kind, tuple(shape))


@dataclass(frozen=True, eq=False)
class OnnxModel(Model):
    """An ONNX graph as a `Model`."""

    data: bytes = field(repr=False)  # the whole file
    name: str  # of the file, for messages
    output: str  # name of the output
    input_name: str
    input_type: str
    input_shape: tuple[int | None, ...]  # batch first; None for any size

    def __post_init__(self) -> None:
        sizes = [n for n in self.input_shape[1:] if n is not None]
        whole = len(sizes) == len(self.input_shape) - 1
        fingerprint = hashlib.sha256(self.data + self.output.encode()).hexdigest()
        self.set(n_inputs=math.prod(sizes) if whole else None, fingerprint=fingerprint)

    def outputs(self, observations: Float) -> NDArray[Any]:
        rows = self._shaped(np.asarray(observations))
        size = max(1, MAX_REQUEST // max(1, rows[:1].nbytes))
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
        batch, typed = self.input_shape[0] or 1, rows.astype(TYPES[self.input_type])
        result = None
        for content in (b"", self.data):  # sent only if the process does not have it
            request = self._key, content, self.input_name, self.output, batch, typed
            if result is None:
                with about(self.name):
                    result = _confined(_run, request, self.data)
        return np.asarray(result).reshape(len(rows), -1)

    @functools.cached_property
    def _key(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def reject_external_data(data: bytes) -> None:
    """Raise BadPolicyFile if a tensor of the model is stored in another file."""
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
    """Numbers and values of the fields of one protocol buffers message."""
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
        start_of_tag = at
        tag = varint()
        number, wire = tag >> 3, tag & 7
        # A tag that is longer than necessary may mean another field to another reader.
        if at - start_of_tag > max(1, -(-tag.bit_length() // 7)) or tag >= 1 << 32:
            raise BadPolicyFile(DAMAGED)
        if wire not in (0, 1, 2, 5):
            raise BadPolicyFile(DAMAGED)
        if wire == 0:
            yield number, varint()
            continue
        size = varint() if wire == 2 else {1: 8, 5: 4}[wire]
        if at + size > end:
            raise BadPolicyFile("it is not an ONNX model, or truncated")
        yield number, message[at : at + size]
        at += size


# ---- in the child process ----

_sessions: dict[str, Any] = {}


def _declared(content: bytes) -> dict[str, Any]:
    """Load a model and return what it declares."""
    session = _session(hashlib.sha256(content).hexdigest(), content)
    return {
        "inputs": [
            [x.name, x.type, [n if isinstance(n, int) else None for n in x.shape]]
            for x in session.get_inputs()
        ],
        "outputs": {x.name: x.type for x in session.get_outputs()},
        "metadata": dict(session.get_modelmeta().custom_metadata_map),
    }


def _session(key: str, content: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # One thread: many small policies run in parallel. No optimisation: folding constants would
    # run parts of the graph while it is loaded.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    with _onnxruntime():
        _sessions[key] = onnxruntime.InferenceSession(content, options, providers=providers)
    return _sessions[key]


@contextlib.contextmanager
def _onnxruntime() -> Iterator[None]:
    with user_code(f"{DAMAGED}, or onnxruntime cannot run it", BadPolicyFile), confined.opening(0):
        yield


def _run(request: tuple[str, bytes, str, str, int, NDArray[Any]]) -> NDArray[Any] | None:
    """Run a model for every row, in batches of the size that it takes; None if it is not loaded."""
    key, content, given, output, size, rows = request
    session = _session(key, content) if content else _sessions.get(key)
    if session is None:
        return None

    def answer(batch: NDArray[Any]) -> NDArray[Any]:
        (result,) = session.run([output], {given: batch.astype(rows.dtype, copy=False)})
        result = np.asarray(result)
        if result.ndim == 0 or len(result) != len(batch) or result.dtype.kind not in "biuf":
            raise BadPolicyFile(
                f"it returned an array of shape {result.shape} for {len(batch)} observations: "
                "expected one row of outputs for each"
            )
        if result.nbytes > MAX_OUTPUT:
            raise BadPolicyFile(f"it returned {result.nbytes} bytes of outputs for one batch")
        return result

    with _onnxruntime():
        return row_by_row(answer, rows, size)
