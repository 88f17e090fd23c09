"""When behaviour has settled: it has not changed for some checkpoints, beyond what chance does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.arguments import Count, NotNegative, check_arguments
from pivec.errors import UsageError


@dataclass(frozen=True)
class SettlingRule:
    """Behaviour has settled when none of the last checkpoints differs from the one before them.

    Distances come with the noise of sampling taken off, so that a policy that does not change is at
    distance 0 from itself on average, and with their standard errors s, since each checkpoint is
    known by some episodes only; see `Characterization.intervals`. A distance d is a change if it
    is larger than ``deviations`` standard errors, *and* larger than ``tolerance`` times the
    farthest that the run has come from its first checkpoint:

        d > max(deviations · s, tolerance · reach)

    All of the last ``checkpoints`` are measured from the *same* one, the one before them, so that
    many small steps in one direction count as a change although none of them would.

    Parameters
    ----------
    checkpoints : int
        How many in a row have to be unchanged.
    tolerance : float
        Share of the way the run has come that counts as no change. Most distances, those of
        visitation and supervectors too, are squared: 0.01 is a tenth of the way in a straight line.
    deviations : float
        Standard errors that count as no change.

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

    def settled(self, distances: ArrayLike, standard_errors: ArrayLike = 0.0) -> bool:
        """Tell whether a run has settled at its last checkpoint.

        Parameters
        ----------
        distances : (n, n) array or (n - 1,) array
            Between all checkpoints, in the order of training. Or from each to the next: then the
            last ones are judged one by one, against the largest of all, and slow drift is missed.
        standard_errors : array of the same shape, or float
            Of the distances; 0 if they are exact.
        """
        d, errors = _checked(distances, standard_errors)
        n = len(d) if d.ndim == 2 else len(d) + 1
        if n <= self.checkpoints:
            return False
        if d.ndim == 2:
            before = n - self.checkpoints - 1
            recent, doubt, ways = d[before, before + 1 :], errors[before, before + 1 :], d[0]
        else:
            recent, doubt, ways = d[-self.checkpoints :], errors[-self.checkpoints :], d
        return self.unchanged(recent, doubt, ways)

    def settled_at(self, distances: ArrayLike, standard_errors: ArrayLike = 0.0) -> int | None:
        """Return the number of the first checkpoint at which a run has settled; None if never."""
        d, errors = _checked(distances, standard_errors)
        legs = 2 - d.ndim  # one fewer than checkpoints
        for n in range(self.checkpoints + 1, len(d) + legs + 1):
            part = (slice(n - legs),) * d.ndim
            if self.settled(d[part], errors[part]):
                return n - 1
        return None

    def unchanged(self, recent: ArrayLike, standard_errors: ArrayLike, ways: ArrayLike) -> bool:
        """Tell whether none of some distances is a change; see the class for the formula.

        The reach is the largest of ``ways``. One that is not known (NaN) counts for nothing there,
        but among the ``recent`` it is not known to be no change.
        """
        reach = np.fmax.reduce(np.asarray(ways, dtype=np.float64), initial=0.0)
        errors = np.asarray(standard_errors, dtype=np.float64)
        allowed = np.maximum(self.deviations * errors, self.tolerance * reach)
        return bool((np.asarray(recent, dtype=np.float64) <= allowed).all())


def _checked(
    distances: ArrayLike, standard_errors: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    d, errors = (np.asarray(values, dtype=np.float64) for values in (distances, standard_errors))
    if d.ndim not in (1, 2) or (d.ndim == 2 and d.shape[0] != d.shape[1]):
        raise UsageError(
            "expected the distances of all checkpoints, (n, n), or from each to the next, "
            f"(n - 1,), but got shape {d.shape}"
        )
    if errors.ndim and errors.shape != d.shape:
        raise UsageError(
            f"expected standard errors of the distances' shape {d.shape}, or one for all, but got "
            f"shape {errors.shape}"
        )
    return d, np.broadcast_to(errors, d.shape)
