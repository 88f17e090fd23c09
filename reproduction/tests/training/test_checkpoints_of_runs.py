"""Where checkpoints lie in a run."""

from __future__ import annotations

import numpy as np
import pytest

from reproduction.training.runs import drawn, due_after, spread, wanted


@pytest.mark.parametrize(("total", "count"), [(100_000, 50), (7, 100), (5, 2), (1_000, 1)])
def test_spread_from_the_first_to_the_last(total, count):
    steps = spread(total, count)
    assert steps[-1] == total
    assert len(steps) == min(count, total + 1)
    if count > 1:
        assert steps[0] == 0
        gaps = np.diff(steps)
        assert gaps.max() - gaps.min() <= 1


def test_wanted_are_a_number_of_them_given_ones_or_every_few():
    assert wanted(3, 100) == [0, 50, 100]
    assert wanted([50, 7], 100) == [7, 50]
    assert wanted(None, 29, every=10) == [0, 10, 20]


def test_due_steps_are_ends_of_updates():
    ends = list(range(0, 2001, 100))
    due = due_after(ends, spread(2000, 7))
    assert set(due) <= set(ends)
    assert (due[0], due[-1], len(due)) == (0, 2000, 7)
    # More than there are updates: one after each.
    assert due_after(ends, spread(2000, 500)) == ends


def test_a_quarter_is_drawn_without_repetition():
    some = drawn(128, 0.25, seed=0, generation=10)
    assert len(set(some)) == 32
    assert set(some) <= set(range(128))
    assert some == drawn(128, 0.25, seed=0, generation=10)
    assert some != drawn(128, 0.25, seed=0, generation=20)
    assert some != drawn(128, 0.25, seed=1, generation=10)
    assert drawn(3, 0.01, seed=0, generation=0)
