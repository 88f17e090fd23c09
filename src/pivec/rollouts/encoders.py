"""Encoders of observations that come in a file: ONNX, and torch where the user trusts it."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, BadPolicyFile, MissingExtra, PivecError, UsageError
from pivec.policies.outputs import row_by_row
from pivec.reading import read_regular

Run = Callable[[NDArray[np.float32]], Any]


@dataclass(frozen=True)
class FileEncoder:
    """A network in a file: a batch of observations in as float32, rows of numbers out.

    ``digest`` is of the file, so that a store knows when it has changed.
    """

    path: str
    digest: str

    @cached_property
    def _run(self) -> Run:
        try:
            return _load_onnx(self.path) if self.path.endswith(".onnx") else _load_torch(self.path)
        except PivecError:
            raise
        except Exception as error:
            raise BadPolicyFile(
                f"{self.path} is not an encoder that can be read: {error}"
            ) from error

    def __call__(self, observations: Any) -> NDArray[np.float32]:
        """Encode a batch of observations."""
        batch = np.ascontiguousarray(observations, dtype=np.float32)
        run = self._run
        try:
            rows = np.asarray(run(batch), dtype=np.float32)
        except Exception as error:
            raise BadData(
                f"the encoder {self.path} does not take observations of shape {batch.shape}: "
                f"{error}"
            ) from error
        if rows.ndim < 1 or len(rows) != len(batch):
            raise BadData(
                f"the encoder {self.path} gave an array of shape {rows.shape} for {len(batch)} "
                "observations: expected one row for each"
            )
        return rows.reshape(len(batch), -1)

    def __getstate__(self) -> dict[str, str]:
        return {"path": self.path, "digest": self.digest}  # what is loaded does not travel


def encoder_of(path: str) -> FileEncoder:
    """Make an encoder of the file at ``path``, which is loaded when it is needed."""
    try:
        content = read_regular(Path(path).expanduser())
    except OSError as error:
        raise UsageError(f"the encoder {path} cannot be read: {error.strerror or error}") from error
    return FileEncoder(path, hashlib.sha256(content).hexdigest()[:16])


def _load_onnx(path: str) -> Run:
    """Load an ``.onnx`` file, whose first input and output count."""
    from pivec.policies.onnx_models import first_output

    return first_output(read_regular(Path(path).expanduser()), path).outputs


def _load_torch(path: str) -> Run:
    """Load a TorchScript file, or with ``.pt2`` one of torch.export; it may run code."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("a torch encoder", "torch") from error
    file = str(Path(path).expanduser())
    if file.endswith(".pt2"):
        module = torch.export.load(file).module()
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # files made earlier stay
            module = torch.jit.load(file, map_location="cpu").eval()

    def run(batch: NDArray[np.float32]) -> Any:
        with torch.inference_mode():
            return module(torch.from_numpy(batch)).numpy()

    return lambda batch: row_by_row(run, batch)
