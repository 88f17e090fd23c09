"""The random policy: every action is equally likely, whatever is observed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.head import counts
from pivec.policies.policy import BatchPolicy, unbound

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True, eq=False)
class UniformPolicy(BatchPolicy):
    """Uniform over the action space, which `bind` gives it.

    Examples
    --------
    >>> import gymnasium, numpy as np
    >>> space = gymnasium.spaces.Discrete(2)
    >>> policy = UniformPolicy().bind(space, space)
    >>> policy.act([0, 1, 0, 1, 0], np.random.default_rng(0))
    array([1, 1, 1, 0, 0])
    """

    low: NDArray[Any] | None = None  # the smallest action
    high: NDArray[Any] | None = None  # the largest, included where actions are whole numbers

    @property
    def architecture(self) -> Hashable:
        """Equal for random policies over the same actions."""
        bounds = [] if self.low is None else self._bounds()
        return ("uniform", *((b.dtype.str, b.shape, b.tobytes()) for b in bounds))

    def bind(
        self,
        observation_space: gymnasium.Space[Any],  # noqa: ARG002 - the signature of every bind
        action_space: gymnasium.Space[Any],
    ) -> UniformPolicy:
        """Make the random policy of an environment with these spaces."""
        from gymnasium import spaces

        if sizes := counts(action_space):
            dtype = np.int64 if isinstance(action_space, spaces.Discrete) else action_space.dtype
            start = np.asarray(getattr(action_space, "start", 0))
            first = np.broadcast_to(start, action_space.shape or ()).astype(dtype)
            return UniformPolicy(first, (first + np.reshape(sizes, first.shape) - 1).astype(dtype))
        if isinstance(action_space, spaces.Box):
            if not action_space.is_bounded("both"):
                raise UsageError(
                    f"the random policy needs actions within bounds, not {action_space}: "
                    "wrap the environment with bounds (as gymnasium.wrappers.RescaleAction does)"
                )
            return UniformPolicy(action_space.low.copy(), action_space.high.copy())
        raise UsageError(
            "the random policy knows Discrete, Box, MultiDiscrete and MultiBinary actions, "
            f"not {action_space}"
        )

    def noise(self, rng: np.random.Generator, n: int) -> NDArray[np.float32]:
        """Uniform numbers of ``n`` actions, one for each value of an action."""
        return rng.random((n, max(1, self._bounds()[0].size)), dtype=np.float32)

    def respond(self, observations: Any, noise: NDArray[np.float32] | None) -> NDArray[Any]:
        """Actions for ``observations`` (n, ...) given their random numbers (n, values)."""
        low, high = self._bounds()
        if noise is None:
            raise UsageError(
                "the random policy has no most likely action: "
                "leave it out, or let policies sample their actions"
            )
        share = np.asarray(noise, np.float64).reshape(len(noise), *low.shape)
        if len(share) != len(observations):
            raise UsageError(
                f"expected random numbers for {len(observations)} observations, "
                f"but got {len(share)} rows"
            )
        below, above = low.astype(np.float64), high.astype(np.float64)
        if np.issubdtype(low.dtype, np.floating):
            return (below + share * (above - below)).astype(low.dtype)
        whole = np.floor(below + share * (above - below + 1))
        return np.minimum(whole, above).astype(low.dtype)

    def _bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        if self.low is None or self.high is None:
            raise unbound("the random policy", "its actions")
        return self.low, self.high
