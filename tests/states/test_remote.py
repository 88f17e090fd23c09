"""Stores elsewhere: on object storage, and on other file systems that fsspec knows."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
import uuid

import numpy as np
import pytest

import pivec
from pivec.errors import BadStore, PivecError, PivecWarning, UsageError
from pivec.states import folders
from pivec.states.folders import open_folder

POLICIES = ["random:3"]


@pytest.fixture(scope="module")
def server():
    """An object store on this machine, with a bucket."""
    pytest.importorskip("moto.server", reason="moto's server is not installed")
    import boto3
    from moto.server import ThreadedMotoServer

    served = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    served.start()
    address = "http://{}:{}".format(*served.get_host_and_port())
    client = boto3.client(
        "s3", endpoint_url=address, region_name="us-east-1",
        aws_access_key_id="key", aws_secret_access_key="secret",
    )  # fmt: skip
    client.create_bucket(Bucket="bucket")
    yield address
    served.stop()


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """A cache of the test's own, and credentials."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    folders._cache.cache_clear()
    yield
    folders._cache.cache_clear()


@pytest.fixture(params=["s3", "memory"])
def place(request, monkeypatch):
    """A folder that is not there yet."""
    if request.param == "s3":
        monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("server"))
        return f"s3://bucket/{uuid.uuid4().hex}/runs"
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    return f"memory://{uuid.uuid4().hex}/runs"


