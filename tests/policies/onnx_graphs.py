"""Small ONNX models for several tests, made without torch."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT


def weights(sizes=(4, 8, 3), seed=0):
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(a, b)).astype("f4"), rng.normal(size=b).astype("f4"))
        for a, b in pairwise(sizes)
    ]


def graph(sizes=(4, 8, 3), seed=0, *, batch="n", last=None, twice=False, description=None):
    """A tanh network as an ONNX model; ``last`` is an operator behind it, as ArgMax."""
    nodes, constants, x = [], [], "observation"
    pairs = weights(sizes, seed)
    for i, (weight, bias) in enumerate(pairs):
        for name, value in ((f"w{i}", weight), (f"b{i}", bias)):
            constants.append(onnx.numpy_helper.from_array(value, name))
        out = f"h{i}"
        nodes.append(helper.make_node("Gemm", [x, f"w{i}", f"b{i}"], [out]))
        x = out
        if i < len(pairs) - 1:
            nodes.append(helper.make_node("Tanh", [x], [f"t{i}"]))
            x = f"t{i}"
    kind, width = FLOAT, [batch, sizes[-1]]
    if last == "ArgMax":
        nodes.append(helper.make_node("ArgMax", [x], ["chosen"], axis=1, keepdims=0))
        x, kind, width = "chosen", onnx.TensorProto.INT64, [batch]
    outputs = [helper.make_tensor_value_info(x, kind, width)]
    if twice:
        nodes.append(helper.make_node("Neg", [x], ["values"]))
        outputs.append(helper.make_tensor_value_info("values", kind, width))
    inputs = [helper.make_tensor_value_info("observation", FLOAT, [batch, sizes[0]])]
    model = helper.make_model(
        helper.make_graph(nodes, "policy", inputs, outputs, constants),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    model.ir_version = 8
    if description is not None:
        helper.set_model_props(model, {"pivec": json.dumps(description)})
    return model.SerializeToString()


def slow(rows, sizes=(4, 8, 3), seed=0):
    x = np.asarray(rows, float)
    pairs = weights(sizes, seed)
    for i, (weight, bias) in enumerate(pairs):
        x = x @ weight + bias
        x = np.tanh(x) if i < len(pairs) - 1 else x
    return x
