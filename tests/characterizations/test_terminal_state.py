"""Terminal states: the mean of last states, raw or standardised."""

from __future__ import annotations

import numpy as np
import pytest

from pivec import TerminalState
from pivec.states import VisitedStates


def test_mean_of_the_last_states(rng):
    walks = [[rng.normal(size=(n, 3)) for n in lengths] for lengths in ([4, 9], [1], [5, 2, 3])]
    data = VisitedStates.from_arrays(walks)
    ends = [np.mean([e[-1].astype(np.float32) for e in some], axis=0) for some in walks]
    method = TerminalState().fit(data)
    assert np.allclose(method.describe(data).vectors, ends)
    expected = [[np.linalg.norm(a - b) for b in ends] for a in ends]
    assert np.allclose(method.distances(data), expected, atol=1e-6)


def test_standardising_evens_out_units(rng):
    walks = [[rng.normal(size=(50, 2)) + np.array([i, 0])] for i in range(3)]
    scaled = [[walk * [1, 1e6]] for (walk,) in walks]
    a, b = (VisitedStates.from_arrays(some) for some in (walks, scaled))
    plain = TerminalState(standardise=True)
    assert np.allclose(plain.fit(a).distances(a), plain.fit(b).distances(b), rtol=1e-5)
    raw = TerminalState()
    assert raw.fit(b).distances(b)[0, 1] == pytest.approx(
        1e6 * abs(walks[0][0][-1, 1] - walks[1][0][-1, 1]), rel=1e-3
    )
