"""Models that torch runs: TorchScript (``.pt``) and exported programs (``.pt2``).

Both hold code, so both need the user's trust. A ``.pt`` that holds weights only is read as data.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, MissingExtra, UsageError
from pivec.files import BoundedZip, Budget
from pivec.policies.distributions import Model, OutputPolicy, row_by_row
from pivec.policies.formats import Beside, reader
from pivec.policies.formats.cleanrl import read_weights
from pivec.policies.formats.safetensors import described_outputs
from pivec.policies.forward import Float
from pivec.policies.policy import Policy

SCRIPT, PROGRAM = "TorchScript", "torch.export"


@reader
def read_pt(data: bytes, beside: Beside) -> tuple[Policy, dict[str, Any]]:
    """Read a ``.pt`` file: TorchScript with the user's trust, or weights as CleanRL saves them."""
    if data.startswith(b"PK"):
        names = BoundedZip(data, Budget(len(data), "it")).members
        if any(re.fullmatch(r"[^/]+/(code/.*|constants\.pkl)", name) for name in names):
            return _read(data, beside, SCRIPT)
    return read_weights(data, beside)


@reader
def read_pt2(data: bytes, beside: Beside) -> tuple[OutputPolicy, dict[str, Any]]:
    """Read a program that ``torch.export.save`` wrote, with the user's trust."""
    return _read(data, beside, PROGRAM)


def _read(data: bytes, beside: Beside, kind: str) -> tuple[OutputPolicy, dict[str, Any]]:
    BoundedZip(data, Budget(len(data), "it"))  # whole
    beside.demand_trust(f"is a program of {kind}")
    description = beside.description() or {}
    call, batch = _load(data, kind)
    output = description.get("output", 0)
    if type(output) is not int or output < 0:
        raise UsageError("output must be the number of the output that counts, from 0")
    return described_outputs(TorchModel(data, kind, output, call, batch), description, beside)


def _load(data: bytes, kind: str) -> tuple[Any, int]:
    """Give a callable, and how many rows it takes at a time."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(f"reading a program of {kind}", "torch") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that TorchScript is on its way out
            if kind == SCRIPT:
                return torch.jit.load(io.BytesIO(data), map_location="cpu").eval(), 1
            program = torch.export.load(io.BytesIO(data))
            return program.module(), _batch(program)
    except Exception as error:  # torch has many kinds of its own
        raise BadPolicyFile(
            f"it is damaged, or torch {torch.__version__} cannot load it "
            f"({type(error).__name__}: {str(error)[:300]})"
        ) from error


def _batch(program: Any) -> int:
    """Rows that an exported program takes: those it was exported with, unless it takes any."""
    inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in inputs:
            shape = list(getattr(node.meta.get("val"), "shape", []))
            return shape[0] if shape and type(shape[0]) is int else 1
    return 1


@dataclass(frozen=True, eq=False)
class TorchModel(Model):
    """A module of torch as a `Model`; it survives pickling by being loaded again."""

    data: bytes = field(repr=False)  # the whole file
    kind: str  # SCRIPT or PROGRAM
    output: int  # which of several outputs counts
    call: Any = field(repr=False)
    batch: int = 1  # how many rows it takes at a time

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.data, self.kind, self.output)

    @property
    def fingerprint(self) -> str:
        archive = BoundedZip(self.data, Budget(len(self.data), f"a program of {self.kind}"))
        digest = hashlib.sha256(repr(self.output).encode())
        for member in sorted(archive.members):
            # Below a folder that is called as the file was, and so is a digest of all names.
            inner = member.partition("/")[2]
            if inner != ".data/serialization_id":
                content = archive.read(member)
                digest.update(f"{inner} {len(content)} ".encode() + content)
        return digest.hexdigest()

    def outputs(self, observations: Float) -> NDArray[Any]:
        return row_by_row(self._answer, np.asarray(observations), self.batch)

    def _answer(self, rows: NDArray[Any]) -> NDArray[Any]:
        import torch

        try:
            with torch.inference_mode():
                result = self.call(torch.from_numpy(np.array(rows, np.float32)))
                if isinstance(result, tuple | list):
                    result = result[self.output]
                array = np.asarray(result.detach().cpu().numpy())
        except Exception as error:  # whatever the program raises
            raise UsageError(
                f"a program of {self.kind} failed on observations of shape {rows.shape[1:]} "
                f"({type(error).__name__}: {str(error)[:300]})"
            ) from error
        if array.ndim == 0 or len(array) != len(rows):
            raise UsageError(
                f"expected one row of outputs for each of {len(rows)} observations, but the "
                f"program gave an array of shape {array.shape}"
            )
        return array.reshape(len(rows), -1)


def _again(data: bytes, kind: str, output: int) -> TorchModel:
    return TorchModel(data, kind, output, *_load(data, kind))
