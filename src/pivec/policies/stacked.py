"""Networks of equal architecture whose weights are stacked, answering as one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.forward import Float, Forward
from pivec.policies.normaliser import normalise

if TYPE_CHECKING:
    from pivec.policies.network import NetworkPolicy


class NetworkStack:
    """``slots`` networks that answer ``lanes`` observations each; see `pivec.policies.Stack`."""

    def __init__(self, slots: int, lanes: int, like: NetworkPolicy) -> None:
        self._architecture, self._rule = like.architecture, like.rule
        spread = like.state_std is not None
        self._forward = Forward(slots, lanes, like.sizes, like.activation, spread)
        self._shape = (slots, lanes, like.n_inputs)
        self._noise_shape = (slots, lanes, self._rule.noise_size)
        # One row a slot, and an axis of length one that repeats it over the lanes.
        self._parameters = tuple(
            np.zeros((slots, 1, len(each)), np.float32) for each in self._rule.parameters()
        )
        self._normaliser = (
            None
            if like.normaliser is None
            else tuple(np.ones((slots, 1, like.n_inputs), np.float64) for _ in range(3))
        )
        for slot in range(slots):
            self.put(slot, like)

    def put(self, slot: int, policy: NetworkPolicy) -> None:
        """Let ``policy`` answer in ``slot`` from now on."""
        if policy.architecture != self._architecture:
            raise UsageError(
                f"A stack of {self._architecture} cannot hold a policy of {policy.architecture}."
            )
        self._forward.put(slot, policy.layers, policy.state_std)
        for own, values in zip(self._parameters, policy.rule.parameters(), strict=True):
            own[slot, 0] = values
        if self._normaliser is not None and policy.normaliser is not None:
            theirs = (policy.normaliser.mean, policy.normaliser.scale, policy.normaliser.limit)
            for mine, double in zip(self._normaliser, theirs, strict=True):
                mine[slot, 0] = double

    def outputs(self, observations: NDArray[Any]) -> Float:
        """Outputs (slots, lanes, out) of the networks."""
        if np.shape(observations) != self._shape:
            raise UsageError(
                f"Expected observations of shape {self._shape}, but got {np.shape(observations)}."
            )
        if self._normaliser is not None:
            observations = normalise(observations, *self._normaliser)
        return self._forward.run(observations)

    def respond(
        self, observations: NDArray[Any], noise: NDArray[np.float32] | None
    ) -> NDArray[Any]:
        """Actions (slots, lanes, ...) for observations (slots, lanes, in)."""
        if noise is not None and np.shape(noise) != self._noise_shape:
            raise UsageError(
                f"Expected random numbers of shape {self._noise_shape}, but got {np.shape(noise)}."
            )
        outputs = self.outputs(observations)
        return self._rule.choose(outputs, noise, self._parameters)
