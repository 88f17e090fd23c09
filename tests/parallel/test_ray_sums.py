"""Fits and descriptions on a Ray cluster: the same bits, also when a node goes."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import pivec
from pivec.characterizations import characterization, measure
from pivec.errors import BadData
from pivec.mixtures import ArraySource, Mixture, Passes, fit_mixture
from pivec.parallel import using
from pivec.states import VisitedStates

pytest.importorskip("ray", reason="Ray is not installed")


def walks(n=24, length=300):
    rng = np.random.default_rng(0)
    policies = [[rng.normal(i % 5, 1.0, (length, 3)) for _ in range(4)] for i in range(n)]
    return VisitedStates.from_arrays(policies, labels=[f"policy {i}" for i in range(n)])


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    data = walks()
    folder = tmp_path_factory.mktemp("walks")
    store = pivec.Store(folder, {"environment": "Walk-v0"}, data.feature_names)
    with store.writing():
        for record in data.records:
            store.add(record)
    return folder


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    """Cut parts small here; the blocks of a run of policies, which workers cut, are whole."""
    monkeypatch.setattr(sys.modules["pivec.mixtures.model"], "block_rows", lambda _: 4000)
    monkeypatch.setattr("pivec.characterizations.sampling._RUN_BYTES", 8 * 64 * 4 * 12)
    monkeypatch.setattr("pivec.characterizations.measurement._ROWS_BYTES", 8 * 24 * 5)


def compared(data):
    """Everything of a comparison that goes through states or descriptions in parts."""
    method = characterization("visitation", n_components=4, n_init=1, max_iter=5).fit(data)
    described = method.describe(data, influences=True)
    measured = measure(method, described, k=4, whole=10)
    return [
        *method.fitted_arrays().values(),
        described.points,
        described.arrays["influences"],
        measured.neighbours,
        measured.neighbour_distances,
        measured.pairs.distance,
    ]


def bits(statistics):
    return [statistics.sums.tobytes(), statistics.squares.tobytes(), statistics.log_likelihood]


@pytest.fixture
def mixture(rng):
    return Mixture([0.5, 0.5], rng.normal(size=(2, 3)), np.ones((2, 3)), np.zeros(3), np.ones(3))


@pytest.mark.parametrize("kind", ["store", "memory"])
def test_a_comparison_has_the_same_bits(kind, stored, ray_engine):
    data = pivec.load(stored) if kind == "store" else walks()
    with using(ray_engine):
        there = compared(data)
    for mine, other in zip(compared(data), there, strict=True):
        assert mine.dtype == other.dtype
        assert mine.tobytes() == other.tobytes()


def test_a_fit_from_the_first_step_on_has_the_same_bits(stored, ray_engine):
    def fitted():
        run = fit_mixture(pivec.load(stored), 3, init="kmeans", warm_start=False, max_iter=4)
        return run.history, run.mixture.means.tobytes()

    with using(ray_engine):
        there = fitted()
    assert there == fitted()


def test_a_bad_row_is_named_by_its_number(rng, mixture, ray_engine):
    states = rng.normal(size=(20_000, 3))
    states[12_345, 1] = np.inf
    with using(ray_engine), pytest.raises(BadData, match="row 12345, column 1 is inf"):
        Passes(ArraySource(states))(mixture)


def passes_while_a_node_goes(data, mixture, engine, kill, seconds):
    """Go through states again and again, during and after the end of a node."""
    gone = threading.Event()
    timer = threading.Timer(seconds, lambda: (kill(), gone.set()))
    with using(engine):
        passes = Passes(data)
        timer.start()
        while not gone.is_set():
            yield passes(mixture)
        for _ in range(3):
            yield passes(mixture)


def test_a_node_that_goes_costs_its_parts_alone(stored, mixture, ray_engine, add_node):
    data = pivec.load(stored)
    here = bits(Passes(data)(mixture))
    for there in passes_while_a_node_goes(data, mixture, ray_engine, add_node()[1], 0.5):
        assert bits(there) == here


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(20))
def test_a_node_may_go_at_any_moment(moment, stored, mixture, ray_engine, add_node):
    data = pivec.load(stored)
    here = bits(Passes(data)(mixture))
    seconds = np.random.default_rng(moment).uniform(0.0, 3.0)
    for there in passes_while_a_node_goes(data, mixture, ray_engine, add_node()[1], seconds):
        assert bits(there) == here
