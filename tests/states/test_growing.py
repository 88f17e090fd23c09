"""A store grows: more episodes, with the seeds they would have had, and never fewer."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import pivec
from pivec.errors import BadStore, PivecError, PivecWarning, UsageError
from pivec.options import CollectOptions
from pivec.policies import NetworkPolicy
from pivec.rollouts import play as table
from pivec.states import Store, arrow
from pivec.states.folders import LocalFolder
from pivec.workflows import Collector


def coin(observations, rng):
    return rng.integers(2, size=len(observations))


def lean(observations):
    return (observations[:, 2] > 0).astype(int)


def network(seed):
    rng = np.random.default_rng(seed)
    layer = rng.normal(size=(4, 2)).astype(np.float32), np.zeros(2, np.float32)
    return NetworkPolicy((layer,), activation="tanh", head="categorical")


POLICIES = {"net": network(0), "other": network(1), "random": "random", "coin": coin}


def collect(folder, episodes, policies=POLICIES, **options):
    return pivec.collect("CartPole-v1", policies, episodes, store=folder, **options)


def equal(a, b):
    names = ("states", "returns", "seeds", "terminated", "truncated", "episode_starts", "actions")
    return (
        a.labels == b.labels
        and np.array_equal(a.policy_starts, b.policy_starts)
        and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)
        and [info.metadata for info in a.policies] == [info.metadata for info in b.policies]
    )


@pytest.fixture
def played(monkeypatch):
    """The numbers of the episodes that are begun, by policy."""
    numbers = {}
    start = table.Rollout._start

    def noted(self, lane, number):
        numbers.setdefault(self._slot(lane).named.info.label, []).append(number)
        start(self, lane, number)

    monkeypatch.setattr(table.Rollout, "_start", noted)
    return numbers


@pytest.mark.bits
@pytest.mark.parametrize(
    "options",
    [{}, {"n_envs": 3, "actions": True}, {"max_states_per_policy": 150, "actions": True}],
    ids=["plain", "few lanes, actions", "thinned"],
)
def test_a_grown_store_is_what_would_have_been_collected_at_once(tmp_path, options, played):
    once = pivec.collect("CartPole-v1", POLICIES, 20, **options)
    played.clear()
    for episodes in (4, 5, 20):
        grown = collect(tmp_path, episodes, **options)
    assert {label: sorted(numbers) for label, numbers in played.items()} == {
        label: list(range(20)) for label in POLICIES
    }
    assert equal(grown, once)
    assert equal(pivec.load(tmp_path), once)
    assert len(list(tmp_path.glob("*.arrow"))) == len(POLICIES)
    if "max_states_per_policy" in options:
        factors = {record.every for record in once.records}
        assert len(factors) > 1 or factors > {1}


def test_a_store_grows_in_processes_too(tmp_path):
    few = {"net": POLICIES["net"], "random": "random"}
    collect(tmp_path, 2, few)
    grown = collect(tmp_path, 5, few, jobs=2)
    assert equal(grown, pivec.collect("CartPole-v1", few, 5))


def test_policies_may_have_different_numbers_of_episodes(tmp_path, played):
    collector = Collector("CartPole-v1", POLICIES, CollectOptions(3), tmp_path)
    data = collector.run({"net": 9, "coin": 5})
    assert np.diff(data.policy_starts).tolist() == [9, 3, 3, 5]
    more = collector.run({"net": 4, "random": 6})
    assert sorted(played["random"]) == list(range(6))
    memory = Collector("CartPole-v1", POLICIES, CollectOptions(3)).run({"net": 4, "random": 6})
    assert equal(more, memory)
    assert np.diff(more.policy_starts).tolist() == [4, 3, 6, 3]
    assert np.diff(pivec.load(tmp_path).policy_starts).tolist() == [9, 3, 6, 5]
    for episodes in (3, 9):
        once = pivec.collect("CartPole-v1", POLICIES, episodes)
        with pytest.warns(PivecWarning) if episodes < 9 else nullcontext():
            assert equal(collect(tmp_path, episodes), once)


def test_what_was_loaded_before_is_to_be_loaded_again(tmp_path):
    data = collect(tmp_path, 2, {"lean": lean})
    collect(tmp_path, 3, {"lean": lean})
    with pytest.raises(BadStore, match=r"lean-.*load it again"):
        _ = data.states


def test_asked_for_fewer_it_gives_the_first_and_keeps_all(tmp_path, played):
    all_of_them = collect(tmp_path, 6, actions=True)
    played.clear()
    with pytest.warns(PivecWarning, match="6 episodes.* 4 policies.*--episodes 6"):
        few = collect(tmp_path, 2, actions=True)
    assert not played
    assert equal(few, pivec.collect("CartPole-v1", POLICIES, 2, actions=True))
    assert few.policy_states(0).base is not None  # mapped, not copied
    assert equal(pivec.load(tmp_path), all_of_them)


def test_fewer_of_a_thinned_policy_are_said_to_be_thinned(tmp_path):
    collect(tmp_path, 20, {"lean": lean}, max_states_per_policy=100)
    with pytest.warns(PivecWarning, match="1 of these are thinned"):
        collect(tmp_path, 2, {"lean": lean}, max_states_per_policy=100)


def test_more_episodes_than_a_limit_of_states_can_hold_are_refused(tmp_path):
    collect(tmp_path, 5, {"lean": lean}, max_states_per_policy=100)
    with pytest.raises(UsageError, match=r"max_states_per_policy is 12.* 80 "):
        collect(tmp_path, 20, {"lean": lean}, max_states_per_policy=12)
    with pytest.raises(UsageError, match=r"max_states_per_policy = 100.* 200 "):
        collect(tmp_path, 20, {"lean": lean}, max_states_per_policy=200)


def test_recorded_policies_have_what_they_have(tmp_path):
    collect(tmp_path / "old", 3, {"lean": lean})
    policies = ["random", f"store:{tmp_path / 'old'}"]
    for episodes, counts in ((2, [2, 3]), (5, [5, 3])):
        data = collect(tmp_path / "new", episodes, policies)
        assert np.diff(data.policy_starts).tolist() == counts
    assert np.array_equal(data["lean"].states, pivec.load(tmp_path / "old").states)


def test_policies_are_kept_beside_the_longer_file(tmp_path):
    for episodes in (2, 4):
        data = collect(tmp_path, episodes, {"net": POLICIES["net"]}, keep_policies=True)
    assert data.policy(0).fingerprint == POLICIES["net"].fingerprint
    assert len(list(tmp_path.glob("*.arrow"))) == 1
    assert pivec.Store(tmp_path).verify() == []


@pytest.mark.parametrize("moment", ["before the file", "before the index", "before the old goes"])
def test_a_kill_while_a_store_grows_loses_only_what_is_in_flight(
    tmp_path, monkeypatch, moment, played
):
    collect(tmp_path, 3)
    monkeypatch.setattr("pivec.states.store._SECONDS", -1.0)  # the index is written each time
    monkeypatch.setattr("pivec.states.store._TIME_SHARE", 0)
    with monkeypatch.context() as patched:
        done = []

        def killed(*_):
            raise KeyboardInterrupt

        def write(record, *more):
            if moment == "before the file" and done:
                killed()
            done.append(record.info.label)
            if moment == "before the index":
                patched.setattr(Store, "_write_index", killed)
            elif moment == "before the old goes":
                patched.setattr(LocalFolder, "remove", killed)
            return arrow.encode(record, *more)

        patched.setattr("pivec.states.store.encode", write)
        with pytest.raises(KeyboardInterrupt):
            collect(tmp_path, 8)
    kept = pivec.load(tmp_path)
    assert set(np.diff(kept.policy_starts)) <= {3, 8}
    first = pivec.collect("CartPole-v1", POLICIES, 3)
    for label in POLICIES:
        states = first[label].states
        assert np.array_equal(kept[label].states[: len(states)], states)
    played.clear()
    assert equal(collect(tmp_path, 8), pivec.collect("CartPole-v1", POLICIES, 8))
    assert len(list(tmp_path.glob("*.arrow"))) == len(POLICIES)
    assert sorted(played[done[0]]) == list(range(8))  # by the collection in memory alone


def test_a_longer_file_is_known_under_another_label(tmp_path):
    """A policy that was renamed and grew, by a run that had no time for the index."""
    collect(tmp_path, 3, {"a": POLICIES["net"]})
    index = (tmp_path / "store.json").read_bytes()
    [short] = tmp_path.glob("*.arrow")
    content = short.read_bytes()
    data = collect(tmp_path, 5, {"b": POLICIES["net"]})
    (tmp_path / "store.json").write_bytes(index)
    short.write_bytes(content)
    with pivec.Store(tmp_path).writing():
        pass
    store = pivec.Store(tmp_path)
    assert list(store) == ["a"]
    assert np.array_equal(store.load().states, data.states)
    assert len(list(tmp_path.glob("*.arrow"))) == 1


def test_nothing_is_built_on_a_damaged_file(tmp_path):
    collect(tmp_path, 2, {"lean": lean})
    [file] = tmp_path.glob("*.arrow")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadStore, match=r"lean-.*checksum"):
        collect(tmp_path, 4, {"lean": lean})


def test_a_policy_that_fails_leaves_what_was_there(tmp_path):
    calls = []

    def tired(observations):
        calls.append(1)
        if len(calls) > 200:
            raise ValueError("no more")
        return (observations[:, 2] > 0).astype(int)

    before = collect(tmp_path, 1, {"tired": tired})
    with pytest.raises(PivecError, match="no more"):
        collect(tmp_path, 50, {"tired": tired})
    assert np.array_equal(pivec.load(tmp_path).states, before.states)
