"""Policies in ONNX files, run by onnxruntime.

An ONNX file is a graph of operators and holds no code. What could reach outside of it, tensors
kept in other files, is refused before onnxruntime sees the file.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, MissingExtra, UsageError
from pivec.policies.beside import Beside, read_json
from pivec.policies.described import (
    COMMON,
    checked,
    read_head,
    read_info,
    read_statistics,
    refuse_unknown,
)
from pivec.policies.forward import Float
from pivec.policies.onnx_files import refuse_outside_data
from pivec.policies.outputs import OutputPolicy, row_by_row

if TYPE_CHECKING:
    import gymnasium

MAX_INPUTS = 1 << 26
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
    session, declared = _session(data, name)
    description = (beside or Beside()).description(name)
    if description is None:
        own = declared.metadata.get("pivec", "")
        description = read_json(own.encode(), f"the metadata of {name}") if own else {}

    def build() -> OutputPolicy:
        refuse_unknown(description, COMMON | {"output"})
        model = _model(data, session, declared, description.get("output"))
        return OutputPolicy(model, read_head(description), read_statistics(description))

    return checked(build, name), read_info(description, name)


@dataclass(frozen=True)
class Declared:
    """What an ONNX file declares; sizes that may vary are None."""

    inputs: tuple[tuple[str, str, tuple[int | None, ...]], ...]  # name, type, shape
    outputs: dict[str, str]  # name -> type
    metadata: dict[str, str]


def _session(data: bytes, name: str) -> tuple[Any, Declared]:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtra(f"Reading {name}", "onnx") from error
    refuse_outside_data(data, name)
    options = onnxruntime.SessionOptions()
    # One thread: many small policies run side by side. No optimisation: folding constants would
    # run parts of the graph while it is only being loaded.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        declared = Declared(
            tuple((each.name, each.type, _sizes(each.shape)) for each in session.get_inputs()),
            {each.name: each.type for each in session.get_outputs()},
            dict(session.get_modelmeta().custom_metadata_map),
        )
    except Exception as error:  # onnxruntime has a dozen kinds, and names may be no text
        raise BadPolicyFile(
            f"{name} is no ONNX model, or one that onnxruntime cannot run ({str(error)[:300]})."
        ) from error
    return session, declared


def _sizes(shape: Any) -> tuple[int | None, ...]:
    return tuple(n if isinstance(n, int) else None for n in shape)


def _model(data: bytes, session: Any, declared: Declared, output: Any) -> OnnxModel:
    if len(declared.inputs) != 1:
        raise UsageError(
            f"Expected one input, a batch of observations, but the model has "
            f"{len(declared.inputs)}."
        )
    given, kind, shape = declared.inputs[0]
    if kind not in TYPES:
        raise UsageError(f"The input is a {kind}, not a batch of numbers.")
    sizes = [n for n in shape if n is not None]
    if not shape or not all(0 < n <= MAX_INPUTS for n in sizes) or math.prod(sizes) > MAX_INPUTS:
        raise UsageError(f"The input has the shape {str(shape)[:80]}, not that of a batch.")
    names = list(declared.outputs)
    if output is None and len(names) == 1:
        output = names[0]
    if not isinstance(output, str) or output not in names:
        raise UsageError(
            f"The model has the outputs {', '.join(names)[:200]}: say in its description which "
            "one counts, as 'output'."
        )
    if declared.outputs[output] not in TYPES:
        raise UsageError(f"The output is a {declared.outputs[output]}, not a batch of numbers.")
    return OnnxModel(data, output, session, given, kind, shape)


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """An ONNX graph as a `Model`; it survives pickling by being loaded again.

    Parameters
    ----------
    data : bytes
        The whole file.
    output : str
        Name of the output that counts.
    session : onnxruntime.InferenceSession
    input_name, input_type : str
    input_shape : tuple of int or None
        With the batch first; None where any size goes.
    """

    data: bytes = field(repr=False)
    output: str
    session: Any = field(repr=False)
    input_name: str
    input_type: str
    input_shape: tuple[int | None, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.data, self.output)

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
        return row_by_row(self._answer, rows, self.input_shape[0] or 1)

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

    def _answer(self, rows: NDArray[Any]) -> NDArray[Any]:
        given = {self.input_name: rows.astype(TYPES[self.input_type])}
        try:
            (result,) = self.session.run([self.output], given)
        except Exception as error:  # onnxruntime has a dozen kinds of its own
            raise UsageError(f"onnxruntime cannot run this policy ({str(error)[:300]}).") from error
        result = np.asarray(result)
        if result.ndim == 0 or len(result) != len(rows) or result.dtype.kind not in "biuf":
            raise UsageError(
                f"Expected one row of outputs for each of {len(rows)} observations, but the model "
                f"gave an array of shape {result.shape}."
            )
        return result.reshape(len(rows), -1)

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


def _again(data: bytes, output: str) -> OnnxModel:
    session, declared = _session(data, "the model")
    return _model(data, session, declared, output)
