"""The encoder of (state, action) pairs: its loss, its mean, and what it sees."""

from __future__ import annotations

import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pivec import StateActions, Supervector  # noqa: E402
from pivec.characterizations.torch_networks import contrast, sum_outputs  # noqa: E402
from pivec.errors import MissingExtra, UsageError  # noqa: E402
from pivec.states import VisitedStates  # noqa: E402

SMALL = {"n_units": 16, "n_values": 4, "set_size": 16, "n_updates": 150, "learning_rate": 0.01}


def make_data(rng, slopes, n=300):
    """Policies in the same states whose action depends on the state in different ways."""
    states = [[rng.normal(0, 1, (n + 1, 2))] for _ in slopes]
    actions = [
        [(slope * some[0][:-1, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)]
        for slope, some in zip(slopes, states, strict=True)
    ]
    return VisitedStates.from_arrays(states, actions=actions)


def test_the_loss_prefers_the_other_set_of_the_same_policy(rng):
    sets = rng.normal(size=(2, 3, 4))
    loss, slope = contrast(torch.tensor(sets))
    total = 0.0
    for a, b in ((sets[0], sets[1]), (sets[1], sets[0])):
        for i in range(3):
            near = [np.exp(-((a[i] - b[j]) ** 2).sum()) for j in range(3)]
            total -= np.log(near[i] / sum(near)) / 6
    assert float(loss) == pytest.approx(total)
    nudge = np.zeros_like(sets)
    nudge[1, 2, 0] = 1e-5
    ends = [float(contrast(torch.tensor(sets + sign * nudge))[0]) for sign in (1, -1)]
    assert float(slope[1, 2, 0]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4)


def test_the_description_is_the_mean_of_outputs(rng):
    weights = rng.normal(size=(4, 2)).astype(np.float32)  # three inputs and the offset
    pairs = rng.normal(size=(9000, 3)).astype(np.float32)
    expected = pairs.astype(float).mean(axis=0) @ weights[:3] + weights[3]
    sums = sum_outputs(weights.ravel(), [3, 2], pairs, np.array([0, 9000]))
    assert np.allclose(sums / 9000, expected, atol=1e-5)


def test_it_sees_a_difference_in_actions_only(rng):
    """The share of actions is equal, and so are the states: only which action where differs."""
    data = make_data(rng, (2.0, 2.0, -2.0))
    d = StateActions(**SMALL).fit(data).distances(data)
    assert min(d[0, 2], d[1, 2]) > 20 * d[0, 1]
    blind = Supervector(4).fit(data).distances(data)
    assert blind.max() < 0.05


def test_training_brings_sets_of_one_policy_together(rng):
    data = make_data(rng, (2.0, 0.0, -2.0))

    def ratio(n_updates):
        method = StateActions(**SMALL | {"n_updates": n_updates}).fit(data)
        halves = make_data(np.random.default_rng(1), (2.0, 2.0, -2.0))
        d = method.distances(halves)
        return d[0, 2] / d[0, 1]

    assert ratio(150) > 3 * ratio(1)


def test_unseen_policies_are_described(rng):
    method = StateActions(**SMALL).fit(make_data(rng, (2.0, 0.0, -2.0)))
    d = method.distances(make_data(rng, (1.5, 1.5, -1.5)))
    assert d[0, 2] > 10 * d[0, 1]


def test_same_seed_same_numbers_and_global_state_left_alone(rng):
    data = make_data(rng, (1.0, -1.0))
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    a, b = (StateActions(**SMALL).fit(data).distances(data) for _ in range(2))
    assert np.array_equal(a, b)
    assert torch.equal(torch.random.get_rng_state(), before)
    c = StateActions(**SMALL, random_state=1).fit(data).distances(data)
    assert not np.array_equal(a, c)


def test_mistakes_are_named(rng, walks, monkeypatch):
    with pytest.raises(UsageError, match="--actions"):
        StateActions().fit(walks)
    data = make_data(rng, (1.0, -1.0))
    with pytest.raises(UsageError, match="set_size"):
        StateActions(set_size=0).fit(data)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"state-actions .*pivec\[torch\]"):
        StateActions().fit(data)
