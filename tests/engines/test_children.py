"""A process of our own answers a request, or says why not."""

from __future__ import annotations

import json
import pickle

import pytest

from pivec.engines.children import ask, telling
from pivec.errors import PivecError


def doubles(request):
    with telling() as told:
        print("chatter")  # must not mix with the answer
        json.dump(2 * pickle.load(request), told)


def breaks(request):
    raise ValueError("no such thing")


def test_the_answer_is_what_the_process_tells():
    assert ask("test_children:doubles", 21, failed="it did not double") == 42


def test_a_failure_is_told_by_its_last_line():
    with pytest.raises(PivecError, match=r"it did not work: ValueError: no such thing$"):
        ask("test_children:breaks", 0, failed="it did not work")
