"""Characterizations of a run by name."""

from __future__ import annotations

import pytest

from pivec.errors import UsageError
from reproduction.training.runs import behaviour_named


def test_behaviours_by_name_take_defaults_arguments_and_the_seed() -> None:
    made = behaviour_named('supervector{"n_components": 7}', seed=3)
    assert (made.n_components, made.init, made.random_state) == (7, "kmeans", 3)
    assert behaviour_named('supervector{"random_state": 5}', seed=3).random_state == 5
    assert behaviour_named("gaussian", seed=3).covariance == "diagonal"
    with pytest.raises(UsageError, match="gausian"):
        behaviour_named("gausian", 0)
