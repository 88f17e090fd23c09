"""When a policy is kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def spread(last: int, count: int) -> list[int]:
    """Spread ``count`` numbers evenly from 0 to ``last``; fewer where they would coincide.

    Examples
    --------
    >>> spread(100, 5), spread(2, 5), spread(100, 1)
    ([0, 25, 50, 75, 100], [0, 1, 2], [100])
    """
    if count == 1:
        return [last]
    return sorted({int(step) for step in np.linspace(0, last, count).round()})


def wanted(checkpoints: int | Sequence[int] | None, last: int, every: int = 1) -> list[int]:
    """Say where checkpoints are wanted: so many up to ``last``, at given places, or ``every`` few.

    Examples
    --------
    >>> wanted(3, 100), wanted([50, 7], 100), wanted(None, 29, every=10)
    ([0, 50, 100], [7, 50], [0, 10, 20])
    """
    if checkpoints is None:
        return list(range(0, last + 1, every))
    return spread(last, checkpoints) if isinstance(checkpoints, int) else sorted(checkpoints)


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
