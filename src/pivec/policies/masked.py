"""Networks that are told at every step which discrete actions are allowed, as MaskablePPO's are."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.forward import Float
from pivec.policies.head import Distribution
from pivec.policies.network import NetworkPolicy
from pivec.policies.policy import BatchPolicy

if TYPE_CHECKING:
    import gymnasium

NEVER = np.float32(-1e8)  # the logit of what is not allowed, as SB3-contrib has it


@dataclass(frozen=True, eq=False)
class MaskedPolicy(BatchPolicy):
    """A network whose actions are drawn among those that masks (n, logits) allow.

    Examples
    --------
    >>> network = NetworkPolicy(((np.ones((1, 3)), np.arange(3.0)),), "tanh", "categorical")
    >>> MaskedPolicy(network).respond([[0.0]], None, np.array([[True, True, False]]))
    array([1])
    """

    network: NetworkPolicy

    @property
    def architecture(self) -> Hashable:
        """Never equal to that of a network without masks."""
        return ("masked", self.network.architecture)

    @property
    def fingerprint(self) -> str:
        """A digest of everything that decides the actions."""
        return f"masked {self.network.fingerprint}"

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        """Random numbers of ``n`` actions."""
        return self.network.noise(rng, n)

    def respond(
        self,
        observations: Any,
        noise: NDArray[np.float32] | None,
        masks: NDArray[np.bool_] | None = None,
    ) -> NDArray[Any]:
        """Actions for ``observations`` (n, ...) that ``masks`` allow."""
        rule = self.network.rule
        return rule.choose(self._outputs(observations, masks), noise, rule.parameters())

    def distribution(
        self, observations: Any, masks: NDArray[np.bool_] | None = None
    ) -> Distribution:
        """Probabilities (n, actions)."""
        return self.network.rule.distribution(self._outputs(observations, masks))

    def bind(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
    ) -> MaskedPolicy:
        """Make the policy for an environment with these spaces, or tell why it does not fit."""
        return replace(self, network=self.network.bind(observation_space, action_space))

    def _outputs(self, observations: Any, masks: NDArray[np.bool_] | None) -> Float:
        if masks is None:
            raise UsageError(
                "this policy is told which actions are allowed, by action_masks() of its "
                "environment: let it play there"
            )
        outputs = self.network.outputs(observations)
        if np.shape(masks) != outputs.shape:
            raise UsageError(
                f"action_masks() of the environment must give {outputs.shape[1]} values, one for "
                f"each action, but masks are of shape {np.shape(masks)[1:]}"
            )
        outputs[~np.asarray(masks, bool)] = NEVER
        return outputs
