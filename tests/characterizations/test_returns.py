"""Returns: the difference of means, and an error where they are not known."""

from __future__ import annotations

import numpy as np
import pytest

from pivec import Returns
from pivec.errors import UsageError
from pivec.states import VisitedStates

WALKS = [[np.zeros((2, 1)), np.zeros((3, 1))], [np.ones((2, 1))]]


def test_absolute_difference_of_means():
    data = VisitedStates.from_arrays(WALKS, returns=[[1.0, 4.0], [-2.0]])
    described = Returns().fit(data).describe(data)
    assert described.vectors.tolist() == [[2.5], [-2.0]]
    assert Returns().fit(data).distances(data).tolist() == [[0, 4.5], [4.5, 0]]


def test_unknown_returns_are_named():
    with pytest.raises(UsageError, match="returns="):
        Returns().fit(VisitedStates.from_arrays(WALKS))
    partly = VisitedStates.from_arrays(WALKS, returns=[[1.0, 4.0], [np.nan]])
    with pytest.raises(UsageError, match="'policy-1'"):
        Returns().fit(partly)
