"""States as a policy sees them: the last hidden layer of one policy, for all that are compared."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, PivecWarning, UsageError
from pivec.policies.load import name_policies
from pivec.policies.network import NetworkPolicy
from pivec.policies.paths import natural_key
from pivec.policies.policy import NamedPolicy, first_names
from pivec.policies.travelling import PackedPolicy, packed, unpacked
from pivec.rollouts import spaces

NONE = "has no hidden layer that is known: expected a network with one, as a .zip of SB3 has it"


class PolicyLatent:
    """The last hidden layer of a reference policy, as features of every policy's observations.

    All policies are seen with the same eyes, and what matters to nobody's actions is left out.

    Parameters
    ----------
    policy : str, path, policy or model
        One policy, as `pivec.collect` takes it.
    trust : bool
        Allow a file that can run code when it is loaded.

    Examples
    --------
    >>> import numpy as np
    >>> from pivec.policies import NetworkPolicy
    >>> layers = (np.eye(2), np.zeros(2)), (np.ones((2, 3)), np.zeros(3))
    >>> eyes = PolicyLatent(NetworkPolicy(layers, "relu", "categorical"))
    >>> eyes(np.array([[1.0, -1.0]])).tolist(), eyes.names
    ([[1.0, 0.0]], ('latent[0]', 'latent[1]'))
    """

    sees = 1  # observations alone

    def __init__(self, policy: Any, *, trust: bool = False) -> None:
        named = name_policies(policy, trust)
        if len(named) != 1:
            labels = first_names([member.info.label for member in named])
            raise UsageError(
                f"states are seen with the eyes of one policy, but {policy} are several: {labels}"
            )
        self._named, self._policy = named[0], cast(Any, named[0].policy)
        self._world: tuple[Any, Any] | None = None
        if not has_latent(self._named):
            raise UsageError(f"{self._named.info.label} {NONE}")

    def settled(self, observation_space: Any, action_space: Any) -> PolicyLatent:
        """Give the same with the policy told the spaces of the environment, as those that act."""
        settled = PolicyLatent(self._named)
        settled._world = observation_space, action_space
        settled._policy = cast(Any, self._named.policy).bind(observation_space, action_space)
        return settled

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the units."""
        return tuple(f"latent[{i}]" for i in range(self._policy.n_latent))

    def __call__(self, observations: Any) -> NDArray[np.float32]:
        """Give the values of the last hidden layer."""
        flat = isinstance(self._policy, NetworkPolicy) or not isinstance(observations, np.ndarray)
        if flat and self._world is not None:
            observations = spaces.flatten(self._world[0], observations)
        latent: NDArray[np.float32] = self._policy.latent(observations)
        return latent

    def __repr__(self) -> str:
        info = self._named.info
        return f"PolicyLatent({info.source!r}, fingerprint={info.fingerprint!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (packed(self._named), self._world)


def _arrived(packing: PackedPolicy, world: tuple[Any, Any] | None) -> PolicyLatent:
    """Make it again in another process."""
    eyes = PolicyLatent(unpacked(packing))
    return eyes if world is None else eyes.settled(*world)


def has_latent(named: NamedPolicy) -> bool:
    """Whether a policy has a hidden layer that is known."""
    return bool(getattr(named.policy, "n_latent", 0))


def reference_policy(name: str, policies: Sequence[NamedPolicy], trust: bool) -> PolicyLatent:
    """Find the policy whose eyes are taken: by label, by path, or without a name a default.

    That is the one trained longest; who was taken is said.
    """
    if name:
        labels = {named.info.label: named for named in policies}
        return PolicyLatent(labels.get(name, name), trust=trust)
    seeing = [named for named in policies if has_latent(named)]
    if not seeing:
        raise UsageError(
            "none of the policies that act has a hidden layer that is known: name one that has, as "
            "in --features policy:runs/best.zip"
        )
    # Whatever the order in which they were given.
    chosen = max(seeing, key=lambda named: (_steps(named), natural_key(named.info.label)))
    longest = _steps(chosen) > min(map(_steps, seeing))
    why = "the one trained longest" if longest else "the last by name"
    warnings.warn(
        f"a state is the last hidden layer of {chosen.info.label}, {why}, for all policies: "
        "--features policy:LABEL takes another",
        PivecWarning,
        stacklevel=3,
    )
    return PolicyLatent(chosen)


def _steps(named: NamedPolicy) -> int:
    return -1 if named.info.step is None else named.info.step


def same_policy(
    source: str, fingerprint: str, policies: Sequence[NamedPolicy], trust: bool
) -> NamedPolicy:
    """Find a policy again, among those that are there or in its file; it must be the very same."""
    for named in policies:
        if named.info.fingerprint == fingerprint:
            return named
    if not trust and not os.path.isfile(source):
        raise UsageError(
            f"the states were seen with the eyes of {source}, which is not there: name the policy "
            "with --features policy:PATH"
        )
    named, *_ = name_policies(source, trust)
    if named.info.fingerprint != fingerprint:
        raise BadPolicyFile(
            f"the states were seen with the eyes of {source}, which has changed since: name the "
            "policy as it was then with --features policy:PATH"
        )
    return named
