"""Stages are kept under the hash of what decides them, and shared."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pivec.errors import PivecError, UsageError
from pivec.policies import load_policies
from reproduction.pipeline import Collection, Pipeline, digest_of, spread_evenly

pytest.importorskip("stable_baselines3")

TINY = {"steps": 128, "n_envs": 2, "n_steps": 32, "batch_size": 32, "n_epochs": 1}


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return Pipeline(tmp_path_factory.mktemp("cache"), "smoke")


def tiny(pipeline, runs=2, **more):
    return pipeline.training("CartPole-v1", "ppo", runs, checkpoints=3, **TINY, **more)


def test_more_runs_add_to_fewer(pipeline):
    one, two = tiny(pipeline, 1), tiny(pipeline, 2)
    assert one.key == two.key
    pipeline.train([one])
    first = pipeline.run_folder(one, 0) / "run.json"
    written = first.stat().st_mtime_ns
    assert pipeline.is_trained(one)
    assert not pipeline.is_trained(two)
    pipeline.train([two])
    assert pipeline.is_trained(two)
    assert first.stat().st_mtime_ns == written


def test_other_settings_are_another_training(pipeline):
    keys = {
        tiny(pipeline).key,
        tiny(pipeline, clip_range=0.1).key,
        tiny(pipeline, first=1).key,
        pipeline.training("CartPole-v1", "ppo", 1).key,
        pipeline.training("Pendulum-v1", "ppo", 1).key,
        Pipeline(pipeline.cache, "small").training("CartPole-v1", "ppo", 1).key,
        Pipeline(pipeline.cache, "smoke", seed=1).training("CartPole-v1", "ppo", 1).key,
    }
    assert len(keys) == 7


def test_ppo_and_a2c_do_not_begin_with_the_same_seed(pipeline):
    assert (
        pipeline.training("CartPole-v1", "ppo", 5).seed + 5
        < pipeline.training("Acrobot-v1", "a2c", 5).seed
    )


def test_policies_carry_the_name_of_their_training(pipeline):
    policies = pipeline.policies(tiny(pipeline, name="clip 0.3"), 2)
    assert [one.info.group for one in policies] == ["clip 0.3-0"] * 2 + ["clip 0.3-1"] * 2
    assert [one.info.label for one in policies][:2] == ["clip 0.3-0/step_64", "clip 0.3-0/step_128"]
    assert [one.info.step for one in policies] == [64, 128] * 2


def test_networks_are_saved_whether_or_not_an_update_came_between(pipeline):
    # Two updates of 64 steps; saved after 32, 64, 96 and 128.
    training = pipeline.training("CartPole-v1", "ppo", 1, checkpoints=4, decay=[], **TINY)
    assert (training.saves(), training.kept, len(training.updates())) == (
        [32, 64, 96, 128], [0, 64, 128], 3,
    )  # fmt: skip
    policies = pipeline.policies(training)
    assert [one.info.step for one in policies] == [32, 64, 96, 128]
    weights = [one.policy.fingerprint for one in policies]
    assert weights[1] == weights[2]
    assert len(set(weights)) == 3
    # The untrained one is there, since the first was saved before an update.
    kept = load_policies(pipeline.run_folder(training, 0))
    assert [one.info.step for one in kept] == [0, 64, 128]
    assert [one.policy.fingerprint for one in kept] == [weights[0], weights[1], weights[3]]
    # Each has a sample of its own, also of equal networks.
    assert (
        len({one.info.fingerprint for one in policies})
        == len({one.info.label for one in policies})
        == 4
    )
    assert [one.info.step for one in pipeline.policies(training, 2)] == [64, 128]
    data = pipeline.collect(Collection((training,), episodes=3))
    _, first, second, _ = (data.select([one.info.label]).states for one in policies)
    assert first.shape != second.shape or (first != second).any()


def test_updates_of_the_paper_are_rarer_than_its_policies(tmp_path):
    pipeline = Pipeline(tmp_path, "paper")
    lander = pipeline.training("LunarLander-v3", "ppo", 5)
    assert [len(lander.updates(count)) for count in (50, 100, 500)] == [50, 62, 62]
    assert set(lander.updates(50)) <= set(lander.updates(100)) <= set(lander.kept)
    assert len(pipeline.training("LunarLander-v3", "a2c", 5).updates(500)) == 500


def test_what_trained_is_told(pipeline):
    training = tiny(pipeline)
    pipeline.train([training])
    old = pipeline.run_folder(training, 1) / "run.json"
    content = json.loads(old.read_text())
    old.write_text(json.dumps({key: content[key] for key in ("run", "result")}))
    [told] = pipeline.provenance([training, Collection((training,), 1), training])
    old.write_text(json.dumps(content))
    assert (told["algorithm"], told["runs"], told["settings"]["n_steps"]) == ("ppo", 2, 32)
    assert told["processors"] == [content["processor"], None]
    assert told["versions"][0]["numpy"] == np.__version__
    assert told["seconds"][0] > 0
    assert told["seconds"][1] is None


def test_states_are_collected_once(pipeline):
    collection = Collection((tiny(pipeline),), episodes=2, policies=2)
    data = pipeline.collect(collection)
    assert (data.n_policies, data.n_episodes) == (4, 8)
    marks = {path: path.stat().st_mtime_ns for path in pipeline.store_folder(collection).iterdir()}
    again = pipeline.collect(collection)
    np.testing.assert_array_equal(data.states, again.states)
    assert marks == {path: path.stat().st_mtime_ns for path in marks}
    assert Collection((tiny(pipeline),), episodes=3, policies=2).key != collection.key


def test_an_interrupted_collection_goes_on(pipeline, monkeypatch):
    collection = Collection((tiny(pipeline),), episodes=2, policies=2, seed=1)
    from reproduction import pipeline as module

    def half(env, policies, *arguments, **more):
        real(env, policies[:2], *arguments, **more)
        raise KeyboardInterrupt

    real = module.collect
    monkeypatch.setattr(module, "collect", half)
    with pytest.raises(KeyboardInterrupt):
        pipeline.collect(collection)
    assert not pipeline.is_collected(collection)
    monkeypatch.setattr(module, "collect", real)
    assert pipeline.collect(collection).n_policies == 4
    assert pipeline.is_collected(collection)


def test_results_are_computed_once_for_the_same_inputs(tmp_path):
    pipeline = Pipeline(tmp_path, "smoke")
    calls = []

    def make():
        calls.append(1)
        return {"numbers": np.arange(3.0), "names": ["a", "b"], "one": 1.5}

    for _ in range(2):
        result = pipeline.computed("sums", {"n": 3}, make)
        np.testing.assert_array_equal(result["numbers"], [0, 1, 2])
        assert result["names"].tolist() == ["a", "b"]
        assert float(result["one"]) == 1.5
    assert len(calls) == 1
    pipeline.computed("sums", {"n": 4}, make)
    assert len(calls) == 2


def test_a_damaged_result_is_told(tmp_path):
    pipeline = Pipeline(tmp_path, "smoke")
    pipeline.computed("sums", {}, lambda: {"a": 1})
    [file] = (tmp_path / "results").iterdir()
    file.write_bytes(b"nothing")
    with pytest.raises(PivecError, match=r"sums-.*cannot be read"):
        pipeline.computed("sums", {}, lambda: {"a": 1})


def test_an_unknown_scale_is_told(tmp_path):
    with pytest.raises(UsageError, match="smoke, small, paper"):
        Pipeline(tmp_path, "huge")


def test_evenly_from_the_first_to_the_last():
    assert spread_evenly(list(range(101)), 5) == [0, 25, 50, 75, 100]
    assert spread_evenly(list(range(10)), None) == list(range(10))
    assert spread_evenly(list(range(10)), 1) == [9]


def test_digests_follow_the_content_alone():
    assert digest_of({"a": 1, "b": [1, 2]}) == digest_of({"b": [1, 2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})
