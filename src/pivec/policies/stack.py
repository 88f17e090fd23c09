"""Many policies of equal architecture that answer as one batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.network import NetworkPolicy
from pivec.policies.policy import BatchPolicy
from pivec.policies.stacked import NetworkStack


class Stack:
    """``slots`` policies of one architecture, each answering ``lanes`` observations at a time.

    Networks are answered with stacked weights; other `BatchPolicy` kinds one after another. A
    row's action depends neither on the number of lanes nor on the other slots, to the last bit.
    It holds buffers, so one thread at a time may use it.

    Parameters
    ----------
    slots, lanes : int
        How many policies, and how many observations for each.
    like : BatchPolicy
        Gives the architecture, and answers in every slot until another is put there.

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

    def __init__(self, slots: int, lanes: int, like: BatchPolicy) -> None:
        if slots < 1 or lanes < 1:
            raise UsageError(f"A stack needs slots and lanes, but got {slots} and {lanes}.")
        self.slots, self.lanes, self.architecture = slots, lanes, like.architecture
        self._networks = (
            NetworkStack(slots, lanes, like) if isinstance(like, NetworkPolicy) else None
        )
        self._others = [] if self._networks is not None else [like] * slots

    def put(self, slot: int, policy: BatchPolicy) -> None:
        """Let ``policy`` answer in ``slot`` from now on."""
        if policy.architecture != self.architecture:
            raise UsageError(
                f"A stack of {self.architecture} cannot hold a policy of {policy.architecture}."
            )
        if self._networks is None:
            self._others[slot] = policy
        elif isinstance(policy, NetworkPolicy):
            self._networks.put(slot, policy)
        else:
            raise UsageError(f"A stack of networks cannot hold {policy!r}.")

    def respond(
        self, observations: NDArray[Any], noise: NDArray[np.float32] | None
    ) -> NDArray[Any]:
        """Actions for a batch, one row a slot.

        Parameters
        ----------
        observations : ndarray of shape (slots, lanes, n_inputs)
        noise : ndarray of shape (slots, lanes, noise size), or None for the mode

        Returns
        -------
        ndarray of shape (slots, lanes) or (slots, lanes, n_values)
        """
        if self._networks is not None:
            return self._networks.respond(observations, noise)
        return np.stack(
            [
                policy.respond(observations[slot], None if noise is None else noise[slot])
                for slot, policy in enumerate(self._others)
            ]
        )
