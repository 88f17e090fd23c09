"""Statistics add up."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import BadData
from pivec.mixtures import Statistics


def some(seed, shape=(3, 2)):
    rng = np.random.default_rng(seed)
    return Statistics(rng.random(shape[0]), rng.random(shape), rng.random(shape), -2.0, 5)


def test_sum_has_the_sums_of_all_parts():
    a, b = some(0), some(1)
    total = a + b
    for name in ("counts", "sums", "squares"):
        np.testing.assert_array_equal(getattr(total, name), getattr(a, name) + getattr(b, name))
    assert (total.log_likelihood, total.n_states) == (-4.0, 10)
    assert total.mean_log_likelihood == pytest.approx(-0.4)


def test_zero_changes_nothing_and_has_no_mean():
    zero = Statistics.zero(3, 2)
    np.testing.assert_array_equal((some(0) + zero).sums, some(0).sums)
    assert np.isnan(zero.mean_log_likelihood)


def test_statistics_of_other_shape_or_kind_do_not_add_up():
    with pytest.raises(BadData, match=r"\(3, 2\) and \(4, 2\)"):
        some(0) + some(0, (4, 2))
    with pytest.raises(TypeError):
        some(0) + 1
