"""A trust region of your own: PPO stops updating when your rule says the policy has moved enough.

Needs: pip install "pivec[sb3]"

A rule is an object with two methods. This one allows a mean KL divergence, and works with discrete
and real actions alike; `--rule tv` and `--rule states` are two that pivec brings.
"""

from __future__ import annotations

import argparse

from torch.distributions import kl_divergence

from pivec.integrations.trust_region import MaxBehaviourDistance, MaxTotalVariation, TrustRegionPPO

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--rule", choices=["kl", "tv", "states"], default="kl")
parser.add_argument("--steps", type=int, default=50_000)
parser.add_argument("--smoke", action="store_true", help="a few seconds only")
options = parser.parse_args()
steps, collected = (512, 256) if options.smoke else (options.steps, 2048)


class MeanKL:
    """Stops when the mean KL divergence from the old policy exceeds a threshold."""

    def __init__(self, threshold):
        self.threshold = threshold

    def begin(self, old, observations):
        """Data were collected: remember what the old policy would do in every state of them."""
        self.observations = observations
        self.old = old.policy.get_distribution(observations).distribution

    def exceeded(self, new):
        """An update was made: has the policy moved too far for another on these data?"""
        now = new.policy.get_distribution(self.observations).distribution
        return bool(kl_divergence(self.old, now).mean() > self.threshold)


rule = {
    "kl": lambda: MeanKL(0.01),
    "tv": lambda: MaxTotalVariation(0.1),  # discrete actions
    "states": lambda: MaxBehaviourDistance(0.3, options.env),  # plays after every update
}[options.rule]()
model = TrustRegionPPO(
    "MlpPolicy", options.env, rule=rule, n_steps=collected, learning_rate=1e-3, device="cpu", seed=0
)
model.learn(steps)
made = model.updates_made
returns = [episode["r"] for episode in model.ep_info_buffer]
print(f"PPO on {options.env} within the trust region of the rule {options.rule!r}:")
print(f"{len(made)} rollouts, {sum(made) / len(made):.1f} updates on each (of {model.max_updates})")
print(f"mean return of the last {len(returns)} episodes: {sum(returns) / len(returns):.1f}")
