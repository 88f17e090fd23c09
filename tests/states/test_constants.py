"""Features that show nothing are loud."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pivec
from pivec.errors import PivecWarning
from pivec.rollouts.features import GreyCells
from pivec.states import warn_of_constants
from pivec.states.derived import constant_features
from pivec.workflows.compare import compare


def visited(columns, names=None):
    states = np.stack(columns, axis=1)
    return pivec.VisitedStates.from_arrays([[states[:5]], [states[5:]]], feature_names=names)


MOVING, STILL = np.arange(10.0), np.full(10, 0.5)


def test_most_features_constant_is_said_with_names():
    data = visited([STILL, MOVING, STILL, STILL, STILL])
    assert constant_features(data) == ["x[0]", "x[2]", "x[3]", "x[4]"]
    with pytest.warns(PivecWarning, match=r"4 of 5 features .*\(x\[0\], x\[2\], x\[3\], \.\.\.\)"):
        warn_of_constants(data)


def test_a_feature_that_differs_between_policies_only_is_not_constant():
    assert constant_features(visited([(MOVING > 4).astype(float)])) == []


def test_a_few_constants_and_values_nobody_visits_are_usual():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_constants(visited([STILL, MOVING, MOVING]))
        warn_of_constants(visited([STILL, STILL, MOVING % 2], ["x=0", "x=1", "x=2"]))


def nothing(observations):
    return np.zeros((len(observations), 3))


def test_a_comparison_of_what_coincides_warns(tmp_path):
    with (
        pytest.warns(PivecWarning, match="all distances are 0"),
        pytest.warns(PivecWarning, match="3 of 3 features are the same"),
        pytest.warns(PivecWarning, match="episodes that are all alike"),
    ):
        compare(
            "CartPole-v1", ["random:2"], tmp_path, episodes=2, features=nothing, method="gaussian"
        )
    page = (tmp_path / "report.html").read_text()
    assert "all distances are 0" in page
    assert "3 of 3 features are the same" in page


@pytest.mark.parametrize("axis", [-1, 1])
def test_four_stacked_frames_are_not_colours_with_transparency(axis):
    frames = np.zeros((1, 16, 22, 4), np.uint8)
    frames[..., 3] = 255  # only the newest shows something
    cells = GreyCells(levels=0)(np.moveaxis(frames, -1, axis))
    assert np.allclose(cells, 0.25)
