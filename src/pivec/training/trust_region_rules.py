"""Rules that say when a policy has moved far enough from the one that collected the data.

A `Rule` has two methods. `begin` is called when data have been collected, before the first update;
`exceeded` after every update, and ends the updates on these data when it says so. The update that
went too far stays, as in the paper: the constraint stops, it does not undo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, NotNegative, Positive, Seed, checked
from pivec.characterizations import Characterization
from pivec.characterizations.supervector import Supervector
from pivec.collection import collect
from pivec.errors import UsageError
from pivec.policies.policy import Policy
from pivec.rollouts.environment import Environment
from pivec.states.derived import joined
from pivec.states.visited import VisitedStates

if TYPE_CHECKING:
    from pivec.training.trust_region import Actor


class Rule(Protocol):
    """What stops the updates; write your own with these two methods."""

    def begin(self, old: Actor, observations: Any) -> None:
        """Data were collected by ``old``, a copy, which stays as it is.

        ``observations`` are what it saw, as its network takes it: a tensor of shape (n, ...), or a
        dict of these.
        """
        ...

    def exceeded(self, new: Actor) -> bool:
        """Tell, after an update, whether ``new`` has gone too far for another on these data."""
        ...


class NoConstraint:
    """Never stops: all updates are made."""

    def begin(self, old: Actor, observations: Any) -> None:
        """Nothing is to be kept."""

    def exceeded(self, new: Actor) -> bool:  # noqa: ARG002 - whatever it is
        """No."""
        return False


class MaxTotalVariation:
    """Stops when the probability of actions has changed too much in any collected state.

    The distance is max over states of ½ Σ_a |π(a|s) − π'(a|s)| (Schulman et al. 2015), for
    policies with one discrete action. The ``threshold`` is from 0 to 1, the paper's best was 0.4;
    ``distance`` is what was measured last.
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
        from torch.distributions import Categorical

        chances = actor.policy.get_distribution(observations).distribution
        if not isinstance(chances, Categorical):
            raise UsageError(
                "MaxTotalVariation needs policies with one discrete action, but this one has "
                f"{actor.policy.action_space}: use MaxBehaviourDistance, or a rule of your own"
            )
        return chances.probs


class MaxBehaviourDistance:
    """Stops when the states that a policy visits have become too different.

    Every check plays a few episodes of the old policy and of the current one, fits the
    characterization on both, and measures their distance. It works with any policy and any
    environment, and takes its time: the environment is played after every update.

    Parameters
    ----------
    threshold : float
        In the units of the characterization. Two samples of one policy are not at distance 0,
        so look at ``distance`` of checks before anything was learned. The paper's best were 0.05
        for supervectors and 10 for Gaussians.
    env : str or callable
        Where episodes are played: a Gymnasium id, or a function that makes an environment.
    characterization : Characterization, optional
        Anything of the registry; by default supervectors of 4 components, as in the paper.
    trajectories : int
        Episodes of either policy a check.
    noise : float
        Standard deviation of Gaussian noise that is added to states. Where they lie on a grid,
        a little of it (the paper: 0.001) keeps variances from being zero.
    seed : int
        Episodes and noise follow from it, and from the number of the check.
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
        noise: NotNegative = 0.0,
        seed: Seed = 0,
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.threshold, self.distance = threshold, 0.0
        self.characterization = characterization or Supervector(n_components=4)
        self.environment = Environment.of(env, env_kwargs)
        self.trajectories, self.noise = trajectories, noise
        self._rng = np.random.default_rng(seed)
        self._old: Policy | None = None

    def begin(self, old: Actor, observations: Any) -> None:  # noqa: ARG002 - plays its own
        """Keep the old policy."""
        self._old = old.player()

    def exceeded(self, new: Actor) -> bool:
        """Play both policies and compare the states they visit."""
        if self._old is None:
            raise UsageError("exceeded() compares with an old policy: call begin() first")
        actions = "actions" in self.characterization.needs
        played = []
        for label, policy in (("old", self._old), ("new", new.player())):
            # A seed for each: policies that are still equal would play the same episodes.
            seed, named = int(self._rng.integers(2**31)), {label: policy}
            played.append(
                collect(self.environment, named, self.trajectories, seed, actions=actions)
            )
        data = joined(played)
        if self.noise > 0:
            data = _with_noise(data, self.noise, self._rng)
        self.distance = float(self.characterization.fit(data).distances(data)[0, 1])
        return self.distance > self.threshold


def _with_noise(data: VisitedStates, noise: float, rng: np.random.Generator) -> VisitedStates:
    """Add noise to all states; the policies and their episodes stay."""

    def noisy(episode: NDArray[np.float32]) -> NDArray[np.float64]:
        return episode + rng.normal(0.0, noise, episode.shape)

    episodes = [[noisy(episode) for episode in data[i].episodes()] for i in range(len(data))]
    returns = [data[i].returns for i in range(len(data))]
    return VisitedStates.from_arrays(episodes, data.labels, returns=returns)
