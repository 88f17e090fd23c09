"""Images as few numbers: grey cells as in Go-Explore, or an encoder of your own in a file.

All of these are called with a batch of observations and give an array (n, values) of float32; they
can be sent to other processes, and a store keeps their `repr` to know what its states are.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Range, check_arguments
from pivec.engines.devices import require_torch
from pivec.engines.files import present
from pivec.engines.offered import offer
from pivec.errors import BadData, BadPolicyFile, PivecError, UsageError
from pivec.options import Features
from pivec.policies.outputs import row_by_row
from pivec.reading import digest_of, read_regular
from pivec.rollouts.named_objects import named_object, split_arguments
from pivec.rollouts.seen import Values, look
from pivec.rollouts.spaces import batch_length

Run = Callable[[NDArray[np.float32]], Any]
_DIGITS = 16  # of an encoder's SHA-256
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601, as most tools


def load_features(spec: str, *, trust: bool = False) -> Features:
    """Find features by name.

    Parameters
    ----------
    spec : str
        ``cells``, with arguments ``cells{"height": 8, "width": 11, "levels": 8}``; the path of
        an ``.onnx`` file; the path of a TorchScript ``.pt`` or a ``.pt2`` of torch.export;
        ``info:KEY,KEY`` or ``env:KEY``, see `Values`; or ``module:function``.
    trust : bool
        Needed for torch files, which may run code when they are loaded.

    Examples
    --------
    >>> load_features('cells{"levels": 4}')
    GreyCells(height=8, width=11, levels=4, key=None)
    """
    name, arguments = split_arguments(spec)
    if name == "cells":
        try:
            return GreyCells(**arguments)
        except TypeError as error:
            raise UsageError(f"cells does not take {arguments}: {error}") from error
    if name.startswith(("info:", "env:")):
        return Values.named(spec)
    if not name.endswith((".onnx", ".pt", ".pt2", ".pth")):
        features: Features = named_object(name, "features")
        return features
    if not name.endswith(".onnx") and not trust:
        raise UsageError(
            f"{name} is a torch file, which may run code when it is loaded: add --trust "
            "(from Python trust=True) if you know where it comes from, or export it to .onnx"
        )
    try:
        content = read_regular(Path(name).expanduser())
    except OSError as error:
        raise UsageError(f"the encoder {name} cannot be read: {error.strerror or error}") from error
    return FileEncoder(name, hashlib.sha256(content).hexdigest()[:_DIGITS])


def name_of(features: Features | None) -> str | None:
    """Say by what a store knows what its states are.

    Examples
    --------
    >>> import math
    >>> name_of(math.sqrt), name_of(None)
    ('sqrt', None)
    """
    return None if features is None else getattr(features, "__qualname__", repr(features))


def find_features(
    asked: Features | str | None, kept: str | None, width: int, *, trust: bool = False
) -> Features | None:
    """Find the features again of which a store keeps the name, if the user does not give them.

    ``width`` is how many values a state has. What is found may be another by now: see `name_of`.

    Examples
    --------
    >>> find_features(None, "GreyCells(height=8, width=11, levels=4, key=None)", 88)
    GreyCells(height=8, width=11, levels=4, key=None)
    """
    if asked is not None:
        return load_features(asked, trust=trust) if isinstance(asked, str) else asked
    kept = kept or ""
    if not kept or _ONLY_MOVED.fullmatch(kept):
        return None
    if (cells := _CELLS.fullmatch(kept)) and math.prod(map(int, cells.groups()[:2])) == width:
        height, across, levels = map(int, cells.groups()[:3])
        return GreyCells(height, across, levels, cells["key"])
    if file := _ENCODER.fullmatch(kept):
        return load_features(file["path"])
    if values := Values.kept(kept):
        return values
    raise UsageError(
        f"the states were made by features = {kept}, of which only the name is kept: give them "
        "again with --features (from Python features=)"
    )


# How `repr` writes what can be found again without running code of a stranger.
_ONLY_MOVED = re.compile(r"Centred\(offsets=[^a-z]*, inner=None\)")
_CELLS = re.compile(
    r"GreyCells\(height=(\d{1,4}), width=(\d{1,4}), levels=(\d{1,9}), "
    r"key=(?:None|'(?P<key>[^'\\]*)')\)"
)
_ENCODER = re.compile(r"FileEncoder\(path='(?P<path>[^'\\]*\.onnx)', digest='\w*'\)")


def feature_rows(features: Features, observations: Any, *more: Any) -> NDArray[np.float32]:
    """Turn a batch of observations into rows with a function of the user's.

    ``more`` are infos and environments, where they are known, see `pivec.rollouts.seen`.

    Examples
    --------
    >>> import math
    >>> feature_rows(math.sqrt, np.zeros((2, 3)))
    Traceback (most recent call last):
    pivec.errors.UsageError: features (sqrt) raised TypeError for a batch of 2 observations, but \
