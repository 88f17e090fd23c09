"""One contract for the whole registry: every characterization keeps scikit-learn's manners."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import pivec
from pivec.characterizations import Space, characterization, names
from pivec.errors import BadData, BadStore, UsageError
from pivec.states import VisitedStates

# Small enough for the data of these tests; otherwise defaults.
SMALL = {"supervector": {"n_components": 4}}


@pytest.fixture(params=names())
def method(request):
    return characterization(request.param, **SMALL.get(request.param, {}))


def test_fit_returns_self_and_leaves_the_parameters_alone(method, walks):
    before = method.get_params()
    assert method.fit(walks) is method
    assert method.get_params() == before
    assert clone(method).get_params() == before
    assert not hasattr(clone(method), "feature_names_")


def test_distances_are_symmetric_with_zero_diagonal_and_not_negative(method, walks):
    d = method.fit(walks).distances(walks)
    assert d.shape == (6, 6)
    assert d.dtype == np.float64
    assert np.array_equal(d, d.T)
    assert not np.diag(d).any()
    assert (d >= 0).all()
    assert np.isfinite(d).all()


def test_policies_farther_apart_have_larger_distances(method, walks):
    d = method.fit(walks).distances(walks)
    assert d[0, 3] < d[0, 1] < d[0, 2] < d[5, 2]


def test_the_same_seed_gives_the_same_numbers(method, walks):
    a = method.fit(walks).distances(walks)
    b = clone(method).fit(walks).distances(walks)
    assert np.array_equal(a, b)


def test_distances_of_data_and_of_descriptions_agree(method, walks):
    method.fit(walks)
    described = method.describe(walks)
    assert len(described) == 6
    assert described.labels == walks.labels
    assert described.vectors is None or described.vectors.shape[0] == 6
    assert np.array_equal(method.distances(walks), method.distances(described))
    across = method.distances(described.select([0, 1]), described.select([2, 3, 4]))
    assert np.allclose(across, method.distances(described)[:2, 2:5])
    joined = described.select([0, 1, 2]) + described.select([3, 4, 5])
    assert np.array_equal(method.distances(joined), method.distances(described))


def test_points_make_the_distance_euclidean(method, walks):
    described = method.fit(walks).describe(walks)
    if described.points is not None:
        gaps = described.points[:, None] - described.points[None]
        assert np.allclose(method.distances(described), (gaps**2).sum(axis=-1))


def test_order_of_policies_is_only_their_order(method, walks):
    order = [3, 1, 5, 0, 2, 4]
    method.fit(walks)
    d = method.distances(walks)
    assert np.allclose(method.distances(walks.select(order)), d[np.ix_(order, order)])


def test_order_of_states_does_not_matter(method, walks, rng):
    shuffled = VisitedStates.from_arrays(
        [[rng.permutation(walks.policy_states(i))] for i in range(len(walks))]
    )
    method.fit(walks)
    assert np.allclose(method.distances(shuffled), method.distances(walks), rtol=1e-5, atol=1e-9)


def test_policies_not_seen_in_fit_are_described(method, walks):
    method.fit(walks.select([0, 1, 2, 3]))
    d = method.distances(walks)
    assert d[5, 2] > d[0, 3]


def test_save_and_load_give_the_same_numbers(method, walks, tmp_path):
    described = method.fit(walks).describe(walks)
    positions = np.arange(12.0).reshape(6, 2)
    Space(method, described, positions, {"environment": "Walk-v0"}).save(tmp_path)
    space = Space.load(tmp_path)
    assert space.method.get_params() == method.get_params()
    assert np.array_equal(space.method.distances(walks), method.distances(walks))
    assert np.array_equal(space.method.distances(space.descriptions), method.distances(walks))
    assert space.descriptions.policies == described.policies
    assert np.array_equal(space.positions, positions)
    assert space.collected == {"environment": "Walk-v0"}


def test_one_policy_is_enough(method, walks):
    one = walks[0]
    assert method.fit(one).distances(one).tolist() == [[0.0]]


def test_two_identical_policies_have_distance_zero(method, walks):
    episodes = list(walks[0].episodes())
    twice = VisitedStates.from_arrays([episodes, episodes])
    assert method.fit(twice).distances(twice).max() < 1e-9  # float32 sums end differently


def test_constant_features_are_defined(method, walks):
    flat = [[np.pad(e, ((0, 0), (0, 1))) for e in walks[i].episodes()] for i in range(6)]
    data = VisitedStates.from_arrays(flat)
    d = method.fit(data).distances(data)
    assert np.isfinite(d).all()
    assert d[0, 2] > 0


def test_mistakes_are_named(method, walks):
    with pytest.raises(UsageError, match="not fitted"):
        method.describe(walks)
    method.fit(walks)
    with pytest.raises(BadData, match=r"3 features, but these have 1"):
        method.describe(VisitedStates.from_arrays([[[[0.0]]]]))
    with pytest.raises(UsageError, match="expected VisitedStates or Descriptions"):
        method.distances(np.zeros((2, 2)))


def test_descriptions_of_another_method_are_refused(walks):
    a, b = (characterization(name, **SMALL.get(name, {})).fit(walks) for name in names()[:2])
    with pytest.raises(UsageError, match=f"descriptions by {b.name}"):
        a.distances(b.describe(walks))


def test_unknown_names_and_arguments():
    with pytest.raises(UsageError, match="did you mean 'supervector'"):
        characterization("supervectr")
    with pytest.raises(UsageError, match=r"it takes .*n_components"):
        characterization("supervector", components=3)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04garbage", b"\x93NUMPY"])
def test_a_damaged_space_is_named(tmp_path, content):
    (tmp_path / "space.npz").write_bytes(content)
    with pytest.raises(BadStore, match="not a whole space"):
        Space.load(tmp_path)
    with pytest.raises(UsageError, match="holds no space"):
        Space.load(tmp_path / "nothing")


def test_a_space_with_pickled_content_is_not_run(tmp_path):
    np.savez(tmp_path / "space.npz", index=np.array([print], dtype=object))
    with pytest.raises(BadStore, match="not a whole space"):
        Space.load(tmp_path)


def test_the_names_of_the_package():
    assert pivec.characterization is characterization
