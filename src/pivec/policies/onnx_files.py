"""Looks into ONNX files, which are protocol buffers, for tensors kept in other files."""

from __future__ import annotations

from collections.abc import Iterator

from pivec.errors import BadPolicyFile

# Numbers of fields, from onnx.proto: where tensors and graphs with tensors may be.
MODEL = {7: "graph", 20: "training", 25: "function"}
GRAPH = {1: "node", 5: "tensor", 15: "sparse"}
NODE = {5: "attribute"}
ATTRIBUTE = {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"}
SPARSE = {1: "tensor", 2: "tensor"}
FUNCTION = {7: "node", 11: "attribute"}
TRAINING = {1: "graph", 2: "graph"}
KINDS = {
    "model": MODEL,
    "graph": GRAPH,
    "node": NODE,
    "attribute": ATTRIBUTE,
    "sparse": SPARSE,
    "function": FUNCTION,
    "training": TRAINING,
}
EXTERNAL_DATA, DATA_LOCATION = 13, 14
MAX_FIELDS = 2_000_000


def refuse_outside_data(data: bytes, name: str) -> None:
    """Raise an error if any tensor of the model lies outside of the file, or it is damaged."""
    if data[4:8] == b"ORTM":
        raise BadPolicyFile(f"{name} is in onnxruntime's own format: save the model as ONNX.")
    waiting = [("model", memoryview(data))]
    count = 0
    while waiting:
        kind, message = waiting.pop()
        for number, value in _fields(message, name):
            count += 1
            if count > MAX_FIELDS:
                raise BadPolicyFile(f"{name} has more than {MAX_FIELDS} parts.")
            if kind == "tensor":
                # Any value but 0: protocol buffers keep its last 32 bits only.
                if number == EXTERNAL_DATA or (number == DATA_LOCATION and value != 0):
                    raise BadPolicyFile(
                        f"{name} keeps its tensors in other files, which is not supported: save "
                        "the model as one file."
                    )
            elif isinstance(value, memoryview) and number in KINDS[kind]:
                waiting.append((KINDS[kind][number], value))


def _fields(message: memoryview, name: str) -> Iterator[tuple[int, int | memoryview]]:
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
        raise BadPolicyFile(f"{name} is no ONNX model, or damaged.")

    while at < end:
        start = at
        tag = varint()
        number, wire = tag >> 3, tag & 7
        # Written longer than it need be, a tag may mean another field to another reader.
        if at - start > max(1, -(-tag.bit_length() // 7)) or tag >= 1 << 32:
            raise BadPolicyFile(f"{name} is no ONNX model, or damaged.")
        if wire == 0:
            yield number, varint()
            continue
        if wire in (1, 5):
            size = 8 if wire == 1 else 4
        elif wire == 2:
            size = varint()
        else:
            raise BadPolicyFile(f"{name} is no ONNX model, or damaged.")
        if at + size > end:
            raise BadPolicyFile(f"{name} is no ONNX model, or truncated.")
        yield number, message[at : at + size]
        at += size
