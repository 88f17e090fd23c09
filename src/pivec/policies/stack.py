"""Many policies of equal architecture that answer as one batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.errors import UsageError
from pivec.policies.network import NetworkPolicy, NetworkStack
from pivec.policies.policy import BatchPolicy


class Stack:
    """``slots`` policies of one architecture, each answering ``lanes`` observations at a time.

    Networks are answered with stacked weights; other `BatchPolicy` kinds one after another. A
    row's action depends neither on the number of lanes nor on the other slots, to the last bit.
    It holds buffers, so one thread at a time may use it. ``like`` gives the architecture, and
    answers in every slot until another is put there.

    Examples
    --------
    >>> import numpy as np
    >>> from pivec.policies import NetworkPolicy
    >>> right = NetworkPolicy(((np.array([[-1.0, 1.0]]), np.zeros(2)),), "tanh", "categorical")
    >>> left = NetworkPolicy(((np.array([[1.0, -1.0]]), np.zeros(2)),), "tanh", "categorical")
    >>> stack = Stack(slots=2, lanes=3, like=right)
    >>> stack.put(1, left)
    >>> stack.respond(np.ones((2, 3, 1)), None)
    array([[1, 1, 1], [0, 0, 0]])
    """

    @checked
    def __init__(self, slots: Count, lanes: Count, like: BatchPolicy) -> None:
        self.slots, self.lanes, self.architecture = slots, lanes, like.architecture
        self._networks = (
            NetworkStack(slots, lanes, like) if isinstance(like, NetworkPolicy) else None
        )
        self._others = [like] * slots

    def put(self, slot: int, policy: BatchPolicy) -> None:
        """Let ``policy`` answer in ``slot`` from now on."""
        if policy.architecture != self.architecture:
            raise UsageError(
                f"a stack of {self.architecture} cannot hold a policy of {policy.architecture}"
            )
        if self._networks is None:
            self._others[slot] = policy
        elif isinstance(policy, NetworkPolicy):
            self._networks.put(slot, policy)
        else:
            raise UsageError(f"a stack of networks cannot hold {policy!r}")

    def respond(
        self, observations: NDArray[Any], noise: NDArray[np.float32] | None
    ) -> NDArray[Any]:
        """Actions (slots, lanes, ...) for observations (slots, lanes, n_inputs).

        ``noise`` has the shape (slots, lanes, noise size); without it, actions are the mode.
        """
        if self._networks is not None:
            return self._networks.respond(observations, noise)
        return np.stack(
            [
                policy.respond(observations[slot], None if noise is None else noise[slot])
                for slot, policy in enumerate(self._others)
            ]
        )
