"""When behaviour has settled: it has not changed for some checkpoints, beyond what chance does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.arguments import Count, NotNegative, check_arguments
from pivec.distances.noise import Noise
from pivec.errors import UsageError


@dataclass(frozen=True)
class SettlingRule:
    """Behaviour has settled when none of the last checkpoints differs from the one before them.

    Even a policy that does not change is at some distance from itself, since each checkpoint is
    known by some episodes only. What is left of a distance d after the mean m of that noise is a
    change if it is larger than ``deviations`` of the noise, *and* larger than ``tolerance`` times
    the farthest that the run has come from its first checkpoint:

        d - m > max(deviations · s, tolerance · reach)

    All of the last ``checkpoints`` are measured from the *same* one, the one before them, so that
    many small steps in one direction count as a change although none of them would.

    Parameters
    ----------
    checkpoints : int
        How many in a row have to be unchanged.
    tolerance : float
        Share of the way the run has come that counts as no change. Most distances, that of
        supervectors too, are squared: 0.01 is a tenth of the way in a straight line.
    deviations : float
        Standard deviations of the noise that count as no change.

    Examples
    --------
    >>> rule = SettlingRule(checkpoints=3)
    >>> rule.settled([5.0, 2.0, 1.0, 0.02, 0.01, 0.03])
    True
    >>> rule.settled_at([5.0, 2.0, 1.0, 0.02, 0.01, 0.03])
    6
    """

    checkpoints: Count = 10
    tolerance: NotNegative = 0.01
    deviations: NotNegative = 3.0

    def __post_init__(self) -> None:
        check_arguments(self)

    def settled(self, distances: ArrayLike, noise: Sequence[Noise] | float = 0.0) -> bool:
        """Tell whether a run has settled at its last checkpoint.

        Parameters
        ----------
        distances : (n, n) array or (n - 1,) array
            Between all checkpoints, in the order of training. Or from each to the next: then the
            last ones are judged one by one, against the largest of all, and slow drift is missed.
        noise : sequence of n Noise, or float
            For each checkpoint what `chance_distance` says of it and the one before (that of the
            first is not used); or one distance that counts as noise everywhere.
        """
        d = np.asarray(distances, dtype=np.float64)
        if d.ndim not in (1, 2) or (d.ndim == 2 and d.shape[0] != d.shape[1]):
            raise UsageError(
                "expected the distances of all checkpoints, (n, n), or from each to the next, "
                f"(n - 1,), but got shape {d.shape}"
            )
        n = len(d) if d.ndim == 2 else len(d) + 1
        if n <= self.checkpoints:
            return False
        means, deviations = _split(noise, n)
        last = slice(n - self.checkpoints, n)
        if d.ndim == 2:
            recent, reach = d[n - self.checkpoints - 1, last], float((d[0] - means)[1:].max())
        else:
            recent, reach = d[-self.checkpoints :], float((d - means[1:]).max())
        return self.unchanged(recent, means[last], deviations[last], reach)

    def settled_at(self, distances: ArrayLike, noise: Sequence[Noise] | float = 0.0) -> int | None:
        """Return the number of the first checkpoint at which a run has settled; None if never."""
        d = np.asarray(distances, dtype=np.float64)
        n = len(d) if d.ndim == 2 else len(d) + 1
        for upto in range(self.checkpoints + 1, n + 1):
            part = d[:upto, :upto] if d.ndim == 2 else d[: upto - 1]
            if self.settled(part, noise if isinstance(noise, int | float) else noise[:upto]):
                return upto - 1
        return None

    def unchanged(
        self, recent: ArrayLike, means: ArrayLike, deviations: ArrayLike, reach: float
    ) -> bool:
        """Tell whether none of some distances is a change; see the class for the formula."""
        excess = np.asarray(recent, dtype=np.float64) - np.asarray(means, dtype=np.float64)
        allowed = np.maximum(
            self.deviations * np.asarray(deviations), self.tolerance * max(reach, 0.0)
        )
        return bool((excess <= allowed).all())


def _split(
    noise: Sequence[Noise] | float, n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if isinstance(noise, int | float):
        return np.full(n, float(noise)), np.zeros(n)
    if len(noise) != n:
        raise UsageError(f"noise needs one entry for each of {n} checkpoints, but has {len(noise)}")
    return np.array([entry.mean for entry in noise]), np.array([entry.deviation for entry in noise])
