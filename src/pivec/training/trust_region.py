"""TrustRegionPPO: Stable-Baselines3's PPO whose updates a rule stops, instead of ratio clipping.

```python
model = TrustRegionPPO("MlpPolicy", "CartPole-v1", rule=MaxTotalVariation(0.1))
model.learn(100_000)
```
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.errors import BadPolicyFile, MissingExtra, PivecWarning, UsageError
from pivec.policies.policy import Policy
from pivec.policies.sb3 import convert_sb3
from pivec.training.trust_region_rules import (
    MaxBehaviourDistance,
    MaxTotalVariation,
    NoConstraint,
    Rule,
)

if find_spec("stable_baselines3") is None:
    raise MissingExtra("pivec.training.trust_region", "sb3")

import torch
from stable_baselines3 import PPO

__all__ = [
    "Actor",
    "MaxBehaviourDistance",
    "MaxTotalVariation",
    "NoConstraint",
    "Rule",
    "TrustRegionPPO",
]


class Actor:
    """The policy of a model as rules see it: its network, and a player of episodes.

    Its ``policy`` is Stable-Baselines3's: ask ``policy.get_distribution(observations)``.
    """

    def __init__(self, model: Any) -> None:
        self.policy, self._model = model.policy, model
        self._player: Policy | None = None

    def frozen(self) -> Actor:
        """Give a copy that stays as it is now."""
        copied = Actor(self._model)
        copied.policy = copy.deepcopy(self.policy).requires_grad_(False)
        copied.policy.set_training_mode(False)
        copied._player = copied.player()
        return copied

    def player(self) -> Policy:
        """Give the policy as `pivec.collect` takes it: it answers the environment's observations.

        Where its network is known to `pivec.policies`, that is a copy which plays fast.
        """
        if self._player is not None:
            return self._player
        try:
            return convert_sb3(self._model)
        except BadPolicyFile as error:
            warnings.warn(f"the policy plays slowly, by torch: {error}", PivecWarning, stacklevel=2)
            return self

    def act(
        self, observations: Any, rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[Any]:
        """Sample an action for each row, by torch, whose global generator stays where it was."""
        normaliser, device = self._model.get_vec_normalize_env(), self.policy.device
        if normaliser is not None:
            observations = normaliser.normalize_obs(observations)
        with torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
            torch.manual_seed(int(rng.integers(2**63)))
            actions, _ = self.policy.predict(observations, deterministic=deterministic)
        return np.asarray(actions)


class TrustRegionPPO(PPO):  # type: ignore[misc]  # the library has no types here
    """PPO without ratio clipping: updates on a rollout go on until a rule stops them.

    Batches are drawn as in PPO, in as many passes over the data as ``max_updates`` takes. Under
    ``trust_region/`` it logs ``updates`` (made on the last rollout) and ``exceeded`` (whether the
    rule ended them).

    Parameters
    ----------
    policy, env
        As for PPO.
    rule : Rule
        When to stop: `MaxTotalVariation`, `MaxBehaviourDistance`, `NoConstraint`, or an object
        of yours with ``begin`` and ``exceeded``. It is not saved with the model:
        ``TrustRegionPPO.load(path, rule=...)``.
    max_updates : int
        Updates on a rollout, at most.
    clip_range : float or schedule
        Infinite, which is no clipping; give PPO's 0.2 to have both.
    **arguments
        All others of PPO but ``n_epochs``, whose place ``max_updates`` takes.

    Examples
    --------
    >>> model = TrustRegionPPO("MlpPolicy", "CartPole-v1", rule=MaxTotalVariation(0.05),
    ...                        n_steps=128, device="cpu")
    >>> _ = model.learn(256)
    >>> model.updates_made[-1] <= 100
    True
    """

    rollout_buffer: Any

    @checked
    def __init__(
        self,
        policy: Any,
        env: Any,
        rule: Rule | None = None,
        *,
        max_updates: Count = 100,
        clip_range: Any = float("inf"),
        **arguments: Any,
    ) -> None:
        if "n_epochs" in arguments:
            raise UsageError(
                "TrustRegionPPO counts updates, not passes over the data: give max_updates "
                "instead of n_epochs"
            )
        self.rule, self.max_updates = rule, max_updates
        self.updates_made: list[int] = []
        super().__init__(policy, env, n_epochs=1, clip_range=clip_range, **arguments)

    def train(self) -> None:
        """Update on the rollout until the rule, or ``max_updates``, ends it.

        PPO's own loop makes the updates. It takes one batch after another out of the rollout
        buffer, and asks for the next when the update on the last one is made. So a buffer that
        checks the rule before it gives the next batch, and has none left when the rule is
        exceeded, is all that is needed: one pass ("epoch") of PPO over as many batches as there
        are to be updates, in a new order after each pass over the data.
        """
        if self.rule is None:
            raise UsageError(
                "TrustRegionPPO needs a rule to learn: give rule=... (of a loaded model, to load), "
                "NoConstraint() for none"
            )
        rule, buffer = self.rule, self.rollout_buffer
        actor, updates, exceeded = Actor(self), 0, False
        data = buffer.get
        with torch.no_grad():
            rule.begin(actor.frozen(), _flat_observations(buffer))

        def batches(batch_size: int | None = None) -> Iterator[Any]:
            nonlocal updates, exceeded
            while True:
                for batch in data(batch_size):
                    yield batch
                    updates += 1  # whoever asks for the next batch has made its update
                    self.policy.set_training_mode(False)
                    with torch.no_grad():
                        exceeded = bool(rule.exceeded(actor))
                    self.policy.set_training_mode(True)
                    if exceeded or updates == self.max_updates:
                        return

        buffer.get = batches
        try:
            super().train()
        finally:
            del buffer.get
        self.updates_made.append(updates)
        self.logger.record("trust_region/updates", updates)
        self.logger.record("trust_region/exceeded", float(exceeded))

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "rule"]


def _flat_observations(buffer: Any) -> Any:
    """All observations of a full buffer, as the network takes them."""

    def flat(values: NDArray[Any]) -> Any:
        return buffer.to_torch(values.reshape(-1, *values.shape[2:]))

    seen = buffer.observations
    return {key: flat(part) for key, part in seen.items()} if isinstance(seen, dict) else flat(seen)
