"""Encoders of observations that come in a file: ONNX, and torch where the user trusts it."""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, BadPolicyFile, MissingExtra, PivecError, UsageError
from pivec.policies.outputs import row_by_row
from pivec.reading import read_regular

Run = Callable[[NDArray[np.float32]], Any]


@dataclass(frozen=True)
class Encoder(ABC):
    """A network in a file: a batch of observations in as float32, rows of numbers out.

    Attributes
    ----------
    path : str
    digest : str
        Of the file, so that a store knows when it has changed.
    """

    path: str
    digest: str

    @classmethod
    def of(cls, path: str) -> Self:
        """Make one of the file at ``path``, which is read when it is needed."""
        try:
            content = read_regular(Path(path).expanduser())
        except OSError as error:
            raise UsageError(
                f"the encoder {path} cannot be read: {error.strerror or error}"
            ) from error
        return cls(path, hashlib.sha256(content).hexdigest()[:16])

    @abstractmethod
    def load(self) -> Run:
        """Load the file; the function answers one batch."""

    @cached_property
    def _run(self) -> Run:
        try:
            return self.load()
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
        if not len(rows) == len(batch) or rows.ndim < 1:
            raise BadData(
                f"the encoder {self.path} gave an array of shape {rows.shape} for {len(batch)} "
                "observations: expected one row for each"
            )
        return rows.reshape(len(batch), -1)

    def __getstate__(self) -> dict[str, str]:
        return {"path": self.path, "digest": self.digest}  # what is loaded does not travel


@dataclass(frozen=True)
class OnnxEncoder(Encoder):
    """An encoder in an ``.onnx`` file; its first input and output count."""

    def load(self) -> Run:
        """Load the file."""
        from pivec.policies.onnx_models import first_output

        return first_output(read_regular(Path(self.path).expanduser()), self.path).outputs


@dataclass(frozen=True)
class TorchEncoder(Encoder):
    """An encoder in a TorchScript file, or with ``.pt2`` of torch.export."""

    def load(self) -> Run:
        """Load the file, which may run code."""
        try:
            import torch
        except ImportError as error:
            raise MissingExtra("a torch encoder", "torch") from error
        path = str(Path(self.path).expanduser())
        if path.endswith(".pt2"):
            module = torch.export.load(path).module()
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # files made earlier stay
                module = torch.jit.load(path, map_location="cpu").eval()

        def run(batch: NDArray[np.float32]) -> Any:
            with torch.inference_mode():
                return module(torch.from_numpy(batch)).numpy()

        return lambda batch: row_by_row(run, batch)