must turn it into an array of shape (2, n_features): only 0-dimensional arrays can be ...
    """
    n = batch_length(observations)
    name = getattr(features, "__qualname__", type(features).__qualname__)
    try:
        rows = np.asarray(look(features, (observations, *more)), dtype=np.float32)
    except PivecError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"features ({name}) raised {type(error).__name__} for a batch of {n} observations, but "
            f"must turn it into an array of shape ({n}, n_features): {error}"
        ) from error
    if rows.ndim != 2 or len(rows) != n or not rows.shape[1]:
        raise BadData(
            f"features= must turn a batch of {n} observations into an array of shape "
            f"({n}, n_features), but gave shape {rows.shape}"
        )
    return rows


@dataclass(frozen=True)
class GreyCells:
    """Images shrunk to ``height`` x ``width`` grey cells of values 0 ... ``levels``.

    A cell is the mean over its area of the image, divided by 255, times ``levels``, cut down to a
    whole number (Ecoffet et al. 2021, "First return, then explore": 8 x 11 cells of 8 levels).

    Parameters
    ----------
    height, width : int
        Cells of the image.
    levels : int
        The value of a white cell; 0 leaves means between 0 and 1 as they are.
    key : str or None
        Which part of a Dict observation is the image; the only one with an image's shape if None.

    Examples
    --------
    >>> frames = np.zeros((2, 84, 84, 3), np.uint8)
    >>> GreyCells()(frames).shape
    (2, 88)
    """

    height: Count = 8
    width: Count = 11
    levels: Annotated[int, Range(0)] = 8
    key: str | None = None

    def __post_init__(self) -> None:
        check_arguments(self)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the cells, row by row from the top."""
        return tuple(f"cell[{y},{x}]" for y in range(self.height) for x in range(self.width))

    def __call__(self, observations: Any) -> NDArray[np.float32]:
        """Turn a batch of images into rows of cells."""
        return row_by_row(self._cells, self._image(observations))

    def _cells(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """Give the cells (1, n) of a batch of one image."""
        (grey,) = _grey(image)
        down = _area_weights(grey.shape[0], self.height)
        across = _area_weights(grey.shape[1], self.width)
        cells = down @ grey @ across.T / np.float32(255)
        if self.levels:
            # A hair above: a white cell must not fall below its level by rounding.
            cells = np.floor(cells * self.levels + 1e-4)
        return np.asarray(cells.reshape(1, -1), dtype=np.float32)

    def _image(self, observations: Any) -> NDArray[Any]:
        if not isinstance(observations, dict):
            return np.asarray(observations)
        if self.key is not None:
            if self.key not in observations:
                raise UsageError(
                    f"observations have no part {self.key!r}; they have {', '.join(observations)}"
                )
            return np.asarray(observations[self.key])
        images = [key for key, part in observations.items() if np.ndim(part) in (3, 4)]
        if len(images) != 1:
            raise UsageError(
                f"{len(images)} parts of the observations may be images: say which with "
                'cells{"key": "..."}'
            )
        return np.asarray(observations[images[0]])


def _grey(images: NDArray[Any]) -> NDArray[np.float32]:
    """Grey images (n, height, width) of any batch of images, colours last or first."""
    if images.ndim == 3:
        return images.astype(np.float32)
    if images.ndim != 4:
        raise UsageError(
            f"cells are made of images, but the observations have shape {images.shape[1:]}: "
            "choose other features"
        )
    if images.shape[-1] == 3:  # four are frames: environments show no transparency
        return np.asarray(images.astype(np.float32) @ _LUMA)
    if images.shape[1] == 3:
        return _grey(np.moveaxis(images, 1, -1))
    # Grey with an axis of its own, or frames one behind another, of which the mean is seen.
    frames = -1 if images.shape[-1] < images.shape[1] else 1
    return np.asarray(images.mean(axis=frames, dtype=np.float32))


@lru_cache(maxsize=32)
def _area_weights(size: int, cells: int) -> NDArray[np.float32]:
    """Shares of ``size`` pixels in ``cells`` cells of equal extent; a row sums to 1."""
    edges = np.linspace(0, size, cells + 1)
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    weights = np.clip(overlap, 0, None)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


@dataclass(frozen=True)
class FileEncoder:
    """A network in a file: a batch of observations in as float32, rows of numbers out.

    ``digest`` is of the file, so that a store knows when it has changed.
    """

    path: str
    digest: str
    place: str = field(default="", repr=False, compare=False)  # the whole path, where it travels

    @cached_property
    def _run(self) -> Run:
        load = _load_onnx if self.path.endswith(".onnx") else _load_torch
        try:
            file = present(self.place or Path(self.path).expanduser())
            if (now := digest_of(file)[:_DIGITS]) != self.digest:
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
