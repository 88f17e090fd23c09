"""Large stores: policies lie together in shards, whose files follow from the policies alone."""

from __future__ import annotations

import itertools
import os
import pickle

import numpy as np
import pyarrow as pa
import pytest

import pivec
from pivec.errors import BadStore, PivecWarning
from pivec.policies import NetworkPolicy, PolicyInfo
from pivec.rollouts import Episode
from pivec.states import import_recorded, record_of
from pivec.states.folders import LocalFolder

N = 30
SETTINGS = {"environment": "CartPole-v1", "policies": True}
NAMES = ("a", "b")


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Stores of more than 10 policies have shards, of about 8 policies."""
    monkeypatch.setattr("pivec.states.store.MAX_SINGLE_FILES", 10)
    monkeypatch.setattr("pivec.states.store._MEAN_BYTES", 8 << 10)
    monkeypatch.setattr("pivec.states.store._SECONDS", 1000.0)


def network(seed):
    layer = np.random.default_rng(seed).normal(size=(2, 2)).astype(np.float32), np.zeros(2, "f4")
    return NetworkPolicy((layer,), activation="tanh", head="categorical")


def record(number, episodes=3, actions=np.int64):
    rng = np.random.default_rng(number)
    played = []
    for k in range(episodes):
        states = rng.normal(size=(4 + (number + k) % 3, 2)).astype(np.float32)
        moves = None if actions is None else np.arange(len(states) - 1).astype(actions)
        played.append(Episode(states, moves, float(k), 10 * number + k, True, False))
    info = PolicyInfo(f"run/{number}", "run", number, "here", {"step": number}, f"f{number}")
    return record_of(info, played, policy=network(number) if number % 2 else None)


def store_at(path, settings=SETTINGS):
    return pivec.Store(path, settings, NAMES)


def write(path, numbers=range(N), **options):
    store = store_at(path)
    records = [record(number, **options) for number in numbers]
    with store.writing():
        store.relabel([record.info for record in records])
        for policy in records:
            if store.n_episodes(policy.info) < len(policy.episodes):
                store.add(policy)
        store.reorder([f"run/{number}" for number in range(N)])
    return store


def content(path):
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != ".lock"}


def same(data, numbers=range(N), **options):
    records = [record(number, **options) for number in numbers]
    assert data.labels == tuple(r.info.label for r in records)
    assert data.policies == tuple(r.info for r in records)
    for kept, made in zip(data.records, records, strict=True):
        assert np.array_equal(kept.episodes, made.episodes)
        for a, b in zip(kept.read_arrays(), made.read_arrays(), strict=True):
            assert np.array_equal(a, b)
            assert a is None or a.dtype == b.dtype
        actors = [getattr(r.read_policy(), "fingerprint", None) for r in (kept, made)]
        assert actors[0] == actors[1]


def test_what_comes_back_is_what_went_in(tmp_path):
    store = write(tmp_path)
    shards = list(tmp_path.glob("shard-*.arrow"))
    assert 1 < len(shards) < 12
    same(store.load())
    same(pivec.load(tmp_path))
    same(pivec.Store(tmp_path).load(["run/7", "run/3"]), [7, 3])
    assert pivec.Store(tmp_path).verify() == []
    assert not pivec.load(tmp_path).policy_states(0).flags.owndata


def test_few_policies_have_a_file_each(tmp_path):
    write(tmp_path, range(10))
    assert len(list(tmp_path.glob("run_*.arrow"))) == 10
    same(pivec.load(tmp_path), range(10))


def test_other_tools_read_shards(tmp_path):
    data = write(tmp_path).load()
    returns = 0
    for file in sorted(tmp_path.glob("*.arrow")):
        with pa.memory_map(str(file)) as source:
            returns += pa.ipc.open_file(source).read_all().num_rows
    assert returns == data.n_episodes


@pytest.mark.parametrize("seconds", [-1.0, 1000.0], ids=["a file at once", "together"])
def test_files_follow_from_the_policies_alone(tmp_path, monkeypatch, seconds):
    write(tmp_path / "a")
    monkeypatch.setattr("pivec.states.store._SECONDS", seconds)
    write(tmp_path / "b", np.random.default_rng(0).permutation(N).tolist())
    write(tmp_path / "c", range(5))
    write(tmp_path / "c", range(20))
    write(tmp_path / "c")
    write(tmp_path / "d", episodes=1)
    write(tmp_path / "d", [*range(9), *range(20, N)], episodes=2)
    write(tmp_path / "d")
    for other in "bcd":
        assert content(tmp_path / other) == content(tmp_path / "a")


def test_a_policy_that_comes_or_grows_changes_few_shards(tmp_path):
    write(tmp_path, [n for n in range(N) if n != 11])
    before = {name for name in content(tmp_path) if name.endswith(".arrow")}
    write(tmp_path)
    after = {name for name in content(tmp_path) if name.endswith(".arrow")}
    assert len(before - after) == len(after - before) == 1


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("first", [0, 1], ids=["new", "growing"])
def test_a_kill_at_any_moment_loses_nothing_that_was_written(tmp_path, monkeypatch, first, step):
    write(tmp_path / "whole")
    operations = [(LocalFolder, "write"), (LocalFolder, "remove"), (pivec.Store, "_write_index")]
    monkeypatch.setattr("pivec.states.store._PENDING_BYTES", 20_000)  # several files
    for moment in itertools.count(0, step):
        path = tmp_path / str(moment)
        if first:
            write(path, range(N - 5), episodes=2)
        calls = itertools.count()
        with monkeypatch.context() as patched:
            for owner, name in operations:
                patched.setattr(owner, name, stopping(getattr(owner, name), calls, moment))
            try:
                write(path)
                break
            except KeyboardInterrupt:
                pass
        there = [row["states"] for row in store_at(path).rows.values()]
        with store_at(path).writing():
            pass
        kept = pivec.Store(path)
        assert kept.verify() == []
        assert len(kept) >= max(len(there), first * (N - 5))
        for label in kept:
            number, episodes = int(label.split("/")[1]), kept.rows[label]["episodes"]
            assert episodes == 3 or (first and episodes == 2)
            same(kept.load([label]), [number], episodes=episodes)
        write(path)
        assert content(path) == content(tmp_path / "whole")
    assert moment > 20


def stopping(function, calls, moment):
    """Kill the run before the call of this number; nothing is done any more after it."""

    def stopped(*arguments, **options):
        if next(calls) >= moment:
            raise KeyboardInterrupt
        return function(*arguments, **options)

    return stopped


def test_a_lost_index_is_made_again(tmp_path):
    write(tmp_path)
    before = content(tmp_path)
    (tmp_path / "store.json").unlink()
    (tmp_path / ".shard.tmp").write_bytes(b"half")
    write(tmp_path)
    assert content(tmp_path) == before


def flip(file, at):
    text = bytearray(file.read_bytes())
    text[at] ^= 1
    file.write_bytes(text)


def test_damage_is_named_with_policy_and_file(tmp_path):
    store = write(tmp_path)
    file = max(store.rows.values(), key=lambda row: row["batches"])["file"]
    rows = [row for row in store.rows.values() if row["file"] == file]
    flip(tmp_path / file, len((tmp_path / file).read_bytes()) // 2)
    [problem] = store.verify()
    assert file in problem
    assert rows[0]["label"] in problem
    with pytest.raises(BadStore, match=file):
        pivec.load(tmp_path)
    numbers = [row["step"] for row in store.rows.values() if row["file"] != file]
    same(pivec.Store(tmp_path).load([f"run/{number}" for number in numbers]), numbers)
    # A new policy lies beside it: nothing is built on the damaged file.
    with store.writing():
        store.add(record(50))
        store.reorder([rows[0]["label"], "run/50"])
    assert file in pivec.Store(tmp_path).verify()[0]
    (tmp_path / file).unlink()
    with pytest.warns(PivecWarning, match="run/"):
        write(tmp_path, range(N))
    assert pivec.Store(tmp_path).verify() == []


def test_a_shard_that_cannot_be_opened_is_named(tmp_path):
    store = write(tmp_path)
    file = next(row["file"] for row in store.rows.values() if row["batches"] > 1)
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:500])
    assert "run/" in store.verify()[0]
    with pytest.raises(BadStore, match=file):
        pivec.load(tmp_path, verify=False)


def test_actions_of_two_kinds_are_not_in_one_shard(tmp_path):
    for path, order in (("a", range(N)), ("b", reversed(range(N)))):
        store = store_at(tmp_path / path)
        with store.writing():
            for number in order:
                store.add(record(number, actions=(np.int64, np.float32)[number % 5 == 0]))
            store.reorder([f"run/{number}" for number in range(N)])
        for number in (5, 6):
            states = store.load([f"run/{number}"])
            same(states, [number], actions=(np.int64, np.float32)[number % 5 == 0])
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_what_is_read_of_a_shard_as_recorded_states_differs(tmp_path):
    write(tmp_path / "a")
    data = import_recorded([f"store:{tmp_path / 'a'}"], tmp_path / "b")
    assert len({info.fingerprint for info in data.policies}) == N


def test_a_policy_is_replaced_by_another_of_its_name(tmp_path):
    write(tmp_path)
    changed = record(4, episodes=2)
    changed = record_of(
        PolicyInfo("run/4", "run", 4, "here", {}, "other"), list(changed.as_episodes())
    )
    store = store_at(tmp_path)
    with store.writing():
        store.add(changed)
    kept = pivec.Store(tmp_path)
    assert len(kept) == N
    assert kept.load(["run/4"]).policies[0].fingerprint == "other"
    assert kept.verify() == []


def test_no_handles_stay_open_and_little_is_sent(tmp_path):
    write(tmp_path)
    before = len(os.listdir("/dev/fd"))
    data = pivec.load(tmp_path)
    assert sum(len(states) for states in data.episodes()) == data.n_states
    assert len(os.listdir("/dev/fd")) == before
    assert len(pickle.dumps(data)) < 900 * N
    same(pickle.loads(pickle.dumps(data)))


def test_a_store_that_changed_is_to_be_loaded_again(tmp_path):
    data = write(tmp_path, episodes=2).load()
    write(tmp_path)
    with pytest.raises(BadStore, match=r"shard-.*load it again"):
        data.policy_states(0)


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="the system does not list maps")
def test_shards_that_were_replaced_are_not_mapped_any_more(tmp_path):
    data = write(tmp_path, episodes=2).load()
    assert len(data.states) == data.n_states
    del data
    write(tmp_path)
    with open("/proc/self/maps", encoding="utf-8") as file:
        assert not [line for line in file if str(tmp_path) in line and "deleted" in line]
