"""Supervectors of many runs: the same as with all states at once, and played no more than once."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import pytest

from pivec.characterizations import Supervector, Visitation
from pivec.parallel import using
from pivec.policies import name_policies
from pivec.states import Store, VisitedStates
from pivec.workflows import collect
from reproduction import pipeline as stages
from reproduction import supervectors as module
from reproduction.pipeline import Collection, Pipeline, Training
from reproduction.supervectors import chance_distances, described, papers_supervector, space_of

RANDOM = name_policies("random:12")


class TrainedPipeline(Pipeline):
    """A pipeline whose runs are trained: six random policies each."""

    def train(self, trainings):
        pass

    def policies(self, training, count=None, runs=None):
        from reproduction.pipeline import spread_evenly

        found = []
        for number in range(training.runs):
            group = f"{training.name}-{number}"
            for i, one in spread_evenly(list(enumerate(RANDOM[:6])), count):
                label = f"{group}/{i}"
                info = replace(one.info, label=label, group=group, step=10 * i, fingerprint=label)
                found.append(replace(one, info=info))
        return found


def training(name, runs):
    return Training(name, "CartPole-v1", name, runs, None, 0, {"generations": 6, "keep_every": 1})


@dataclass(frozen=True)
class Counts:
    components: int = 3
    background_states: int = 100_000


@pytest.fixture
def space():
    runs = training("one", 2), training("other", 1)
    return space_of(Collection(runs, 6, None, 0, kept=False), 4, Counts())


def test_the_background_has_so_many_policies_of_each_training(space, tmp_path):
    pipeline = TrainedPipeline(tmp_path, "smoke")
    assert [part.policies for part in space.background] == [2, 4]
    assert all(part.kept for part in space.background)
    assert not space.policies.kept
    few = space_of(replace(space.policies, policies=3), 100, Counts(3, 1000))
    assert [part.policies for part in few.background] == [3, 3]
    played = [need for need in space.needs(pipeline) if isinstance(need, Collection)]
    assert [(part.kept, part.policies) for part in played] == [
        (True, 2), (True, 4), (False, 4), (False, 2),  # six of each run
    ]  # fmt: skip
    whole = space_of(replace(space.policies, policies=3), None, Counts(3, 1000))
    assert [part.policies for part in whole.background] == [3, 3]
    played = [need for need in whole.needs(pipeline) if isinstance(need, Collection)]
    assert played == list(whole.background)  # nothing is played beside the background


def test_the_plan_counts_the_states_that_are_fitted_on_and_described(space, tmp_path):
    *_, fitted, described_ = space.needs(TrainedPipeline(tmp_path, "smoke"))
    assert fitted.amount == pytest.approx(50 * (2 * 2 + 4) * 6 * 501 / 1e6)
    assert described_.amount == pytest.approx(18 * 6 * 501 / 1e6)
    few = replace(space, states=1000).needs(TrainedPipeline(tmp_path, "smoke"))[-2]
    assert few.amount == pytest.approx(50 * 1000 / 1e6)


def test_another_kind_of_description_has_the_same_background_model(space, tmp_path):
    pipeline = TrainedPipeline(tmp_path, "smoke")
    ours, theirs = described(pipeline, space, Visitation), described(pipeline, space)
    assert len(list((tmp_path / "results").glob("background-*"))) == 1
    everyone = [one for each in space.policies.trainings for one in pipeline.policies(each)]
    data = collect("CartPole-v1", everyone, 6, 0)
    [file] = (tmp_path / "results").glob("background-*")
    with np.load(file) as learned:
        arrays = {**learned, "features": np.arange(data.n_features)}
        method = Visitation(3, of="states").restore(data.feature_names, arrays)
    x = ours.points.astype(float)
    slow = [[((a - b) ** 2).sum() for b in x] for a in x]
    np.testing.assert_allclose(slow, method.distances(data), atol=1e-6, rtol=1e-4)
    np.testing.assert_array_equal(ours.returns, theirs.returns)


def test_policies_play_on_the_chosen_engine_and_backend(tmp_path):
    def act(observations):
        with (tmp_path / "log").open("a") as file:
            file.write(f"{os.getpid()}\n")
        return np.zeros(len(observations), int)

    pipeline = Pipeline(tmp_path, "smoke", backend="gymnasium")
    own = str(os.getpid())
    for engine, here in (("serial", True), ("processes", False)):
        with using(engine, 1):
            store = tmp_path / engine
            pipeline.play("CartPole-v1", {"left": act}, 1, 0, store=store)
        assert Store(store).settings["backend"] == "gymnasium"
        assert (own in (tmp_path / "log").read_text().splitlines()) == here
        (tmp_path / "log").unlink()


def test_points_are_those_of_a_model_fitted_and_applied_at_once(space, tmp_path):
    pipeline = TrainedPipeline(tmp_path, "smoke")
    collection = space.policies
    found = described(pipeline, space)
    assert found.groups.tolist() == ["one-0"] * 6 + ["one-1"] * 6 + ["other-0"] * 6
    assert found.rows("one-1").tolist() == list(range(6, 12))

    everyone = [one for each in collection.trainings for one in pipeline.policies(each)]
    data = collect("CartPole-v1", everyone, 6, 0)
    chosen = [one.info.label for each in collection.trainings
              for one in pipeline.policies(each, 4 // each.runs)]  # fmt: skip
    method = papers_supervector(3, max_states=100_000).fit(data.select(chosen))
    distances = method.distances(data)
    x = found.points.astype(float)
    slow = [[((a - b) ** 2).sum() for b in x] for a in x]
    np.testing.assert_allclose(slow, distances, atol=1e-6, rtol=1e-4)
    np.testing.assert_array_equal(found.returns, data.mean_returns)


def test_known_states_are_not_played_again_and_nothing_is_the_second_time(
    space, tmp_path, monkeypatch
):
    pipeline = TrainedPipeline(tmp_path, "smoke")
    played = []

    def counted(environment, policies, *arguments, **options):
        played.extend(one.info.label for one in policies)
        return collect(environment, policies, *arguments, **options)

    monkeypatch.setattr(stages, "collect", counted)
    first = described(pipeline, space)
    assert len(played) == len(set(played)) == 18
    again = described(pipeline, space)
    assert len(played) == 18
    np.testing.assert_array_equal(first.points, again.points)


def test_batches_do_not_change_the_result(space, tmp_path, monkeypatch):
    whole = described(TrainedPipeline(tmp_path / "a", "smoke"), space)
    monkeypatch.setattr(module, "AT_ONCE", 5)
    parts = described(TrainedPipeline(tmp_path / "b", "smoke"), space)
    # Rounding depends on which states are summed in one block.
    np.testing.assert_allclose(whole.points, parts.points, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(whole.chance, parts.chance, rtol=1e-4)


def test_the_distance_by_chance_is_that_of_two_samples_of_one_policy():
    rng = np.random.default_rng(0)
    twice = [[rng.normal(size=(20, 2)) for _ in range(40)] for _ in range(60)]
    data = VisitedStates.from_arrays(twice)
    method = Supervector(2).fit(data)
    estimated = chance_distances(method.describe(data, influences=True)).mean()
    d = method.distances(data)
    true = d[np.triu_indices(len(d), 1)].mean()
    assert estimated == pytest.approx(true, rel=0.15)


def test_one_episode_tells_nothing_of_chance():
    data = VisitedStates.from_arrays([[np.zeros((3, 1))], [np.ones((3, 1)), np.zeros((3, 1))]])
    method = Supervector(1).fit(data)
    known = chance_distances(method.describe(data, influences=True))
    assert np.isnan(known).tolist() == [True, False]
