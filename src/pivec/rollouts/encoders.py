"""Encoders in files: networks that turn observations into few numbers.

Those of `pivec.fit_encoder` are a ``.safetensors`` of convolutions and a linear layer, which need
nothing but NumPy; others are ONNX or torch files.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.engines.devices import require_torch
from pivec.engines.files import present
from pivec.engines.offered import offer
from pivec.errors import BadData, BadPolicyFile, PivecError, UsageError
from pivec.policies.cnn import ImageFeatures, find_features
from pivec.policies.formats import about
from pivec.policies.outputs import row_by_row
from pivec.policies.saved import ENCODER, read_safetensors, tensor_bytes
from pivec.reading import digest_of, read_regular

VERSION = "1"
_MOST_PIXELS = 1 << 16  # of a side
Run = Callable[[NDArray[np.float32]], Any]
DIGITS = 16  # of an encoder's SHA-256
SUFFIXES = (".safetensors", ".onnx", ".pt", ".pt2", ".pth")


@dataclass(frozen=True)
class FileEncoder:
    """A network in a file: a batch of observations in as float32, rows of numbers out.

    ``digest`` is of the file, so that a store knows when it has changed.
    """

    path: str
    digest: str
    place: str = field(default="", repr=False, compare=False)  # the whole path, where it travels

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the numbers, where that is an encoder of our own."""
        own = getattr(self._run, "__self__", None)  # whose method it is
        if not isinstance(own, ImageFeatures):
            return None
        return tuple(f"code[{i}]" for i in range(own.n_outputs))

    @cached_property
    def _run(self) -> Run:
        load = _LOADERS.get(Path(self.path).suffix, _load_torch)
        try:
            file = present(self.place or Path(self.path).expanduser())
            if (now := digest_of(file)[:DIGITS]) != self.digest:
                raise BadPolicyFile(
                    f"the encoder {self.path} has changed since it was named, or differs between "
                    f"machines (SHA-256 {now} instead of {self.digest})"
                )
            return load(file, self.path)
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
        place = self.place or os.path.abspath(Path(self.path).expanduser())
        offer(place)
        # What is loaded does not travel.
        return {"path": self.path, "digest": self.digest, "place": place}


def encoder_bytes(features: ImageFeatures, info: Mapping[str, Any]) -> bytes:
    """Give the file of an encoder; ``info`` is anything worth keeping that JSON can hold."""
    network = {"shape": features.shape, "kernels": features.kernels, "scale": features.scale}
    channels, tensors = features.shape[0], dict[str, NDArray[Any]]()
    for i, ((weight, bias), (size, _)) in enumerate(
        zip(features.convolutions, features.kernels, strict=True)
    ):
        turned = weight.T.reshape(len(bias), channels, size, size)
        tensors |= {f"convolutions.{i}.weight": turned, f"convolutions.{i}.bias": bias}
        channels = len(bias)
    if features.linear is None:
        raise UsageError("an encoder needs a linear layer behind its convolutions")
    tensors |= {"linear.weight": features.linear[0].T, "linear.bias": features.linear[1]}
    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    texts = {"network": json.dumps(network), "info": json.dumps(dict(info))}
    return tensor_bytes(whole, {"format": ENCODER, "version": VERSION, **texts})


def read_encoder(data: bytes) -> ImageFeatures:
    """Read what `encoder_bytes` wrote; errors speak of it as "it"."""
    tensors, metadata = read_safetensors(data)
    if metadata.get("format") != ENCODER:
        raise BadPolicyFile("it is no encoder: expected one that `pivec encoder` wrote")
    if metadata.get("version") != VERSION:
        raise BadPolicyFile(
            f"it is of version {metadata.get('version')!r} and this pivec reads {VERSION}: install "
            "a newer pivec"
        )
    match json.loads(metadata["network"]):
        case {"shape": [int(), int(), int()] as shape, "kernels": list(kernels), "scale": scale}:
            sizes = [size for kernel in kernels for size in kernel]
            numbers = all(type(n) is int and 0 < n <= _MOST_PIXELS for n in [*shape, *sizes])
            if numbers and type(scale) is float and scale > 0:
                names = [f"convolutions.{i}" for i in range(len(kernels))]
                pairs = tuple((size, stride) for size, stride in kernels)
                return find_features(tensors, names, "linear", shape, pairs, scale, "identity")
    raise BadPolicyFile("it is damaged: its description makes no sense")


def _load_own(path: Path, name: str) -> Run:
    """Load an encoder of our own."""
    with about(name):
        return read_encoder(read_regular(path)).outputs


def _load_onnx(path: Path, name: str) -> Run:
    """Load an ``.onnx`` file, whose first input and output count."""
    from pivec.policies.onnx_models import first_output

    return first_output(read_regular(path), name).outputs


def _load_torch(path: Path, name: str) -> Run:
    """Load a TorchScript file, or with ``.pt2`` one of torch.export; it may run code."""
    require_torch("a torch encoder")
    import torch

    if name.endswith(".pt2"):
        module = torch.export.load(path).module()
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # files made earlier stay
            module = torch.jit.load(str(path), map_location="cpu").eval()

    def run(batch: NDArray[np.float32]) -> Any:
        with torch.inference_mode():
            return module(torch.from_numpy(batch)).numpy()

    return lambda batch: row_by_row(run, batch)


_LOADERS = {".safetensors": _load_own, ".onnx": _load_onnx}
