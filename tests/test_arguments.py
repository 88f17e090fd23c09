"""Every argument of every characterization is held against its type, before anything is done."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from pivec.characterizations import Characterization, characterization, names
from pivec.errors import UsageError

ARGUMENTS = [(name, key) for name in names() for key in characterization(name).get_params()]


@pytest.mark.parametrize(("name", "key"), ARGUMENTS)
def test_another_type_is_refused_by_name(name, key):
    value = characterization(name).get_params()[key]
    for wrong in ([], {"a": 1}, 3 if isinstance(value, str) else "abc"):
        with pytest.raises(UsageError, match=rf"^{key} must be .*, but is "):
            characterization(name, **{key: wrong})


@pytest.mark.parametrize(("name", "key"), ARGUMENTS)
def test_numbers_have_a_least_value_and_an_end(name, key):
    value = characterization(name).get_params()[key]
    if isinstance(value, str | bool):
        return
    for wrong in (-1, float("nan"), float("inf"), True, 10**400):
        with pytest.raises(UsageError, match=rf"^{key} must be "):
            characterization(name, **{key: wrong})


def test_numpy_numbers_are_numbers():
    made = characterization("supervector", n_components=np.int64(4), relevance=np.float32(2))
    assert made.n_components == 4
    assert characterization("supervector", relevance=16, max_states=None).relevance == 16


def test_an_unknown_argument_is_told_with_a_near_one():
    with pytest.raises(UsageError, match=r"no argument 'n_component'.*did you mean n_components"):
        characterization("supervector", n_component=3)
    with pytest.raises(UsageError, match="it takes none"):
        characterization("returns", bins=3)


def test_classes_of_users_need_no_types():
    class Own(Characterization):
        name = "own"

        def __init__(self, anything=1):
            self.anything = anything

        def _fit(self, data):
            self.seen = data

        _describe = _distances = _learned = _restore = None

    from pivec.states import VisitedStates

    data = VisitedStates.from_arrays([[np.zeros((3, 2))]])
    assert Own(anything=object()).fit(data).seen.labels == data.labels
    assert "anything" in inspect.signature(Own).parameters
