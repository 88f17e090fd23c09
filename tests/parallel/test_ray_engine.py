"""The Ray engine: joining a cluster, shipping code, files that nodes do not see, and lost nodes."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import pivec
from pivec.errors import BadStore, MissingExtra, PivecError, UsageError
from pivec.parallel import WorkFailed, make_engine, n_threads, using

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


@pytest.fixture
def disconnected(monkeypatch, ray_address):
    """This process, as if it were connected to no cluster."""
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)


def test_an_address_that_does_not_answer_is_named(disconnected):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for address in (f"127.0.0.1:{port}", "no-such-host.invalid:6379"):
        with pytest.raises(PivecError, match=address):
            make_engine(f"ray:{address}")


def test_an_address_of_another_server_is_named(disconnected, monkeypatch):
    monkeypatch.setattr("pivec.parallel.ray_engine._TIMEOUTS", (3.0, 3.0))
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(PivecError, match=f"{address} is not"):
            make_engine(f"ray:{address}")


@pytest.mark.parametrize("address", ["ray://head:10001", "head"])
def test_addresses_that_cannot_be_used(disconnected, address, monkeypatch):
    with pytest.raises(UsageError, match=address):
        make_engine(f"ray:{address}")
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UsageError, match=address):
        make_engine("ray")


def test_an_existing_connection_is_used_and_kept(ray_address):
    import ray

    with using(f"ray:{ray_address}") as engine, using("ray"):
        assert engine.n_workers >= 2
    assert ray.is_initialized()
    with pytest.raises(UsageError, match=ray_address):
        make_engine("ray:head:6379")


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pivec\[ray\]"), using("ray"):
        pass


def test_what_ray_says_about_other_versions_is_passed_on(disconnected, monkeypatch, ray_address):
    import ray

    def refuse(**_):
        raise RuntimeError("Version mismatch: The cluster was started with: Ray: 2.1.0")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(PivecError, match=rf"{ray_address}.* Ray: 2\.1\.0"):
        list(make_engine(f"ray:{ray_address}").map(threads, [0]))


def threads(item, tell):
    return n_threads()


def process_of(part, values):
    return {(os.getpid(), id(values))}


def test_workers_use_one_thread(ray_engine):
    assert [reply.content for reply in ray_engine.map(threads, [0])] == [1]


def test_a_shared_value_is_unpickled_once_per_worker(ray_engine):
    shared = ray_engine.share(list(range(1000)))
    places = set.union(*ray_engine.in_order(process_of, range(20), shared))
    assert len({pid for pid, _ in places}) == len(places)


def misses(path, tell=None):
    try:
        raise FileNotFoundError(errno.ENOENT, "No such file", str(path))
    except FileNotFoundError as error:
        raise BadStore(f"{path.name} is gone") from error


def test_a_file_that_only_this_machine_sees_is_named(ray_engine, tmp_path):
    path = tmp_path / "states.arrow"
    path.touch()
    [reply] = ray_engine.map(misses, [path])
    with pytest.raises(PivecError) as raised:
        list(ray_engine.in_order(misses, [path]))
    for error in (reply.failure, raised.value):
        assert str(path) in str(error)
        assert "s3://" in str(error)
    [reply] = ray_engine.map(misses, [tmp_path / "nowhere.arrow"])
    assert (type(reply.failure), str(reply.failure)) == (BadStore, "nowhere.arrow is gone")


def node(item, tell):
    import ray

    tell(ray.get_runtime_context().get_node_id())
    time.sleep(0.3)
    return item


def slowly(part, values):
    time.sleep(0.2)
    return [part * values.sum()]


def dies(part):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_lost_node_costs_nothing_but_time(ray_engine, add_node):
    (extra, kill), killed = add_node(), []

    def on_message(_, node):
        if node == extra and not killed:
            killed.append(node)
            kill()

    replies = list(ray_engine.map(node, range(20), on_message=on_message))
    assert killed
    assert sorted(reply.content for reply in replies if reply.failure is None) == list(range(20))
    shared, (_, kill), results = ray_engine.share(np.ones(100_000)), add_node(), []
    for row in ray_engine.in_order(slowly, range(20), shared):
        results.append(row)
        if len(results) == 5:
            kill()
    assert results == [[part * 100_000.0] for part in range(20)]


def test_a_part_that_kills_its_workers_is_named(ray_engine):
    with pytest.raises(WorkFailed, match=r"dies .*3 times"):
        list(ray_engine.in_order(dies, [0]))


SCRIPT = """
import os, sys, time
import own_module
import pivec
from pivec.parallel import using

def work(item, tell):
    import own_module
    tell((os.getpid(), pivec.__file__, own_module.__file__))
    time.sleep(item)
    return own_module.triple(item)

with using("ray:ADDRESS") as engine:
    def on_message(item, message):
        print(*message, flush=True)
    for reply in engine.map(work, ITEMS, on_message=on_message):
        print(reply.content, reply.failure)
"""


def start_script(tmp_path, address, items):
    script = SCRIPT.replace("ADDRESS", address).replace("ITEMS", repr(items))
    (tmp_path / "script.py").write_text(script)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "own_module.py").write_text("def triple(x): return 3 * x\n")
    folders = [str(Path(pivec.__file__).parents[1]), str(tmp_path / "modules")]
    return subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_pivec_and_modules_of_users_are_shipped(ray_address, tmp_path):
    with start_script(tmp_path, ray_address, [0.25]) as driver:
        out, err = driver.communicate(timeout=120)
    # Ray may print messages of its own among the lines of the script.
    assert "0.75 None" in out.splitlines(), err
    (shipped,) = re.findall(r"^\d+ .*$", out, re.MULTILINE)
    for file in shipped.split()[1:]:
        assert "py_modules_files" in file


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_ends_leaves_nothing_running(ray_address, tmp_path, number):
    with start_script(tmp_path, ray_address, [600]) as driver:
        pid = int(driver.stdout.readline().split()[0])
        os.killpg(driver.pid, number)
        began = time.monotonic()
        driver.wait(120)  # the worker would sleep for ten minutes
        while Path(f"/proc/{pid}").exists():
            assert time.monotonic() - began < 120, "the worker goes on"
            time.sleep(0.05)
