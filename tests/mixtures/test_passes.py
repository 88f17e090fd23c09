"""Pooled moments and the subsample, over blocks of any size."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from mixture_reference import ENGINES, clusters

from pivec.errors import BadData
from pivec.mixtures import ArraySource, Passes
from pivec.mixtures.fit import overview


def look(states, engine="numpy", subsample=500, seed=0):
    passes = Passes(ArraySource(states), engine)
    return overview(passes, subsample, np.random.default_rng(seed))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(sys.modules["pivec.mixtures.model"], "block_rows", lambda _: 777)


@pytest.mark.parametrize("engine", ENGINES)
def test_center_and_scale_are_exact_where_float32_would_not_be(engine):
    rng = np.random.default_rng(0)
    states = (1000 + np.arange(3) + 0.01 * rng.normal(size=(20_000, 3))).astype(np.float32)
    got = look(states, engine)
    wide = states.astype(np.float64)
    np.testing.assert_allclose(got.center, wide.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(got.scale, wide.std(axis=0), rtol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.usefixtures("small_blocks")
def test_blocks_merge_into_the_moments_of_the_whole(engine):
    states = clusters(10_000, 4)
    states += np.linspace(0, 50, 10_000, dtype=np.float32)[:, None]
    got = look(states, engine)
    wide = states.astype(np.float64)
    np.testing.assert_allclose(got.center, wide.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(got.scale, wide.std(axis=0), rtol=1e-12)


def test_the_subsample_does_not_depend_on_the_blocks(monkeypatch):
    states = clusters(10_000, 4)
    whole = look(states).subsample
    monkeypatch.setattr(sys.modules["pivec.mixtures.model"], "block_rows", lambda _: 777)
    np.testing.assert_array_equal(look(states).subsample, whole)
    assert whole.shape == (500, 4)
    assert len(np.unique(whole, axis=0)) == 500


def test_few_states_are_all_in_the_subsample():
    states = clusters(100, 2)
    np.testing.assert_array_equal(look(states).subsample, states)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6, 1e-30])
def test_a_constant_column_has_scale_one(value):
    states = clusters(5000, 2)
    states[:, 1] = value
    for engine in ENGINES:
        got = look(states, engine)
        assert got.scale[1] == 1
        assert got.center[1] == pytest.approx(np.float32(value))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.usefixtures("small_blocks")
def test_a_bad_value_is_named_by_its_row_of_all(engine):
    states = clusters(5000, 3)
    states[4321, 1] = np.nan
    with pytest.raises(BadData, match="row 4321, column 1 is nan"):
        look(states, engine)
