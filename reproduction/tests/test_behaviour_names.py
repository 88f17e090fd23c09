"""Characterizations of a run by name."""

from __future__ import annotations

import pytest

from pivec.characterizations import characterization
from pivec.errors import UsageError
from reproduction.training.runs import behaviour_named, behaviour_text


def test_behaviours_by_name_take_defaults_arguments_and_the_seed() -> None:
    defaults = {"supervector": {"n_components": 4, "relevance": 8.0}}
    made = behaviour_named('supervector{"n_components": 7}', defaults, seed=3)
    assert (made.n_components, made.relevance, made.random_state) == (7, 8.0, 3)
    assert behaviour_named('supervector{"random_state": 5}', {}, seed=3).random_state == 5
    assert behaviour_named("gaussian", defaults, seed=3).covariance == "diagonal"
    with pytest.raises(UsageError, match="gausian"):
        behaviour_named("gausian", {}, 0)


def test_an_object_travels_as_text() -> None:
    made = characterization("supervector", n_components=3, relevance=2.0, random_state=9)
    again = behaviour_named(behaviour_text(made), {"supervector": {"n_components": 4}}, seed=1)
    assert again.get_params() == made.get_params()


def test_what_cannot_be_named_is_refused() -> None:
    base = type(characterization("gaussian"))

    class Mine(base):
        """A characterization that only its owner knows."""

    with pytest.raises(UsageError, match="NoveltySearch"):
        behaviour_text(Mine())
    with pytest.raises(UsageError, match="int"):
        behaviour_text(7)
