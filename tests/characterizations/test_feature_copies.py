"""Copies count once: of features in every description and explanation, of policies in the fit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pivec
from pivec.characterizations import background_share
from pivec.errors import PivecWarning
from pivec.explanations import (
    ComparisonFolder,
    explain_pair,
    explain_run,
    find_unusual,
    summarize_regions,
)
from pivec.states import VisitedStates, distinct_features, regrouped

PLACES = (0.0, 0.3, 1.0, 3.0)
NAMES = ("x", "x_copy", "y", "x_mirror", "rest")


def walks(seed=0, places=PLACES, episodes=12):
    rng = np.random.default_rng(seed)
    return [
        [
            rng.normal(place, 0.3, 2) + np.cumsum(rng.normal(0, 0.3, (30, 2)), axis=0)
            for _ in range(episodes)
        ]
        for place in places
    ]


def data_of(policies, change=lambda x: x, **known):
    return VisitedStates.from_arrays([[change(x) for x in own] for own in policies], **known)


def with_copies(states):
    """A scaled copy, a mirrored one with little noise, and a constant."""
    x, y = states.T
    noise = 0.01 * np.sin(1e3 * y)
    return np.column_stack([x, 3 * x + 1, y, noise - x, np.full(len(x), 2.0)])


def labelled(change, seed=0, **known):
    labels = [f"run-{k // 2}/step_{k % 2}" for k in range(len(PLACES))]
    groups = [f"run-{k // 2}" for k in range(len(PLACES))]
    return data_of(walks(seed), change, labels=labels, groups=groups, steps=[0, 1, 0, 1], **known)


@pytest.fixture(scope="module")
def plain():
    return labelled(lambda x: x, feature_names=("x", "y"))


@pytest.fixture(scope="module")
def copied():
    return labelled(with_copies, feature_names=NAMES)


def fitted(data, **settings):
    """Fit to one policy that has all episodes, whose order does not depend on the features."""
    whole = regrouped([data], [np.arange(data.n_episodes)])
    return pivec.Visitation(6, **settings).fit(whole)


def test_distances_are_those_without_copies_and_constants(plain, copied):
    expected = fitted(plain).intervals(plain)
    with pytest.warns(PivecWarning, match="copies") as caught:
        method = fitted(copied)
    assert str(caught[0].message).startswith("x, x_copy and x_mirror ")
    found = method.intervals(copied)
    np.testing.assert_allclose(found.distance, expected.distance, atol=1e-4)
    np.testing.assert_allclose(found.high, expected.high, atol=1e-4)
    assert method.column_names == ("x", "y", "rest", "Δx", "Δy", "Δrest")


def test_only_visitation_leaves_copies_out(copied):
    method = pivec.Supervector(4).fit(copied)
    assert method.means_.shape == (4, len(NAMES))


@pytest.mark.parametrize("n", [1, 2, 60, 600])
def test_distinct_features_are_those_of_the_whole_correlation_matrix(rng, n):
    rows = rng.normal(size=(500, n))
    copies = rng.permutation(n)[: n // 3]
    rows[:, copies] = -2.0 * rows[:, rng.integers(n, size=len(copies))] + 5.0
    rows[:, n // 2] = 7.0
    data = VisitedStates.from_arrays([[rows]])
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore")
        found = distinct_features(data)
        r = np.abs(np.nan_to_num(np.corrcoef(rows.astype(np.float32).T).reshape(n, n)))
    slow = []
    for j in range(n):
        if not (r[j, slow] > 0.99).any():
            slow.append(j)
    assert found.tolist() == slow


def test_correlated_features_and_few_states_are_no_copies(rng):
    x = rng.normal(size=(400, 1))
    data = VisitedStates.from_arrays([[np.hstack([x, x + 0.2 * rng.normal(size=x.shape)])]])
    assert distinct_features(data).tolist() == [0, 1]  # r = 0.98
    few = VisitedStates.from_arrays([[np.hstack([x[:5], x[:5]])]])
    assert distinct_features(few).tolist() == [0, 1]
    either = np.hstack([x > 0, x <= 0])
    choices = VisitedStates.from_arrays([[either]], feature_names=["x=0", "x=1"])
    assert distinct_features(choices).tolist() == [0, 1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, copied):
    path = tmp_path_factory.mktemp("copies") / "out"
    with pytest.warns(PivecWarning, match="x_mirror"):
        pivec.compare(copied, out=path, components=6)
    return path


def test_a_saved_space_places_new_policies_as_the_fitted_one(folder, copied, tmp_path):
    space = pivec.Space.load(folder)
    np.testing.assert_array_equal(
        space.method.describe(copied).points, space.descriptions.select(range(4)).points
    )
    new = data_of(walks(7, (1.0, 2.0)), with_copies, labels=("c", "d"), feature_names=NAMES)
    placed = pivec.compare(new, out=tmp_path / "new", space=folder)
    assert placed.space.method.column_names == space.method.column_names
    both = space.method.distances(new, copied)
    np.testing.assert_allclose(placed.distances[:2, 2:], both, atol=1e-9)


def test_the_report_warns_once_of_each_copy_and_shows_none(folder):
    page = (folder / "report.html").read_text()
    assert "copies of each other" in page
    opened = ComparisonFolder.open(folder)
    assert [feature.name for feature in opened.features] == ["x", "y", "rest"]
    assert len(opened.columns) == len(opened.background.column_names) == 6


def test_explanations_name_the_features_that_are_described(folder):
    a, b = "run-0/step_0", "run-1/step_1"
    pair = explain_pair(folder, a, b)
    assert [feature.name for feature in pair.features] == ["x", "y", "rest", "Δx", "Δy", "Δrest"]
    moves = [np.concatenate([x[:-1] for x in own]) for own in walks()]
    shift = np.diff(pair.parts.averages[:, :2], axis=0)[0]
    assert shift == pytest.approx((moves[3] - moves[0]).mean(axis=0), abs=1e-3)
    assert "copy" not in str(pair)
    assert explain_run(folder, "run-1").tracks
    assert find_unusual(folder).episodes
    assert summarize_regions(folder).features == ComparisonFolder.open(folder).features


def test_same_views_each_feature_once(copied):
    with pytest.warns(PivecWarning, match="x_copy"):
        found = pivec.same(copied[0], copied[3], method="visitation", components=4)
    names = " ".join(view.name for view in found.views)
    assert found.verdict == "different"
    assert "y" in names
    assert "copy" not in names
    assert "mirror" not in names


def test_copies_of_a_policy_do_not_move_the_distances_between_others():
    policies = walks(1, (0.0, 0.5, 1.0, 1.5, 3.0, 5.0), episodes=20)
    copies = walks(2, (5.0,) * 50, episodes=20)
    upper = np.triu_indices(6, 1)
    alone, crowded = (
        pivec.Visitation(32).fit(data).intervals(data[:6]).distance[upper]
        for data in (data_of(policies), data_of(policies + copies))
    )
    assert np.corrcoef(alone, crowded)[0, 1] > 0.99
    assert crowded @ alone / (alone @ alone) == pytest.approx(1.0, abs=0.1)


def test_the_fit_does_not_depend_on_the_order_of_policies():
    policies = walks(3, (0.0, 0.0, 0.0, 2.0))
    names = ["a", "b", "c", "d"]
    data = data_of(policies, labels=names)
    again = data_of(policies[::-1], labels=names[::-1])
    means = [pivec.Visitation(5).fit(part).means_ for part in (data, again)]
    np.testing.assert_array_equal(*means)


def test_copies_with_fewer_states_than_regions_can_be_fitted():
    policies = walks(4, (0.0,) * 20, episodes=2) + walks(5, (9.0,), episodes=2)
    data = data_of([[x[:4] for x in own] for own in policies])
    assert pivec.Visitation(40).fit(data).means_.shape == (40, 4)


def test_refits_are_silent(copied):
    with pytest.warns(PivecWarning, match="x_copy"):
        method = pivec.Visitation(4).fit(copied)
    assert background_share(method, copied)["moved"] >= 0.0  # warnings are errors
