"""Supervectors of many runs: the same as with all states at once, and played no more than once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pivec.characterizations.supervector import Supervector
from pivec.collection import collect
from pivec.paper import described as module
from pivec.paper.described import background_of, chance_distances, described
from pivec.paper.workshop import Collection, Training, Workshop
from pivec.policies import name_policies
from pivec.states import VisitedStates

RANDOM = name_policies("random:12")


class TrainedShop(Workshop):
    """A workshop whose runs are trained: six random policies each."""

    def train(self, trainings):
        pass

    def policies(self, training, count=None, runs=None):
        from pivec.paper.workshop import spread_evenly

        found = []
        for number in range(training.runs):
            group = f"{training.name}-{number}"
            for i, one in spread_evenly(list(enumerate(RANDOM[:6])), count):
                label = f"{group}/{i}"
                info = replace(one.info, label=label, group=group, step=10 * i, fingerprint=label)
                found.append(replace(one, info=info))
        return found


def training(name, runs):
    return Training(name, "CartPole-v1", name, runs, None, 0, {"steps": 1})


@pytest.fixture
def plan():
    runs = training("one", 2), training("other", 1)
    collection = Collection(runs, 6, None, 0, kept=False)
    return collection, background_of(collection, 4, components=3, states=100_000)


def test_the_background_has_so_many_policies_of_each_training(plan):
    collection, background = plan
    assert [one.policies for one in background.collections] == [2, 4]
    assert all(one.kept for one in background.collections)
    few = background_of(replace(collection, policies=3), 100, 3, 1000)
    assert [one.policies for one in few.collections] == [3, 3]


def test_points_are_those_of_a_model_fitted_and_applied_at_once(plan, tmp_path):
    shop = TrainedShop(tmp_path, "smoke")
    collection, background = plan
    found = described(shop, collection, background)
    assert found.groups.tolist() == ["one-0"] * 6 + ["one-1"] * 6 + ["other-0"] * 6
    assert found.rows("one-1").tolist() == list(range(6, 12))

    everyone = [one for each in collection.trainings for one in shop.policies(each)]
    data = collect("CartPole-v1", everyone, 6, 0)
    chosen = [one.info.label for each in collection.trainings
              for one in shop.policies(each, 4 // each.runs)]  # fmt: skip
    method = Supervector(3, max_states=100_000).fit(data.select(chosen))
    distances = method.distances(data)
    x = found.points.astype(float)
    slow = [[((a - b) ** 2).sum() for b in x] for a in x]
    np.testing.assert_allclose(slow, distances, atol=1e-6, rtol=1e-4)
    np.testing.assert_array_equal(found.returns, data.mean_returns)


def test_known_states_are_not_played_again_and_nothing_is_the_second_time(
    plan, tmp_path, monkeypatch
):
    shop = TrainedShop(tmp_path, "smoke")
    collection, background = plan
    played = []

    def counted(environment, policies, *arguments, **options):
        played.extend(one.info.label for one in policies)
        return collect(environment, policies, *arguments, **options)

    monkeypatch.setattr(module, "collect", counted)
    first = described(shop, collection, background)
    assert len(played) == len(set(played)) == 18 - 8
    again = described(shop, collection, background)
    assert len(played) == 10
    np.testing.assert_array_equal(first.points, again.points)


def test_batches_do_not_change_the_result(plan, tmp_path, monkeypatch):
    collection, background = plan
    whole = described(TrainedShop(tmp_path / "a", "smoke"), collection, background)
    monkeypatch.setattr(module, "AT_ONCE", 5)
    parts = described(TrainedShop(tmp_path / "b", "smoke"), collection, background)
    # Rounding depends on which states are summed in one block.
    np.testing.assert_allclose(whole.points, parts.points, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(whole.chance, parts.chance, rtol=1e-4)


def test_the_distance_by_chance_is_that_of_two_samples_of_one_policy():
    rng = np.random.default_rng(0)
    twice = [[rng.normal(size=(20, 2)) for _ in range(40)] for _ in range(60)]
    data = VisitedStates.from_arrays(twice)
    method = Supervector(2).fit(data)
    estimated = chance_distances(method, data).mean()
    d = method.distances(data)
    true = d[np.triu_indices(len(d), 1)].mean()
    assert estimated == pytest.approx(true, rel=0.15)


def test_one_episode_tells_nothing_of_chance():
    data = VisitedStates.from_arrays([[np.zeros((3, 1))], [np.ones((3, 1)), np.zeros((3, 1))]])
    method = Supervector(1).fit(data)
    assert np.isnan(chance_distances(method, data)).tolist() == [True, False]
