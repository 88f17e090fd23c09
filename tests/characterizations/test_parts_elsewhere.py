"""Whatever goes through states gives the same bits where other processes do, and sends little."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest

import pivec
from elsewhere import Elsewhere
from pivec.characterizations import characterization, measure
from pivec.errors import BadData
from pivec.mixtures import ArraySource, Mixture, Passes, fit_mixture, policy_statistics
from pivec.parallel import using
from pivec.states import VisitedStates, over_policies

FIT = {"n_components": 4, "n_init": 1, "max_iter": 3}
METHODS = {
    "visitation": FIT,
    "supervector": FIT | {"max_states": 3000},
    "gaussian": {"covariance": "full"},
    "discretization": {},
    "transitions": {},
    "mmd": {"n_frequencies": 8},
    "terminal-state": {"standardise": True},
    "returns": {},
}


def walk(n, place, rng):
    return np.cumsum(rng.normal((place, 0.0, 0.0), 1.0, (n, 3)), axis=0).astype(np.float32)


def in_memory():
    rng = np.random.default_rng(1)
    walks = [[walk(100 + 40 * i, i, rng) for i in range(4)] for _ in range(9)]
    returns = [[float(len(episode)) for episode in policy] for policy in walks]
    return VisitedStates.from_arrays(walks, returns=returns)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The same policies in a store."""
    data = in_memory()
    folder = tmp_path_factory.mktemp("stored")
    store = pivec.Store(folder, {"environment": "Walk-v0"}, data.feature_names)
    with store.writing():
        for record in data.records:
            store.add(record)
    return folder


def with_policies():
    """Policies that played in this process, and cannot be sent."""
    lean = {f"{i}": lambda rows, i=i: (rows[:, i % 4] > i / 9).astype(int) for i in range(7)}
    data = pivec.collect("CartPole-v1", lean, episodes=9)
    assert data.policy(0) is not None
    return data


DATA = {
    "memory": lambda _: in_memory(),
    "policies": lambda _: with_policies(),
    "store": pivec.load,
    "touched": lambda folder: (data := pivec.load(folder), data.states)[0],
    "reordered": lambda folder: pivec.load(folder).select([8, 2, 5, 0, 1]),
    "sampled": lambda f: pivec.load(f).sample_episodes(3, np.random.default_rng(0)),
}


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(sys.modules["pivec.mixtures.model"], "block_rows", lambda _: 1500)
    monkeypatch.setattr("pivec.states.derived._VALUES", 600)
    monkeypatch.setattr("pivec.characterizations.sampling._RUN_BYTES", 8 * 64 * 4 * 8)


def everything(name, data):
    method = characterization(name, **METHODS[name]).fit(data)
    described = method.describe(data, influences=method.traits.influences)
    plain = method.describe(data)
    return {
        **method.fitted_arrays(),
        **described.arrays,
        **{f"plain {key}": values for key, values in plain.arrays.items()},
        "vectors": np.array(described.vectors),
        "points": np.array(described.points),
    }


def check_same(one, other):
    assert one.keys() == other.keys()
    for key, values in one.items():
        assert values.dtype == other[key].dtype, key
        assert values.tobytes() == other[key].tobytes(), key


@pytest.mark.bits
@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, "visitation") for kind in DATA]
    + [(kind, name) for kind in ("policies", "sampled") for name in list(METHODS)[1:]],
)
def test_a_characterization_has_the_same_bits_elsewhere(kind, name, stored):
    data = DATA[kind](stored)
    here = everything(name, data)
    with using(Elsewhere()) as engine:
        there = everything(name, data)
    assert engine.parts > 5
    check_same(here, there)


@pytest.mark.bits
@pytest.mark.parametrize("device", ["numpy", "auto"])
def test_a_fit_has_the_same_bits_elsewhere(device, stored):
    def fitted():
        run = fit_mixture(pivec.load(stored), 5, device=device, subsample=1000, max_iter=4)
        return {"mixture": np.concatenate([run.mixture.means, run.mixture.variances])} | {
            "history": np.array(run.history)
        }

    with using(Elsewhere()) as engine:
        there = fitted()
    assert engine.parts > 10
    check_same(fitted(), there)


@pytest.mark.bits
@pytest.mark.parametrize("name", ["visitation", "gaussian"])
def test_rows_of_distances_have_the_same_bits_elsewhere(name, monkeypatch):
    monkeypatch.setattr(
        "pivec.characterizations.measurement._ROWS_BYTES", 8 * 9 * 2
    )  # two rows at a time
    data = in_memory()
    method = characterization(name, **METHODS[name]).fit(data)
    described = method.describe(data, influences=method.traits.influences)

    def measured():
        result = measure(method, described, data, k=3, whole=5)
        return {
            "neighbours": result.neighbours,
            "distances": result.neighbour_distances,
            "pairs": result.pairs.distance,
        }

    with using(Elsewhere()) as engine:
        there = measured()
    assert engine.parts >= 5  # intervals of some describe policies again
    check_same(measured(), there)


@pytest.mark.parametrize("kind", ["store", "touched", "reordered", "sampled"])
def test_states_of_a_store_stay_there(kind, stored):
    data = DATA[kind](stored)
    mixture = Mixture([1.0], np.zeros((1, 3)), np.ones((1, 3)), np.zeros(3), np.ones(3))
    with using(Elsewhere()) as engine:
        policy_statistics(data, data.state_starts, mixture)
    assert engine.sent < data.n_states * data.n_features * 4 / 5
    assert len(pickle.dumps(data)) < data.n_states * data.n_features * 4 / 5


def test_states_in_memory_are_sent_once():
    data = in_memory()
    with using(Elsewhere()) as engine:
        list(over_policies(len, data.select([0])))  # a single part: not worth sending
        assert engine.parts == engine.sent == 0
        list(over_policies(len, data))
    assert 1.0 < engine.sent / data.states.nbytes < 1.2


def test_a_bad_row_is_named_by_its_number(rng):
    states = rng.normal(size=(3000, 2))
    states[2345, 1] = np.nan
    mixture = Mixture([1.0], np.zeros((1, 2)), np.ones((1, 2)), np.zeros(2), np.ones(2))
    with using(Elsewhere()):
        passes = Passes(ArraySource(states))
        with pytest.raises(BadData, match="row 2345, column 1 is nan"):
            passes(mixture)
