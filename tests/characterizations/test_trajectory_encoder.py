"""The embeddings of trajectories of states and actions, and the energy distance between them."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pivec import TrajectoryEncoder  # noqa: E402
from pivec.characterizations.networks import between_means  # noqa: E402
from pivec.errors import BadData, UsageError  # noqa: E402
from pivec.states import VisitedStates  # noqa: E402

SMALL = {"n_units": 16, "n_latent": 4, "epochs": 20, "learning_rate": 0.01, "kl_weight": 0.01}


def make_data(rng, rates, episodes=6, length=30, places=None, numbers=False):
    """Policies in the same states that push right with different probabilities."""
    places = places or [0.0] * len(rates)
    states = [[rng.normal(p, 1, (length, 2)) for _ in range(episodes)] for p in places]
    actions = [
        [(rng.random(length - 1) < rate).astype(float if numbers else int) for _ in some]
        for rate, some in zip(rates, states, strict=True)
    ]
    return VisitedStates.from_arrays(states, actions=actions)


def test_mean_distances_between_sets_of_rows(rng):
    left = [rng.normal(size=(n, 3)) for n in (2, 5)]
    right = [rng.normal(size=(n, 3)) for n in (4, 1, 3)]
    result = between_means(left, right)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            expected = np.mean([np.linalg.norm(x - y) for x in a for y in b])
            assert result[i, j] == pytest.approx(expected)


def test_the_distance_is_the_energy_distance_of_the_embeddings(rng):
    data = make_data(rng, (0.2, 0.5, 0.9))
    method = TrajectoryEncoder(**SMALL).fit(data)
    described = method.describe(data)
    z = np.split(described.arrays["embeddings"], described.arrays["embeddings.starts"][1:-1])
    assert [len(some) for some in z] == [6, 6, 6]

    def mean(a, b):
        return np.mean([np.linalg.norm(x.astype(float) - y) for x in a for y in b])

    d = method.distances(described)
    for i, j in ((0, 1), (0, 2)):
        expected = mean(z[i], z[j]) - (mean(z[i], z[i]) + mean(z[j], z[j])) / 2
        assert d[i, j] == pytest.approx(expected, abs=1e-6)
    assert np.array_equal(d, d.T)
    assert np.allclose(method.distances(described, described), d, atol=1e-9)


@pytest.mark.parametrize("numbers", [False, True])
def test_it_sees_actions_in_the_same_states(rng, numbers):
    data = make_data(rng, (0.1, 0.1, 0.9), numbers=numbers)
    d = TrajectoryEncoder(**SMALL).fit(data).distances(data)
    assert min(d[0, 2], d[1, 2]) > 5 * d[0, 1]


def test_unseen_policies_are_described(rng):
    method = TrajectoryEncoder(**SMALL).fit(make_data(rng, (0.1, 0.5, 0.9)))
    d = method.distances(make_data(rng, (0.1, 0.15, 0.9)))
    assert d[0, 2] > 3 * d[0, 1]


def test_at_most_so_many_trajectories_are_described(rng):
    data = make_data(rng, (0.1, 0.9))
    method = TrajectoryEncoder(**SMALL, max_episodes=4).fit(data)
    assert method.describe(data).arrays["embeddings.starts"].tolist() == [0, 4, 8]


def test_episodes_of_a_single_state_have_no_pairs(rng):
    states = [[np.zeros((1, 2)), rng.normal(size=(9, 2))], [rng.normal(size=(5, 2))]]
    actions = [[np.empty(0, dtype=int), np.arange(8) % 2], [np.zeros(4, dtype=int)]]
    data = VisitedStates.from_arrays(states, actions=actions)
    method = TrajectoryEncoder(**SMALL).fit(data)
    assert method.describe(data).arrays["embeddings.starts"].tolist() == [0, 1, 2]


def test_mistakes_are_named(rng, walks):
    with pytest.raises(UsageError, match="--actions"):
        TrajectoryEncoder().fit(walks)
    data = make_data(rng, (0.1, 0.9))
    with pytest.raises(UsageError, match="max_episodes"):
        TrajectoryEncoder(max_episodes=0).fit(data)
    method = TrajectoryEncoder(**SMALL).fit(data)
    with pytest.raises(BadData, match="actions of"):
        method.describe(make_data(rng, (0.1,), numbers=True))
