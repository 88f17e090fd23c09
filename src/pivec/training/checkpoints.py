"""When a policy is kept, and what is written beside its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pivec.run_log import versions


def spread(total: int, count: int) -> list[int]:
    """Spread ``count`` numbers evenly from 0 to ``total``; fewer where they would coincide.

    Examples
    --------
    >>> spread(100, 5)
    [0, 25, 50, 75, 100]
    >>> spread(2, 5)
    [0, 1, 2]
    >>> spread(100, 1)
    [100]
    """
    if count == 1:
        return [total]
    return sorted({int(step) for step in np.linspace(0, total, count).round()})


def wanted(checkpoints: int | Sequence[int], total: int) -> list[int]:
    """Say where checkpoints are wanted: so many from 0 to ``total``, or at given places.

    Examples
    --------
    >>> wanted(3, 100), wanted([50, 7], 100)
    ([0, 50, 100], [7, 50])
    """
    return spread(total, checkpoints) if isinstance(checkpoints, int) else sorted(checkpoints)


def generations_kept(
    checkpoints: int | Sequence[int] | None, total: int, every: int
) -> Sequence[int]:
    """Say which generations of ``total`` are kept: those wanted, or else every so manyth.

    Examples
    --------
    >>> list(generations_kept(None, 30, every=10)), generations_kept(2, 30, every=10)
    ([0, 10, 20], [0, 29])
    """
    return range(0, total, every) if checkpoints is None else wanted(checkpoints, total - 1)


def due_after(updates: Sequence[int], targets: Sequence[int]) -> list[int]:
    """Choose for each target the first update that reaches it.

    Policies only change between updates, so a checkpoint lies where an update ends.

    Examples
    --------
    >>> due_after([0, 256, 512, 768], [0, 300, 350, 700])
    [0, 512, 768]
    """
    places = np.searchsorted(np.asarray(updates), np.asarray(targets))
    return sorted({int(updates[min(int(place), len(updates) - 1)]) for place in places})


def drawn(n: int, share: float, seed: int, generation: int) -> list[int]:
    """Draw a share of a generation, at least one, without replacement.

    Examples
    --------
    >>> len(drawn(128, 0.25, seed=0, generation=10))
    32
    """
    rng = np.random.default_rng([seed, generation])
    return sorted(rng.choice(n, max(1, round(share * n)), replace=False).tolist())


@dataclass(frozen=True)
class Maker:
    """Who makes the checkpoints of a run, which all of them tell."""

    algorithm: str
    environment: str
    seed: int
    training: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def about(self, step: int, mean_return: float | None, **more: Any) -> dict[str, Any]:
        """Describe a checkpoint, as JSON holds it."""
        return {
            "algorithm": self.algorithm,
            "environment": self.environment,
            **({"arguments": dict(self.arguments)} if self.arguments else {}),
            "seed": self.seed,
            "step": step,
            "return": mean_return,
            **more,
            "training": self.training,
            "versions": versions(),
        }
