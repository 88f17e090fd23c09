"""Fixed differences of EnvPool's environments from Gymnasium's that are undone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

CORRECTIONS: dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {}
