"""NumPy files: parameter vectors, as CMA-ES gives them, and named arrays.

A description next to the file states the layout, see `pivec.policies.formats.described`.
"""

from __future__ import annotations

import io
import math
import warnings
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.files import BoundedZip, Budget
from pivec.policies.formats import CheckpointFiles, about, reader
from pivec.policies.formats.described import (
    COMMON,
    ORDERS,
    check_keys,
    choice,
    described_network,
    make_network,
)
from pivec.policies.forward import Layer
from pivec.policies.networks import NetworkPolicy
from pivec.policies.tensors import Tensors

MAX_WIDTH = 1 << 20
MAX_HEADER = 1 << 16  # NumPy itself refuses to parse longer ones
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
SEQUENCES = ("weights-biases", "biases-weights")


@reader
def read_npy(data: bytes, files: CheckpointFiles) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read a parameter vector in a ``.npy`` file with a description next to it."""
    return _read({"vector": parse_npy(data)}, files)


@reader
def read_npz(data: bytes, files: CheckpointFiles) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read a parameter vector, or named weights, in a ``.npz`` with a description next to it."""
    return _read(unpack_npz(data, Budget(len(data), "it")), files)


def _read(arrays: Tensors, files: CheckpointFiles) -> tuple[NetworkPolicy, dict[str, Any]]:
    description = files.description()
    if description is None:
        raise BadPolicyFile(
            "it holds arrays, which are not a policy without a .json of the same name (or "
            "policies.json) next to it that states the layers; to read recorded states, use `pivec "
            "import`, or VisitedStates.from_arrays in Python"
        )
    if "sizes" not in description:
        return described_network(description, arrays, files)
    known = {"sizes", "vector", "weights", "biases", "sequence", "activation"}
    check_keys(description, COMMON | known)
    sizes, biases = description["sizes"], description.get("biases", True)
    if (
        not isinstance(sizes, list)
        or len(sizes) < 2
        or not all(type(n) is int and 0 < n < MAX_WIDTH for n in sizes)
    ):
        raise UsageError(
            "sizes must be the widths of the layers including the input, as [4, 16, 2]"
        )
    if not isinstance(biases, bool):
        raise UsageError("biases must be true or false")
    key = description.get("vector")
    if key is None and len(arrays) == 1:
        key = next(iter(arrays))
    if not isinstance(key, str) or key not in arrays:
        names = ", ".join(list(arrays)[:8])
        raise UsageError(f"vector must be the name of an array: one of {names[:200]}")
    if arrays[key].ndim != 1:
        raise UsageError(
            f"expected one parameter vector, but {key[:60]!r} has shape {arrays[key].shape}: save "
            "one member of a population per file"
        )
    layers = split_vector(
        arrays[key],
        sizes,
        biases=biases,
        order=choice(description, "weights", ORDERS, "in-out"),
        sequence=choice(description, "sequence", SEQUENCES, "weights-biases"),
    )
    return make_network(description, layers, arrays, files)


def split_vector(
    vector: NDArray[Any],
    sizes: list[int],
    *,
    biases: bool = True,
    order: str = "in-out",
    sequence: str = "weights-biases",
) -> tuple[Layer, ...]:
    """Split a parameter vector into layers, one after another.

    ``sizes`` are the widths of the layers including the input; without ``biases`` these are 0.
    ``order`` is "in-out" if a row of weights belongs to one input, "out-in" if to one output;
    ``sequence`` says what comes first in each layer.
    """
    pairs = list(pairwise(sizes))
    expected = sum(n_in * n_out + biases * n_out for n_in, n_out in pairs)
    if vector.shape != (expected,):
        raise UsageError(
            f"a network of sizes {sizes[:20]} has {expected} parameters, but the vector holds "
            f"{vector.size}"
        )
    layers: list[Layer] = []
    at = 0
    for n_in, n_out in pairs:
        parts: dict[str, NDArray[Any]] = {"biases": np.zeros(n_out)}
        for part in sequence.split("-"):
            if part == "biases" and not biases:
                continue
            size = n_out if part == "biases" else n_in * n_out
            parts[part] = vector[at : at + size]
            at += size
        shape = (n_out, n_in) if order == "out-in" else (n_in, n_out)
        weights = parts["weights"].reshape(shape)
        layers.append((weights.T if order == "out-in" else weights, parts["biases"]))
    return tuple(layers)


def unpack_npz(
    source: bytes | BinaryIO, budget: Budget, kinds: str = "biuf", only: str = ""
) -> Tensors:
    """Read the arrays of a ``.npz`` file by name, or ``only`` one."""
    archive, arrays = BoundedZip(source, budget), {}
    for member in archive.members:
        if member == f"{only}.npy" if only else member.endswith(".npy"):
            with about(f"{member} in it"):
                arrays[member.removesuffix(".npy")] = parse_npy(archive.read(member), kinds)
    return arrays


def parse_npy(data: bytes | bytearray, kinds: str = "biuf") -> NDArray[Any]:
    """Read the numbers of a ``.npy`` file; its header cannot claim more than there is.

    ``kinds`` are the accepted kinds of dtypes, as NumPy abbreviates them.
    """
    stream = io.BytesIO(data[:MAX_HEADER])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers of Python 2 are read as well
            shape, fortran, dtype = HEADERS[np.lib.format.read_magic(stream)](stream)
    except Exception as error:  # the header is parsed as Python, which raises anything
        raise BadPolicyFile(f"it is not a NumPy array, or damaged ({error})") from error
    if dtype.kind not in kinds or not dtype.itemsize:
        raise BadPolicyFile(f"it holds values of type {str(dtype)[:60]}, not numbers")
    if not all(type(n) is int and n >= 0 for n in shape):
        raise BadPolicyFile("it is damaged: its shape is invalid")
    count, start = math.prod(shape), stream.tell()
    if count * dtype.itemsize != len(data) - start:
        raise BadPolicyFile(f"it is truncated: an array of shape {str(shape)[:80]}")
    flat = np.frombuffer(data, dtype, count, start) if count else np.zeros(0, dtype)
    flat = flat.astype(dtype.newbyteorder("="), copy=False)
    try:
        return flat.reshape(shape, order="F" if fortran else "C")
    except ValueError as error:  # empty, but huge along the other axes
        raise BadPolicyFile("its shape is invalid") from error
