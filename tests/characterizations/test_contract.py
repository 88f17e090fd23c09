"""One contract for the whole registry: every characterization keeps scikit-learn's manners."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from behaviours import PLACES, make_behaviours, with_policies
from sklearn.base import clone

import pivec
from pivec.characterizations import Space, characterization, names
from pivec.errors import BadData, BadStore, UsageError
from pivec.states import VisitedStates

# Small enough for the data of these tests; otherwise defaults.
SMALL = {
    "visitation": {"n_components": 4},
    "supervector": {"n_components": 4},
    "discretization": {"bins": 4},
    "transitions": {"bins": 2},
    "mmd": {"n_frequencies": 128},
    "sliced-wasserstein": {"n_directions": 32, "n_quantiles": 16},
    "discriminator": {"n_units": 16, "n_layers": 2, "epochs": 20, "learning_rate": 0.01},
    "skill-discriminator": {"n_units": 16, "epochs": 20, "learning_rate": 0.01},
    "encoder": {"n_units": 8, "n_latent": 2, "epochs": 15, "learning_rate": 0.01},
    "trajectory-encoder": {"n_units": 8, "n_latent": 2, "epochs": 15, "learning_rate": 0.01},
    "state-actions": {"n_units": 16, "n_values": 4, "n_updates": 60, "learning_rate": 0.01},
}
# The same names with other arguments, which keep the same contract.
VARIANTS = [
    ("supervector", {"n_components": 4, "adapt": "mw"}),
    ("supervector", {"n_components": 4, "adapt": "mwv"}),
    ("gaussian", {"covariance": "full"}),
    ("mmd", {"n_frequencies": 128, "of": "state-actions"}),
    ("mmd", {"n_frequencies": 128, "of": "transitions"}),
    ("sliced-wasserstein", {"n_directions": 32, "n_quantiles": 16, "of": "state-actions"}),
    ("sliced-wasserstein", {"n_directions": 32, "n_quantiles": 16, "of": "transitions", "p": 1}),
    ("terminal-state", {"standardise": True}),
    ("trajectories", {"standardise": True, "max_episodes": None, "max_steps": None}),
]
TORCH = {"discriminator", "encoder", "skill-discriminator", "trajectory-encoder", "state-actions"}


def _cases():
    for name, settings in [(name, SMALL.get(name, {})) for name in names()] + VARIANTS:
        missing = name in TORCH and find_spec("torch") is None
        told = "-".join(
            [name, *(str(settings[k]) for k in ("adapt", "covariance", "of") if k in settings)]
        )
        yield pytest.param(
            (name, settings), id=told, marks=pytest.mark.skipif(missing, reason="needs torch")
        )


@pytest.fixture(params=_cases())
def method(request):
    name, settings = request.param
    return characterization(name, **settings)


@pytest.fixture
def walks(behaviours):
    """Here the walks have actions, policies and returns, so that every method can run."""
    return behaviours


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


# Its loss weighs the whole latent against the likelihood of a single step, as the paper has it:
# where the last state tells the next, as here, the latent stays empty and distances are chance.
MAY_STAY_EMPTY = {"encoder"}


def test_policies_farther_apart_have_larger_distances(method):
    if method.name in MAY_STAY_EMPTY:
        pytest.skip("the latent may stay empty")
    walks = make_behaviours(PLACES, episodes=16)
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


@pytest.mark.parametrize("order", [[3, 1, 5, 0, 2, 4], [5, 4, 3, 2, 1, 0]])
def test_order_and_labels_of_policies_change_no_bit(method, walks, order):
    described = method.fit(walks).describe(walks)
    d, across = method.distances(walks), method.distances(walks[:2], walks[2:])
    other = renamed(walks.select(order))
    again = clone(method).fit(other)
    rows = np.argsort(order)
    assert np.array_equal(again.distances(other)[np.ix_(rows, rows)], d)
    assert np.array_equal(again.distances(other.select(rows[:2]), other.select(rows[2:])), across)
    for name, values in method.fitted_arrays().items():
        if name != "shaped_like":  # a label, for messages
            assert np.array_equal(again.fitted_arrays()[name], values), name
    if described.vectors is not None:
        assert np.array_equal(again.describe(other).vectors[rows], described.vectors)


def renamed(data):
    """The same policies under labels that sort the other way."""
    labels = [f"{len(data) - i}" for i in range(len(data))]
    infos = [replace(info, label=label) for info, label in zip(data.policies, labels, strict=True)]
    data = data[:]
    data.policies = tuple(infos)
    return data


# Where each is blind: data changed only in that way are described as before.
#   order      the same states, in any order
#   episodes   the same episodes, in any order
#   actions    the same states, with other actions
#   states     other states and actions of the same policies, and the same returns
#   path       another way to the same end
BLIND = {
    "visitation": "order",
    "supervector": "order",
    "gaussian": "order",
    "discretization": "order",
    "mmd": "order",
    "sliced-wasserstein": "order",
    "discriminator": "order",
    "skill-discriminator": "order",
    "transitions": "episodes",
    "trajectories": "actions",
    "encoder": "actions",
    "trajectory-encoder": "returns",
    "state-actions": "returns",
    "terminal-state": "path",
    "returns": "states",
    "actions": "states",
    "parameters": "states",
}


def _changed(data, how, rng):
    """The same data but for one respect."""
    everything = [list(data[i].episodes()) for i in range(len(data))]
    states, actions = everything, [_actions(data, i) for i in range(len(data))]
    returns = [data[i].returns for i in range(len(data))]
    if how == "order":
        states = [_cut(rng.permutation(np.concatenate(some)), some) for some in states]
    elif how == "episodes":
        states, actions = ([some[::-1] for some in part] for part in (states, actions))
    elif how == "actions":
        actions = [[1 - move for move in some] for some in actions]
    elif how == "returns":
        returns = [some + 100 for some in returns]
    elif how == "states":
        states = [[e + rng.normal(size=e.shape) for e in some] for some in states]
        actions = [[1 - move for move in some] for some in actions]
    elif how == "path":
        states = [[np.append(e[:-1] + 1, e[-1:], axis=0) for e in some] for some in states]
    return make_behaviours(
        PLACES,
        states=states,
        actions=actions,
        returns=returns,
        policies=[data.policy(i) for i in range(len(data))],
    )


def _actions(data, i):
    moves = data[i].lengths - 1
    return np.split(data[i].actions, np.cumsum(moves)[:-1])


def _cut(states, like):
    return np.split(states, np.cumsum([len(episode) for episode in like])[:-1])


def test_each_is_blind_where_it_should_be(method, walks, rng):
    how = BLIND[method.name]
    if how == "order" and getattr(method, "of", "states") != "states":
        how = "episodes"
    method.fit(walks)
    d = method.distances(walks)
    assert np.allclose(
        method.distances(_changed(walks, how, rng)), d, rtol=1e-4, atol=1e-6 * d.max()
    )


# What each must see: data of which only this is changed have other distances.
SEES = {
    "transitions": "order",
    "trajectories": "order",
    "terminal-state": "order",
    "encoder": "order",
    "trajectory-encoder": "actions",
    "state-actions": "actions",
    "returns": "returns of one",
    "actions": "policies",
    "parameters": "policies",
}


def test_each_sees_what_it_should(method, walks, rng):
    """The policies 0 and 3 are alike; after the change they are not."""
    how = SEES.get(method.name, "states")
    if getattr(method, "of", "states") != "states":
        how = {"state-actions": "actions", "transitions": "order", "moves": "order"}[method.of]
    alike = make_behaviours(
        PLACES,
        states=[list(walks[0 if i == 3 else i].episodes()) for i in range(6)],
        actions=[_actions(walks, 0 if i == 3 else i) for i in range(6)],
        returns=[walks[0 if i == 3 else i].returns for i in range(6)],
        policies=[walks.policy(0 if i == 3 else i) for i in range(6)],
    )
    if how in ("order", "actions", "states"):
        changed = _changed(alike, how, rng)
    elif how == "policies":
        changed = with_policies(alike, [alike.policy((i + 1) % 6) for i in range(6)])
    else:
        changed = _changed(alike, "returns", rng)
    both = _mixed(alike, changed, 3)
    d = method.fit(both).distances(both)
    assert method.distances(alike)[0, 3] < 1e-3 * d[0, 3]


def _mixed(data, other, number):
    """``data`` with one policy of ``other``."""
    rows = [other if i == number else data for i in range(len(data))]
    return make_behaviours(
        PLACES,
        states=[list(some[i].episodes()) for i, some in enumerate(rows)],
        actions=[_actions(some, i) for i, some in enumerate(rows)],
        returns=[some[i].returns for i, some in enumerate(rows)],
        policies=[some.policy(i) for i, some in enumerate(rows)],
    )


def test_policies_not_seen_in_fit_are_described(method, walks):
    method.fit(walks.select([0, 1, 2, 3]))
    d = method.distances(walks)
    assert np.isfinite(d).all()
    assert d[5, 2] > d[0, 3] or method.name in MAY_STAY_EMPTY


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
    twice = make_behaviours(
        [0.0, 0.0],
        states=[list(walks[0].episodes())] * 2,
        actions=[_actions(walks, 0)] * 2,
        returns=[walks[0].returns] * 2,
        policies=[walks.policy(0)] * 2,
    )
    assert method.fit(twice).distances(twice).max() < 1e-9  # float32 sums end differently


def test_constant_features_are_defined(method, walks):
    flat = [[np.pad(e, ((0, 0), (0, 1))) for e in walks[i].episodes()] for i in range(6)]
    data = make_behaviours(PLACES, states=flat)
    d = method.fit(data).distances(data)
    assert np.isfinite(d).all()
    assert d[0, 2] > 0


def test_one_short_episode_each_is_enough(method):
    data = make_behaviours(PLACES, episodes=1, length=3)
    d = method.fit(data).distances(data)
    assert np.isfinite(d).all()


def test_discrete_states_are_defined(method, rng):
    """States of a Discrete space come one-hot."""
    eye = np.eye(4, dtype=np.float32)
    states = [
        [eye[rng.choice(4, size=50, p=np.roll([0.7, 0.1, 0.1, 0.1], i))] for _ in range(3)]
        for i in range(6)
    ]
    data = make_behaviours(PLACES, states=states)
    d = method.fit(data).distances(data)
    assert np.isfinite(d).all()
    # A component a state: means have nowhere to go, and only weights tell how often.
    assert d[0, 1] > 0 or getattr(method, "adapt", "") == "m"


def test_data_without_what_a_method_needs_is_refused(method, walks):
    bare = VisitedStates.from_arrays([list(walks[i].episodes()) for i in range(6)])
    remedy = {"actions": "--actions", "policies": "--keep-policies", "returns": "give returns="}
    for need in method.traits.needs:
        with pytest.raises(UsageError, match=f"{method.name} .*{remedy[need]}"):
            method.fit(bare)
        with pytest.raises(UsageError, match=f"{method.name} .*{remedy[need]}"):
            clone(method).fit(walks).describe(bare)
    if not method.traits.needs:
        assert len(method.fit(bare).describe(bare)) == 6


def test_mistakes_are_named(method, walks):
    with pytest.raises(UsageError, match="not fitted"):
        method.describe(walks)
    method.fit(walks)
    with pytest.raises(BadData, match=r"3 .*1"):
        method.describe(make_behaviours([0.0], features=1))
    with pytest.raises(UsageError, match="VisitedStates"):
        method.distances(np.zeros((2, 2)))


def test_descriptions_of_another_method_are_refused(walks):
    a, b = (characterization(name, **SMALL.get(name, {})).fit(walks) for name in names()[:2])
    with pytest.raises(UsageError, match=f"descriptions by {b.name}"):
        a.distances(b.describe(walks))


def test_unknown_names_and_arguments():
    with pytest.raises(UsageError, match="did you mean supervector"):
        characterization("supervectr")
    with pytest.raises(UsageError, match=r"it takes .*n_components"):
        characterization("supervector", components=3)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04garbage", b"\x93NUMPY"])
def test_a_damaged_space_is_named(tmp_path, content):
    (tmp_path / "space.npz").write_bytes(content)
    with pytest.raises(BadStore, match="damaged"):
        Space.load(tmp_path)
    with pytest.raises(UsageError, match="holds no space"):
        Space.load(tmp_path / "nothing")


def test_a_space_with_pickled_content_is_not_run(tmp_path):
    np.savez(tmp_path / "space.npz", index=np.array([print], dtype=object))
    with pytest.raises(BadStore, match="damaged"):
        Space.load(tmp_path)


def test_the_names_of_the_package():
    assert pivec.characterization is characterization
