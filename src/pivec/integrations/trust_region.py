"""TrustRegionPPO: Stable-Baselines3's PPO with a rule that stops updates instead of clipping.

```python
model = TrustRegionPPO("MlpPolicy", "CartPole-v1", rule=MaxTotalVariation(0.1))
model.learn(100_000)
```

A `Rule` decides when a policy has changed enough: `begin` is called when data have been collected,
`exceeded` after every update, and ends the updates on these data. The last update stays, as in the
paper: the constraint stops, it does not undo.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, NotNegative, Positive, Seed, checked
from pivec.characterizations import Characterization, Supervector
from pivec.errors import BadPolicyFile, MissingExtra, PivecWarning, UsageError
from pivec.policies import Policy, convert_sb3
from pivec.rollouts import Environment
from pivec.states import VisitedStates, joined
from pivec.workflows import collect

if find_spec("stable_baselines3") is None:
    raise MissingExtra("pivec.integrations.trust_region", "sb3")

import torch
from stable_baselines3 import PPO
from torch.distributions import Categorical


class Actor:
    """The policy of a model as rules see it; ``policy`` is Stable-Baselines3's network."""

    def __init__(self, model: Any) -> None:
        self.policy, self._model = model.policy, model
        self._player: Policy | None = None

    def frozen(self) -> Actor:
        """Return a copy that training does not change."""
        copied = Actor(self._model)
        copied.policy = copy.deepcopy(self.policy).requires_grad_(False)
        copied.policy.set_training_mode(False)
        copied._player = copied.player()
        return copied

    def player(self) -> Policy:
        """Return the policy for `pivec.collect`: a fast copy, if its network is supported."""
        if self._player is not None:
            return self._player
        try:
            return convert_sb3(self._model)
        except BadPolicyFile as error:
            warnings.warn(f"the policy runs slowly, in torch: {error}", PivecWarning, stacklevel=2)
            return self

    def act(
        self, observations: Any, rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[Any]:
        """Sample an action for each row with torch, without changing its global generator."""
        normaliser, device = self._model.get_vec_normalize_env(), self.policy.device
        if normaliser is not None:
            observations = normaliser.normalize_obs(observations)
        with torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
            torch.manual_seed(int(rng.integers(2**63)))
            actions, _ = self.policy.predict(observations, deterministic=deterministic)
        return np.asarray(actions)


class Rule(Protocol):
    """When to stop updates; your own rules need these two methods."""

    def begin(self, old: Actor, observations: Any) -> None:
        """Start with the frozen policy that collected data, and its observations as tensors."""
        ...

    def exceeded(self, new: Actor) -> bool:
        """Whether ``new`` has changed too much for another update on these data."""
        ...


class NoConstraint:
    """Never stops."""

    def begin(self, old: Actor, observations: Any) -> None:
        """Do nothing."""

    def exceeded(self, new: Actor) -> bool:  # noqa: ARG002 - whatever it is
        """Return False."""
        return False


class MaxTotalVariation:
    """Stops when action probabilities have changed too much in any collected state.

    The distance is max over states of ½ Σ_a |π(a|s) − π'(a|s)| (Schulman et al. 2015), for
    policies with one discrete action. The ``threshold`` is from 0 to 1; the paper's best was 0.4.
    """

    @checked
    def __init__(self, threshold: Positive) -> None:
        self.threshold, self.distance = threshold, 0.0

    def begin(self, old: Actor, observations: Any) -> None:
        """Keep the observations and the probabilities of the old policy."""
        self._observations, self._old = observations, self._probabilities(old, observations)

    def exceeded(self, new: Actor) -> bool:
        """Compare the probabilities."""
        change = (self._probabilities(new, self._observations) - self._old).abs().sum(dim=-1) / 2
        self.distance = float(change.max())
        return self.distance > self.threshold

    @staticmethod
    def _probabilities(actor: Actor, observations: Any) -> Any:
        chances = actor.policy.get_distribution(observations).distribution
        if not isinstance(chances, Categorical):
            raise UsageError(
                "MaxTotalVariation needs policies with one discrete action, but this one has "
                f"{actor.policy.action_space}: use MaxBehaviourDistance, or your own rule"
            )
        return chances.probs


class MaxBehaviourDistance:
    """Stops when the visited states have changed too much.

    After every update a few episodes of both policies are collected, the characterization is
    fitted on them, and the distance is measured. It works with any policy and environment.

    Parameters
    ----------
    threshold : float
        In the units of the characterization. The paper's best were 0.05 for supervectors and 10
        for Gaussians.
    env : str or callable
        A Gymnasium id, or a function that makes an environment.
    characterization : Characterization, optional
        By default supervectors of 4 components, as in the paper.
    trajectories : int
        Episodes of each policy per check.
    debiased : bool
        Debias the distance, see `Characterization.intervals`. Without, as in the paper, the
        threshold has to be larger than the distance of two samples of one policy.
    noise : float
        Standard deviation of Gaussian noise that is added to states (0.001 in the paper).
    seed : int
        Random seed of episodes and noise.
    env_kwargs : mapping, optional
        Arguments for `gymnasium.make`.
    """

    @checked
    def __init__(
        self,
        threshold: Positive,
        env: str | Environment | Callable[[], Any],
        characterization: Characterization | None = None,
        *,
        trajectories: Count = 5,
        debiased: bool = False,
        noise: NotNegative = 0.0,
        seed: Seed = 0,
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.threshold, self.distance = threshold, 0.0
        self.characterization = characterization or Supervector(n_components=4)
        self.environment = Environment.of(env, env_kwargs)
        self.trajectories, self.debiased, self.noise = trajectories, debiased, noise
        self._rng = np.random.default_rng(seed)
        self._old: Policy | None = None

    def begin(self, old: Actor, observations: Any) -> None:  # noqa: ARG002 - plays its own
        """Keep the old policy."""
        self._old = old.player()

    def exceeded(self, new: Actor) -> bool:
        """Compare the states that both policies visit."""
        if self._old is None:
            raise UsageError("exceeded() compares with an old policy: call begin() first")
        actions = "actions" in self.characterization.traits.needs
        played = []
        for label, policy in (("old", self._old), ("new", new.player())):
            # Two seeds: policies that are still equal would play the same episodes.
            seed, named = int(self._rng.integers(2**31)), {label: policy}
            played.append(
                collect(self.environment, named, self.trajectories, seed, actions=actions)
            )
        data = joined(played)
        if self.noise > 0:
            noisy = [
                [e + self._rng.normal(0.0, self.noise, e.shape) for e in data[i].episodes()]
                for i in range(len(data))
            ]
            returns = [data[i].returns for i in range(len(data))]
            data = VisitedStates.from_arrays(noisy, data.labels, returns=returns)
        method = self.characterization.fit(data)
        distances = method.intervals(data).distance if self.debiased else method.distances(data)
        self.distance = float(distances[0, 1])
        return self.distance > self.threshold


class TrustRegionPPO(PPO):  # type: ignore[misc]  # the library has no types here
    """PPO without ratio clipping: updates on a rollout continue until a rule stops them.

    It logs ``trust_region/updates`` (on the last rollout) and ``trust_region/exceeded``.

    Parameters
    ----------
    policy, env
        As for PPO.
    rule : Rule
        When to stop: `MaxTotalVariation`, `MaxBehaviourDistance`, `NoConstraint`, or your own. It
        is not saved with the model: ``TrustRegionPPO.load(path, rule=...)``.
    max_updates : int
        Maximum number of updates on a rollout.
    clip_range : float or schedule
        Infinite, which is no clipping; use PPO's 0.2 for both.
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
                "TrustRegionPPO counts updates, not epochs: use max_updates instead of n_epochs"
            )
        self.rule, self.max_updates = rule, max_updates
        self.updates_made: list[int] = []
        super().__init__(policy, env, n_epochs=1, clip_range=clip_range, **arguments)

    def train(self) -> None:
        """Update on the rollout until the rule, or ``max_updates``, ends it.

        PPO's own loop makes the updates, in one epoch over a buffer that checks the rule before
        it gives the next batch, and ends when the rule is exceeded.
        """
        if self.rule is None:
            raise UsageError(
                "TrustRegionPPO needs rule=... to learn (also when it is loaded), or NoConstraint()"
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
                    updates += 1  # PPO asks for the next batch when the update is made
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
    """Return all observations of a full buffer, as the network takes them."""

    def flat(values: NDArray[Any]) -> Any:
        return buffer.to_torch(values.reshape(-1, *values.shape[2:]))

    seen = buffer.observations
    return {key: flat(part) for key, part in seen.items()} if isinstance(seen, dict) else flat(seen)
