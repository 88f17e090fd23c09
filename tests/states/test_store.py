"""The store: whole files or none, checked when loaded, and a stopped run goes on."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

import pivec
from pivec.errors import BadStore, PivecError, PivecWarning, UsageError
from pivec.files import digest_of
from pivec.states import arrow, json_digest
from pivec.states.folders import LocalFolder


def lean(observations):
    return (observations[:, 2] > 0).astype(int)


def away(observations):
    return (observations[:, 2] < 0).astype(int)


POLICIES = {"lean": lean, "away": away, "random": "random"}


def collect(folder, policies=POLICIES, **options):
    return pivec.collect("CartPole-v1", policies, store=folder, **({"episodes": 3} | options))


def equal(a, b):
    return a.labels == b.labels and np.array_equal(a.states, b.states)


def forget(folder, keep=0):
    """Leave only the first policies in the index, as a killed run does."""
    store = pivec.Store(folder)
    store.rows = dict(list(store.rows.items())[:keep])
    store.flush()


def test_what_comes_back_is_what_went_in(tmp_path):
    memory = pivec.collect("CartPole-v1", POLICIES, episodes=3, actions=True)
    disk = collect(tmp_path / "s", actions=True)
    loaded = pivec.load(tmp_path / "s")
    for data in (disk, loaded):
        assert equal(memory, data)
        assert np.array_equal(memory.actions, data.actions)
        assert data.policies == memory.policies
        for name in ("returns", "seeds", "terminated", "truncated", "episode_starts"):
            assert np.array_equal(getattr(memory, name), getattr(data, name))
        assert data.environment == "CartPole-v1"
        assert data.feature_names == memory.feature_names


def test_other_tools_read_the_files(tmp_path):
    data = collect(tmp_path)
    [file] = tmp_path.glob("lean-*.arrow")
    with pa.memory_map(str(file)) as source:
        table = pa.ipc.open_file(source).read_all()
    assert table.column("return").to_pylist() == data["lean"].returns.tolist()
    assert np.allclose(table.column("states")[0].as_py(), next(data["lean"].episodes()))


def test_states_are_mapped_not_read(tmp_path):
    states = collect(tmp_path).policy_states(0)
    assert not states.flags.owndata
    assert not states.flags.writeable


def test_a_rerun_plays_only_what_is_missing(tmp_path, monkeypatch):
    first = collect(tmp_path, {"lean": lean})
    calls = []
    monkeypatch.setattr(
        "pivec.states.store.encode",
        lambda record, *more: calls.append(record.info.label) or arrow.encode(record, *more),
    )
    both = collect(tmp_path)
    assert calls
    assert "lean" not in calls
    assert equal(both["lean"], first)
    assert equal(both, pivec.collect("CartPole-v1", POLICIES, episodes=3))
    assert pivec.load(tmp_path).labels == both.labels


def test_another_policy_behind_the_same_label_is_played_anew(tmp_path):
    weights = np.ones((4, 2), np.float32), np.zeros(2, np.float32)
    one = pivec.policies.networks.NetworkPolicy((weights,), activation="tanh", head="categorical")
    two = pivec.policies.networks.NetworkPolicy(
        ((-weights[0], weights[1]),), activation="tanh", head="categorical"
    )
    collect(tmp_path, {"a": one})
    data = collect(tmp_path, {"a": two})
    assert equal(data, pivec.collect("CartPole-v1", {"a": two}, episodes=3))


def test_other_settings_are_refused(tmp_path):
    collect(tmp_path)
    with pytest.raises(UsageError, match=r"max_steps = None.* 9 "):
        collect(tmp_path, max_steps=9)
    with pytest.raises(UsageError, match=r"seed = 0.* 1 "):
        collect(tmp_path, seed=1)


def test_what_was_collected_before_a_failure_is_kept_and_used(tmp_path):
    def broken(observations):
        raise ValueError("no")

    with pytest.raises(PivecError, match=r"broken.*ValueError: no .*1 of 2"):
        collect(tmp_path, {"random": "random", "broken": broken})
    assert pivec.load(tmp_path).labels == ("random",)


def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path, monkeypatch):
    def full(folder, name, content):
        if name.startswith("random"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(folder, name, content)

    write = LocalFolder.write
    monkeypatch.setattr(LocalFolder, "write", full)
    with pytest.raises(PivecError, match="full"):
        collect(tmp_path)
    monkeypatch.undo()
    assert set(pivec.load(tmp_path).labels) == {"lean", "away"}
    assert equal(collect(tmp_path), pivec.collect("CartPole-v1", POLICIES, episodes=3))


def test_files_that_a_killed_run_left_are_adopted(tmp_path):
    data = collect(tmp_path)
    forget(tmp_path, keep=1)
    (tmp_path / ".half.arrow.0123.tmp").write_bytes(b"half")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.arrow")}
    assert equal(collect(tmp_path), data)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.arrow")}
    assert not list(tmp_path.glob(".*.tmp"))


def test_an_empty_store_binds_to_nothing(tmp_path):
    def broken(observations):
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(PivecError, match="ValueError: no"):
            collect(tmp_path, {"broken": broken}, seed=2)
    assert equal(collect(tmp_path), pivec.collect("CartPole-v1", POLICIES, episodes=3))
    with pytest.raises(UsageError, match=r"seed = 0.* 2 "):
        collect(tmp_path, seed=2)


def test_left_files_of_other_settings_are_not_adopted(tmp_path):
    collect(tmp_path, {"lean": lean}, seed=1)
    (tmp_path / "store.json").unlink()
    with pytest.warns(PivecWarning, match="lean-"):
        data = collect(tmp_path, {"lean": lean})
    assert equal(data, pivec.collect("CartPole-v1", {"lean": lean}, episodes=3))


def test_a_lost_index_is_made_again_of_whole_files(tmp_path):
    data = collect(tmp_path)
    text = (tmp_path / "store.json").read_text()
    (tmp_path / "store.json").write_text(text.replace('"mean_return": ', '"mean_return": 1'))
    with pytest.raises(BadStore, match=r"store.json.*checksum"):
        collect(tmp_path)
    (tmp_path / "store.json").unlink()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.arrow")}
    assert equal(collect(tmp_path), data)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.arrow")}


def test_what_is_gone_is_collected_again(tmp_path):
    data = collect(tmp_path)
    next(tmp_path.glob("lean-*.arrow")).unlink()
    with pytest.raises(BadStore, match=r"lean.*pivec collect"):
        pivec.load(tmp_path)
    with pytest.warns(PivecWarning, match="lean"):
        assert equal(collect(tmp_path), data)


def test_files_just_written_are_not_read_again(tmp_path, monkeypatch):
    collect(tmp_path, {"lean": lean})
    read = []
    monkeypatch.setattr(
        "pivec.states.store.digest_of", lambda path: read.append(path.name) or digest_of(path)
    )
    collect(tmp_path)
    assert len(read) == 1  # the old one, to check it


SLOW = """
import sys, time, numpy as np, pivec
def slow(observations):
    time.sleep(0.0005)
    return np.zeros(len(observations), int)
