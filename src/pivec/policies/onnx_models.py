"""Policies in ONNX files, run by onnxruntime.

An ONNX file is a graph of operators and holds no code. What could reach outside of it, tensors
kept in other files, is refused before onnxruntime sees the file; onnxruntime itself runs in
another process (`pivec.policies.onnx_process`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import MissingExtra, UsageError
from pivec.policies.beside import Beside, read_json
from pivec.policies.described import (
    COMMON,
    assume_head,
    checked,
    read_head,
    read_info,
    read_statistics,
    refuse_unknown,
)
from pivec.policies.forward import Float
from pivec.policies.onnx_files import refuse_outside_data
from pivec.policies.onnx_process import runtime
from pivec.policies.outputs import OutputPolicy

if TYPE_CHECKING:
    import gymnasium

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


def read_onnx(
    data: bytes, name: str = "the file", beside: Beside | None = None
) -> tuple[OutputPolicy, dict[str, Any]]:
    """Read an ``.onnx`` file with one input, a batch of observations.

    A .json of the same name beside it, or the file's own metadata under the key ``pivec`` (the
    same JSON as text), may tell the head and its settings, ``output`` (the name of the output that
    counts, if there are several), a normaliser and info.

    Parameters
    ----------
    data : bytes
        The whole file.
    name : str
        What error messages call it.
    beside : Beside, optional

    Returns
    -------
    policy : OutputPolicy
    info : dict
        ``info`` of the description.
    """
    declared = _declared(data, name)
    description = (beside or Beside()).description(name)
    if description is None:
        own = declared["metadata"].get("pivec", "")
        description = read_json(own.encode(), f"the metadata of {name}") if own else {}

    def build() -> OutputPolicy:
        refuse_unknown(description, COMMON | {"output"})
        model = _model(data, name, declared, description.get("output"))
        if "int" not in declared["outputs"][model.output]:
            assume_head(description, beside)
        return OutputPolicy(model, read_head(description), read_statistics(description))

    return checked(build, name), read_info(description, name)


def first_output(data: bytes, name: str) -> OnnxModel:
    """Read a graph whose first output counts, whatever else it gives."""
    declared = _declared(data, name)
    return _model(data, name, declared, next(iter(declared["outputs"]), None))


def _declared(data: bytes, name: str) -> dict[str, Any]:
    if importlib.util.find_spec("onnxruntime") is None:
        raise MissingExtra(f"Reading {name}", "onnx")
    refuse_outside_data(data, name)
    return runtime().load(hashlib.sha256(data).hexdigest(), data, name)


def _model(data: bytes, name: str, declared: dict[str, Any], output: Any) -> OnnxModel:
    inputs, outputs = declared["inputs"], declared["outputs"]
    if len(inputs) != 1:
        raise UsageError(
            f"Expected one input, a batch of observations, but the model has {len(inputs)}."
        )
    given, kind, shape = inputs[0]
    if kind not in TYPES:
        raise UsageError(f"The input is a {kind}, not a batch of numbers.")
    sizes = [n for n in shape if n is not None]
    if not shape or not all(0 < n <= MAX_INPUTS for n in sizes) or math.prod(sizes) > MAX_INPUTS:
        raise UsageError(f"The input has the shape {str(shape)[:80]}, not that of a batch.")
    names = list(outputs)
    if output is None and len(names) == 1:
        output = names[0]
    if not isinstance(output, str) or output not in names:
        raise UsageError(
            f"The model has the outputs {', '.join(names)[:200]}: say in its description which "
            "one counts, as 'output'."
        )
    if outputs[output] not in TYPES:
        raise UsageError(f"The output is a {outputs[output]}, not a batch of numbers.")
    return OnnxModel(data, name, output, given, kind, tuple(shape))


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """An ONNX graph as a `Model`.

    Parameters
    ----------
    data : bytes
        The whole file.
    name : str
        What error messages call it.
    output : str
        Name of the output that counts.
    input_name, input_type : str
    input_shape : tuple of int or None
        With the batch first; None where any size goes.
    """

    data: bytes = field(repr=False)
    name: str
    output: str
    input_name: str
    input_type: str
    input_shape: tuple[int | None, ...]

    @property
    def n_inputs(self) -> int | None:
        """Number of values of an observation; None if the file does not tell."""
        sizes = [n for n in self.input_shape[1:] if n is not None]
        return math.prod(sizes) if len(sizes) == len(self.input_shape) - 1 else None

    @property
    def fingerprint(self) -> str:
        """A digest of everything that decides the outputs."""
        return hashlib.sha256(self.data + self.output.encode()).hexdigest()

    def outputs(self, observations: Float) -> NDArray[Any]:
        """Outputs (n, k) of observations (n, ...)."""
        rows = self._shaped(np.asarray(observations))
        # As many rows as travel at once; the other process asks the model row by row.
        some = max(1, REQUEST // max(1, rows[:1].nbytes))
        parts = [self._ask(rows[first : first + some]) for first in range(0, len(rows), some)]
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
            f"This policy expects observations of shape {declared}, "
            f"but got a batch of shape {rows.shape}."
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

    def bind(self, observation_space: gymnasium.Space[Any]) -> OnnxModel:
        """Check that the environment's observations have the declared shape."""
        from gymnasium import spaces

        width = spaces.flatdim(observation_space)
        shape = observation_space.shape
        plain = width if shape is None else int(np.prod(shape))
        if self.n_inputs is not None and self.n_inputs not in (width, plain):
            raise UsageError(
                f"This policy expects observations of {self.n_inputs} values, but the environment "
                f"gives {width} ({observation_space}): was it trained in another environment?"
            )
        return self
