"""All heads by name, and how one is made from plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies import discrete_heads, real_heads
from pivec.policies.head import Head, Options, counts, frozen

if TYPE_CHECKING:
    import gymnasium

HEADS: dict[str, type[Head]] = {
    kind.name: kind
    for kind in (
        discrete_heads.Categorical,
        discrete_heads.MultiCategorical,
        discrete_heads.Bernoulli,
        discrete_heads.EpsilonGreedy,
        real_heads.Gaussian,
        real_heads.StateGaussian,
        real_heads.Deterministic,
        discrete_heads.Chosen,
    )
}
"""Name -> class."""

MAX_AXES = 8


def make_head(
    name: str,
    n_outputs: int,
    options: Options | None = None,
    arrays: Mapping[str, Any] | None = None,
) -> Head:
    """Make a head for outputs of this width, checked.

    ``arrays`` are ``log_std``, ``low``, ``high`` where the head has them; None counts as missing.

    Examples
    --------
    >>> import numpy as np
    >>> head = make_head("epsilon_greedy", 3, Options(epsilon=0.3))
    >>> head.distribution(np.array([[0.0, 2.0, 1.0]], np.float32)).round(2)
    array([[0.1, 0.8, 0.1]], dtype=float32)
    """
    if name not in HEADS:
        raise UsageError(f"the head of a policy must be one of {', '.join(HEADS)}, but is {name!r}")
    draft = HEADS[name](n_outputs, options or Options())
    given: dict[str, Any] = {
        key: frozen(value) for key, value in (arrays or {}).items() if value is not None
    }
    for key, array in given.items():
        if key not in draft.takes:
            raise UsageError(f"a {name} policy has no {key}")
        if array.shape != (draft.n_values,) or np.isnan(array).any():
            raise UsageError(
                f"{key} must have one number for each of {draft.n_values} actions, "
                f"not shape {array.shape}{' with NaN' if np.isnan(array).any() else ''}"
            )
    head = replace(draft, **given)
    head.check()
    if (head.low is None) != (head.high is None):
        raise UsageError("a box of actions needs both low and high")
    if head.low is not None and head.high is not None:
        if (head.low > head.high).any():
            raise UsageError("a box of actions needs low <= high")
        if head.options.squash and not np.isfinite([head.low, head.high]).all():
            raise UsageError("actions can only be squashed into a box with bounds")
    shape = head.options.shape
    if shape is not None and (len(shape) > MAX_AXES or math.prod(shape) != head.n_values):
        raise UsageError(f"actions of {head.n_values} values cannot have the shape {shape[:20]}")
    return head


@dataclass(frozen=True)
class HeadDescription:
    """What is known about a head before the number of outputs is.

    Attributes
    ----------
    name : str
        Empty: to be chosen by the environment's actions.
    options : Options
    arrays : mapping
        ``log_std``, ``low``, ``high``.
    discrete : str
        The head of discrete actions where ``name`` is empty.
    """

    name: str = ""
    options: Options = field(default_factory=Options)
    arrays: Mapping[str, Any] = field(default_factory=dict)
    discrete: str = "categorical"

    def make(self, sample: NDArray[Any], space: gymnasium.Space[Any]) -> Head:
        """Make the head for outputs such as ``sample`` (1, k) and actions of ``space``."""
        name, options = self.name, self.options
        if not name:
            name = self._choose(sample, space)
            if name in ("multi_categorical", "bernoulli", "deterministic"):
                options = replace(options, shape=space.shape)
            if name == "multi_categorical":
                options = replace(options, choices=counts(space))
        return make_head(name, sample.shape[1], options, self.arrays)

    def _choose(self, sample: NDArray[Any], space: gymnasium.Space[Any]) -> str:
        from gymnasium import spaces

        width, whole, choices = sample.shape[1], sample.dtype.kind in "biu", counts(space)
        if whole and choices and width == len(choices):
            return "actions"
        match space:
            case spaces.Discrete() if width == space.n:
                return self.discrete
            case spaces.MultiDiscrete() if width == sum(choices):
                return "multi_categorical"
            case spaces.MultiBinary() if width == len(choices):
                return "bernoulli"
            case spaces.Box() if width == np.prod(space.shape):
                return "deterministic"
        raise UsageError(
            f"this policy gives {width} {'whole' if whole else 'real'} numbers, but the "
            f"environment expects {space}: say in a .json beside it which head it has"
        )
