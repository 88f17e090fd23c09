"""Episodes put together anew keep their states, actions and returns."""

from __future__ import annotations

import numpy as np

from pivec.states import VisitedStates, regrouped


def test_states_actions_and_returns_go_with_their_episodes(rng):
    lengths = [[3, 5], [2], [4, 6]]
    walks = [[rng.normal(size=(n, 2)) for n in some] for some in lengths]
    moves = [[rng.integers(9, size=n - 1) for n in some] for some in lengths]
    returns = [[1.0, 2.0], [3.0], [4.0, 5.0]]
    a = VisitedStates.from_arrays(walks[:2], actions=moves[:2], returns=returns[:2])
    b = VisitedStates.from_arrays(walks[2:], actions=moves[2:], returns=returns[2:])
    made = regrouped([a, b], [np.array([4, 0]), np.array([2, 1, 3])])
    flat_walks = [one for some in walks for one in some]
    flat_moves = [one for some in moves for one in some]
    order = [4, 0, 2, 1, 3]
    assert np.allclose(made.states, np.concatenate([flat_walks[i] for i in order]))
    assert np.array_equal(made.actions, np.concatenate([flat_moves[i] for i in order]))
    assert made.returns.tolist() == [5.0, 1.0, 3.0, 2.0, 4.0]
    assert np.diff(made.policy_starts).tolist() == [2, 3]
