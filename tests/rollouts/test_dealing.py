"""How policies are dealt out: with workers of one speed nobody waits long in the end."""

from __future__ import annotations

import heapq
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest

from pivec.options import CollectOptions
from pivec.rollouts import Environment, play


@pytest.fixture
def workers(monkeypatch):
    monkeypatch.setattr(play, "current", lambda: SimpleNamespace(n_workers=64))


def test_64_workers_are_busy_for_nine_tenths_of_the_time(workers):
    dealt, shares = list(play._shares(1000, 1)), []
    assert sorted(chain.from_iterable(dealt)) == list(range(1000))
    assert len(dealt) < 500
    for seed in range(20):
        lengths = np.random.default_rng(seed).uniform(1, 10, 1000)
        free = [0.0] * 64
        for piece in dealt:
            heapq.heappush(free, heapq.heappop(free) + lengths[piece].sum())
        shares.append(lengths.sum() / 64 / max(free))
    assert min(shares) > 0.9


def test_lanes_that_step_together_are_filled():
    options = CollectOptions(episodes=100)
    assert play._filling(Environment("CartPole-v1"), options, 200) == 21
    assert play._filling(Environment("MountainCar-v0"), options, 200) == 1
