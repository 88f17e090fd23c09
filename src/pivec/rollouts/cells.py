"""Images as small grey cells, as in Go-Explore."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Range, check_arguments
from pivec.errors import UsageError
from pivec.policies.outputs import row_by_row

_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601, as most tools


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