policies = {f"p{i}": slow for i in range(400)}
pivec.collect("CartPole-v1", policies, episodes=5, store=sys.argv[1], n_envs=5)
"""


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_loses_at_most_the_policies_in_flight(tmp_path, sign):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(tmp_path)], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("*.arrow"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(sign)
    process.wait(timeout=60)
    files = list(tmp_path.glob("*.arrow"))
    assert 3 <= len(files) < 400

    def still(observations):
        return np.zeros(len(observations), int)

    labels = [f"p{i}" for i in range(8)]
    data = collect(tmp_path, dict.fromkeys(labels, still), episodes=5)
    assert {path for path in files if path.exists()} == set(files)
    assert equal(data, pivec.collect("CartPole-v1", dict.fromkeys(labels, still), episodes=5))


def test_a_changed_file_is_found(tmp_path):
    collect(tmp_path)
    store = pivec.Store(tmp_path)
    assert store.verify() == []
    file = next(tmp_path.glob("lean-*.arrow"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    [problem] = store.verify()
    assert file.name in problem
    assert "lean" in problem
    with pytest.raises(BadStore, match=file.name):
        pivec.load(tmp_path)
    file.unlink()
    with pytest.raises(BadStore, match=f"{file.name} is missing"):
        pivec.load(tmp_path)


def test_a_truncated_file_is_named(tmp_path):
    collect(tmp_path)
    file = next(tmp_path.glob("lean-*.arrow"))
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(BadStore, match=file.name):
        _ = pivec.load(tmp_path, verify=False)


def edit_index(folder, change):
    """Change what the index says, under a checksum that fits."""
    index = json.loads((folder / "store.json").read_text())
    change(index)
    del index["sha256"]
    index["sha256"] = json_digest(index)
    (folder / "store.json").write_text(json.dumps(index))


@pytest.mark.parametrize(("number", "advice"), [(99, "upgrade"), (1, "collect into another")])
def test_other_formats_are_refused(tmp_path, number, advice):
    collect(tmp_path)
    edit_index(tmp_path, lambda index: index.update(format=number))
    with pytest.raises(BadStore, match=f"format {number}, .*format 5: {advice}"):
        pivec.load(tmp_path)


@pytest.mark.parametrize("field", ["label", "group", "step", "fingerprint", "file"])
def test_a_row_that_lacks_a_field_is_named(tmp_path, field):
    collect(tmp_path)
    edit_index(tmp_path, lambda index: index["policies"][0].pop(field))
    with pytest.raises(BadStore, match=f"store.json.*{field}"):
        pivec.load(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "x"}', "\x00"])
def test_a_damaged_index_is_named(tmp_path, content):
    (tmp_path / "store.json").write_text(content)
    with pytest.raises(BadStore, match=r"store.json"):
        pivec.load(tmp_path)


def test_an_index_cannot_point_outside(tmp_path):
    collect(tmp_path)
    store = pivec.Store(tmp_path)
    store.rows["lean"]["file"] = "../secret"
    store.flush()
    with pytest.raises(BadStore, match=r"../secret"):
        pivec.load(tmp_path)


def test_no_store_is_a_usage_mistake(tmp_path):
    with pytest.raises(UsageError, match=str(tmp_path)):
        pivec.load(tmp_path)


def test_two_processes_cannot_write_at_once(tmp_path):
    collect(tmp_path)
    store = pivec.Store(tmp_path)
    with store.writing(), pytest.raises(PivecError, match=f"writing to {tmp_path}"):
        collect(tmp_path, {"new": lean})


def test_policies_are_kept_on_request(tmp_path):
    weights = np.ones((4, 2), np.float32), np.zeros(2, np.float32)
    network = pivec.policies.networks.NetworkPolicy(
        (weights,), activation="tanh", head="categorical"
    )
    policies = {"net": network, "random": "random"}
    kept = collect(tmp_path / "kept", policies, keep_policies=True)
    assert kept.select(["net"]).policy(0).fingerprint == network.fingerprint
    with pytest.raises(UsageError, match=r"'random'.*--keep-policies"):
        kept.policy(1)
    with pytest.raises(UsageError, match=r"'net'.*--keep-policies"):
        collect(tmp_path / "not", policies).policy(0)
    assert pivec.collect("CartPole-v1", policies, episodes=1).policy(0) is network