@pytest.fixture
def bucket(server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    return f"s3://bucket/{uuid.uuid4().hex}"


def collect(place, episodes=2, policies=POLICIES, **options):
    return pivec.collect("CartPole-v1", policies, episodes, store=place, **options)


def equal(a, b):
    return a.labels == b.labels and np.array_equal(a.states, b.states)


def forget_copies():
    for path in folders._cache().glob("*/*"):
        path.unlink()


def content(place):
    folder = open_folder(place)
    return {name: folder.read(name) for name in folder.names() if name != ".lock"}


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_store_elsewhere_has_the_files_it_would_have_here(place, tmp_path, jobs):
    collect(place, keep_policies=True)
    data = collect(place, 4, keep_policies=True, jobs=jobs)  # it grows
    collect(tmp_path / "here", 4, keep_policies=True)
    assert content(place) == content(tmp_path / "here")
    forget_copies()
    loaded = pivec.load(place)
    assert equal(loaded, data)
    assert not loaded.policy_states(0).flags.owndata  # mapped
    assert pivec.Store(place).verify() == []
    assert pivec.Store(place).path == place


def test_shards_elsewhere(place, tmp_path, monkeypatch):
    monkeypatch.setattr("pivec.states.store.MAX_SINGLE_FILES", 3)
    data = collect(place, policies=["random:8"])
    collect(tmp_path / "here", policies=["random:8"])
    assert content(place) == content(tmp_path / "here")
    forget_copies()
    assert equal(pivec.load(place), data)


def test_damage_there_is_found_and_damage_here_is_mended(place):
    data = collect(place)
    [name] = [name for name in open_folder(place).names() if name.startswith("random-1")]
    copy = open_folder(place).local(name)
    good = copy.read_bytes()
    bad = good[:600] + bytes([good[600] ^ 1]) + good[601:]
    copy.write_bytes(bad)
    assert equal(pivec.load(place), data)
    copy.unlink()
    open_folder(place).write(name, bad)
    assert f"{place}/{name}" in pivec.Store(place).verify()[0]
    with pytest.raises(BadStore, match=name):
        pivec.load(place)
    open_folder(place).remove(name)
    with pytest.raises(BadStore, match=f"{name} is missing"):
        pivec.load(place)
    with pytest.warns(PivecWarning, match="random-1"):
        assert equal(collect(place), data)


def test_a_second_writer_is_noticed_and_nothing_is_lost(place):
    collect(place, policies=["random:1"])
    settings, names = pivec.Store(place).settings, pivec.Store(place).feature_names
    played = pivec.collect("CartPole-v1", ["random:3"], 2)
    first = pivec.Store(place, settings, names)
    with pytest.raises(PivecError, match=f"has written to {place}"), first.writing():  # noqa: PT012
        first.add(played.records[1])
        second = pivec.Store(place, settings, names)
        with second.writing():
            second.add(played.records[2])
    with pivec.Store(place).writing():
        pass
    assert set(pivec.Store(place)) == {"random-0", "random-1", "random-2"}
    assert pivec.Store(place).verify() == []
    assert equal(collect(place), played)


def test_recorded_states_and_other_processes(place, tmp_path):
    data = collect(place)
    assert equal(collect(tmp_path / "here", policies=[f"store:{place}"]), data)
    sent = pickle.dumps(pivec.load(place))
    forget_copies()
    assert equal(pickle.loads(sent), data)


def states_at(place):
    return {name for name in open_folder(place).names() if name.endswith(".arrow")}


SLOW = """
import sys, time, numpy as np, pivec
def slow(observations):
    time.sleep(0.002)
    return np.zeros(len(observations), int)
policies = {f"p{i}": slow for i in range(200)}
pivec.collect("CartPole-v1", policies, episodes=3, store=sys.argv[1], n_envs=3)
"""


@pytest.mark.slow
def test_a_killed_run_loses_at_most_the_policies_in_flight(bucket):
    process = subprocess.Popen([sys.executable, "-c", SLOW, bucket], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(states_at(bucket)) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    files = states_at(bucket)
    assert 3 <= len(files) < 200

    def still(observations):
        return np.zeros(len(observations), int)

    policies = {f"p{i}": still for i in range(4)}
    data = collect(bucket, 3, policies)
    assert files <= states_at(bucket)
    assert equal(data, pivec.collect("CartPole-v1", policies, 3))


def test_the_command_line_takes_uris(bucket, run, tmp_path):
    done = run("collect", "CartPole-v1", "random:2", "--episodes", 2, "--out", bucket)
    assert f"Store: {bucket}" in done.out
    assert "2 policies; all files are intact" in run("store", "verify", bucket).out
    assert "random-1" in run("store", "ls", bucket).out
    run("export", bucket, tmp_path / "x.parquet", "--level", "episodes")
    assert (tmp_path / "x.parquet").exists()
    run("compare", bucket, "--method", "gaussian", "--out", "here", "-q")
    assert pivec.load("here").n_policies == 2
    said = run("compare", "CartPole-v1", "random:3", "--out", bucket, code=2).err
    assert "pivec collect --out" in said
    assert not (tmp_path / "s3:").exists()


def test_what_is_wrong_is_a_sentence(server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    with pytest.raises(PivecError, match=r"s3://nobody-has-this/runs.*NO_SUCH_BUCKET"):
        collect("s3://nobody-has-this/runs")
    with pytest.raises(UsageError, match="s3://nobody-has-this/runs"):
        pivec.load("s3://nobody-has-this/runs")
    monkeypatch.setattr(folders, "_ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(PivecError, match=r"s3://bucket/runs.*NETWORK_CONNECTION"):
        pivec.load("s3://bucket/runs")
    with pytest.raises(UsageError, match="nothing://"):
        pivec.load("nothing://bucket/runs")
    with pytest.raises(UsageError, match="s3://"):
        pivec.load("s3://")


def test_packages_that_are_missing_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(PivecError, match=r"memory://.*pip install fsspec"):
        pivec.load("memory://bucket/runs")


def test_secrets_are_kept_nowhere(server, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    endpoint = server.removeprefix("http://")
    name = uuid.uuid4().hex
    options = f"?scheme=http&endpoint_override={endpoint}&session=hidden"
    place = f"s3://KEYNAME:PASSWORD@bucket/{name}{options}"
    collect(place, policies=["random:1"])
    with pytest.warns(PivecWarning) as said:
        collect(place, 1, ["random:1"])
    with pytest.raises(UsageError) as wrong:
        collect(place, seed=1)
    texts = [str(warning.message) for warning in said] + [str(wrong.value)]
    texts += [part.decode("latin-1") for part in content(place).values()]
    texts += [str(path) for path in folders._cache().rglob("*")]
    texts.append(str(pivec.Store(place).path))
    assert len(texts) > 5
    assert any(f"s3://bucket/{name}?scheme=http" in text for text in texts)
    assert not [t for t in texts if "KEYNAME" in t or "PASSWORD" in t or "hidden" in t]


def test_files_of_this_machine_may_be_named_by_uri(tmp_path):
    data = collect(f"file://{tmp_path}/a b")
    assert equal(pivec.load(tmp_path / "a b"), data)
    assert equal(pivec.load(f"file://{tmp_path}/a%20b"), data)


def test_without_a_cache_copies_are_temporary(place, monkeypatch, tmp_path):
    data = collect(place)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    folders._cache.cache_clear()
    assert equal(pivec.load(place), data)


def test_copies_that_nobody_used_go(place):
    collect(place)
    [copy, *others] = folders._cache().glob("*/*")
    os.utime(copy, (time.time() - 30 * 86_400,) * 2)
    folders._cache.cache_clear()
    assert folders._cache()
    assert not copy.exists()
    assert all(path.exists() for path in others)
