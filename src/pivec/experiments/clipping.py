"""The clip ratio of PPO and the distance a policy travels in training, with A2C beside it."""

from __future__ import annotations

from dataclasses import dataclass

from pivec.experiments.workshop import Training, Workshop

ENVIRONMENTS = ("BipedalWalker-v3", "LunarLander-v3", "Acrobot-v1", "CartPole-v1", "Pendulum-v1")
PUBLISHED_RATIO = 0.2  # of the paper's settings: these runs are shared with other recipes


@dataclass(frozen=True)
class Counts:
    """Which environments and clip ratios, and how much of everything."""

    environments: tuple[str, ...]
    ratios: tuple[float, ...]
    runs: int
    policies: int  # of a run
    episodes: int  # of a policy
    components: int
    background_states: int = 10_000_000
    background_policies: int = 500


def trainings(shop: Workshop, counts: Counts, environment: str) -> tuple[Training, ...]:
    """Describe the runs of PPO with each clip ratio, and those of A2C.

    Only the policy's ratio is changed; the clip of the value stays what it is. Where the settings
    let the ratio decay, the changed one decays, too.
    """
    return (
        *(ratio_training(shop, counts, environment, ratio) for ratio in counts.ratios),
        shop.training(environment, "a2c", counts.runs),
    )


def ratio_training(shop: Workshop, counts: Counts, environment: str, ratio: float) -> Training:
    """Describe the runs with one clip ratio."""
    name = f"clip {ratio:g}"
    if ratio == PUBLISHED_RATIO:
        return shop.training(environment, "ppo", counts.runs, name=name)
    return shop.training(
        environment, "ppo", counts.runs, name=name, checkpoints=counts.policies, clip_range=ratio
    )


COUNTS = {
    "smoke": Counts(("CartPole-v1", "Pendulum-v1"), (0.2, 2), 1, 5, 4, 4),
    "small": Counts(ENVIRONMENTS, (0.01, 0.1, 0.2, 0.5, 2, 10), 2, 25, 20, 64),
    "paper": Counts(
        ENVIRONMENTS, (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2, 5, 10), 5, 50, 100, 64
    ),
}
