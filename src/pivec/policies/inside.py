"""Statistics of observations that training libraries keep in a policy's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.beside import Beside
from pivec.policies.normaliser import Normaliser


@dataclass(frozen=True)
class KeptStatistics:
    """How a library names its statistics, and what it does with them unless told otherwise.

    ``epsilon`` is added to the variance, or to the deviation if ``outside`` its root.
    """

    library: str
    mean: str
    variance: str
    epsilon: float
    clip: float
    outside: bool = False


KNOWN = (
    KeptStatistics(
        "rl_games", "running_mean_std.running_mean", "running_mean_std.running_var", 1e-5, 5.0
    ),
    # skrl 2 tells observations, which the policy sees, from states, which its critic may see.
    *(
        KeptStatistics(
            "skrl", f"{part}.running_mean", f"{part}.running_variance", 1e-8, 5.0, outside=True
        )
        for part in ("observation_preprocessor", "state_preprocessor")
    ),
)


def statistics_inside(
    tensors: Mapping[str, NDArray[Any]], beside: Beside | None = None
) -> Normaliser | None:
    """Find statistics by the names that libraries give them; None if there are none.

    Their epsilon and limit are not in the file: that the library's own are taken is noted as
    assumed.
    """
    for kept in KNOWN:
        if kept.mean not in tensors or kept.variance not in tensors:
            continue
        mean, variance = (_vector(tensors[key], key) for key in (kept.mean, kept.variance))
        if mean.shape != variance.shape or (variance < 0).any():
            raise UsageError(f"{kept.mean} and {kept.variance} are no mean and variance.")
        if kept.outside:
            scale = np.sqrt(variance) + kept.epsilon
        else:
            scale = np.sqrt(variance + kept.epsilon)
        if beside is not None:
            beside.assume(
                f"normalised by {kept.mean.rpartition('.')[0]} in the file, with epsilon "
                f"{kept.epsilon:g} and clipped at {kept.clip:g} as {kept.library} does by default; "
                "a .json beside can say otherwise"
            )
        return Normaliser(mean, scale, np.full(mean.shape, kept.clip))
    return None


def _vector(value: NDArray[Any], name: str) -> NDArray[np.float64]:
    if value.dtype.kind not in "biuf":
        raise UsageError(f"{name} holds no numbers.")
    return value.ravel().astype(np.float64)
