"""Models that torch runs: TorchScript (``.pt``) and exported programs (``.pt2``).

Both contain code, so both need the user's trust. A ``.pt`` with weights only is read as data.
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
from pivec.policies.formats import CheckpointFiles, reader
from pivec.policies.formats.described import described_outputs
from pivec.policies.formats.state_dict import read_weights
from pivec.policies.forward import Float
from pivec.policies.networks import Model, OutputPolicy, row_by_row
from pivec.policies.policy import Policy

SCRIPT, PROGRAM = "TorchScript", "torch.export"


@reader
def read_pt(data: bytes, files: CheckpointFiles) -> tuple[Policy, dict[str, Any]]:
    """Read a ``.pt`` file: TorchScript with the user's trust, or a state dictionary."""
    if data.startswith(b"PK"):
        names = BoundedZip(data, Budget(len(data), "it")).members
        if any(re.fullmatch(r"[^/]+/(code/.*|constants\.pkl)", name) for name in names):
            return _read(data, files, SCRIPT)
    return read_weights(data, files)


@reader
def read_pt2(data: bytes, files: CheckpointFiles) -> tuple[OutputPolicy, dict[str, Any]]:
    """Read a program that ``torch.export.save`` wrote, with the user's trust."""
    return _read(data, files, PROGRAM)


def _read(data: bytes, files: CheckpointFiles, kind: str) -> tuple[OutputPolicy, dict[str, Any]]:
    BoundedZip(data, Budget(len(data), "it"))  # raises if it is damaged
    files.demand_trust(f"is a {kind} program")
    description = files.description() or {}
    output = description.get("output", 0)
    if type(output) is not int or output < 0:
        raise UsageError("output must be the number of the output to use, from 0")
    return described_outputs(_make_model(data, kind, output), description, files)


def _make_model(data: bytes, kind: str, output: int) -> TorchModel:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(f"reading a {kind} program", "torch") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript is deprecated
            if kind == SCRIPT:
                module = torch.jit.load(io.BytesIO(data), map_location="cpu").eval()
                return TorchModel(data, kind, output, module)
            program = torch.export.load(io.BytesIO(data))
            return TorchModel(data, kind, output, program.module(), _batch(program))
    except Exception as error:  # torch has many errors of its own
        raise BadPolicyFile(
            f"it is damaged, or torch {torch.__version__} cannot load it "
            f"({type(error).__name__}: {str(error)[:300]})"
        ) from error


def _batch(program: Any) -> int:
    """Batch size that an exported program requires; 1 if it takes any."""
    inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in inputs:
            shape = list(getattr(node.meta.get("val"), "shape", []))
            return shape[0] if shape and type(shape[0]) is int else 1
    return 1


@dataclass(frozen=True, eq=False)
class TorchModel(Model):
    """A module of torch as a `Model`; pickling stores the file, which is loaded again."""

    data: bytes = field(repr=False)  # the whole file
    kind: str  # SCRIPT or PROGRAM
    output: int  # which of several outputs is used
    call: Any = field(repr=False)
    batch: int = 1  # rows per call

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_model, (self.data, self.kind, self.output)

    @property
    def fingerprint(self) -> str:
        archive = BoundedZip(self.data, Budget(len(self.data), f"a {self.kind} program"))
        digest = hashlib.sha256(repr(self.output).encode())
        for member in sorted(archive.members):
            # The top folder is named after the file, and so is a digest of all names.
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
                f"a {self.kind} program failed on observations of shape {rows.shape[1:]} "
                f"({type(error).__name__}: {str(error)[:300]})"
            ) from error
        if array.ndim == 0 or len(array) != len(rows):
            raise UsageError(
                f"expected one row of outputs for each of {len(rows)} observations, but the "
                f"program gave an array of shape {array.shape}"
            )
        return array.reshape(len(rows), -1)
