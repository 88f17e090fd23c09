"""All heads by name, and how one is made from plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pivec.errors import UsageError
from pivec.policies.discrete_heads import (
    Bernoulli,
    Categorical,
    Chosen,
    EpsilonGreedy,
    MultiCategorical,
)
from pivec.policies.forward import Float
from pivec.policies.head import Head, Options
from pivec.policies.real_heads import Deterministic, Gaussian, StateGaussian

HEADS: dict[str, type[Head]] = {
    kind.name: kind
    for kind in (
        Categorical,
        MultiCategorical,
        Bernoulli,
        EpsilonGreedy,
        Gaussian,
        StateGaussian,
        Deterministic,
        Chosen,
    )
}
"""Name -> class."""

MAX_AXES = 8


def frozen(value: Any) -> Float:
    """Give a read-only float32 copy; numbers too large become infinite."""
    with np.errstate(over="ignore"):
        array = np.array(value, dtype=np.float32, order="C")
    array.flags.writeable = False
    return array


def make_head(
    name: str,
    n_outputs: int,
    options: Options | None = None,
    arrays: Mapping[str, Any] | None = None,
) -> Head:
    """Make a head, checked.

    Parameters
    ----------
    name : str
        A name in `HEADS`.
    n_outputs : int
        Width of the outputs it is to read.
    options : Options, optional
    arrays : mapping, optional
        ``log_std``, ``low`` and ``high`` where the head has them; None counts as missing.

    Examples
    --------
    >>> import numpy as np
    >>> head = make_head("epsilon_greedy", 3, Options(epsilon=0.3))
    >>> head.distribution(np.array([[0.0, 2.0, 1.0]], np.float32)).round(2)
    array([[0.1, 0.8, 0.1]], dtype=float32)
    """
    if name not in HEADS:
        raise UsageError(f"A policy's head is one of {', '.join(HEADS)}, not {name!r}.")
    kind = HEADS[name]
    # n_values depends on settings that are checked first.
    draft = kind(n_outputs, options or Options())
    checked = {}
    for key, value in (arrays or {}).items():
        if value is None:
            continue
        if key not in kind.takes:
            raise UsageError(f"A {name} policy has no {key}.")
        array = frozen(value)
        if array.shape != (draft.n_values,) or np.isnan(array).any():
            raise UsageError(
                f"{key} must have one number for each of {draft.n_values} actions, "
                f"not shape {array.shape}{' with NaN' if np.isnan(array).any() else ''}."
            )
        checked[key] = array
    head = kind(n_outputs, draft.options, **checked)
    head.check()
    if (head.low is None) != (head.high is None):
        raise UsageError("A box of actions needs both low and high.")
    if head.low is not None and head.high is not None:
        if (head.low > head.high).any():
            raise UsageError("A box of actions needs low <= high.")
        if head.options.squash and not np.isfinite([head.low, head.high]).all():
            raise UsageError("Actions can only be squashed into a box with bounds.")
    shape = head.options.shape
    if shape is not None and (len(shape) > MAX_AXES or math.prod(shape) != head.n_values):
        raise UsageError(f"Actions of {head.n_values} values cannot have the shape {shape[:20]}.")
    return head
