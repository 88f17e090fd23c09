"""The data that the tests of all characterizations share."""

from __future__ import annotations

import pytest
from behaviours import PLACES, make_behaviours

from pivec.states import VisitedStates


@pytest.fixture
def behaviours() -> VisitedStates:
    """Six policies of two runs that move apart in every respect."""
    return make_behaviours(PLACES)
