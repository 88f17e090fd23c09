"""A sparse matrix of transitions between cells of equal size: from where to where, how often."""

from __future__ import annotations

from typing import ClassVar

from pivec.characterizations.discretization import Discretization
from pivec.characterizations.views import Of


class Transitions(Discretization):
    """Shares of the transitions from each cell of a regular grid to each other.

    After the discretised transition matrices of Matusch 2020, of which only the entries that
    occurred are kept. The distance is half the L1 distance of the joint distributions of (cell,
    next cell): rows of the matrix count as much as they were visited. A policy needs at least one
    episode of two states.

    Parameters and attributes are those of `Discretization`.

    Examples
    --------
    >>> import numpy as np
    >>> from pivec.states.visited import VisitedStates
    >>> there, back = np.array([[0.0], [9.0], [5.0]]), np.array([[5.0], [9.0], [0.0]])
    >>> data = VisitedStates.from_arrays([[there], [back]])
    >>> Transitions().fit(data).distances(data)
    array([[0., 1.],
           [1., 0.]])
    """

    name = "transitions"
    explanation = (
        "The state space is cut into cells, and each policy is described by the share of its "
        "steps that lead from one cell to another (or stay in it), for every pair of cells. The "
        "distance of two policies is half the sum of the differences of these shares: 0 for "
        "policies that make the same steps equally often, 1 for policies without a common step."
    )
    formula = "d(p, q) = ½ · Σ_c Σ_c′ |p(c, c′) − q(c, c′)|"
    _of: ClassVar[Of] = "transitions"
