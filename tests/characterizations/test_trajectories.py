"""Trajectories against a plain loop over pairs, episodes and moments."""

from __future__ import annotations

import numpy as np
import pytest

from pivec import Trajectories
from pivec.errors import BadData, UsageError
from pivec.states import RecordedStates, VisitedStates, find_recorded


def plain(p, q):
    """Conti 2018: the shorter one is continued with its last state."""
    sums = []
    for a, b in zip(p, q, strict=False):
        n = max(len(a), len(b))
        longer = [np.concatenate([x, np.repeat(x[-1:], n - len(x), axis=0)]) for x in (a, b)]
        sums.append(np.linalg.norm(longer[0] - longer[1], axis=1).sum())
    return np.mean(sums)


@pytest.fixture
def episodes(rng):
    lengths = ([5, 9], [1], [5, 2, 30], [12, 12, 12, 1], [9, 9])
    return [[rng.normal(size=(n, 3)).astype(np.float32) for n in some] for some in lengths]


def test_all_pairs_agree_with_the_loop(episodes):
    data = VisitedStates.from_arrays(episodes)
    method = Trajectories().fit(data)
    expected = [[plain(p, q) for q in episodes] for p in episodes]
    d = method.distances(data)
    assert np.allclose(d, expected)
    assert np.array_equal(d, d.T)
    assert np.allclose(method.distances(data[:2], data[2:]), np.array(expected)[:2, 2:])
    assert np.allclose(method.distances(data[2:], data[:2]), np.array(expected)[2:, :2])


def test_caps_bound_what_is_kept(episodes):
    data = VisitedStates.from_arrays(episodes)
    method = Trajectories(max_episodes=2, max_steps=6).fit(data)
    short = [[e[:6] for e in some[:2]] for some in episodes]
    assert np.allclose(method.distances(data), [[plain(p, q) for q in short] for p in short])
    assert len(method.describe(data).arrays["states"]) == sum(len(e) for s in short for e in s)


def test_time_counts():
    forth = np.array([[0.0], [1.0], [2.0]])
    data = VisitedStates.from_arrays([[forth], [forth[::-1]], [np.repeat(forth, 2, axis=0)]])
    d = Trajectories().fit(data).distances(data)
    assert d[0, 1] == 4
    assert d[0, 2] == 0 + 1 + 1 + 1 + 0 + 0


def test_mistakes_are_named(walks):
    for name in ("max_episodes", "max_steps"):
        with pytest.raises(UsageError, match=f"{name} must be a whole number of at least 1"):
            Trajectories(**{name: 0}).fit(walks)


def test_differently_thinned_episodes_have_no_common_steps(rng):
    found = find_recorded(VisitedStates.from_arrays([[rng.normal(size=(n, 1))] for n in (50, 9)]))
    data = RecordedStates(found, max_states_per_policy=20).run()
    method = Trajectories().fit(data)
    assert method.distances(data[0], data[0])[0, 0] == 0
    with pytest.raises(BadData, match=r"'policy-0'.* 4 .*'policy-1'.* 1"):
        method.distances(data)
