"""Fixed differences of EnvPool's environments from Gymnasium's, undone before anyone looks.

LunarLander: the ground is the mean of three neighbouring random heights. Gymnasium takes it as
0.33 times their sum, EnvPool as their sum divided by 3. So Gymnasium's landing pad lies 1 % of its
height, H/4 / 100 with H = 400/30, lower than EnvPool's, while the pad's nominal height, from which
the observed height is counted, and the height of the start are the same in both. In units of the
observation (H/2) that is 0.005: the height at which a lander rests.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_PAD = 0.005  # how much lower Gymnasium's pad is
_LOW, _START = 0.2, 1.38  # below the first the whole of it is taken off, above the second nothing


def lower_the_pad(observations: NDArray[np.float32]) -> NDArray[np.float32]:
    """Bring heights near the ground to those of Gymnasium, and leave those of the start alone.

    Examples
    --------
    >>> heights = np.zeros((3, 8), np.float32)
    >>> heights[:, 1] = 0.0043, 0.79, 1.4
    >>> [round(float(height), 4) for height in lower_the_pad(heights)[:, 1]]
    [-0.0007, 0.7875, 1.4]
    """
    corrected = observations.copy()
    share = np.clip((_START - observations[:, 1]) / (_START - _LOW), 0.0, 1.0)
    corrected[:, 1] -= (_PAD * share).astype(np.float32)
    return corrected


CORRECTIONS: dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "LunarLander-v3": lower_the_pad,
    "LunarLanderContinuous-v3": lower_the_pad,
}
